"""Current stacks of all threads of this process, as plain data."""

import os
import sys
from _thread import get_ident

from ..events import protocol
from ..wrapping import is_ours
from .user_files import display_path, is_user_file, source_line

_MAX_THREADS = 64
_MAX_FRAMES = 40


def write_stacks(probe, reason, silent_s, trace=None):
    """Write the stacks of all threads.

    Args:
        reason: "silence" or "interrupt".
        silent_s: Seconds since the last step, batch or forward, or `None`.
        trace: Traceback of the exception that ended the main thread, whose stack no longer exists.
    """
    probe.event(
        protocol.STACKS,
        reason=reason,
        silent_s=None if silent_s is None else round(silent_s, 1),
        step=probe.step,
        threads=_threads(trace),
        **({"collectives": probe.collective_order()} if probe.collective_order is not None else {}),
    )


def main_ident():
    """Return the number of the main thread."""
    threading = sys.modules.get("threading")
    return threading.main_thread().ident if threading is not None else get_ident()


def frames_of_caller():
    """Return the stack of the thread that calls this, without the frames of the probe."""
    return _as_data(_frames_of_frame(sys._getframe()), {})


def _threads(trace):
    known = dict(getattr(sys.modules.get("threading"), "_active", None) or {})
    main, sources, found = main_ident(), {}, []
    for ident, frame in list(sys._current_frames().items()):
        is_main = ident == main
        lines = _frames_of_trace(trace) if is_main and trace is not None else _frames_of_frame(frame)
        frames = _as_data(lines, sources)
        if frames:
            name = "main" if is_main else str(getattr(known.get(ident), "name", "") or "")
            found.append({"name": name, "main": is_main, "frames": frames})
    found.sort(key=lambda thread: not thread["main"])
    return found[:_MAX_THREADS]


def _frames_of_trace(trace):
    found = []
    while trace is not None:
        found.append((trace.tb_frame.f_code, trace.tb_lineno))
        trace = trace.tb_next
    return found[-_MAX_FRAMES:]


def _frames_of_frame(frame):
    found = []
    while frame is not None and len(found) < _MAX_FRAMES:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return found[::-1]


def _as_data(lines, sources):
    return [_frame_data(code, line, sources) for code, line in lines if not is_ours(code)]


def _frame_data(code, line, sources):
    file = code.co_filename
    return {
        "file": file if file.startswith("<") else display_path(file, os.getcwd()),
        "line": line,
        "function": getattr(code, "co_qualname", code.co_name),
        "source": source_line(file, file, line, sources),
        "user": is_user_file(file),
    }
