"""Counts events of a training loop: backwards, steps, forwards, cleared gradients, evaluation, scheduler, scaler.

Independent of the framework. The running totals are written at steps 1, 2, 4, 8 ... and at the end.
"""

MOST_NAMES = 100
_MOST_COUNTS = 20
_FIRST_LOOK = 4
_MOST_TEACHERS = 4


class Streak:
    """Counts observations and positive ones, and the longest sequence of positive ones."""

    __slots__ = ("_run", "checked", "found", "largest", "longest")

    def __init__(self):
        self.checked = self.found = self.longest = self._run = 0
        self.largest = 0.0

    def add(self, found, value=0.0):
        """Add one observation."""
        self.checked += 1
        if not found:
            self._run = 0
            return
        self.found += 1
        self._run += 1
        if self._run > self.longest:
            self.longest = self._run
        if value > self.largest or value != value:
            self.largest = value


class OptimizerCounts:
    """Counts of one optimizer.

    Attributes:
        waiting: Smallest norm of its gradients before the backward calls since its last step; `None` if it was not
            measured.
        mark: Mark of its gradients after its last step, to detect changes.
    """

    def __init__(self, index):
        self.index = index
        self.steps = 0
        self.waiting = None
        self.mark = None
        self.cleared = Streak()
        self.empty = Streak()
        self.zero = Streak()
        self.unchanged = Streak()
        self.used = {}
        self.without_backward = 0
        self.stale = None
        self.scheduler = None
        self.norms = {"before": 0, "after": 0}


class Teacher:
    """A model that is called without gradients, in training mode, in steps of another one.

    Attributes:
        steps: Steps in which it was called so.
        fixed: Those of them between two looks that found its parameters unchanged.
        changed: Whether a look found them changed.
    """

    def __init__(self, root, print_of):
        self.root = root
        self.steps = self.fixed = 0
        self.changed = False
        self.last = None
        self._print_of = print_of
        self._first = self._from = None

    def look(self):
        """Look at its parameters, and return the fields of the event."""
        seen = self._print_of(self.root)
        if seen is not None and self._first is None:
            self._first, self._from = seen, self.steps
        elif seen is not None:
            self.changed = self.changed or seen != self._first
            self.fixed = self.steps - self._from
        return {"type": self.root.name, "steps": self.steps, "fixed": self.fixed, "changed": self.changed}


class LoopCounts:
    """The running totals of one process."""

    def __init__(self, framework):
        self._framework = framework
        self.optimizers_made = 0
        self.steps = 0
        self.backwards = 0
        self.backwards_asked = 0
        self.train_grad = self.train_nograd = self.eval_nograd = 0
        self.of_others = self.raised = 0
        self._other_step = None
        self.small = self.compared = 0
        self.looked = self.chained = 0
        self.losses_open = 0
        self.eval_backwards = 0
        self.train_backwards = 0
        self.eval_first = None
        self.eval_stochastic = False
        self.teachers = {}
        self.of = {}
        self.accumulation = {}
        self.clip = {"calls": 0, "read": 0, "clipped": 0, "empty": 0, "scaled": 0, "changed": 0}
        self.scaler = {"steps": 0, "skipped": 0, "scale_last": None, "stepped": 0, "raw": 0}
        self.rng = {"checked": 0, "same": 0, "seeded": 0, "line": ""}
        self.names = {"never_grad": [], "never_called": [], "outside": [], "toggled": [], "idle_flags": []}
        self.facts = {}
        self._opens = {}
        self._loss_opens = {}
        self._open = {}

    def optimizer(self, index):
        """Return the counts of one optimizer."""
        found = self.of.get(index)
        if found is None:
            found = self.of[index] = OptimizerCounts(index)
        return found

    def forward(self, model, grad, training):
        """Count a forward of an outermost model."""
        if training:
            if grad:
                self.train_grad += 1
                self._open[model] = self._open.get(model, 0) + 1
            else:
                self.train_nograd += 1
        elif not grad:
            self.eval_nograd += 1

    def without_gradient(self, root, step, print_of):
        """Note a forward without gradients, in training mode, of a model with dropout or batch normalisation.

        Args:
            step: The step, `None` where this is the trained model.
            print_of: `print_of(root)` gives what changes with its parameters, `None` where they cannot be read.
        """
        if step is None or (root.index not in self.teachers and len(self.teachers) >= _MOST_TEACHERS):
            return
        teacher = self.teachers.get(root.index)
        if teacher is None:
            teacher = self.teachers[root.index] = Teacher(root, print_of)
        if teacher.last != step:
            teacher.last = step
            teacher.steps += 1
            # After a pretraining the looks at all counts may be over a hundred steps apart.
            if teacher.steps == _FIRST_LOOK:
                teacher.look()

    def backward(self):
        """Count a call of `backward`, which belongs to the forwards since the previous call."""
        self.backwards += 1
        if self.losses_open:
            self._loss_opens[self.losses_open] = self._loss_opens.get(self.losses_open, 0) + 1
            self.losses_open = 0
        if self._open:
            for key in self._open.items():
                self._opens[key] = self._opens.get(key, 0) + 1
            self._open.clear()

    def trains_another(self, model, step):
        """Whether only other models ran in training mode since the last backward: a teacher judges what one trains."""
        if not self._open or model in self._open:
            return False
        self.calls_other(step)
        return True

    def calls_other(self, step):
        """Count a step in which a model was called that it does not train."""
        self.of_others += step != self._other_step
        self._other_step = step

    def backward_mode(self, training, stochastic):
        """Count the mode of the model at the beginning of a backward."""
        if training:
            self.train_backwards += 1
            return
        self.eval_backwards += 1
        self.eval_stochastic = self.eval_stochastic or stochastic
        if self.eval_first is None:
            self.eval_first = self.steps + 1

    def stale_gradients(self, index, norm):
        """Record the norm of an optimizer's gradients before a backward call."""
        one = self.optimizer(index)
        if one.waiting is None or norm < one.waiting:
            one.waiting = norm

    def step(self, index, backwards):
        """Count a step with the calls of `backward` since the previous one."""
        one = self.optimizer(index)
        self.steps += 1
        one.steps += 1
        if one.waiting is not None and one.steps > 1:
            one.cleared.add(one.waiting != 0.0, one.waiting)
        one.waiting = None
        if (backwards and len(self.accumulation) < _MOST_COUNTS) or backwards in self.accumulation:
            self.accumulation[backwards] = self.accumulation.get(backwards, 0) + 1

    def accumulated(self, index, use):
        """Count a step after several micro-batches by what became of their gradients."""
        if use is not None:
            used = self.optimizer(index).used
            used[use] = used.get(use, 0) + 1

    def on_clip(self, norm, limit, kind):
        """Count a call of a clipping function; `norm` is `None` if reading it would wait."""
        clip = self.clip
        clip["calls"] += 1
        clip["read"] += norm is not None
        clip["changed"] += limit != clip.get("limit", limit)
        clip["limit"], clip["kind"] = limit, kind
        clip["empty"] += norm == 0.0
        if norm is not None and limit is not None and norm > limit:
            clip["clipped"] += 1

    def scale(self, value):
        """Record the scale of a gradient scaler."""
        self.scaler["scale_last"] = value

    def without_optimizer(self):
        """Number of training forwards with gradients but without a backward.

        A backward may follow several forwards of one model; the most frequent number counts as usual.
        """
        by_model = {}
        for (model, count), times in self._opens.items():
            by_model.setdefault(model, {})[count] = times
        return sum(self._open.values()) + sum(_excess_over_usual(counts) for counts in by_model.values())

    def count_fields(self):
        """Return the fields of the event."""
        fields = {
            "framework": self._framework,
            "optimizers": self.optimizers_made,
            "steps": self.steps,
            "backwards": self.backwards + self.backwards_asked,
            "forwards": {
                "train_grad": self.train_grad,
                "train_nograd": self.train_nograd,
                "eval_nograd": self.eval_nograd,
                "of_others": self.of_others,
                "raised": self.raised,
                "small": self.small,
                "compared": self.compared,
                "looked": self.looked,
                "chained": self.chained,
            },
            "forwards_lonely": self.without_optimizer(),
            "losses_lonely": self.losses_open + _excess_over_usual(self._loss_opens),
            "backward_in_eval": {
                "count": self.eval_backwards,
                "in_train": self.train_backwards,
                "first_step": self.eval_first,
                "stochastic": self.eval_stochastic,
            },
            "rng": dict(self.rng),
            "accumulation": {str(count): steps for count, steps in sorted(self.accumulation.items())},
        }
        fields.update(self._optimizer_fields())
        if self.clip["calls"]:
            fields["clip"] = dict(self.clip)
        if self.scaler["skipped"] or self.scaler["raw"] or self.scaler["scale_last"] is not None:
            fields["scaler"] = dict(self.scaler, steps=self.steps)
        if self.teachers:
            fields["teachers"] = [teacher.look() for teacher in self.teachers.values()]
        for name, values in self.names.items():
            fields[name] = list(values[:MOST_NAMES])
            fields[name + "_n"] = len(values)
        fields.update(self.facts)
        return fields

    def _optimizer_fields(self):
        several = {str(one.index): one for one in self.of.values()}
        fields = {
            "cleared": {
                key: {
                    "checked": one.cleared.checked,
                    "not_cleared": one.cleared.found,
                    "streak": one.cleared.longest,
                    "largest": one.cleared.largest,
                }
                for key, one in several.items()
                if one.cleared.checked
            },
            "steps_without_backward": {k: one.without_backward for k, one in several.items() if one.without_backward},
            "steps_without_gradient": {
                key: {
                    "checked": one.empty.checked,
                    "none": one.empty.found,
                    "zero": one.zero.found,
                    "streak": max(one.empty.longest, one.zero.longest),
                }
                for key, one in several.items()
                if one.empty.found or one.zero.found
            },
            "unchanged": {
                key: {
                    "checked": one.unchanged.checked,
                    "unchanged": one.unchanged.found,
                    "streak": one.unchanged.longest,
                }
                for key, one in several.items()
                if one.unchanged.checked
            },
            "accumulated": {key: dict(one.used) for key, one in several.items() if one.used},
            "stale": {key: one.stale for key, one in several.items() if one.stale},
            "scheduler": {key: one.scheduler for key, one in several.items() if one.scheduler},
            "clipped_norms": {key: dict(one.norms) for key, one in several.items() if any(one.norms.values())},
        }
        return {name: value for name, value in fields.items() if value}


def _excess_over_usual(counts):
    """Return the excess over the most frequent number; `counts` maps a number to its frequency."""
    if not counts:
        return 0
    usual = max(counts, key=counts.get)
    return sum((count - usual) * times for count, times in counts.items() if count > usual)
