"""Checks of the setting: devices that were asked for, flags that contradict each other, calls that will go."""

from __future__ import annotations

from collections.abc import Mapping

from labbook.health.coverage import is_on
from labbook.health.measurements import listed
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_ACCELERATORS = ("cuda", "gpu", "xpu", "npu", "mps")


@check("device_fallback", family="environment", tier=1, whole=True)
def device_as_asked(run: Run, signals: Signals) -> Outcome | None:
    """Whether an option asked for an accelerator and the parameters stayed on the processor.

    Source: a logical invariant (tier 1).
    """
    asked = [
        (name, value)
        for arguments in run.arguments
        for name, value in arguments.values.items()
        if "device" in name.lower() and str(value).lower().startswith(_ACCELERATORS)
    ]
    for framework in run.frameworks:
        told = framework.state.get("device")
        where = [str(d) for d in told] if isinstance(told, (list, tuple)) else [str(told or "")]
        if asked and any(where) and all("cpu" in name.lower() for name in where):
            return Outcome("warn", f"{asked[0][0]} is {asked[0][1]}, the parameters are on the CPU")
    return None


@check("nondeterminism_requested_not_met", family="environment", tier=1, whole=True)
def determinism_complete(run: Run, signals: Signals) -> Outcome | None:
    """Whether determinism was asked for and `cudnn.benchmark`, which chooses algorithms by time, is on.

    Source: a logical invariant (tier 1); pytorch-lightning warns.
    """
    for framework in run.frameworks:
        flags = framework.state.get("deterministic")
        if not isinstance(flags, Mapping):
            continue
        asked = [name for name, value in flags.items() if is_on(value) and "determinis" in name.lower()]
        against = [name for name, value in flags.items() if is_on(value) and "benchmark" in name]
        if asked and against:
            return Outcome("warn", f"{asked[0]} and {against[0]} are both on")
    return None


@check("deprecated_api_warning", family="environment", tier=3, whole=True)
def calls_are_current(run: Run, signals: Signals) -> Outcome | None:
    """Whether the program's own lines were warned of as deprecated. Source: a hint (tier 3)."""
    kinds = ("DeprecationWarning", "FutureWarning", "PendingDeprecationWarning")
    own = [
        f"{str(w.get('file')).rsplit('/', 1)[-1]}:{w.get('line')}"
        for w in run.warnings
        if str(w.get("category")).rsplit(".", 1)[-1] in kinds
        and not any(part in str(w.get("file")) for part in ("site-packages", "dist-packages", "lib/python", "<"))
    ]
    return Outcome("note", f"{len(own)} calls", (f"in {listed(list(dict.fromkeys(own)))}",)) if own else None


CHECKS = (device_as_asked, determinism_complete, calls_are_current)
