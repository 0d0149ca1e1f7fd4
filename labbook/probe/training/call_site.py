"""Finds the line of the user's code that made a call."""

import os
import sys

from ..process.user_files import is_user_file, source_line

_USER = {}


def user_frame():
    """Return the innermost frame of the user's code, outside frameworks, packages and the probe, or `None`.

    Cost: 1 microsecond if it is near.
    """
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        user = _USER.get(name)
        if user is None:
            user = _USER[name] = is_user_file(name)
        if user:
            return frame
        frame = frame.f_back
    return None


def line_of(frame):
    """Return `train.py:41`, "" for no frame."""
    return "" if frame is None else "%s:%d" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno)


def place_of(frame):
    """Return `file`, `line`, `function` and `source` of a frame; empty for no frame."""
    if frame is None:
        return {}
    code, line = frame.f_code, frame.f_lineno
    return place(code.co_filename, line, getattr(code, "co_qualname", code.co_name))


def place(name, line, function):
    """Return `file`, `line`, `function` and `source` of a line of code."""
    path = name if name.startswith("<") else os.path.abspath(name)
    return {"file": path, "line": line, "function": function, "source": source_line(name, path, line, {})}
