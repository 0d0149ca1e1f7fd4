"""Looks at the parameters and gradients of an optimizer: what both frameworks share of it."""

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
