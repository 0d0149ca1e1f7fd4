"""Starts `pdb` in a frame of the program, on the current terminal."""

import os
import sys
import threading


def refusal_reason():
    """Return why the debugger cannot start now; "" if it can."""
    if threading.current_thread() is not threading.main_thread():
        name = threading.current_thread().name
        return "the training runs in the thread `%s`; a debugger needs the main thread" % name
    if os.environ.get("LOCAL_RANK", "0") != "0" or os.environ.get("PADDLE_LOCAL_RANK", "0") != "0":
        return "only the first rank of a machine may use the terminal"
    if sys.gettrace() is not None:
        return "another debugger or tracer is at work already"
    try:
        if not os.isatty(0) or sys.stdin is None or sys.stdin.fileno() != 0:
            return "standard input is no terminal"
        if os.tcgetpgrp(0) != os.getpgrp():
            return "the program runs in the background of its terminal"
    except (OSError, ValueError, AttributeError):
        return "standard input is no terminal"
    return ""


def start(frame, greeting):
    """Make `pdb` stop at the next line of `frame`, or at its return.

    The functions called in between run untraced.

    Args:
        frame: A frame of the program on this thread's stack, or `None` to do nothing.
        greeting: A line to show first.
    """
    if frame is None:
        return
    import pdb

    if sys.stdout is not None and sys.stdout.isatty():
        debugger = pdb.Pdb()
    else:
        debugger = pdb.Pdb(stdin=sys.stdin, stdout=sys.stderr)
    debugger.message("\n" + greeting)
    debugger.reset()
    above = frame
    while above is not None:
        above.f_trace = debugger.trace_dispatch
        debugger.botframe = above
        above = above.f_back
    debugger.set_next(frame)
    sys.settrace(debugger.trace_dispatch)
