"""By what number an attention multiplies the products of its queries and keys, read from the autograd graph."""

from ..inspection.policy_loss import SHAPING
from .loss_expression import GRAPH, _saved_tensor, kind

_VIEWS = SHAPING | {"Expand", "Permute", "Select", "Slice", "Split", "SplitWithSizes", "T", "Transpose", "Unbind"}
_MASKS = frozenset(["Add", "MaskedFill", "Sub", "Where"])
_PROJECTIONS = frozenset(["Addmm", "Mm"])


def score_scale(scores):
    """`[factor, width]` of the scores that a softmax is given: their factor, and the width of a head.

    Returns:
        `None` where they are no product of two linear projections, or where more than masks and numbers lies between:
        a temperature that is learned, normalised queries, rotated ones, a bias that is learned.
    """
    node, factor = _skip_factors(scores.grad_fn, _MASKS)
    queries = _saved_tensor(node, "self") if node is not None and kind(node) == "Bmm" else None
    if queries is None:
        return None
    for side in GRAPH.sides(node):
        projection, number = _skip_factors(side, frozenset())
        if projection is None or kind(projection) not in _PROJECTIONS:
            return None
        factor *= number
    return [factor, queries.shape[-1]]


def _skip_factors(node, also):
    """The first operation below a node that does more than reshape and scale by one number, and the product of those.

    Args:
        also: Names of further operations that are skipped where only one operand has a gradient.
    """
    product = 1.0
    while node is not None:
        name = kind(node)
        sides = [side for side in GRAPH.sides(node) if side is not None]
        if name in ("Mul", "Div"):
            number = GRAPH.factor(node)
            if not number:
                break
            product *= number if name == "Mul" else 1 / number
        elif len(sides) != 1 or not (name in _VIEWS or name in also):
            break
        node = sides[0]
    return node, product
