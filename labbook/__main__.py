"""`python -m labbook`."""

import sys

from labbook.cli import main

sys.exit(main())
