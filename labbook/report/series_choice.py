"""Chooses the primary series of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labbook.model.run import Run
from labbook.model.series import Series

MEASURED_BY_PROBE = ("loss", "grad_norm", "lr", "step_time_s", "grad_scale", "update_ratio")
"""Series that the probe measures; all others are logged by the program."""

_TRUST = {"probe": 0, "labbook": 1, "text": 9}
_TRAIN_LOSS = ("loss", "train_loss", "train/loss", "loss/train", "training_loss", "total_loss", "损失")


def primary_series(run: Run) -> str:
    """Returns the name of the primary series: the training loss, else any loss, else the first logged metric.

    Returns "" if there are only step times and learning rates.
    """
    names = [s.name for s in by_trust(run.series)]
    for name in names:
        if name.lower() in _TRAIN_LOSS:
            return name
    losses = [n for n in names if "loss" in n.lower() and not _is_validation(n)] or [
        n for n in names if "loss" in n.lower()
    ]
    logged = [n for n in names if base_name(n) not in MEASURED_BY_PROBE]
    return next(iter([*losses, *logged]), "")


def find_primary_series(run: Run) -> Series | None:
    """Returns the primary series of the first rank and the most reliable source, or `None`."""
    name = run.primary or primary_series(run)
    same = [s for s in by_trust(run.series) if s.name == name and s.values]
    return same[0] if same else None


def by_trust(series: Sequence[Series]) -> list[Series]:
    """Returns the series with points: measured, then logged, then read from text; first ranks first."""
    return sorted((s for s in series if s.values), key=lambda s: (_TRUST.get(s.source, 5), s.rank or 0))


def one_a_name(series: Sequence[Series]) -> list[Series]:
    """Returns for each name the most reliable series of the first rank."""
    chosen: dict[str, Series] = {}
    for each in by_trust(series):
        chosen.setdefault(each.name, each)
    return list(chosen.values())


def base_name(name: str) -> str:
    """Returns the name without script, optimizer and group: "loss" for "tune.py/loss.opt1"."""
    head, slash, tail = name.rpartition("/")
    if slash and not head.endswith((".py", ".ipynb")) and not head.rpartition("#")[0].endswith((".py", ".ipynb")):
        return name
    return tail.split(".opt")[0].split(".group")[0]


def has_no_best(name: str) -> bool:
    """Whether a series has no best value, such as a learning rate or a step time."""
    return base_name(name) in MEASURED_BY_PROBE and base_name(name) != "loss"


def first_nonfinite_step(series: Series) -> int | None:
    """Returns the step from which on all values are not finite, or `None`."""
    since = None
    for step, value in zip(series.steps, series.values, strict=True):
        if math.isfinite(value):
            since = None
        elif since is None:
            since = step
    return since


def _is_validation(name: str) -> bool:
    return any(word in name.lower() for word in ("val", "eval", "test", "dev"))
