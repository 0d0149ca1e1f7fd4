"""Small PaddlePaddle programs that fail for real on a CPU, with the family and symptoms an expert would name."""

import crashes_paddle_code  # noqa: F401
import crashes_paddle_shapes  # noqa: F401
from crashes import main

if __name__ == "__main__":
    main()
