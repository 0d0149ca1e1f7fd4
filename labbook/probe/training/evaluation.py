"""Validation phases: sequences of forwards without gradients or in evaluation mode between training steps.

Independent of the framework.
"""

from ..events.measurement_kinds import EVALUATION

ALL = 200
GROWTH = 1.05
"""Ratio of the numbers of neighbouring phases that are written after the first `ALL`."""

LOOKED = 4
"""Phases in whose batches 1, 2, 4 ... the inputs are looked at, so that they come from most of the data."""

MOST_INPUTS = 6

SHORT = 3
APART = 5
"""Minimum steps between two phases of one forward without a loss; more frequent ones are the forwards of a policy or a
teacher. Source: chosen by us."""


class Evaluation:
    """The evaluation phases of one process.

    Args:
        metrics: The `HeldOutMetrics`, `None` without.

    Attributes:
        open: Whether a phase has begun.
        batches: Forwards of the current phase.
        of_others: Number of these that are of untrained models.
        of_copy: Whether it is that of a copy of the trained model, as of averaged weights.
        asked: Whether the program asked for gradients in it, as for an attack.
        inputs: Statistics of the first input of some of its forwards.
        positions: `[model, module, offset]` of tokens generated one by one, as in the event.
        caches: What became of the caches that these are joined to: number of the join -> row of the event.
    """

    def __init__(self, emit, framework, metrics=None):
        self._emit = emit
        self._metrics = metrics
        self._framework = framework
        self.phases = 0
        self.short = 0
        self.whole = 0
        self.open = self.asked = self.of_copy = False
        self.batches = self.of_others = 0
        self.inputs = []
        self.positions, self.caches = [], {}
        self._before = 0
        self._next = 0
        self._passes, self._usual_passes = set(), 0

    def forward(self, step, root, training, grad, stochastic, other=False, whole=False, batch=None, of_copy=False):
        """Add a forward that is no training forward.

        A phase ends with the next training forward, or where one more loader is passed through than in the pause of the
        training before, as a test that follows the last validation, or another model is evaluated: a copy, or not.

        Args:
            step: Number of the step being prepared.
            root: Class name of the model.
            training: Whether it is in training mode.
            stochastic: Whether it contains dropout or batch normalisation.
            other: Whether the model is not trained.
            whole: As in `ModelRoles`.
            batch: The `Batch`, `None` if unknown.
            of_copy: As the attribute.
        """
        place = None if batch is None or batch.loader is None else (batch.loader, batch.epoch)
        is_further = self.open and place is not None and place not in self._passes
        is_further = is_further and 0 < self._usual_passes <= len(self._passes)
        if is_further or (self.open and self.of_copy != of_copy):
            self.end(step, is_pause_over=False)
            self._before = step - APART
        if place is not None:
            self._passes.add(place)
        if not self.open:
            self.open, self.asked, self.of_copy = True, False, of_copy
            self.batches = self.of_others = 0
            self._whole = True
            self._begun = step
            self._root, self._training, self._stochastic = root, training, stochastic
            self._grads = [0, 0]
            self._dropout, self._line, self._loader = 0, "", None
            self._losses, self._right, self._seen, self._samples, self._repeated = {}, 0, 0, 0, 0
            self._pairs = []
            self._last, self.inputs = None, []
            self.positions, self.caches = [], {}
            if self._metrics is not None:
                self._metrics.begin()
        self.batches += 1
        if self._metrics is not None:
            self._metrics.forward(place, batch)
        self.of_others += other
        self._whole = self._whole and whole and not grad
        # Of several models in one phase, only one with such layers is wrong in training mode, and no teacher of the
        # next step.
        if training and stochastic and not (other and self.of_others < self.batches):
            self._training = self._stochastic = True
        self._grads[bool(other)] += grad
        if batch is not None:
            self.batch(batch)

    def outputs(self, output):
        """Compare the output of a forward with the labels of its batch, where a loader has given them."""
        if self.open and self._metrics is not None:
            self._metrics.outputs(output)

    def pair(self, output, target):
        """Compare what a loss function is given, where the batch of the forward has no labels."""
        if self.open and self._metrics is not None:
            self._metrics.pair(output, target)

    def has_phase(self):
        """Whether a phase was written, or would be if the program ended now."""
        return bool(self.phases or (self.open and (self.batches > 1 or self._losses)))

    def wants_inputs(self):
        """Whether to look at the inputs of the forward that has begun."""
        is_due = self.batches & (self.batches - 1) == 0
        return self.open and is_due and self.phases < LOOKED and len(self.inputs) < MOST_INPUTS

    def batch(self, batch):
        """Add the batch of a forward."""
        if self.open:
            self._samples += batch.samples
            self._loader = batch.loader
            if batch.print is not None and batch.print == self._last:
                self._repeated += 1
            self._last = batch.print

    def dropout(self, line):
        """Count a functional dropout that was active in a model in evaluation mode."""
        if self.open:
            self._dropout += 1
            self._line = self._line or line

    def loss(self, function, value):
        """Add the value of a loss function."""
        if self.open:
            total = self._losses.setdefault(function, [0.0, 0])
            total[0] += value
            total[1] += 1

    def accuracy(self, right, targets, pairs=()):
        """Add the number of targets of a batch that are the largest input.

        Args:
            pairs: How often each class is the target where each is the largest input, row by row; empty if unknown.
        """
        if self.open:
            self._right += right
            self._seen += targets
            known = self._pairs if len(self._pairs) == len(pairs) else [0] * len(pairs)
            self._pairs = [a + b for a, b in zip(known, pairs)]

    def end(self, step, is_pause_over=True):
        """End the current phase and write it.

        Args:
            is_pause_over: Whether training goes on, so that the passes of its next pause count anew.
        """
        if not self.open:
            return
        self.open = False
        if is_pause_over:
            self._usual_passes, self._passes = len(self._passes), set()
        near = self._begun - self._before < APART
        # A teacher may be called twice per step, and before the loss of the trained model.
        taught = self.of_others == self.batches < SHORT
        if near and (taught or (self.batches < 2 and not self._losses and not self._whole)):
            self._before = step
            return
        self._before = step
        self.phases += 1
        only_others = self.of_others == self.batches
        counted = self.batches if only_others else self.batches - self.of_others
        if self.batches < SHORT:
            self.short += 1
        self.whole += self._whole
        if self.phases > ALL:
            if self.phases < self._next:
                return
            self._next = self.phases * GROWTH
        self._emit(
            EVALUATION,
            framework=self._framework,
            begin_step=self._begun,
            end_step=step,
            root=self._root,
            batches=self.batches,
            of_others=self.of_others,
            training=self._training,
            # The teacher of the step before, or the frozen part of the next one, is no validation.
            grad=self._grads[only_others] > min(1, counted - 1),
            asked=self.asked,
            stochastic=self._stochastic,
            dropout_active=self._dropout,
            dropout_line=self._line,
            repeated=self._repeated,
            loader=self._loader,
            loss={name: total / count for name, (total, count) in self._losses.items()},
            accuracy=self._right / self._seen if self._seen else None,
            renumbered=renumbered_share(self._pairs) / self._seen if self._seen else None,
            compared=self._metrics.fields() if self._metrics is not None else [],
            samples=self._samples,
            inputs=next((one for one in self.inputs if not one["integer"]), None),
            looks=self.inputs,
            positions=self.positions,
            caches=list(self.caches.values()),
            phases=self.phases,
            short=self.short,
            whole=self.whole,
        )


def renumbered_share(pairs):
    """Number of targets that are right if the classes are numbered otherwise; 0 where no other numbers fit.

    Args:
        pairs: Counts of a square table, row by row: predicted class, target.
    """
    classes = round(len(pairs) ** 0.5)
    best = []
    for at in range(classes):
        row = pairs[at * classes : (at + 1) * classes]
        if any(row):
            best.append((row.index(max(row)), max(row), at))
    moved = sum(found != at for found, _, at in best)
    # Each predicted class stands for a class of its own.
    return sum(count for _, count, _ in best) if moved and len({found for found, _, _ in best}) == len(best) else 0
