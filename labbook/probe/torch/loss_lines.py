"""Learns in the first looks the line of the program of each operation of a loss's expression.

While the program computes its loss, PyTorch's anomaly mode keeps the line of each operation, without its check for NaN,
which would raise. A later loss of the same structure was computed by the same lines.
"""

from .compiler import has_compiled
from .loss_expression import kind
from .replay import place_in

LOOKS = 3
"""Losses whose lines are kept. A line costs 0.1 ms."""


class LossLines:
    """The lines of the losses of one process.

    Attributes:
        open: Whether PyTorch keeps lines now.
    """

    def __init__(self, torch):
        self.torch = torch
        self.open = False
        self._known = {}
        self._looks = 0

    def begin(self):
        """Has the lines kept until `end`; not where the program itself is in anomaly mode, or has compiled parts."""
        torch = self.torch
        if self._looks >= LOOKS or torch.is_anomaly_enabled() or has_compiled():
            return
        self._looks += 1
        self.open = True
        torch.set_anomaly_enabled(True, False)

    def end(self):
        """Has no more lines kept. A mode that the program has begun meanwhile is left to it, to be ended later."""
        torch = self.torch
        if not torch.is_anomaly_check_nan_enabled():
            self.open = False
            torch.set_anomaly_enabled(False, True)

    def take(self, nodes):
        """Processes the lines of the operations of a loss: a list of nodes."""
        self._known[tuple(map(kind, nodes))] = [place_in(node.metadata) for node in nodes]

    def find_lines(self, nodes):
        """The place of each node, `{}` where it is not known: `file`, `line`, `function`, `source`.

        Of an expression of another structure those are known that are as many as ever, and all on one line.
        """
        kinds = tuple(map(kind, nodes))
        if kinds in self._known:
            return self._known[kinds]
        return [self._single_line(name, kinds.count(name)) for name in kinds]

    def _single_line(self, name, count):
        places = [[p for k, p in zip(kinds, fields) if k == name] for kinds, fields in self._known.items()]
        first = places[0][0] if places and places[0] else {}
        alike = all(len(some) == count and all(place == first for place in some) for some in places)
        return first if alike else {}
