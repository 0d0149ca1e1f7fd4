"""Finds out whether gradients that should be accumulated are cleared before each, or the last, micro-batch.

A step after several calls of `backward` from the same line is made with the last one alone where the gradients of the
others were cleared. Programs that clear gradients for another purpose put their own ones together: those of the step
are then no multiple of the last gradients (gradients by sample or by task), or they come from another line (attacks).
"""

MOST_STEPS = 64
"""Steps after several calls of `backward` that are judged in a process."""

_REDUCED = 0.75
_TOLERANCE = 1e-3
"""Relative difference of the ratios of two gradients that clipping by norm or a gradient scaler has scaled."""


class DiscardedGradients:
    """The gradients after each call of `backward` since the last step, of every optimizer that the thread trains.

    Args:
        inspector: Its `gradient_values(optimizer)` returns some values of the gradients of an optimizer, `None` where
            they cannot be read.
    """

    def __init__(self, inspector):
        self._inspector = inspector
        self.several = False
        self._left = MOST_STEPS
        self._places = []
        self._values = {}
        self._cleared, self._latest = {}, {}
        self._factors = {}

    def begin(self):
        """Forget the calls of `backward` before the last step."""
        self._places = []
        self._values.clear()
        self._cleared.clear()
        self._latest.clear()

    def backward_begins(self, number, frame):
        """Process the line in the user's program that calls `backward`; no frame for a call that is not to count."""
        caller = frame.f_back if frame is not None else None
        here = None if frame is None else (frame.f_code, frame.f_lineno, caller and caller.f_lineno)
        if number == len(self._places):
            self._places.append(here)

    def on_clear(self, optimizer):
        """Process that its gradients are cleared at a further call of `backward`; counts where it had some before."""
        if any(self._values.get(id(optimizer), ())):
            self._cleared[id(optimizer)] = self._cleared.get(id(optimizer), 0) + 1
            self._latest[id(optimizer)] = len(self._places)

    def backward_ended(self, optimizers):
        """Read the gradients after a call of `backward`."""
        for optimizer in optimizers:
            self._values[id(optimizer)] = self._inspector.gradient_values(optimizer)

    def result(self, optimizer, backwards):
        """What became of the gradients before the last call of `backward`; `None` where that is not known.

        Returns:
            "kept" where they were added up, "rescaled" where the program multiplied their sum, "reduced" where it did
            so by the same number under 0.75 as in the step before, unlike clipping, "discarded" where those of the
            last call were used alone, "set_aside" where others than those of the last call were used.
        """
        several, self.several = self.several, self._left > 0
        self._left -= 1
        places = set(self._places)
        if not several or backwards < 2 or len(self._places) != backwards or len(places) > 1 or None in places:
            return None
        last = self._values.get(id(optimizer))
        if not last or not any(last):
            return None
        used = self._inspector.gradient_values(optimizer) or ()
        if self._cleared.get(id(optimizer), 0) < backwards - 1 and self._latest.get(id(optimizer)) != backwards:
            factor = factor_between(last, used) if list(used) != list(last) else 0.0
            before, self._factors[id(optimizer)] = self._factors.get(id(optimizer), 0.0), factor
            is_same = factor < _REDUCED and abs(factor - before) <= _TOLERANCE * factor
            return "kept" if not factor else "reduced" if is_same else "rescaled"
        return "discarded" if factor_between(last, used) else "set_aside"


def factor_between(first, second):
    """The positive number that one list of numbers is multiplied by to give the other one; 0 if there is none."""
    if len(first) != len(second):
        return 0.0
    largest = max(range(len(first)), key=lambda at: abs(first[at]))
    factor = second[largest] / first[largest]
    close = _TOLERANCE * abs(second[largest])
    is_product = factor > 0 and all(abs(b - a * factor) <= close for a, b in zip(first, second))
    return factor if is_product else 0.0
