"""What checks look at: the measured series of a run, and why a signal is missing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from labbook.model.check import Outcome
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.model.signals import Facts, Signals

SERIES = ("loss", "grad_norm", "lr", "grad_scale", "step_time_s")
"""Needs that are series."""

_WORDS = {
    "loss": ("loss",),
    "grad_norm": ("grad_norm", "gradient norm", "gradient"),
    "lr": ("lr", "learning rate"),
    "losses": ("loss function",),
    "params": ("tensors", "parameter", "weights"),
    "modules": ("tensors", "module", "activation"),
    "models": ("model", "module"),
    "batches": ("batch", "inputs"),
    "prints": ("batch", "fingerprint"),
    "graphs": ("graph",),
    "loaders": ("loader",),
    "evaluations": ("evaluation", "validation"),
    "memory": ("memory",),
    "phases": ("phase", "time"),
}
"""Other names that a signal may have in the probe's own words."""

_ABSENT = {
    "losses": "no loss function of the framework was called",
    "loaders": "no DataLoader was iterated",
    "evaluations": "no validation phase was seen",
    "prints": "no batch was seen",
    "batches": "no batch was seen",
    "graphs": "no autograd graph was looked at",
    "loop": "the training loop was not followed",
    "params": "no tensor was looked at",
    "modules": "no module output was looked at",
    "models": "no model was seen",
    "memory": "memory was not sampled",
    "phases": "the time of a step was not divided",
}


def measured(run: Run, quantity: str) -> list[Series]:
    """Series of one quantity ("loss", "grad_norm", "lr"), of all optimizers, groups, ranks and scripts.

    Those of the probe; for the loss those that the program logged or printed where the probe has none.
    """
    own = [s for s in run.series if s.values and s.source == "probe" and _quantity(s.name) == quantity]
    if own or quantity != "loss":
        return own
    return [s for s in run.series if s.values and "loss" in s.name.lower()]


def measured_in(run: Run, signals: Signals, quantity: str) -> list[Series]:
    """The probe's series of one quantity in one process, of all optimizers and groups, in their order."""
    prefix = f"{signals.label}/" if signals.label else ""
    found = [s for s in run.series if s.values and s.source == "probe" and s.rank == signals.rank]
    return [s for s in found if _quantity(s.name) == quantity and s.name.rpartition("/")[0] == prefix.rstrip("/")]


def optimizer_of(series: Series) -> int:
    """Number of the optimizer that a series belongs to."""
    told = series.name.rpartition("/")[2].partition(".opt")[2].partition(".")[0]
    return int(told) if told.isdigit() else 0


def _quantity(name: str) -> str:
    return name.rpartition("/")[2].partition(".opt")[0].partition(".group")[0]


def finite_points(series: Series) -> tuple[list[int], list[float]]:
    """Steps and values of the points that are finite."""
    kept = [(s, v) for s, v in zip(series.steps, series.values, strict=True) if math.isfinite(v)]
    return [s for s, _ in kept], [v for _, v in kept]


def trained(run: Run) -> bool:
    """Whether this run was a training at all, as far as anybody saw: a framework, a number, or a step."""
    return bool(run.frameworks or run.series or any(p.steps for p in run.processes))


def missing(run: Run, signals: Signals, need: str) -> str | None:
    """Why a signal is missing; `None` when it is there.

    Args:
        run: The run.
        signals: The process in question.
        need: A series ("loss"), a field of `Signals`, "params" or "modules" (of the dense steps), or "loop.<key>".
    """
    field, _, key = need.partition(".")
    if field in SERIES:
        present = bool(measured(run, field) if not signals.framework else measured_in(run, signals, field))
    elif field in ("params", "modules"):
        present = any(event.get(field) for event in signals.tensors)
    else:
        value = getattr(signals, field)
        present = value.get(key) is not None if key else bool(value)
    if present:
        return None
    told = why_missing(run, key or field, *_WORDS.get(field, ()))
    nothing = field not in SERIES and field not in ("params", "modules") and not getattr(signals, field)
    return _ABSENT.get(field, told) if told == "no value was seen" and (nothing or not key) else told


def why_missing(run: Run, signal: str, *words: str) -> str:
    """The reason why a signal is missing, as the probe told it, else as the run shows it.

    Args:
        run: The run.
        signal: Name of the signal.
        words: Further names that it may have in the probe's own words.
    """
    if run.probe.status == "absent":
        return "the probe did not start"
    names = (signal, *words)
    for what, reason in _declared(run):
        if any(name in what.lower() for name in names):
            return reason
    if not run.frameworks:
        return "no training framework was imported"
    if not any(p.steps for p in run.processes) and not any(s.source == "probe" for s in run.series):
        return next((r for w, r in _declared(run) if "step" in w.lower()), "no optimizer step was seen")
    return "no value was seen"


def _declared(run: Run) -> Iterator[tuple[str, str]]:
    for framework in run.frameworks:
        yield from ((str(k), str(v)) for k, v in framework.declined.items())
    yield from run.probe.unobserved


def script_of(argv: Sequence[str]) -> str:
    """The file name of the script that a Python process runs, or of its program."""
    named = next((a for a in argv if a.endswith((".py", ".ipynb"))), argv[0] if argv else "a process")
    return named.rsplit("/", 1)[-1]


def unobserved(reason: str) -> Outcome:
    """The answer of a check whose signal is missing."""
    return Outcome("not observed", f"not observed: {reason}")


def too_few(seen: int, wanted: int, what: str = "steps") -> Outcome:
    """The answer of a statistical check that has too little to go by."""
    return unobserved(f"too few {what} ({seen} of {wanted})")


def place_of(line: str) -> dict[str, Any]:
    """File and line of "train.py:41", as `Outcome.where`; empty when it is no such place."""
    file, _, number = line.rpartition(":")
    return {"file": file, "line": int(number)} if number.isdigit() else {}


def called_in(facts: Facts) -> tuple[str, ...]:
    """A sentence with the user's line of a call; none when it is not known."""
    line = facts.get("line")
    return (f"called in {line}",) if isinstance(line, str) and line else ()


def said(value: float) -> str:
    """A number for a sentence, with four significant digits."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("infinity" if value > 0 else "-infinity")
    return str(int(value)) if abs(value) < 1e7 and value == int(value) else f"{value:.4g}"


def percent(share: float) -> str:
    """A share for a sentence; 1 or 0 only when it is exactly that."""
    rounded = f"{share * 100:.0f} %"
    if rounded in ("100 %", "0 %") and 0 < share < 1:
        return f"{share * 100:.2g} %" if share < 0.5 else f"{math.floor(share * 1000) / 10:.1f} %"
    return rounded


def listed(names: Sequence[str], total: int | None = None, most: int = 5) -> str:
    """Some names for a sentence, and how many more there are."""
    more = (total or len(names)) - min(len(names), most)
    shown = ", ".join(names[:most])
    return f"{shown} and {more} more" if more > 0 else shown
