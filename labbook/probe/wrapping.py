"""Wraps a function of somebody else so that nobody notices: same results, same errors, same tracebacks."""

import os
import re
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CODES = set()
_LISTED_FRAME = re.compile(r'^[ \t]*File "([^"\n]+)", line \d+, in (\S+)\n(?:(?![ \t]*File ")[^\n]*\n)?', re.MULTILINE)
"""A frame and its line of source in a call stack that a message has as text."""


def wrap_function(original, guard, before=None, after=None):
    """`original` with observers around it; both are guarded and their results are ignored.

    Args:
        original: Called with exactly the arguments of the call.
        guard: Swallows and counts failures of the observers.
        before: `before(args, kwargs)`.
        after: `after(result, args, kwargs)`, only where `original` did not raise.
    """

    def wrapper(*args, **kwargs):
        if before is not None:
            with guard:
                before(args, kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            leave_out_one_frame(error)
            raise
        if after is not None:
            with guard:
                after(result, args, kwargs)
        return result

    return transparent_wrapper(wrapper, original)


def transparent_wrapper(wrapper, original):
    """`wrapper` with the name, documentation and signature of `original`."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        try:
            setattr(wrapper, name, getattr(original, name))
        except AttributeError:
            pass
    wrapper.__dict__.update(getattr(original, "__dict__", {}))
    wrapper.__wrapped__ = original
    return wrapper


class TemporaryPatches:
    """Attributes of classes and modules that are replaced for a while; true while any is."""

    def __init__(self):
        self._put_in = []

    def __bool__(self):
        return bool(self._put_in)

    def put(self, home, name, mine):
        """Replaces an attribute."""
        self._put_in.append((home, name, mine, home.__dict__.get(name), name in home.__dict__))
        setattr(home, name, mine)

    def remove(self):
        """Makes each attribute what it was before, unless the program has put its own there meanwhile."""
        while self._put_in:
            home, name, mine, original, is_own = self._put_in.pop()
            if home.__dict__.get(name) is mine:
                if is_own:
                    setattr(home, name, original)
                else:
                    delattr(home, name)


def leave_out_one_frame(error):
    """Takes the caller's own frame out of an error that a bare `raise` then passes on.

    Before Python 3.11 `raise` puts that frame back: there only the probe's frames behind it are taken out. The frames
    that a message lists go, too: compilers write the stack of an operator into it.
    """
    text = error.args[0] if error.args else None
    if isinstance(text, str) and _FOLDER in text:
        error.args = (_LISTED_FRAME.sub(_leave_out_ours, text), *error.args[1:])
    trace = error.__traceback__
    if trace is None:
        return
    if sys.version_info >= (3, 11):
        error.__traceback__ = trace.tb_next
    else:
        _strip_behind(trace)


def _leave_out_ours(frame):
    """The text of a frame, empty for one of the probe."""
    path, name = frame.groups()
    ours = path.startswith(_FOLDER) or any(code.co_filename == path and code.co_name == name for code in _CODES)
    return "" if ours else frame[0]


def as_import_machinery(function):
    """`function` under the file name of the import machinery, which the interpreter leaves out of tracebacks."""
    return under_file_name(function, "<frozen importlib._bootstrap_external>")


def under_file_name(function, name):
    """`function` as if it were in another file; its frames still belong to the probe."""
    function.__code__ = function.__code__.replace(co_filename=name)
    _CODES.add(function.__code__)
    return function


def is_ours(code):
    """Whether a code object belongs to the probe."""
    return code.co_filename.startswith(_FOLDER) or code in _CODES


def strip(error):
    """Takes the probe's frames out of the tracebacks of an error and of those behind it, before they are printed."""
    seen = set()
    waiting = [error]
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen or len(seen) > 100:
            continue
        seen.add(id(error))
        _strip_one(error)
        waiting += [error.__cause__, error.__context__]
        waiting += list(getattr(error, "exceptions", None) or ()) if hasattr(error, "derive") else []


def _strip_one(error):
    trace = error.__traceback__
    while trace is not None and is_ours(trace.tb_frame.f_code):
        trace = trace.tb_next
    if trace is not error.__traceback__:
        error.__traceback__ = trace
    _strip_behind(trace)


def _strip_behind(trace):
    """Takes the probe's frames out of a traceback, its first entry excepted."""
    while trace is not None:
        following = trace.tb_next
        while following is not None and is_ours(following.tb_frame.f_code):
            following = following.tb_next
        if following is not trace.tb_next:
            trace.tb_next = following
        trace = following
