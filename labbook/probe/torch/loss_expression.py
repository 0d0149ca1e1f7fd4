"""Reads from its graph by what expression a loss was computed: what lies between it and the outputs of the models."""

from ..inspection.policy_loss import MOST, LossGraph, skip_reshapes, walk

_MOST_TERMS = 20000
"""Nodes that are walked for a penalty: about five a parameter."""

_BLOWING = frozenset(["Add", "Sub", "Rsub", "Mul", "Div"])
_NORMS = frozenset(["Norm", "LinalgVectorNorm"])
_DIFFERENCES = frozenset(["MseLoss", "SmoothL1Loss", "HuberLoss"])
_LINEAR = frozenset(["Mean", "Sum", "Neg", "Add", "Sub", "Rsub", "Div"])
_FACTORS = 256
_LEAST = 4
"""Samples from which on a square cannot be two axes that are equal by chance."""


def kind(node):
    """Name of an operation without "Backward0"."""
    return type(node).__name__.partition("Backward")[0]


def nodes(tensors, also=frozenset(), most=MOST):
    """The operations from losses down to the first that is no plain arithmetic: `(node, the one it feeds)`."""
    return walk(GRAPH, roots(tensors), also, most)


def roots(tensors):
    """The operations that made some tensors."""
    return [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]


def count_penalised(tensors):
    """How many leaves the losses reach by plain arithmetic alone, as the parameters in an L1 or L2 penalty.

    A single number is what a sum of losses begins with: `torch.tensor(0.0, requires_grad=True)`.
    """
    leaves = (getattr(node, "variable", None) for node, _ in nodes(tensors, _NORMS, _MOST_TERMS))
    return sum(leaf is not None and leaf.dim() > 0 for leaf in leaves)


def is_bootstrapped(tensors):
    """Whether one side of a difference is reward + discount * value, and reaches a leaf that the other one reaches.

    The discounts are known by what the graph keeps: one number from 0.5 to 1, or zeros (the end of an episode). A
    difference that is summed as it is, as in the likelihood of a flow, is no error.
    """
    for node, feeds in nodes(tensors, _DIFFERENCES):
        sides = [following for following, _ in node.next_functions if following is not None]
        if kind(node) not in ("Sub", "Rsub", *_DIFFERENCES) or len(sides) != 2:
            continue
        if kind(node) not in _DIFFERENCES and (feeds is None or kind(feeds) in _LINEAR):
            continue
        targets = [_is_discounted(side) for side in sides]
        if sum(targets) == 1:
            one, other = _leaf_ids(sides[0]), _leaf_ids(sides[1])
            if one & other:
                return True
    return False


def _is_discounted(node):
    """Whether an operation adds something without a gradient to a discounted value."""
    node = skip_reshapes(GRAPH, node)
    if node is None or kind(node) != "Add":
        return False
    sides = _sides(node)
    if len(sides) != 2 or sides.count(None) != 1:
        return False
    node, discounts = skip_reshapes(GRAPH, sides[0] or sides[1]), []
    while node is not None and kind(node) == "Mul":
        sides = _sides(node)
        factor = _saved_tensor(node, "other" if sides[0] is not None else "self")
        if len(sides) != 2 or sides.count(None) != 1 or factor is None:
            return False
        numbers = {round(number, 6) for number in factor.detach().reshape(-1)[:_FACTORS].tolist()} - {0.0}
        if len(numbers) > 1 or not all(0.5 <= number <= 1.0 for number in numbers):
            return False
        discounts += numbers
        node = skip_reshapes(GRAPH, sides[0] or sides[1])
    return any(discount < 1.0 for discount in discounts)


def _leaf_ids(node):
    """Ids of the leaves that an operation reaches."""
    waiting, seen, found = [node], set(), set()
    while waiting and len(seen) < _MOST_TERMS:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if getattr(node, "variable", None) is not None:
            found.add(id(node.variable))
        waiting += [following for following, _ in node.next_functions if following is not None]
    return found


def is_one(ratio):
    """Whether what an operation returned is exactly 1 for all samples; `None` where the graph does not keep it."""
    result = _saved_tensor(ratio, "result")
    return None if result is None else bool((result.detach() == 1).all())


def find_broadcast(tensors):
    """Where a column of outputs is set against a row of targets, so that each meets all; `None` where none is.

    So are masks `[N, 1, H, W]` of a model against those of the data, `[N, H, W]`.

    Returns:
        `op`, `shape` (of the result), `of` (shape of the outputs), `sure`.

    The side without a gradient is known by what the graph keeps; where nothing is kept `sure` is false. An axis that
    was put in just before is meant.
    """
    for node, feeds in nodes(tensors):
        if kind(node) not in _BLOWING:
            continue
        result = _shape(node)
        sides = [(following, at) for following, at in node.next_functions]
        if result is None or len(result) < 2 or len(sides) != 2 or result[0] != result[1] or result[0] < _LEAST:
            continue
        known = [(following, at) for following, at in sides if following is not None]
        if len(known) != 1 or _is_new_axis(known[0][0]):
            continue
        own = _shape(*known[0])
        if own not in ((result[0], 1, *result[2:]), result[1:]):
            continue
        sure = _kept_agrees(node, feeds, own)
        if sure is not False:
            return {"op": kind(node).lower(), "shape": list(result), "of": list(own), "sure": sure is True}
    return None


def _kept_agrees(node, feeds, own):
    """Whether what the graph keeps shows the other side to lie across `own`; `None` where nothing is kept."""
    is_column = len(own) == len(_shape(node))
    row = (own[0], *own[2:])
    others = (row, (1, *row)) if is_column else ((own[0], 1, *own[1:]),)
    for name in ("other", "self"):
        kept = _saved_tensor(node, name)
        if kept is not None:
            return tuple(kept.shape) in others
    kept = _saved_tensor(feeds, "self")
    if kept is None or tuple(kept.shape) != _shape(node):
        return None
    # Differences of one output from a row of targets are the same in each row but for the output itself.
    axis = 0 if is_column else 1
    apart = kept.detach().double()
    apart = apart - (apart[:, :1] if axis == 0 else apart[:1])
    first = apart[:1] if axis == 0 else apart[:, :1]
    largest = apart.abs().max().item()
    return largest > 0 and (apart - first).abs().max().item() <= 1e-4 * largest


def _saved_tensor(node, name):
    """A tensor that an operation keeps for backward; `None` where it keeps none, or a hook of the program holds it.

    What hooks have packed is left alone: to unpack it may compute a checkpointed part anew.
    """
    kept = getattr(getattr(node, "_raw_saved_" + name, None), "data", None)
    return kept if hasattr(kept, "shape") and hasattr(kept, "detach") else None


def _sides(node):
    return [following for following, _ in node.next_functions]


def _factor(node):
    """The one number by which an operation multiplies or divides, `None` for several."""
    sides = _sides(node)
    kept = _saved_tensor(node, "other") if len(sides) == 2 and sides[1] is None else None
    return kept.item() if kept is not None and kept.numel() == 1 else None


GRAPH = LossGraph(kind, _sides, lambda node: node, _factor)


def _is_new_axis(node):
    """Whether an operation only put an axis in."""
    if kind(node) in ("Unsqueeze", "Expand", "Cdist"):
        return True
    if kind(node) not in ("View", "UnsafeView", "Reshape") or not node.next_functions:
        return False
    following, at = node.next_functions[0]
    before = _shape(following, at) if following is not None else None
    return before is not None and len(before) < len(_shape(node) or ())


def _shape(node, at=0):
    """Shape of what an operation returned, `None` where the graph does not show it."""
    if hasattr(node, "variable"):
        return tuple(node.variable.shape)
    fields = getattr(node, "_input_metadata", None)
    return tuple(fields[at].shape) if fields and at < len(fields) else None
