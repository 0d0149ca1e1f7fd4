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


def write_crash_report(error: BaseException) -> Path:
    """Writes a Markdown report of an unexpected error and returns its path.

    The command line is left out because it may contain secrets; the frames name files of labbook and its libraries.
    """
    home = str(Path.home())
    frames = "".join(traceback.format_exception(error)).replace(home, "~")
    text = (
        f"# labbook {__version__}: {type(error).__name__}\n\n"
        f"- Python {platform.python_version()} on {platform.platform()}\n"
        f"- verb: `{sys.argv[1] if len(sys.argv) > 1 else ''}`\n\n```\n{frames}```\n"
    )
    handle, name = tempfile.mkstemp(prefix=time.strftime("labbook-crash-%Y%m%d-%H%M%S-"), suffix=".md")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    return Path(name)
