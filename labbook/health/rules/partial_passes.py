"""A check of how much of the training data is used: loops that leave the loader early in each epoch."""

from __future__ import annotations

from collections.abc import Mapping

from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_MOST_BATCHES = 50
_LONGEST = 2000
_FEW_PASSES = 3.0
_LIMITS = ("limit_train_batches", "overfit_batches", "fast_dev_run", "steps_per_epoch", "max_steps_per_epoch")


@check("loop_left_early", family="loop-bug", tier=2, needs=("prints", "loaders"))
def loader_run_through(run: Run, signals: Signals) -> Outcome | None:
    """Whether each epoch of training ends after the same few batches of a loader that has at least twice as many.

    Source: chosen by us; limits of trainers for a trial. The last epoch does not count, and a loader that runs beside
    a shorter one, as that of unlabelled samples, ends with it. A warning where samples are never used, as the order is
    always the same, or where few batches (50 of 2,000 at most) of several epochs make no 3 passes through the data: on
    large data an epoch is often a number of steps.
    """
    trained = {event.get("loader") for event in signals.prints if event.get("phase") == "train"}
    facts = [one for one in signals.loaders if one.get("index") in trained and not one.get("iterable")]
    for loader in facts:
        passes = signals.loop.get("passes", {}).get(str(loader.get("index")), {})
        taken, total = _usual_length(passes), loader.get("batches") or 0
        others = {other.get("batches", 0) for other in facts if other is not loader}
        if taken < 2 or total < 2 * taken or not others.isdisjoint(range(taken - 1, taken + 2)):
            continue
        epochs = sum(passes.values()) + 1
        observed = message("health.loop_left_early.batches", taken=taken, total=total, epochs=epochs)
        never_used = loader.get("shuffle") is False
        is_trial = taken <= _MOST_BATCHES and total <= _LONGEST and epochs * taken < _FEW_PASSES * total
        verdict, limits = "warn" if never_used or is_trial else "note", _given_limits(run)
        whole = message("health.loop_left_early.passes", passes=epochs * taken / total)
        if not limits:
            return Outcome(verdict, observed, (whole,))
        given = message("health.loop_left_early.option", names=limits)
        return Outcome(verdict, observed, (given, whole), advice=message("health.loop_left_early.advice", names=limits))
    return None


def _usual_length(passes: Mapping[str, int]) -> int:
    """Returns how many batches at least two passes and nearly all had, 0 if they differ."""
    most = max(passes, key=lambda length: passes[length], default="0")
    return int(most) if passes.get(most, 0) > 1 and passes[most] >= 0.9 * sum(passes.values()) else 0


def _given_limits(run: Run) -> str:
    """Returns the options with which the program limits the batches of an epoch, "" without one."""
    given = [
        f"{name} {value}"
        for arguments in run.arguments
        for name, value in arguments.values.items()
        if name.rpartition(".")[2] in _LIMITS and value not in (None, False, 0)
    ]
    return ", ".join(dict.fromkeys(given))
