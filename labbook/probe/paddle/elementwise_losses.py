"""Watches differences, sums and products that a program computes between a model and its loss, in the first looks.

PaddlePaddle stores no shapes in its graph, so the operators of its tensors are replaced for that while.
"""

import sys
from _thread import get_ident
from functools import partial
from math import prod

from ..training.call_site import line_of, user_frame
from ..wrapping import TemporaryPatches

LOOKS = 3
_DIFFERENCES = ("__sub__", "__rsub__", "subtract")
_SUMS = ("__add__", "__radd__", "__iadd__", "add")
_PRODUCTS = ("__mul__", "__rmul__", "multiply")
_DISTRIBUTIONS = ("Categorical", "Normal", "Bernoulli", "Beta")
_MOST = 64
_LEAST = 4
"""Samples from which on a square cannot be two axes that are equal by chance."""


class ElementwiseLosses:
    """The differences and sums of one process.

    Args:
        failed: `failed(where, error)` takes failures of ours.

    Attributes:
        blown: Where a column of outputs was set against a row of targets, or logarithms of probabilities against their
            weights: `op`, `shape`, `of`, `sure`, `line`.
        constant: Terms of the loss without a gradient that changed: `line`, `number`, `values`; `None` without any.
    """

    def __init__(self, paddle, failed):
        self._tensor = paddle.Tensor
        self._paddle = paddle
        self._failed = failed
        self._patches = TemporaryPatches()
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self.end()
        self.blown = self.constant = None
        self._looks = 0
        self._outputs = ()
        self._terms = {}

    def begin(self, outputs):
        """Watches until `end`.

        Args:
            outputs: Weak references to what the model returned.
        """
        if self._looks >= LOOKS or self._patches:
            return
        self._looks += 1
        self._outputs = outputs
        for take, names in (
            (partial(self._compare, "sub"), _DIFFERENCES),
            (partial(self._compare, "mul"), _PRODUCTS),
            (self._on_sum, _SUMS),
            (self._on_negation, ("__neg__",)),
        ):
            for name in names:
                self._watch(self._tensor if name.startswith("_") else self._paddle, name, take)
        known = vars(sys.modules.get("paddle.distribution", object))
        for kind in [known[name] for name in _DISTRIBUTIONS if name in known]:
            self._watch(kind, "log_prob", self._on_log_prob)

    def _watch(self, home, name, take):
        original = home.__dict__.get(name)
        if original is not None:
            self._patches.put(home, name, self._wrap(original, take))

    def backward(self, tensors):
        """Processes what `backward` is called on, and ends the look."""
        sums, self._sums = self._sums, []
        self.end()
        reached, seen = list(tensors), {}
        for made, sides, fields in reversed(sums):
            if not any(made is one for one in reached):
                continue
            reached += sides
            if fields is not None:
                line, number, value = fields
                at = seen[line, number] = seen.get((line, number), 0) + 1
                self._terms.setdefault((line, number, at), []).append(value)
        terms = [(key, values) for key, values in self._terms.items() if len(values) >= LOOKS and len(set(values)) > 1]
        if terms:
            self.constant = [{"line": line, "number": number, "values": some} for (line, number, _), some in terms]

    def end(self):
        """Puts the operators back."""
        self._patches.remove()
        self._outputs, self._sums, self._logs = (), [], []

    def _wrap(self, original, take):
        thread = get_ident()

        def operator(*args, **kwargs):
            result = original(*args, **kwargs)
            if get_ident() == thread:
                try:
                    take(args or tuple(kwargs.values()), result)
                except Exception as error:
                    self._failed("paddle.pairs", error)
            return result

        return operator

    def _on_sum(self, sides, result):
        if len(sides) < 2 or not isinstance(result, self._tensor) or len(self._sums) >= _MOST:
            return
        if result.stop_gradient or prod(result.shape) != 1:
            return
        held = [one for one in sides[:2] if isinstance(one, self._tensor)]
        fixed = [one for one in sides[:2] if not isinstance(one, self._tensor) or one.stop_gradient]
        fields = None
        number = len(fixed) == 1 and type(fixed[0]) in (int, float)
        if number or (len(fixed) == 1 and any(fixed[0] is one for one in held) and fixed[0].place.is_cpu_place()):
            fields = (line_of(user_frame()), number, float(fixed[0]))
        # Held to the backward call, not longer: scalars, and what the graph keeps anyway.
        self._sums.append((result, held, fields))

    def _on_log_prob(self, sides, result):
        if isinstance(result, self._tensor) and not result.stop_gradient and len(self._logs) < _MOST:
            self._logs.append(result)

    def _on_negation(self, sides, result):
        if any(sides[0] is one for one in self._logs):
            self._on_log_prob(sides, result)

    def _compare(self, op, sides, result):
        if (
            self.blown is not None
            or len(sides) < 2
            or not all(isinstance(one, self._tensor) for one in (*sides[:2], result))
        ):
            return
        form = list(result.shape)
        if len(form) < 2 or form[0] != form[1] or form[0] < _LEAST:
            return
        column, row = [form[0], 1, *form[2:]], form[1:]
        for own, other in (sides[:2], sides[1::-1]):
            across = [row, [1, *row]] if list(own.shape) == column else [column]
            fits = list(own.shape) in (column, row) and list(other.shape) in across
            known = self._logs if op == "mul" else [output() for output in self._outputs]
            if fits and other.stop_gradient and any(one is own for one in known):
                line = line_of(user_frame())
                self.blown = {"op": op, "shape": form, "of": list(own.shape), "sure": True, "line": line}
