"""What the weights of an attention that the program computes itself say about its mask and its scores."""

_MOST = 1 << 15
_SHORTEST = 4
_EQUAL = 1e-6


def describe_attention(weights, exact, batches):
    """`ahead`, `even` and `padding_only` of a softmax over keys; nothing for any other shape.

    Args:
        weights: Tensor or array, `(samples, ..., queries, keys)`, no part of a graph.
        exact: Whether its numbers have at least 32 bits: shorter ones make near weights equal.
        batches: The `ModelInputs` that knows the tokens of the batch.

    Cost: reads at most 32,768 numbers of the first sample, and one row of each sample.
    """
    shape = tuple(weights.shape)
    if not 3 <= len(shape) <= 4 or shape[-1] < _SHORTEST or shape[-2] < 2 or shape[-1] * shape[-2] > _MOST:
        return {}
    heads = _MOST // (shape[-1] * shape[-2])
    maps = weights[:1] if len(shape) == 3 else weights[0][:heads]
    maps = maps.tolist()
    fields = {"ahead": _tokens_ahead(maps[0]), "even": exact and all(_is_even(row) for one in maps for row in one)}
    # The last query sees the most under a causal mask.
    last = weights[:, -1] if len(shape) == 3 else weights[:, 0, -1]
    if shape[0] * shape[-1] <= _MOST:
        hidden = [weight == 0.0 for row in last.tolist() for weight in row]
        fields["padding_only"] = batches.is_padding_all((shape[0], shape[-1]), hidden)
    return fields


def tokens_ahead_of_mask(hidden):
    """As `ahead`, of the rows of a mask over queries and keys in which true hides a key; `None` for any other form."""
    shape = tuple(hidden.shape)
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] < _SHORTEST or shape[-1] * shape[-2] > _MOST:
        return None
    for _ in shape[2:]:
        hidden = hidden[0]
    return _tokens_ahead([[0.0 if is_hidden else 1.0 for is_hidden in row] for row in hidden.tolist()])


def _is_even(row):
    """Whether all keys that a query sees have the same weight, and it sees two or more."""
    seen = [weight for weight in row if weight > 0.0]
    return len(seen) < 2 or max(seen) - min(seen) <= _EQUAL * max(seen)


def _tokens_ahead(rows):
    """How many later tokens each query sees, where that is the same number for all and the rest is hidden."""
    size = len(rows)
    if size != len(rows[0]) or rows[-1][0] == 0.0:
        return None
    last = [max((at for at, weight in enumerate(row) if weight > 0.0), default=-1) for row in rows]
    ahead = last[1] - 1
    same = all(at == min(index + ahead, size - 1) for index, at in enumerate(last) if index)
    return ahead if same and 0 <= ahead <= size - _SHORTEST else None
