"""Small torch programs that fail for real on a CPU, with the family and symptoms an expert would name."""

import crashes_torch_code  # noqa: F401
import crashes_torch_files  # noqa: F401
import crashes_torch_shapes  # noqa: F401
from crashes import main

if __name__ == "__main__":
    main()
