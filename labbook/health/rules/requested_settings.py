"""Checks of requested settings: devices, contradicting determinism flags, deprecated calls."""

from __future__ import annotations

from collections.abc import Mapping

from labbook.health.evidence.measurements import join_names
from labbook.health.rules.coverage import is_on
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_ACCELERATORS = ("cuda", "gpu", "xpu", "npu", "mps")


@check("device_fallback", family="environment", tier=1, whole=True)
def device_as_asked(run: Run, signals: Signals) -> Outcome | None:
    """Whether an option requested an accelerator and the parameters stayed on the CPU.

    Source: a logical invariant (tier 1).
    """
    requested = [
        (name, value)
        for arguments in run.arguments
        for name, value in arguments.values.items()
        if "device" in name.lower() and str(value).lower().startswith(_ACCELERATORS)
    ]
    if not requested or not any(framework.is_on_cpu for framework in run.frameworks):
        return None
    option, value = requested[0]
    return Outcome("warn", message("health.device_fallback.cpu", option=option, value=str(value)))


@check("nondeterminism_requested_not_met", family="environment", tier=1, whole=True)
def determinism_complete(run: Run, signals: Signals) -> Outcome | None:
    """Whether determinism was requested and `cudnn.benchmark`, which chooses algorithms by time, is on.

    Source: a logical invariant (tier 1); pytorch-lightning warns.
    """
    for framework in run.frameworks:
        flags = framework.state.get("deterministic")
        if not isinstance(flags, Mapping):
            continue
        requested = [name for name, value in flags.items() if is_on(value) and "determinis" in name.lower()]
        against = [name for name, value in flags.items() if is_on(value) and "benchmark" in name]
        if requested and against:
            observed = message("health.nondeterminism_requested_not_met.both", one=requested[0], other=against[0])
            return Outcome("warn", observed)
    return None


@check("deprecated_api_warning", family="environment", tier=3, whole=True)
def calls_are_current(run: Run, signals: Signals) -> Outcome | None:
    """Whether lines of the program caused deprecation warnings. Source: a hint (tier 3)."""
    kinds = ("DeprecationWarning", "FutureWarning", "PendingDeprecationWarning")
    own = {
        f"{str(w.get('file')).rsplit('/', 1)[-1]}:{w.get('line')}"
        for w in run.warnings
        if str(w.get("category")).rsplit(".", 1)[-1] in kinds and w.get("own")
    }
    if not own:
        return None
    places = message("health.deprecated_api_warning.places", places=join_names(sorted(own)))
    return Outcome("note", message("health.deprecated_api_warning.calls", calls=len(own)), (places,))
