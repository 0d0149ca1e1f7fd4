"""Keeps failures of the probe away from the program."""

import os
import sys

try:
    import _signal
except ImportError:  # an interpreter without signals
    _signal = None


class Guard:
    """Swallows and counts the failures of one place of the probe; see `Probe.guard`."""

    __slots__ = ("_probe", "_where")

    def __init__(self, probe, where):
        self._probe = probe
        self._where = where

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None or not issubclass(kind, Exception) or belongs_to_program(error):
            return False
        self._probe.failed(self._where, error)
        return True

    def __call__(self, function):
        """`function` guarded; it gives `None` where it failed."""

        def call_guarded(*args, **kwargs):
            with self:
                return function(*args, **kwargs)
            return None

        return call_guarded


def belongs_to_program(error):
    """Whether an error that was met in the probe is the program's own and must reach it.

    A signal handler of the program may raise while the probe is at work: a time limit set with `signal.alarm` must end
    the program. And Python 3.8 aborts when a stack overflow is swallowed and the recursion goes on.
    """
    if sys.version_info < (3, 9) and isinstance(error, RecursionError):
        return True
    try:
        codes = set()
        trace = error.__traceback__
        while trace is not None:
            codes.add(trace.tb_frame.f_code)
            trace = trace.tb_next
        return any(_code_of(_signal.getsignal(number)) in codes for number in range(1, _signal.NSIG))
    except Exception:  # at the interpreter's end even this module may be gone
        return False


def _code_of(handler):
    return getattr(getattr(handler, "__func__", handler), "__code__", None)


def place_of(error):
    """Where in the probe an error came from, " (writer.py:40)"."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return " (%s:%d)" % (os.path.basename(trace.tb_frame.f_code.co_filename), trace.tb_lineno)
