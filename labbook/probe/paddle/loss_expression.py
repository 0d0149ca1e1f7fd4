"""Reads from its graph by what expression a PaddlePaddle loss was computed: what lies between it and the outputs.

For the moment of a failure: PaddlePaddle 3.3 never frees what `grad_fn` returns.
"""

import re

from .loss_lines import PARTIAL

MOST = 400
"""Nodes that are walked."""

STEEP = frozenset(
    ["Sqrt", "Rsqrt", "Pow", "Log", "Log2", "Log10", "Log1p", "Divide", "PNorm", "FrobeniusNorm", "Acos", "Asin"]
)
"""Operations whose derivative is infinite, or none, for some argument."""

_PARTIAL = frozenset(PARTIAL.values())
_MOST_MAY = 6


class LossExpression:
    """The expression of one loss.

    Args:
        outputs: Weak references to what the model returned: what made that is none of the expression. Where the
            program has kept none of it, this is not known. Without any the whole graph is.
    """

    def __init__(self, tensors, outputs=()):
        held = [t for t in (output() for output in outputs) if t is not None and not t.stop_gradient]
        self._ends = [t.grad_fn for t in held if t.grad_fn is not None]
        self._roots = [t.grad_fn for t in tensors or () if t is not None and not t.stop_gradient]
        self._is_whole = not outputs
        self._known = {node.node_ptr() for node in self._ends}

    def chain(self):
        """The first operations from the outside in: `Mean <- Scale <- Log`."""
        names = []
        node = next((node for node in self._roots if node is not None), None)
        while node is not None and len(names) < 8 and node.node_ptr() not in self._known:
            if "Accumulation" not in node.name():
                names.append(_kind(node))
            node = next((following for following in node.next_functions if following is not None), None)
        return " <- ".join(names)

    def expression_fields(self, steep, lines):
        """What is known of it: `op`, `may`, and the place of the one operation that may have gone wrong.

        Args:
            steep: Whether its gradient went wrong, not its value.
            lines: Of the program.
        """
        kinds = self._kinds()
        wanted = [kind for kind in dict.fromkeys(kinds) if kind in (STEEP if steep else _PARTIAL)]
        wanted = [kind for kind in wanted if not lines.is_smooth(kind, kinds.count(kind), steep)]
        may = [{"op": kind, **place} for kind in wanted for place in lines.find_lines(kind, kinds.count(kind))][
            :_MOST_MAY
        ]
        place = {key: value for key, value in may[0].items() if key != "op"} if len(may) == 1 else {}
        op = ", ".join(wanted[:4]) if steep else ""
        return dict(place, op=op or self.chain(), may=may)

    def _kinds(self):
        """The operations up to the outputs of the model; where these are not known, to the first with a parameter."""
        waiting, seen = list(self._roots), set(self._known)
        kinds, kept = [], []
        while waiting and len(kept) < MOST:
            node = waiting.pop(0)
            if node is None or node.node_ptr() in seen:
                continue
            seen.add(node.node_ptr())
            kept.append(node)  # an address identifies its node only while the node lives
            below = [following for following in node.next_functions if following is not None]
            kinds.append(_kind(node))
            computed = [following for following in below if "Accumulation" not in following.name()]
            if self._is_whole or len(computed) == len(below):
                waiting.extend(computed)
        return kinds


def _kind(node):
    name = re.sub(r"(GradNode|Grad)$", "", node.name().replace("GradNode", "Grad"))
    return "Pow" if name == "ElementwisePow" else name
