"""Looks at the parameters and gradients of an optimizer, and how far evaluated weights have gone of their way."""

from weakref import ref

MOST_PARAMETERS = 800
"""Parameters of an optimizer that are looked at; of larger models the first ones."""

CHECKED_FOR_STALE = 8
"""Parameters, evenly spread, whose gradients are checked for stale values between dense steps."""

MOST_FINGERPRINTED = 4096
"""Numbers in the fingerprint of all parameters, which ranks compare."""

CLEARED = 1024
"""Values of a gradient that are looked at to find out whether it was cleared."""

FEW = 16
"""Values of a gradient that are compared with those of the step."""

MOST_TRAINED = 4
"""Trained models that are measured."""

MOST_EVALUATED = 64

KEPT = 16
APART = 0.03
"""Share of the steps so far that lies between two measurements of a model: what is called in each step costs little."""

_MEASURED, _VALUES = 8, 64


class ParameterStats:
    """The parameters of one process, at dense steps.

    A framework implements `gradients_of(optimizer)`, `_some_gradients(optimizer, scratch)`, those of a few parameters,
    and `_can_read(gradient, every)`: whether a norm can be measured, without waiting unless `every` gradient counts.

    Args:
        stats: The `TensorStats` of the framework.
        values: The `Scalars` of the adapter.
    """

    def __init__(self, stats, values):
        self.stats = stats
        self.values = values
        self.clear()

    def clear(self):
        """Forgets what was kept of a step."""
        self._params = []
        self._gradient_fields = []
        self._before = None

    def stale_norm(self, optimizer, scratch, every):
        """Norm of the gradients that are in an optimizer's parameters; `None` where it is not known without waiting.

        Args:
            scratch: A dict that belongs to the optimizer.
            every: Whether all parameters are looked at, else a few of them.

        Cost: 1 microsecond where they are `None`, 15 to 25 where they are zeros.
        """
        gradients = list(self.gradients_of(optimizer)) if every else self._some_gradients(optimizer, scratch)
        if not gradients:
            return 0.0
        if not self._can_read(gradients[0], every):
            return None
        norm = self.values.norm(scratch.setdefault("standing", {}), gradients)
        return norm if norm is None or type(norm) is float else float(norm.item())


class Way:
    """The way of some weights of a trained model: the first values, the last ones, and the sum of the way over time."""

    def __init__(self, module, shapes, places, values, step):
        self.module = ref(module)
        self.shapes, self.places, self.step = shapes, places, step
        self.first = self.last = values
        self.travelled = [0.0] * len(values)

    def move(self, values, step):
        """Adds the way to these values."""
        half = (step - self.step) / 2
        ways = zip(self.travelled, self.last, values, self.first)
        self.travelled = [sum_ + half * (a + b - 2 * first) for sum_, a, b, first in ways]
        self.last, self.step = values, step


class WeightProgress:
    """The trained and the evaluated weights of one process.

    Args:
        inspector: The `TensorInspector` of the process. Its `weights(parameters, most)` reads some values of each.
    """

    def __init__(self, inspector):
        self._inspector = inspector
        self._trained = {}
        self._evaluated = {}

    def inspect(self, root, step):
        """Looks at a trained model at a dense step: before the first one, and later at the end of each."""
        module, known = root.module(), self._trained.get(root.index)
        if known is not None and module is not None:
            values = self._read(module, known)
            if values is not None:
                known.move(values, step)
        elif (
            known is None
            and module is not None
            and len(self._trained) < MOST_TRAINED
            and not self._inspector.monitor.loop.steps
        ):
            held = self._inspector.roots.parameters_of(module)
            places = [at for at, one in enumerate(held) if self._inspector.describer.is_trainable(one)]
            places = places[:: 1 + len(places) // _MEASURED]
            values = self._values([held[at] for at in places])
            if values:
                shapes = [tuple(one.shape) for one in held]
                self._trained[root.index] = Way(module, shapes, places, values, step)

    def evaluate(self, module, name, step):
        """Measures a model that is called without gradients, unless it was measured a few steps ago."""
        key = (id(module), module.training)  # a teacher may be called in each step, and validated in the other mode
        own = self._evaluated.get(key)
        if (own is None or own["module"]() is not module) and self._trained:
            own = self._take(key, module, name) if len(self._evaluated) < MOST_EVALUATED else None
        trained = own["trained"] if own is not None else None
        if own is None or trained is None or step == own["last"]:
            return
        own["last"], own["steps"] = step, own["steps"] + 1
        rows = own["rows"]
        if not rows or step - rows[-1][0] >= APART * step:
            values = self._read(module, trained)
            owner = trained.module()
            now = self._read(owner, trained) if owner is not None and owner is not module else trained.last
            row = compare_ways(trained, values, now, step) if values and now else None
            if row is not None:
                own["rows"] = [*rows[1 - KEPT :], [step, *row]]
                if own["copy"]:
                    self.compare_copy(own, values)
            self._inspector.monitor.loop.facts["evaluated_weights"] = self._rows()

    def compare_copy(self, own, values):
        """Compares a copy with how it was found, where a framework does not follow copies from their making."""

    def _take(self, key, module, name):
        held = self._inspector.roots.parameters_of(module)
        shapes = [tuple(one.shape) for one in held]
        same = [one for one in self._trained.values() if one.module() is module]
        same = same or [one for one in self._trained.values() if one.shapes == shapes]
        one = same[0] if len(same) == 1 else None
        copy = one is not None and one.module() is not module
        own = {"module": ref(module), "type": name, "copy": copy, "trained": one, "last": 0, "steps": 0, "rows": []}
        self._evaluated[key] = own
        return own

    def _read(self, module, trained):
        held = self._inspector.roots.parameters_of(module)
        fits = [tuple(one.shape) for one in held] == trained.shapes
        return self._values([held[at] for at in trained.places]) if fits else None

    def _values(self, parameters):
        inspector = self._inspector
        if not inspector.without_modes.is_possible():
            return None
        with inspector.without_modes:
            return inspector.weights(parameters, _VALUES)

    def _rows(self):
        found = [one for one in self._evaluated.values() if one["rows"]]
        return [{name: one[name] for name in ("type", "copy", "steps", "rows")} for one in found]


def compare_ways(trained, values, now, step):
    """`(share, along)`: how much of the way of the trained weights others went, and how near the sum of all ways.

    The way of an average that has only begun is the sum of the ways of the trained weights so far; that of a snapshot
    lies where they were then.

    Returns:
        `None` where the trained weights have hardly moved.
    """
    way = [a - b for a, b in zip(now, trained.first)]
    other = [a - b for a, b in zip(values, trained.first)]
    half = (step - trained.step) / 2
    travelled = [t + half * (a - b + w) for t, a, b, w in zip(trained.travelled, trained.last, trained.first, way)]
    square = _product(way, way)
    if not square > 1e-6 * _product(trained.first, trained.first):
        return None
    norms = _product(other, other) * _product(travelled, travelled)
    along = _product(other, travelled) / norms**0.5 if norms > 0 else 0.0
    return round(_product(other, way) / square, 6), round(along, 4)


def _product(one, other):
    return sum(a * b for a, b in zip(one, other))
