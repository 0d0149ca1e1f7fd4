"""Looks at the parameters and gradients of an optimizer, before and after one of its steps.

A framework's `parameter_stats.py` reads the tensors; the two read so differently that little is shared.
"""

MOST = 800
"""Parameters of an optimizer that are looked at."""

HISTOGRAMMED = 64
"""Parameters of a model that get a histogram of their gradient."""

STANDING = 8
"""Parameters that are looked at, about, to see whether gradients were cleared."""

PRINTED = 4096
"""Numbers that a fingerprint of all parameters is computed from."""


class ParameterStats:
    """The parameters of one process, at dense steps.

    Args:
        module: The module of the framework.
        stats: Looks at tensors.
        values: The `Scalars` of the adapter.
        deep: Whether histograms are always wanted.
    """

    def __init__(self, module, stats, values, deep):
        self.module = module
        self.stats = stats
        self.values = values
        self.deep = deep
        self.clear()

    def clear(self):
        """Forgets the values of a step."""
        self._params = []
        self._told = []
        self._before = None
        self._after = None
        self._live = []

    def _standing_norm(self, scratch, gradients):
        norm = self.values.norm(scratch.setdefault("standing", {}), gradients)
        return norm if norm is None or type(norm) is float else float(norm.item())
