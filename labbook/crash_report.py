"""Writes the report of a bug in labbook: Markdown without secrets of the user's environment."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
import traceback
from pathlib import Path

from labbook import __version__
from labbook.probe.redaction.known_secrets import known_values
from labbook.probe.redaction.redactor import Redactor


def write_crash_report(error: BaseException) -> Path:
    """Writes a Markdown report of an unexpected error and returns its path.

    The command line is left out because it may contain secrets; those in messages of errors are masked.
    """
    try:
        frames = Redactor(known_values(os.environ, sys.argv)).text("".join(traceback.format_exception(error)))
    except Exception:  # the bug is in the redaction: messages are left out
        frames = "".join(traceback.format_tb(error.__traceback__))
    text = (
        f"# labbook {__version__}: {type(error).__name__}\n\n"
        f"- Python {platform.python_version()} on {platform.platform()}\n"
        f"- verb: `{sys.argv[1] if len(sys.argv) > 1 else ''}`\n\n```\n{frames}```\n"
    )
    handle, name = tempfile.mkstemp(prefix=time.strftime("labbook-crash-%Y%m%d-%H%M%S-"), suffix=".md")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)
    return Path(name)
