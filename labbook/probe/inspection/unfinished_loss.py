"""Finds, when the program leaves, a loss that is not finite and that no backward pass has seen.

A program that tests its loss leaves before `backward`. The loss still exists then: in a variable of the main module, of
a function that calls `sys.exit` or `os._exit`, or of one in the traceback of an uncaught error.
"""

import ast
import atexit
import os
import re
import sys

from ..process.user_files import is_user_file, read_source

_USES = re.compile(r"backward\(|grad\(|isnan|isinf|isfinite|\b(\w+) != \1\b")
"""A line with a loss: one that is differentiated, or tested."""

_TESTS = re.compile("isnan|isinf|isfinite|NotEq")
_NAMES = re.compile(r"[A-Za-z_]\w*")
_MOST_SCOPES = 40
_LARGEST = 1 << 20


class UnfinishedLoss:
    """The search of one process; it is made once, at the end.

    Args:
        inspector: The `TensorInspector`, which has `has_graph(tensor)` and `is_ready(tensor)`.
    """

    def __init__(self, inspector):
        self._inspector = inspector
        # The interpreter deletes `__file__` after the last line of the script.
        self._main_file = getattr(sys.modules["__main__"], "__file__", None) or ""
        probe = inspector.adapter.probe
        look = probe.guard("unfinished loss")(self.look)
        probe.at_leaving(look)
        # Before the handlers of the framework, which were registered before.
        atexit.register(look)

    def look(self, frame=None):
        """Has the flight recorder search where a loss went wrong that no backward pass has seen.

        Args:
            frame: That of the call which ends the process; `None` after the last line of the program.
        """
        inspector = self._inspector
        recorder = inspector.flight_recorder
        probe = inspector.adapter.probe
        if recorder.done or probe.suspended or probe.pid != os.getpid() or not inspector.without_modes.is_possible():
            return
        main = (self._main_file, vars(sys.modules["__main__"]))
        for file, variables in [*_scopes(frame), main]:
            text = read_source(file)
            for name in _loss_names(text):
                tensor = variables.get(name)
                if inspector.stats.is_tensor(tensor) and self._is_bad(tensor) and name not in _skipped_names(text):
                    recorder.failed("end", float("nan"), [tensor])
                    probe.flush()  # `os._exit` leaves no later moment
                    return

    def _is_bad(self, tensor):
        """Whether a tensor was computed for a gradient and is not finite; false where reading it may wait."""
        inspector = self._inspector
        if not inspector.has_graph(tensor) or not inspector.is_ready(tensor):
            return False
        with inspector.without_modes:
            return inspector.adapter.elements(tensor) <= _LARGEST and inspector.flight_recorder.count_bad(tensor) > 0


def _scopes(frame):
    """Yield `(file, variables)` of the user's functions that are being left, innermost first."""
    frames = []
    while frame is not None and len(frames) < _MOST_SCOPES:
        frames.append(frame)
        frame = frame.f_back
    trace = getattr(sys, "last_traceback", None)
    while trace is not None and len(frames) < _MOST_SCOPES:
        frames.insert(0, trace.tb_frame)
        trace = trace.tb_next
    for one in frames:
        if is_user_file(one.f_code.co_filename):
            yield one.f_code.co_filename, one.f_locals


def _loss_names(text):
    """Return the names on the lines of a program where a loss is differentiated or tested."""
    names = {}
    for line in text.splitlines():
        if _USES.search(line):
            names.update(dict.fromkeys(_NAMES.findall(line)))
    return list(names)


def _skipped_names(text):
    """Return the names of which a test for NaN only skips a step: a program has done with such a loss."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and _TESTS.search(ast.dump(node.test)):
            goes_on = any(isinstance(one, ast.Continue) for one in node.body + node.orelse)
            if goes_on or (not node.orelse and any(map(_is_backward, ast.walk(node)))):
                skipped.update(one.id for one in ast.walk(node.test) if isinstance(one, ast.Name))
    return skipped


def _is_backward(node):
    return isinstance(node, ast.Attribute) and node.attr == "backward"
