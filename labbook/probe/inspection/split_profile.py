"""Describes inputs so that those of validation can be compared with those of training: tokens, and order on axis 1."""

from collections import Counter

TOP = 16
"""Most frequent tokens of a batch whose shares are written."""

MOST_TOKENS = 8192
PARTS = 4
"""Equal parts of the second axis of sequences whose mean and deviation are written."""

SHORTEST = 8
_PADDED = 0.3
"""Share of the rows that end, or begin, with a repeated token from which on it is padding. Source: chosen by us."""


def describe_tokens(rows, known=None):
    """`top`: the shares of the most frequent tokens without padding; `ids`: how many there are; `pad`: of the padding.

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
    return {"top": top, "ids": len(counts), "count": size, "pad": pad}


def _without_end(row, token):
    size = len(row)
    while size and row[size - 1] == token:
        size -= 1
    return row[:size]
