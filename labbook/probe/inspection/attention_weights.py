"""What an attention that the program computes itself, or a mean over time, says about its mask and its scores."""

from weakref import ref

from ..training.call_site import line_of, user_frame

_MOST = 1 << 13
_SIDE = 64
_SHORTEST = 4
FEATURES = 8
"""Features of keys that are compared."""
_EQUAL = 1e-6
_ALIKE = 1e-5
_FEWEST_PAIRS = 16
_SEEN = 1e-20
"""Smallest weight of a key that is not hidden: PaddlePaddle's softmax on a CPU gives about 1e-29 for a hidden one."""


def describe_attention(weights, exact, batches):
    """`hidden`, `ahead`, `even`, `unordered` and `padding_only` of a softmax over keys; nothing for any other shape.

    Args:
        weights: Tensor or array, `(samples, ..., queries, keys)`, no part of a graph.
        exact: Whether its numbers have at least 32 bits: shorter ones make near weights equal.
        batches: The `ModelInputs` that knows the tokens of the batch.

    Cost: reads at most 8,192 numbers of the first sample, of 64 queries and keys, and 16,384 of the last rows.
    """
    shape = tuple(weights.shape)
    if not 3 <= len(shape) <= 4 or shape[-1] < _SHORTEST or shape[-2] < 2:
        return {}
    maps = weights[:1] if len(shape) == 3 else weights[0]
    heads = max(1, _MOST // (min(shape[-1], _SIDE) * min(shape[-2], _SIDE)))
    maps = maps[:heads, :_SIDE, :_SIDE].tolist()
    seen = [[weight for weight in row if weight >= _SEEN] for rows in maps for row in rows]
    several = [row for row in seen if len(row) > 1]
    fields = {
        "hidden": 1 - sum(map(len, seen)) / (len(seen) * len(maps[0][0])),
        "ahead": _tokens_ahead(maps[0]) if shape[-1] == shape[-2] else None,
        "even": exact and 2 * len(several) >= len(seen) and all(map(_is_even, several)),
    }
    tokens = batches.tokens_of_sample(shape[-1])
    fields["unordered"] = ignores_order(maps[0], tokens) if exact and not fields["even"] else None
    # The last query sees the most under a causal mask.
    last = weights[:, -1] if len(shape) == 3 else weights[:, 0, -1]
    if shape[0] * shape[-1] <= 2 * _MOST:
        hidden = [weight < _SEEN for row in last.tolist() for weight in row]
        fields["padding_only"] = batches.is_padding_all((shape[0], shape[-1]), hidden)
    return fields


def ignores_order(rows, tokens):
    """Whether numbers of the positions of one sample are the same wherever its tokens are, `None` if that is unknown.

    Args:
        rows: The weights of the keys for each query, or each feature of the keys; those of hidden keys are 0.
        tokens: The token at each position, `None` for one that is none.
    """
    pairs = _pairs_of_equal(tokens)
    compared = 0
    for row in rows if pairs else ():
        largest = max(map(abs, row))
        for one, other in pairs:
            if other < len(row) and min(abs(row[one]), abs(row[other])) >= _SEEN:
                compared += 1
                if abs(row[one] - row[other]) > _ALIKE * largest:
                    return False
    return True if compared >= _FEWEST_PAIRS else None


def _pairs_of_equal(tokens):
    """Neighbouring positions of each token."""
    places = {}
    for at, token in enumerate(tokens or ()):
        places.setdefault(token, []).append(at)
    places.pop(None, None)
    return [(found[n], found[n + 1]) for found in places.values() for n in range(len(found) - 1)]


def place_share(keys, tokens):
    """How much the keys of equal tokens differ, as a share of what those of different tokens do; `None` if unknown.

    Args:
        keys: Features of the keys of one sample, row by row.
        tokens: As in `ignores_order`.
    """
    same = _pairs_of_equal(tokens)
    other = [(at, at + 1) for at in range(len(tokens or ()) - 1) if None not in tokens[at : at + 2]]
    other = [(a, b) for a, b in other if tokens[a] != tokens[b]]
    if len(same) * len(keys) < _FEWEST_PAIRS or not other:
        return None
    apart, together = (
        sum(abs(row[a] - row[b]) for row in keys for a, b in pairs) / len(pairs) for pairs in (other, same)
    )
    return together / apart if apart else None


def tokens_ahead_of_mask(hidden):
    """As `ahead`, of the rows of a mask over queries and keys in which true hides a key; `None` for any other form."""
    shape = tuple(hidden.shape)
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] < _SHORTEST:
        return None
    for _ in shape[2:]:
        hidden = hidden[0]
    return _tokens_ahead([[float(not is_hidden) for is_hidden in row] for row in hidden[:_SIDE, :_SIDE].tolist()])


def _is_even(seen):
    """Whether these weights of one query are equal."""
    return max(seen) - min(seen) <= _EQUAL * max(seen)


def _tokens_ahead(rows):
    """How many later tokens each query sees, where that is the same number for all; a window may end behind them.

    -1 where each sees only the tokens before its own, and all of them where it sees none before its own.
    """
    size = len(rows)
    first = [next((at for at, weight in enumerate(row) if weight >= _SEEN), size) for row in rows[:-1]]
    if first in ([*range(size - 1)], [*range(1, size)]) and all(row[-1] >= _SEEN for row in rows[:-1]):
        return size - 1
    last = [max((at for at, weight in enumerate(row) if weight >= _SEEN), default=-1) for row in rows]
    ahead = last[1] - 1
    same = all(at == min(index + ahead, size - 1) for index, at in enumerate(last) if index)
    return ahead if same and -1 <= ahead <= size - _SHORTEST else None


def mixed_axes(given, form):
    """Whether a shape that `view` or `reshape` gives treats heads as if they lay in front of time, without a transpose.

    Args:
        given: (samples, time, heads * width), or (samples, heads, time, width) where heads are joined.
        form: (samples, heads, time, width), (samples * heads, time, width), or (samples, time, heads * width).
    """
    given, form = tuple(given), tuple(form)
    if len(given) == 3 and len(form) in (3, 4):
        samples, time, features = given
        heads = form[1] if len(form) == 4 else form[0] // max(1, samples)
        split = (samples, heads) if len(form) == 4 else (samples * heads,)
        return heads > 1 and heads != time > 1 and form == (*split, time, features // heads)
    if len(given) == 4 and len(form) == 3:
        samples, heads, time, width = given
        return heads > 1 and heads != time > 1 and form == (samples, time, heads * width)
    return False


class PooledPadding:
    """Follows features times a mask over time to their sum or mean, in one forward: whether that is of padding only.

    Args:
        takes_gradient: `takes_gradient(tensor)`.
        leaves_padding: `leaves_padding(mask, fills)`: whether a mask over samples and time leaves only padding, `None`
            if unknown. `fills`: it is true where features are left out, not 0.
    """

    def __init__(self, takes_gradient, leaves_padding):
        self._takes_gradient = takes_gradient
        self._leaves_padding = leaves_padding
        self.gated = {}

    def multiply(self, sides, result, fills=False):
        """Processes a product of two tensors, or the filling of one."""
        shape = tuple(result.shape)
        if len(shape) != 3 or not self._takes_gradient(result):
            return
        mask = next((one for one in sides[::-1] if not self._takes_gradient(one)), None)
        if mask is not None and tuple(mask.shape) in (shape, (*shape[:2], 1)):
            self.gated[id(result)] = (ref(result), self._leaves_padding(mask, fills))

    def pool(self, given, result, found, most):
        """Adds the sum or mean of such a product over time to what was `found` of functions, at most so many."""
        weak, padding_only = self.gated.get(id(given), (None, None))
        if weak is not None and weak() is given and len(result.shape) == 2 and len(found) < most:
            line = line_of(user_frame())
            facts = {"fn": "pooling", "line": line, "calls": 1, "training": True, "padding_only": padding_only}
            found.setdefault(("pooling", line, padding_only), facts)
