"""Reads from an autograd graph how a loss trains a policy: its sign, its advantage, its ratio; knows no framework.

Operations have the names of PyTorch. A framework gives its graph as a `LossGraph`.
"""

from collections import namedtuple

MOST = 400
"""Nodes of the expression that are walked."""

SHAPING = frozenset(["ToCopy", "Squeeze", "Unsqueeze", "View", "UnsafeView", "Reshape", "Clone", "Alias"])
JOINING = frozenset(["Stack", "Cat", "Unbind", "Select", "Index", "Expand", "Gather", "Neg", "Sum", "Scale", *SHAPING])
"""Operations that join, pick or reshape values, or scale them all alike; `Scale` is PaddlePaddle's."""

_SINGLE = frozenset(
    [
        *("Mean", "Sum", "Nansum", "Pow", "Abs", "Neg", "Sqrt", "Log", "Log1P", "Exp", "Cosh", "Clamp", "Relu"),
        *("Softplus", "LogSigmoid", "Expand", "Scale", *SHAPING),
    ]
)
_PAIRED = frozenset(["Add", "Sub", "Rsub", "Mul", "Div", "Where", "Maximum", "Minimum"])
_LOGARITHMS = frozenset(["LogSoftmax", "LogSigmoid"])
_KEEPING = frozenset(["Mean", "Sum", "Gather", "Expand", "Index", "Select", "Slice", "Diagonal", *SHAPING])

LossGraph = namedtuple("LossGraph", ["kind", "sides", "key", "factor"])
"""The autograd graphs of a framework.

Args:
    kind: `kind(node)`: name of the operation, "Mul".
    sides: `sides(node)`: the nodes that it takes from, `None` for an operand without a gradient.
    key: `key(node)`: what distinguishes nodes while they live.
    factor: `factor(node)`: the one number by which an operation multiplies or divides, `None` where that is not known.
"""


class PolicyLoss:
    """What the first losses of a process show of a policy.

    Attributes:
        ratios: Whether the ratio of a clipped loss was exactly 1 for all samples, in each look at it.
    """

    def __init__(self, graph):
        self._graph = graph
        self.ratios = []
        self._ascends = False
        self._advantage = self._inverted = None

    def look(self, number, roots, line):
        """Looks at a graph.

        Args:
            number: Of the backward call, from 1.
            roots: The nodes that made the losses.
            line: `line()`: of the backward call.
        """
        if number == 1:
            self._ascends = ascends(self._graph, roots)
        if self._advantage is None and weighted_by_values(self._graph, roots):
            self._advantage = line()

    def look_at_ratio(self, roots, line):
        """The operation that made the ratio of a clipped policy loss, `None` without one."""
        ratio = clipped_ratio(self._graph, roots)
        if ratio is not None and self._inverted is None and is_inverted(self._graph, ratio):
            self._inverted = line()
        return ratio

    def fields(self):
        """Fields of the event."""
        found = {"advantage": self._advantage, "ascends": self._ascends, "inverted": self._inverted}
        return dict(found, ratios=len(self.ratios), ratios_one=sum(self.ratios))


def walk(graph, roots, also=frozenset(), most=MOST):
    """The operations from losses down to the first that is no plain arithmetic: `(node, the one it feeds)`.

    Args:
        graph: The `LossGraph`.
        roots: The nodes that made the losses.
        also: Further operations that are walked through.
        most: Nodes that are walked.

    Cost: 2 microseconds a node.
    """
    waiting, seen = [(node, None) for node in roots if node is not None], {}
    while waiting and len(seen) < most:
        node, feeds = waiting.pop()
        key = graph.key(node)
        if key in seen:
            continue
        seen[key] = node  # a key identifies its node only while the node lives
        yield node, feeds
        kind = graph.kind(node)
        if kind in _SINGLE or kind in _PAIRED or kind in also:
            waiting += [(following, node) for following in graph.sides(node) if following is not None]


def ascends(graph, roots):
    """Whether log-probabilities are added to the losses with a positive sign only, so that they are minimised.

    Factors count where they are one number; what is weighted by several, as by advantages, shows nothing.
    """
    waiting, signs = [(node, 1) for node in roots if node is not None], set()
    for _ in range(MOST):
        if not waiting:
            break
        node, sign = waiting.pop()
        kind, sides = graph.kind(node), graph.sides(node)
        if kind in _LOGARITHMS:
            signs.add(sign)
        elif kind in _KEEPING:
            waiting.append((sides[0], sign))
        elif kind == "Neg":
            waiting.append((sides[0], -sign))
        elif kind in ("Mul", "Div"):
            factor = graph.factor(node)
            if factor is not None:
                waiting.append((sides[0], sign if factor > 0 else -sign))
        elif kind in ("Add", "Sub", "Rsub"):
            first, second = (sides[0], sides[1]) if len(sides) == 2 else (sides[0], None)
            waiting.append((first, -sign if kind == "Rsub" else sign))
            waiting.append((second, -sign if kind == "Sub" else sign))
        waiting = [(node, sign) for node, sign in waiting if node is not None]
    return signs == {1}


def weighted_by_values(graph, roots):
    """Whether log-probabilities are multiplied by returns minus values, and the values have a gradient as well.

    The loss of the actor then trains the critic, too. An entropy has a gradient on both sides and is no difference.
    """
    for node, _ in walk(graph, roots, JOINING):
        sides = graph.sides(node)
        if graph.kind(node) != "Mul" or len(sides) != 2 or None in sides:
            continue
        for one, other in (sides, sides[::-1]):
            if _is_log_probability(graph, one) and _is_advantage(graph, other):
                return True
    return False


def clipped_ratio(graph, roots):
    """The operation that made the ratio of a clipped policy loss, `min(ratio * a, clip(ratio) * a)`, or `None`."""
    found = [node for node, _ in walk(graph, roots)]
    kinds = {graph.kind(node) for node in found}
    clamped = {
        graph.key(side): side for node in found if graph.kind(node) == "Clamp" for side in graph.sides(node) if side
    }
    ratios = [node for node in clamped.values() if graph.kind(node) == "Exp"]
    return ratios[0] if len(ratios) == 1 and kinds & {"Minimum", "Maximum"} else None


def is_inverted(graph, ratio):
    """Whether a ratio is exp(old - new): what is subtracted is the side that has a gradient."""
    difference = skip_reshapes(graph, graph.sides(ratio)[0])
    sides = graph.sides(difference) if difference is not None and graph.kind(difference) == "Sub" else ()
    return len(sides) == 2 and sides[0] is None and sides[1] is not None


def skip_reshapes(graph, node):
    """The first operation that is no change of shape or type."""
    while node is not None and graph.kind(node) in SHAPING:
        node = graph.sides(node)[0]
    return node


def _first_arithmetic(graph, node):
    """The first operation that neither joins, picks nor reshapes values, nor turns their sign."""
    while node is not None and graph.kind(node) in JOINING:
        node = next((side for side in graph.sides(node) if side is not None), None)
    return node


def _is_log_probability(graph, node):
    """Whether values come from a log softmax, or from the logarithm of a normal density."""
    node = _first_arithmetic(graph, node)
    while node is not None and graph.kind(node) == "Sub":
        first, second = graph.sides(node)
        if second is not None and graph.kind(_first_arithmetic(graph, second) or second) == "Logsumexp":
            return True
        node = _first_arithmetic(graph, first)
    if node is None or graph.kind(node) in ("LogSoftmax", "NllLoss", "Log"):
        return node is not None
    square = _first_arithmetic(graph, graph.sides(node)[0]) if graph.kind(node) == "Div" else None
    if square is None or graph.kind(square) != "Mul":
        return square is not None and graph.kind(square) == "Pow"
    return [side and graph.kind(side) for side in graph.sides(square)] == ["Sub", "Sub"]


def _is_advantage(graph, node):
    """Whether values are a difference of which one side is constant, standardised or not."""
    node = _first_arithmetic(graph, node)
    if node is not None and graph.kind(node) == "Div":
        node = _first_arithmetic(graph, graph.sides(node)[0])
    sides = graph.sides(node) if node is not None else []
    if len(sides) == 2 and graph.kind(node) == "Sub" and None not in sides and graph.kind(sides[1]) == "Mean":
        node = _first_arithmetic(graph, sides[0])
        sides = graph.sides(node) if node is not None else []
    return len(sides) == 2 and graph.kind(node) in ("Sub", "Rsub") and sides.count(None) == 1
