"""Calls the capture sources, some after the start of the command, others after its end.

A source is a module with `capture(context) -> dict`; it raises `Unavailable` with a reason if it has no facts. The
sources of the start read state that the program may change, or do not need the interpreter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from labbook.capture.context import CaptureContext
from labbook.errors import LabbookError, Unavailable

BEFORE = {"code": "code.working_tree", "command": "command", "hardware": "hardware", "container": "container"}
"""Sources of the start: key of their facts -> module. Code comes first: the program may change it."""
_TIMEOUT_S = 60.0
"""Longest wait for the sources of the start; a source that hangs on a dead network drive is abandoned."""


def capture_before(context: CaptureContext) -> dict[str, dict[str, Any]]:
    """Returns the redacted facts of the sources of the start; writes `changes.patch`.

    Call it right after the command has started: git answers before an interpreter reads its first line of user code.
    The sources run in parallel threads.

    Cost: 15 to 30 ms for clean code, about 5 ms more with changes; most of it in git.
    """
    facts: dict[str, dict[str, Any]] = {}
    threads = []
    for name in BEFORE:
        thread = threading.Thread(
            target=_capture_into, args=(facts, name, context), name=f"labbook-{name}", daemon=True
        )
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join(timeout=_TIMEOUT_S)
    late = {"unavailable": f"it took more than {_TIMEOUT_S:g} s"}
    return {name: facts.get(name, late) for name in BEFORE}


def capture_after(context: CaptureContext) -> dict[str, dict[str, Any]]:
    """Returns the facts of the sources that need the interpreter; writes `environment.txt`.

    Args:
        context: The run, with the hello event of the interpreter in `python`.

    Returns:
        Facts by source: "python", "lockfiles".

    Cost: 5 to 10 ms for 200 packages.
    """
    from labbook.capture import lockfiles

    python = _capture_safely("python", _load_source("python_env"), context)
    packages = python.get("packages")
    known = packages if isinstance(packages, Mapping) else None
    locks = _capture_safely("lockfiles", lambda c: lockfiles.capture(c, known), context)
    return {"python": python, "lockfiles": locks}


def _capture_into(facts: dict[str, dict[str, Any]], name: str, context: CaptureContext) -> None:
    facts[name] = _capture_safely(name, _load_source(BEFORE[name]), context)


def _load_source(module: str) -> Callable[[CaptureContext], dict[str, Any]]:
    def load_and_capture(context: CaptureContext) -> dict[str, Any]:
        facts: dict[str, Any] = import_module(f"labbook.capture.{module}").capture(context)
        return facts

    return load_and_capture


def _capture_safely(
    name: str, capture: Callable[[CaptureContext], dict[str, Any]], context: CaptureContext
) -> dict[str, Any]:
    """Returns the redacted facts of one source, or the reason why there are none."""
    try:
        facts = capture(context)
        # Names of packages are no secrets, but some look like one (`password`): their version would be masked.
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
