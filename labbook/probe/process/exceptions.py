"""Converts an uncaught exception to plain data: frames with source lines, and chained exceptions."""

import os
import re
import sys

from .. import wrapping
from ..events import protocol
from .user_files import display_path, is_user_file, source_line

_MAX_EVENTS = 100
_MAX_FRAMES = 120
_MAX_CHAIN = 16
_MAX_MESSAGE = 32 * 1024
_CODE_OF_GRAPH = re.compile(r"\s*In (?:transformed|user) code:")
_LISTED_FRAME = re.compile(r'^[ \t]*File "([^"\n]+)", line (\d+), in (\S+)', re.MULTILINE)


class ExceptionRecorder:
    """Records the uncaught exceptions of one process.

    Attributes:
        failed: Whether an error, and not an interrupt or an exit, ended the program or a notebook cell.
    """

    def __init__(self, probe):
        self._probe = probe
        self._start_folder = os.getcwd()
        self._count = 0
        self.failed = False
        probe.after_fork(self._after_fork)

    def record(self, where, error, thread="", ends_process=False):
        """Write one exception and remove the probe's frames from its traceback.

        Args:
            where: "main", "thread", "child" or "task" (of Ray).
            thread: Name of the thread, or "".
            ends_process: Whether the process ends because of it.
        """
        wrapping.strip(error)
        if where != "thread" and isinstance(error, Exception):
            self.failed = True
        if self._count >= _MAX_EVENTS:
            return
        self._count += 1
        sources = {}
        self._probe.event(
            protocol.EXCEPTION,
            where=where,
            thread=thread,
            type=type(error).__qualname__,
            module=type(error).__module__,
            message=message_of(error),
            notes=notes_of(error),
            chain=self._chain(error, sources),
            group=group_of(error),
            frames=self._frames_of_program(error, sources),
            tensors=self._tensors(error),
            names=self._names(error),
            step=self._probe.step,
            exit=ends_process,
        )
        if where == "child":
            self._probe.end()  # its variables are gone when the process ends

    def _after_fork(self):
        self._count = 0
        self.failed = False

    def _tensors(self, error):
        """Return tensors of the failing line; none without a tensor library or for `SystemExit` and the like."""
        if not isinstance(error, Exception) or not any(name in sys.modules for name in ("torch", "paddle", "numpy")):
            return []
        with self._probe.guard("tensors"):
            from . import failing_line

            return failing_line.failing_tensors(error, self._lines)
        return []

    def _names(self, error):
        """Return what a failing line asked for by a name that does not exist, and the names that do."""
        if not isinstance(error, (KeyError, AttributeError, NameError, TypeError)):
            return {}
        with self._probe.guard("names"):
            from . import failing_line, known_names

            return known_names.known_names(error, failing_line.list_traces(error), self._lines)
        return {}

    def _lines(self, code, first, last):
        path, sources = os.path.join(self._start_folder, code.co_filename), {}
        lines = [source_line(code.co_filename, path, line, sources) for line in range(first, last + 1)]
        return "\n".join(lines)

    def _chain(self, error, sources):
        chain = []
        seen = {id(error)}
        while len(chain) < _MAX_CHAIN:
            relation = "cause" if error.__cause__ is not None else "context"
            behind = error.__cause__
            if behind is None and not error.__suppress_context__:
                behind = error.__context__
            if behind is None or id(behind) in seen:
                return chain
            seen.add(id(behind))
            chain.append(
                {
                    "type": type(behind).__qualname__,
                    "message": message_of(behind),
                    "relation": relation,
                    "frames": self._frames(behind, sources, 20),
                }
            )
            error = behind
        return chain

    def _frames_of_program(self, error, sources):
        """Return the frames, and behind them those of the code that built the failing operator of a PaddlePaddle graph.

        A graph runs outside that code, whose lines only the message lists.
        """
        frames, text = self._frames(error, sources, _MAX_FRAMES), message_of(error)
        if not _CODE_OF_GRAPH.match(text):
            return frames
        known, inner = {(frame["file"], frame["line"]) for frame in frames}, []
        for path, line, function in _LISTED_FRAME.findall(text)[:_MAX_FRAMES]:
            file = display_path(path, self._start_folder)
            if (file, int(line)) in known:
                inner = []  # so far it lists the callers of the graph
            elif is_user_file(file):
                inner.append(_describe_frame(file, int(line), function, sources))
        return frames + inner

    def _frames(self, error, sources, limit):
        found = []
        trace = error.__traceback__
        while trace is not None and len(found) < 20000:
            found.append(trace)
            trace = trace.tb_next
        if len(found) > limit:
            found = found[: limit // 4] + found[-(limit - limit // 4) :]
        return [self._frame(trace, sources) for trace in found]

    def _frame(self, trace, sources):
        code = trace.tb_frame.f_code
        file = display_path(code.co_filename, self._start_folder)
        name = getattr(code, "co_qualname", code.co_name)
        return _describe_frame(file, trace.tb_lineno, name, sources, code.co_filename)


def _describe_frame(file, line, function, sources, code_file=""):
    source = source_line(code_file or file, file, line, sources)
    return {"file": file, "line": line, "function": function, "source": source, "user": is_user_file(file)}


def message_of(error):
    """Return the message of an exception; if its `__str__` fails, the failure is described."""
    try:
        return str(error)[:_MAX_MESSAGE]
    except BaseException as second:  # the user's `__str__` failed, and the program is ending
        return "<the message cannot be shown: its __str__ raised %s>" % type(second).__name__


def notes_of(error):
    """Return notes added to an exception."""
    notes = getattr(error, "__notes__", None)
    return [str(note)[:_MAX_MESSAGE] for note in notes[:20]] if isinstance(notes, (list, tuple)) else []


def group_of(error, depth=0):
    """Return the members of an exception group, as (type, message, their own members); empty for other exceptions."""
    members = getattr(error, "exceptions", None)
    if not isinstance(members, tuple) or not hasattr(error, "derive") or depth > 4:
        return []
    return [
        {"type": type(member).__qualname__, "message": message_of(member), "group": group_of(member, depth + 1)}
        for member in members[:20]
        if isinstance(member, BaseException)
    ]
