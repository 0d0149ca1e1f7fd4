"""What a model gives where it gives one number a sample, beside the target of that sample."""

from __future__ import annotations

import math

from labbook.frozen import dataclass
from labbook.health.evidence.layer_history import Module, roots_of
from labbook.health.evidence.training_kind import is_the_whole_loss, training_loss
from labbook.health.evidence.trend_tests import mean
from labbook.model.events.data_kinds import Batch, Leaf
from labbook.model.message import Message
from labbook.model.run import Run
from labbook.model.signals import Signals

_SETTLED = 5
_LATE = 50
_CONFIRMED = 3
_FEWEST = 8
_FEWEST_STEPS = 100
_COLLAPSED = 1e-3


@dataclass(frozen=True)
class Single:
    """One number a sample, over the steps that were looked at.

    Args:
        steps: They, from the fifth on.
        deviations: Standard deviation over the samples, at each.
        target: That of the targets, over all of them.
    """

    root: Module
    steps: list[int]
    deviations: list[float]
    target: float

    @property
    def last(self) -> float:
        """The largest deviation at the last looks."""
        return max(self.deviations[-_CONFIRMED:])

    @property
    def collapsed(self) -> bool:
        """Whether the outputs have become the same for all samples, measured by what their targets do.

        Source: chosen by us; under a thousandth of the deviation of the targets at three looks, the last one at step 50
        or later, and a tenth of what it was at first, or nothing: where targets are in large units, outputs that still
        are as they began are not learnt yet, which the loss shows.
        """
        near = self.last < _COLLAPSED * self.target and self.steps[-1] >= _LATE
        return near and self.last <= max(0.1 * self.deviations[0], 1e-7 * self.target)


def target_of(batch: Batch) -> Leaf | None:
    """What the loss of a training batch was given as its target; `None` where that was not seen."""
    if batch.get("phase") != "train":
        return None
    return next((leaf for leaf in batch.get("leaves", []) if leaf.get("path") == "target"), None)


def one_a_sample(batch: Batch, target: Leaf) -> bool:
    """Whether a target holds one number for each sample of its batch: `(n,)`, `(n, 1)`."""
    form = target.get("shape", ())
    return form[:1] == (batch.get("samples", 0),) and all(n == 1 for n in form[1:])


def single_outputs(signals: Signals) -> list[Single]:
    """The models whose output is one number a sample, with a target of as many numbers, at three looks or more."""
    targets = {}
    for batch in signals.batches:
        target = target_of(batch)
        if target is not None and batch.get("samples", 0) >= _FEWEST and one_a_sample(batch, target):
            targets[batch.get("step", 0)] = target
    found = []
    for root in roots_of(signals):
        seen = []
        for step, row in root.history:
            form, deviation = row.get("shape", ()), row.get("std")
            target = targets.get(step, {})
            if step < _SETTLED or deviation is None or math.prod(form) != (target.get("shape", ()) or (-1,))[0]:
                continue
            if len(form) == 1 or form[1:] == (1,):
                seen.append((step, deviation, target))
        level = _deviation([(t.get("mean"), t.get("std")) for _, _, t in seen])
        if len(seen) >= _CONFIRMED and level > 0:
            found.append(Single(root, [s for s, _, _ in seen], [d for _, d, _ in seen], level))
    return found


def unexplained_share(run: Run, signals: Signals) -> tuple[float, float] | None:
    """Mean squared error over the last 50 steps, and the variance of the targets, which a constant output reaches.

    `None` unless that error is the whole loss of a training of at least 100 steps.
    """
    loss, variance = training_loss(run, signals), target_variance(signals)
    if isinstance(loss, Message) or variance is None or len(loss.values) < _FEWEST_STEPS:
        return None
    if (loss.function.get("fn"), loss.function.get("reduction")) != ("mse_loss", "mean"):
        return None
    return (mean(loss.values[-50:]), variance) if is_the_whole_loss(run, signals, loss.function) else None


def target_variance(signals: Signals) -> float | None:
    """Variance of all values of the targets of the training batches that were looked at; `None` below three batches."""
    seen = [leaf for batch in signals.batches if (leaf := target_of(batch)) is not None]
    parts = [(leaf.get("mean"), leaf.get("std")) for leaf in seen if not leaf.get("bad")]
    return _deviation(parts) ** 2 or None if len(parts) >= _CONFIRMED else None


def _deviation(parts: list[tuple[float | None, float | None]]) -> float:
    """Standard deviation over batches of one size, of their means and deviations: rare targets lie in few of them."""
    known = [(m, d) for m, d in parts if m is not None and d is not None]
    if not known:
        return 0.0
    center = mean([m for m, _ in known])
    return math.sqrt(mean([d * d + (m - center) ** 2 for m, d in known]))
