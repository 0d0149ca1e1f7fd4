"""The console script `labbook`, and `python -m labbook`."""

import sys


def main() -> int:
    """Runs one command and returns its exit code; Ctrl-C before the command is loaded ends it without a word."""
    try:
        from labbook.cli import main as run_command  # not at the top: an interruption of these imports is met as well

        return run_command()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
