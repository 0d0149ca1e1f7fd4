"""Reads from its graph by what expression a loss was computed: what lies between it and the outputs of the models."""

MOST = 400
"""Nodes of the expression that are walked."""

_MOST_TERMS = 20000
"""Nodes that are walked for a penalty: about five a parameter."""

_SINGLE = frozenset(
    [
        *("Mean", "Sum", "Nansum", "Pow", "Abs", "Neg", "Sqrt", "Log", "Log1P", "Exp", "Cosh", "Clamp", "Relu"),
        *("Softplus", "LogSigmoid", "ToCopy", "Squeeze", "Unsqueeze", "View", "UnsafeView", "Reshape", "Expand"),
        *("Clone", "Alias"),
    ]
)
_PAIRED = frozenset(["Add", "Sub", "Rsub", "Mul", "Div", "Where", "Maximum", "Minimum"])
_BLOWING = frozenset(["Add", "Sub", "Rsub", "Mul", "Div"])
_NORMS = frozenset(["Norm", "LinalgVectorNorm"])
_SHAPING = frozenset(["ToCopy", "Squeeze", "Unsqueeze", "View", "UnsafeView", "Reshape", "Clone", "Alias"])
_JOINING = frozenset(["Stack", "Cat", "Unbind", "Select", "Index", "Expand", "Gather", "Neg", "Sum", *_SHAPING])
_DIFFERENCES = frozenset(["MseLoss", "SmoothL1Loss", "HuberLoss"])
_FACTORS = 256
_LOGARITHMS = frozenset(["LogSoftmax", "LogSigmoid"])
_KEEPING = frozenset(["Mean", "Sum", "Gather", "Index", "Select", "Slice", "Diagonal", *_SHAPING])
_LEAST = 4
"""Samples from which on a square cannot be two axes that are equal by chance."""


def kind(node):
    """Name of an operation without "Backward0"."""
    return type(node).__name__.partition("Backward")[0]


def nodes(tensors, also=frozenset(), most=MOST):
    """The operations from losses down to the first that is no plain arithmetic: `(node, the one it feeds)`.

    Args:
        tensors: The losses.
        also: Further operations that are walked through.
        most: Nodes that are walked.

    Cost: 2 microseconds a node.
    """
    waiting = [(t.grad_fn, None) for t in tensors if t.grad_fn is not None]
    seen = set()
    while waiting and len(seen) < most:
        node, feeds = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node, feeds
        if kind(node) in _SINGLE or kind(node) in _PAIRED or kind(node) in also:
            waiting += [(following, node) for following, _ in node.next_functions if following is not None]


def penalised(tensors):
    """How many leaves the losses reach by plain arithmetic alone, as the parameters in an L1 or L2 penalty."""
    return sum(getattr(node, "variable", None) is not None for node, _ in nodes(tensors, _NORMS, _MOST_TERMS))


def bootstrapped(tensors):
    """Whether one side of a difference is reward + discount * value, and reaches a leaf that the other one reaches.

    The discounts are known by what the graph keeps: one number from 0.5 to 1, or zeros (the end of an episode).
    """
    for node, _ in nodes(tensors, _DIFFERENCES):
        sides = [following for following, _ in node.next_functions if following is not None]
        if kind(node) not in ("Sub", "Rsub", *_DIFFERENCES) or len(sides) != 2:
            continue
        targets = [_is_discounted(side) for side in sides]
        if sum(targets) == 1:
            one, other = _leaves(sides[0]), _leaves(sides[1])
            if one & other:
                return True
    return False


def _is_discounted(node):
    """Whether an operation adds something without a gradient to a discounted value."""
    node = _through(node)
    if node is None or kind(node) != "Add":
        return False
    sides = [following for following, _ in node.next_functions]
    if len(sides) != 2 or sides.count(None) != 1:
        return False
    node, discounts = _through(sides[0] or sides[1]), []
    while node is not None and kind(node) == "Mul":
        sides = [following for following, _ in node.next_functions]
        factor = _kept(node, "other" if sides[0] is not None else "self")
        if len(sides) != 2 or sides.count(None) != 1 or factor is None:
            return False
        numbers = {round(number, 6) for number in factor.detach().reshape(-1)[:_FACTORS].tolist()} - {0.0}
        if len(numbers) > 1 or not all(0.5 <= number <= 1.0 for number in numbers):
            return False
        discounts += numbers
        node = _through(sides[0] or sides[1])
    return any(discount < 1.0 for discount in discounts)


def _through(node):
    """The first operation that is no change of shape or type."""
    while node is not None and kind(node) in _SHAPING:
        node = node.next_functions[0][0]
    return node


def _leaves(node):
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


def ascends(tensors):
    """Whether log-probabilities are added to the losses with a positive sign only, so that they are minimised.

    Factors count where they are one number; what is weighted by several, as by advantages, tells nothing.
    """
    waiting, signs = [(t.grad_fn, 1) for t in tensors if t.grad_fn is not None], set()
    for _ in range(MOST):
        if not waiting:
            break
        node, sign = waiting.pop()
        name = kind(node)
        sides = [following for following, _ in node.next_functions]
        if name in _LOGARITHMS:
            signs.add(sign)
        elif name in _KEEPING:
            waiting.append((sides[0], sign))
        elif name == "Neg":
            waiting.append((sides[0], -sign))
        elif name in ("Mul", "Div"):
            factor = _kept(node, "other") if len(sides) == 2 and sides[1] is None else None
            if factor is not None and factor.numel() == 1:
                waiting.append((sides[0], sign if factor.item() > 0 else -sign))
        elif name in ("Add", "Sub", "Rsub"):
            first, second = (sides[0], sides[1]) if len(sides) == 2 else (sides[0], None)
            waiting.append((first, -sign if name == "Rsub" else sign))
            waiting.append((second, -sign if name == "Sub" else sign))
        waiting = [(node, sign) for node, sign in waiting if node is not None]
    return signs == {1}


def weighted_by_values(tensors):
    """Whether log-probabilities are multiplied by returns minus values, and the values have a gradient as well.

    The loss of the actor then trains the critic, too. An entropy has a gradient on both sides and is no difference.
    """
    for node, _ in nodes(tensors, _JOINING):
        sides = [following for following, _ in node.next_functions]
        if kind(node) != "Mul" or len(sides) != 2 or None in sides:
            continue
        if any(_is_log_probability(one) and _is_advantage(other) for one, other in (sides, sides[::-1])):
            return True
    return False


def _below(node):
    """The first operation that neither joins, picks nor reshapes values, nor turns their sign."""
    while node is not None and kind(node) in _JOINING:
        node = next((following for following, _ in node.next_functions if following is not None), None)
    return node


def _is_log_probability(node):
    """Whether values come from a log softmax, or from the logarithm of a normal density."""
    node = _below(node)
    while node is not None and kind(node) == "Sub":
        first, second = (following for following, _ in node.next_functions)
        if second is not None and kind(_below(second) or second) == "Logsumexp":
            return True
        node = _below(first)
    if node is None or kind(node) in ("LogSoftmax", "NllLoss"):
        return node is not None
    square = _below(node.next_functions[0][0]) if kind(node) == "Div" else None
    return square is not None and kind(square) == "Pow"


def _is_advantage(node):
    """Whether values are a difference of which one side is constant, standardised or not."""
    node = _below(node)
    if node is not None and kind(node) == "Div":
        node = _below(node.next_functions[0][0])
    sides = [following for following, _ in node.next_functions] if node is not None else []
    if len(sides) == 2 and kind(node) == "Sub" and None not in sides and kind(sides[1]) == "Mean":
        node = _below(sides[0])
        sides = [following for following, _ in node.next_functions] if node is not None else []
    return len(sides) == 2 and kind(node) in ("Sub", "Rsub") and sides.count(None) == 1


def unclipped_ratio(tensors):
    """Whether the ratio of a clipped policy loss, `min(ratio * a, clamp(ratio) * a)`, is exactly 1 for all samples.

    Returns:
        `None` where the losses have no such ratio.
    """
    found = [node for node, _ in nodes(tensors)]
    clamped = {below for node in found if kind(node) == "Clamp" for below, _ in node.next_functions}
    results = [_kept(node, "result") for node in found if kind(node) == "Exp" and node in clamped]
    if not any(kind(node) in ("Minimum", "Maximum") for node in found) or len(results) != 1 or results[0] is None:
        return None
    return bool((results[0].detach() == 1).all())


def blown_up(tensors):
    """Where a column of outputs is set against a row of targets, so that each meets all; `None` where none is.

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
        if result is None or len(result) != 2 or len(sides) != 2 or result[0] != result[1] or result[0] < _LEAST:
            continue
        known = [(following, at) for following, at in sides if following is not None]
        if len(known) != 1 or _is_new_axis(known[0][0]):
            continue
        own = _shape(*known[0])
        if own not in ((result[0], 1), (result[0],)):
            continue
        sure = _kept_agrees(node, feeds, own)
        if sure is not False:
            return {"op": kind(node).lower(), "shape": list(result), "of": list(own), "sure": sure is True}
    return None


def _kept_agrees(node, feeds, own):
    """Whether what the graph keeps shows the other side to lie across `own`; `None` where nothing is kept."""
    other = own[:1] if len(own) == 2 else (own[0], 1)
    for name in ("other", "self"):
        kept = _kept(node, name)
        if kept is not None:
            return tuple(kept.shape) in (other, (1, own[0])) if len(own) == 2 else tuple(kept.shape) == other
    kept = _kept(feeds, "self")
    if kept is None or tuple(kept.shape) != (own[0], own[0]):
        return None
    # Differences of one output from a row of targets are the same in each row but for the output itself.
    axis = 0 if len(own) == 2 else 1
    apart = kept.detach().double()
    apart = apart - (apart[:, :1] if axis == 0 else apart[:1])
    first = apart[:1] if axis == 0 else apart[:, :1]
    largest = apart.abs().max().item()
    return largest > 0 and (apart - first).abs().max().item() <= 1e-4 * largest


def _kept(node, name):
    """A tensor that an operation keeps for backward; `None` where it keeps none, or a hook of the program holds it.

    What hooks have packed is left alone: to unpack it may compute a checkpointed part anew.
    """
    kept = getattr(getattr(node, "_raw_saved_" + name, None), "data", None)
    return kept if hasattr(kept, "shape") and hasattr(kept, "detach") else None


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
    """Shape of what an operation returned, `None` where the graph does not tell."""
    if hasattr(node, "variable"):
        return tuple(node.variable.shape)
    told = getattr(node, "_input_metadata", None)
    return tuple(told[at].shape) if told and at < len(told) else None
