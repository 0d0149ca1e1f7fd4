"""The measured series of a run, why a signal is missing, and answers that many checks give."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Sized
from typing import Any

from labbook.model.check import Outcome
from labbook.model.events.inspection_kinds import SourcePlace
from labbook.model.events.loop_kinds import Clipping
from labbook.model.message import Message, message
from labbook.model.metric_kinds import metric_kind, name_words
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.model.signals import Signals

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

_WRAPPERS = ("DistributedDataParallel(", "DataParallel(")
_ABSENT = {
    "losses": message("health.not_observed.losses"),
    "loaders": message("health.not_observed.loaders"),
    "evaluations": message("health.not_observed.evaluations"),
    "prints": message("health.not_observed.prints"),
    "batches": message("health.not_observed.batches"),
    "graphs": message("health.not_observed.graphs"),
    "loop": message("health.not_observed.loop"),
    "params": message("health.not_observed.params"),
    "modules": message("health.not_observed.modules"),
    "models": message("health.not_observed.models"),
    "memory": message("health.not_observed.memory"),
    "phases": message("health.not_observed.phases"),
}
_WHOLE_LOSS = frozenset({"loss", "train", "training", "total", "epoch", "step", "batch", "损失", "训练"})
"""Words of the name of a loss that is the sum of its terms."""

_NO_VALUE = message("health.not_observed.no_value")
Reason = Message | str
"""Why a signal is missing: a message, or the probe's own words."""


def measured_series(run: Run, quantity: str) -> list[Series]:
    """Series of one quantity ("loss", "grad_norm", "lr"), of all optimizers, groups, ranks and scripts.

    Those of the probe; for the loss those that the program logged or printed where the probe has none. Optimizers that
    share one loss have one series of it, but not those of trainings one after another, which may repeat one seed.
    """
    own = [s for s in run.series if s.values and s.source == "probe" and _quantity(s.name) == quantity]
    if run.imported_from:
        return _imported_series(run, quantity)
    if quantity == "loss" and not run.trains_in_turn:
        distinct: dict[object, Series] = {}
        for series in own:
            distinct.setdefault((series.rank, series.steps, series.values), series)
        own = list(distinct.values())
    if own or quantity != "loss":
        return own
    return [s for s in run.series if s.values and "loss" in s.name.lower()]


def _imported_series(run: Run, quantity: str) -> list[Series]:
    """Series of an imported run by their names; of the losses those of training, the whole one first.

    Terms of policies and of adversaries have no direction and are no losses that have to fall.
    """
    known = [s for s in run.series if s.values]
    if quantity == "lr":
        return [s for s in known if {"lr", "learning"} & set(name_words(s.name))]
    if quantity != "loss":
        return []
    kinds = [(s, metric_kind(s.name)) for s in known]
    losses = [s for s, kind in kinds if kind.quantity == "loss" and kind.is_training and kind.direction]
    return sorted(losses, key=lambda s: len([w for w in name_words(s.name) if w not in _WHOLE_LOSS]))


def process_series(run: Run, signals: Signals, quantity: str) -> list[Series]:
    """The probe's series of one quantity in one process, of all optimizers and groups, in their order."""
    prefix = f"{signals.label}/" if signals.label else ""
    found = [s for s in run.series if s.values and s.source == "probe" and s.rank == signals.rank]
    return [s for s in found if _quantity(s.name) == quantity and s.name.rpartition("/")[0] == prefix.rstrip("/")]


def optimizer_of(series: Series) -> int:
    """Number of the optimizer that a series belongs to."""
    number = series.name.rpartition("/")[2].partition(".opt")[2].partition(".")[0]
    return int(number) if number.isdigit() else 0


def _quantity(name: str) -> str:
    return name.rpartition("/")[2].partition(".opt")[0].partition(".group")[0]


def finite_points(series: Series) -> tuple[list[int], list[float]]:
    """Steps and values of the points that are finite."""
    points = [(s, v) for s, v in zip(series.steps, series.values, strict=True) if math.isfinite(v)]
    return [s for s, _ in points], [v for _, v in points]


def clipping(run: Run, signals: Signals) -> Clipping:
    """Returns the calls that clip gradients; in PaddlePaddle the steps of an optimizer that has a limit for its norm.

    Such an optimizer clips after its gradients were measured.
    """
    limits = [str(one.get("options", {}).get("grad_clip", "")).split() for one in signals.optimizers]
    if signals.loop.get("clip") or len(limits) != 1 or limits[0][:1] != ["ClipGradByGlobalNorm"]:
        return signals.loop.get("clip", Clipping())
    limit = float(limits[0][1])
    norms = [v for s in process_series(run, signals, "grad_norm") for v in finite_points(s)[1]]
    return Clipping(calls=len(norms), clipped=sum(norm > limit for norm in norms), limit=limit)


def has_trained(run: Run) -> bool:
    """Whether the run trained something: it imported a framework, measured a series, or took a step."""
    return bool(run.frameworks or run.series or run.steps)


def missing_reason(run: Run, signals: Signals, need: str) -> Reason | None:
    """Returns why a signal is missing; `None` when it is there.

    Args:
        need: A series ("loss"), a field of `Signals`, "params" or "modules" (of the dense steps), or "loop.<key>".
    """
    field, _, key = need.partition(".")
    if field in SERIES:
        present = bool(measured_series(run, field) if not signals.framework else process_series(run, signals, field))
    elif field in ("params", "modules"):
        present = any(event.get(field) for event in signals.tensors)
    else:
        value = getattr(signals, field)
        present = value.get(key) is not None if key else bool(value)
    if present:
        return None
    reason = explain_missing(run, key or field, *_WORDS.get(field, ()))
    if (
        field == "evaluations"
        and reason == _NO_VALUE
        and any(m.get("root", "").startswith(_WRAPPERS) for m in signals.models)
    ):
        return message("health.not_observed.evaluations_of_wrapped")
    nothing = field not in SERIES and field not in ("params", "modules") and not getattr(signals, field)
    return _ABSENT.get(field, reason) if reason == _NO_VALUE and (nothing or not key) else reason


def explain_missing(run: Run, signal: str, *words: str) -> Reason:
    """Returns why a signal is missing: the reason that the probe gave, else what the run shows.

    Args:
        words: Further names that the probe may use for it.
    """
    if run.imported_from:
        return message("health.not_observed.imported")
    if run.facts("trial").get("shared"):
        return message("health.not_observed.shared")
    if run.probe.status == "absent":
        return message("health.not_observed.no_probe")
    names = (signal, *words)
    for what, reason in _iter_declared(run):
        if any(name in what.lower() for name in names):
            return reason
    if not run.frameworks:
        return message("health.not_observed.no_framework")
    if not run.steps and not any(s.source == "probe" for s in run.series):
        declared = (r for w, r in _iter_declared(run) if "step" in w.lower())
        return next(declared, message("health.not_observed.no_step"))
    return _NO_VALUE


def _iter_declared(run: Run) -> Iterator[tuple[str, str]]:
    for framework in run.frameworks:
        yield from ((str(k), str(v)) for k, v in framework.declined.items())
    yield from run.probe.unobserved


def script_of(argv: Sequence[str]) -> str:
    """Returns the file name of the script that a Python process runs, or of its program."""
    named = next((a for a in argv if a.endswith((".py", ".ipynb"))), argv[0] if argv else "python")
    return named.rsplit("/", 1)[-1]


def unobserved(reason: Reason) -> Outcome:
    """Returns the answer of a check whose signal is missing."""
    return Outcome("not observed", message("health.not_observed.because", reason=reason))


def too_few_data(seen: int, wanted: int, key: str = "health.too_few.steps") -> Outcome:
    """Returns the answer of a statistical check that has too little data.

    Args:
        seen: How many there were.
        wanted: How many the check needs.
        key: The sentence that says of what.
    """
    return unobserved(message(key, seen=seen, wanted=wanted))


def place_of(line: str) -> dict[str, Any]:
    """Returns file and line of "train.py:41", as `Outcome.where`; empty when it is no such place."""
    file, _, number = line.rpartition(":")
    return {"file": file, "line": int(number)} if number.isdigit() else {}


def place_message(place: SourcePlace) -> Message:
    """Returns file and line of a place, with the text of the line where it is known."""
    file, line, text = place.get("file", ""), place.get("line", 0), place.get("source", "").strip()
    if text:
        return message("health.place_with_source", file=file, line=line, source=text)
    return message("health.place", file=file, line=line)


def called_in_sentence(line: str) -> tuple[Message, ...]:
    """Returns a sentence with the user's line of a call; none when it is not known."""
    return (message("health.called_in", line=line),) if line else ()


def optimizer_suffix(number: str, optimizers: Sized) -> Message | str:
    """Returns " of optimizer 1" where there are several, else ""."""
    return message("health.of_optimizer", number=number) if len(optimizers) > 1 else ""


def join_names(names: Sequence[str], total: int | None = None, most: int = 5) -> Message | list[str]:
    """Returns some names as the value of a message, and how many more there are."""
    more = (total or len(names)) - min(len(names), most)
    shown = list(names[:most])
    return message("values.more", names=shown, more=more) if more > 0 else shown
