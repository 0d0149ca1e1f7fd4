"""Calls the capture sources: some right after the command has started, the others after its end.

A source is a module with `capture(context) -> dict`; it raises `Unavailable` to decline with a reason. A source of the
start reads a state that the program may change, or needs no interpreter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from labbook.errors import LabbookError, Unavailable

if TYPE_CHECKING:
    from labbook.capture.context import CaptureContext

BEFORE = ("code", "command", "hardware", "container")
"""Sources of the start, by the key of their facts. The code comes first: the program may change it."""

_MODULES = {
    "code": "code.working_tree",
    "command": "command",
    "hardware": "hardware",
    "container": "container",
    "python": "python_env",
}
_PATIENCE_S = 60.0
"""Longest wait for the sources of the start, in seconds; one that hangs on a dead network drive is abandoned."""


def capture_before(context: CaptureContext) -> dict[str, dict[str, Any]]:
    """Facts of the sources of the start, redacted; writes `changes.patch` into the entry's folder.

    Call it right after the command has started: an interpreter needs longer to read its first line of user code than
    git needs to be asked. The sources work side by side.

    Cost: 15 to 30 ms where the code is clean, about 5 ms more with changes; most of it in git.
    """
    found: dict[str, dict[str, Any]] = {}
    threads = []
    for name in BEFORE:
        thread = threading.Thread(target=_into, args=(found, name, context), name=f"labbook-{name}", daemon=True)
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join(timeout=_PATIENCE_S)
    late = {"unavailable": f"it took more than {_PATIENCE_S:g} s"}
    return {name: found.get(name, late) for name in BEFORE}


def capture_after(context: CaptureContext, opened: Sequence[Mapping[str, Any]] = ()) -> dict[str, dict[str, Any]]:
    """Facts of the sources that need to know the interpreter, redacted; writes `environment.txt` beside the entry.

    Args:
        context: With the hello of the interpreter in `python`.
        opened: What the probe says of files; the rows of `labbook.capture.artifacts.summarize_files` are made from it.

    Returns:
        Facts by source: "python", "lockfiles".

    Cost: 5 to 10 ms for 200 packages.
    """
    from labbook.capture import lockfiles

    python = _answer("python", _capture_of("python"), context)
    packages = python.get("packages")
    known = packages if isinstance(packages, Mapping) else None
    locks = _answer("lockfiles", lambda c: lockfiles.capture(c, known), context)
    return {"python": python, "lockfiles": locks}


def _into(found: dict[str, dict[str, Any]], name: str, context: CaptureContext) -> None:
    found[name] = _answer(name, _capture_of(name), context)


def _capture_of(name: str) -> Callable[[CaptureContext], dict[str, Any]]:
    def load_and_capture(context: CaptureContext) -> dict[str, Any]:
        facts: dict[str, Any] = import_module(f"labbook.capture.{_MODULES[name]}").capture(context)
        return facts

    return load_and_capture


def _answer(name: str, capture: Callable[[CaptureContext], dict[str, Any]], context: CaptureContext) -> dict[str, Any]:
    """Redacted facts of one source, or why there are none; a source that fails harms no other."""
    try:
        facts = capture(context)
        # Names of packages are no secrets, but some look like one (`password`), and their version would be masked.
        packages = facts.pop("packages", None)
        redacted: dict[str, Any] = context.redactor.data(facts)
    except Unavailable as reason:
        return {"unavailable": context.redactor.text(str(reason))}
    except (LabbookError, OSError) as error:
        return {"unavailable": context.redactor.text(str(error))}
    except Exception as error:
        return {
            "unavailable": f"a bug in labbook ({name}): {type(error).__name__}: {context.redactor.text(str(error))}"
        }
    if packages is not None:
        redacted["packages"] = packages
    return redacted
