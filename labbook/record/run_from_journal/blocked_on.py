"""Names the call in which a thread is blocked, from its stack."""

from __future__ import annotations

from collections.abc import Sequence

from labbook.model.events.process_kinds import StackFrame

_COLLECTIVES = (
    "torch/distributed/",
    "torch/nn/parallel/distributed.py",
    "paddle/distributed/communication/",
    "paddle/distributed/collective.py",
    "paddle/distributed/parallel.py",
)
_BACKWARD = ("torch/autograd/", "paddle/base/dygraph/tensor_patch_methods.py", "paddle/autograd/")
_LOADERS = ("torch/utils/data/", "paddle/io/", "paddle/fluid/dataloader/", "paddle/base/reader.py", "paddle/reader/")
_CHILDREN = ("multiprocessing/process.py", "multiprocessing/popen_", "multiprocessing/pool.py", "/subprocess.py")
_LOCKS = ("/threading.py", "/queue.py", "multiprocessing/synchronize.py", "concurrent/futures/_base.py", "filelock/")
_INPUT = ("/pdb.py", "/bdb.py", "/cmd.py", "/getpass.py")


def classify_wait(frames: Sequence[StackFrame], *, in_group: bool = False) -> str:
    """Returns the kind of call in which a thread is blocked.

    Args:
        frames: Frames of the main thread, innermost last, each with `file`, `function`, `source` and `user`.
        in_group: Whether the process belongs to a process group: gradients are averaged in its backward.

    Returns:
        "collective", "reader" (the next batch), "worker" (a child process), "lock", "input" or "".
    """
    if not frames:
        return ""
    inner = frames[-1]
    if _is_in(inner, _INPUT) or (inner.get("user") and _calls_input(inner.get("source", ""))):
        return "input"
    if inner.get("user"):
        # The program's own line: a loop, a sleep, an extension; or code that a data loader runs in this thread.
        source = inner.get("source", "")
        if ".acquire(" in source or ".join(" in source:
            return "lock"
        return "reader" if any(_is_in(frame, _LOADERS) for frame in frames) else ""
    collectives = _COLLECTIVES + _BACKWARD if in_group else _COLLECTIVES
    for places, word in ((collectives, "collective"), (_LOADERS, "reader"), (_CHILDREN, "worker"), (_LOCKS, "lock")):
        for frame in reversed(frames):
            if frame.get("user"):
                break
            if _is_in(frame, places):
                return word
    return ""


def is_of_collective(frame: StackFrame) -> bool:
    """Whether a frame is in code of a framework in which ranks wait for each other."""
    return _is_in(frame, _COLLECTIVES + _BACKWARD)


def _is_in(frame: StackFrame, places: Sequence[str]) -> bool:
    file = frame.get("file", "").replace("\\", "/")
    return any(place in file for place in places)


def _calls_input(source: str) -> bool:
    before = source.partition("input(")[0]
    return "input(" in source and not before[-1:].isidentifier() and before[-1:] != "."
