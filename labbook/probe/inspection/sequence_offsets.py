"""Compares the target of a loss with the sequences that a model was given: is it the next value of one of them?"""

from collections import Counter

TOP = 16
"""Most frequent tokens of a batch whose shares are written."""

MOST_TOKENS = 8192
PARTS = 4
"""Equal parts of the second axis of sequences whose mean and deviation are written."""

SHORTEST_SERIES = 8
_PADDED = 0.3
"""Share of the rows that end, or begin, with a repeated token from which on it is padding. Source: chosen by us."""

SHORTEST = 4
"""Steps of a sequence, and different values in it, below which an equal one proves nothing."""

_FEWEST_TOKENS = 16
_MOST_ROWS = 0.9
"""Share of the rows that end with the token of the padding. Source: chosen by us; the longest ones have none."""


def tokens_ahead(tokens, shape, target):
    """By how many tokens a target is ahead of a sequence: 0 where it is the same, 1 where it is the next token.

    Args:
        tokens: The numbers of a batch of sequences, in order.
        shape: Of that batch; either axis may be that of time.
        target: Likewise, with or without the last token; negative ones are left out of the loss.

    Returns:
        0, 1, 2, or `None` where it is none of them, or where there are too few tokens to decide.
    """
    rows, columns = shape
    if len(target) == len(tokens) and _agree(tokens, target):
        return 0
    for ahead in (1, 2):
        if columns >= SHORTEST and len(target) in (rows * columns, rows * (columns - 1)):
            width = len(target) // rows
            later = [token for at in range(rows) for token in tokens[at * columns + ahead : (at + 1) * columns]]
            wanted = [token for at in range(rows) for token in target[at * width :][: min(width, columns - ahead)]]
            if _agree(later, wanted):
                return ahead
        timed = rows >= SHORTEST and len(target) in (rows * columns, (rows - 1) * columns)
        if timed and _agree(tokens[ahead * columns :], target[: (rows - ahead) * columns]):
            return ahead
    return None


def padded_share(tokens, shape):
    """The share of a batch of sequences that one equal token at the end of the rows fills; 0.0 without padding there.

    Args:
        tokens: The numbers of the batch, in order.
        shape: Of the batch; rows are sequences.
    """
    count, columns = shape
    rows = [tokens[start : start + columns] for start in range(0, count * columns, columns)]
    ((padding, ended),) = Counter(row[-1] for row in rows).most_common(1)
    if count < SHORTEST or ended < _MOST_ROWS * count:
        return 0.0
    return 1.0 - sum(len(_without_end(row, padding)) for row in rows) / len(tokens)


def _agree(tokens, target):
    pairs = [(token, wanted) for token, wanted in zip(tokens, target) if wanted >= 0]
    varied = len({wanted for _, wanted in pairs}) >= SHORTEST
    return len(pairs) >= _FEWEST_TOKENS and varied and all(token == wanted for token, wanted in pairs)


def series_ahead(values, shape, target):
    """By how many steps a target is ahead of a batch of real sequences: 1 where it is the next value of a feature.

    Args:
        values: The numbers of the batch, in order.
        shape: Samples, steps, features.
        target: A number for each step, or all features of each step.

    Returns:
        1, or `None` where it is something else, or where there are too few values to decide.
    """
    rows, steps, features = shape
    series = [values[at::features] for at in range(features)]
    if len(target) == rows * steps:
        return 1 if any(_is_next(one, target, steps) for one in series) else None
    wanted = [target[at::features] for at in range(features)] if len(target) == len(values) else []
    return 1 if wanted and all(_is_next(*pair, steps) for pair in zip(series, wanted)) else None


def _is_next(series, target, steps):
    later = [value for place, value in enumerate(series) if place % steps]
    wanted = [value for place, value in enumerate(target) if (place + 1) % steps]
    return len(wanted) >= _FEWEST_TOKENS and len(set(wanted)) >= SHORTEST and later == wanted


def describe_tokens(rows, known=None):
    """`top`: the shares of the most frequent tokens without padding; `ids`: how many there are; `pad`: of the padding.

    `inside`: of each token in `top`, the share that lies between two others.

    Args:
        rows: Lists of whole numbers of the same length. What fills most of them is no padding.
        known: The padding of other batches, which is that of these too where they have it.
    """
    rows = [row for row in rows if len(row) > 1]
    sides = rows, [row[::-1] for row in rows]
    ends = [Counter(row[-1] for row in side if row[-1] == row[-2]) for side in sides]
    least = max(2, _PADDED * len(rows))
    found = [(n, token == known, at, token) for at, one in enumerate(ends) for token, n in one.items() if n >= least]
    pad, kept = None, rows
    if found:
        _, _, at, pad = max(found, key=lambda one: (one[1], one[0], -one[2]))
        kept = [_without_end(row, pad) for row in sides[at]]
        if 2 * sum(not row for row in kept) > len(rows):
            pad, kept = None, rows
    counts = Counter(token for row in kept for token in row)
    size = sum(counts.values())
    top = [[token, count / size] for token, count in counts.most_common(TOP)]
    alone = Counter(
        token for row in kept for before, token, after in zip(row, row[1:], row[2:]) if before != token != after
    )
    inside = [round(alone[token] / counts[token], 3) for token, _ in top]
    # A token that is inside of rows, too, is one that texts end with.
    return {"top": top, "ids": len(counts), "count": size, "pad": None if pad in counts else pad, "inside": inside}


def _without_end(row, token):
    size = len(row)
    while size and row[size - 1] == token:
        size -= 1
    return row[:size]
