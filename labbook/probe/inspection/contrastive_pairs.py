"""Compares the pairs in a square table of similarities whose rows choose one column; knows no framework."""

ROWS = 16
"""Rows of a table that are looked at."""

MOST_CLASSES = 4096
"""Columns of a table that is looked at."""

_LEAST = 8
"""Minimum rows of a table; a smaller one may be a classifier's whose batch has as many samples as there are classes."""

_EQUAL, _VARIED = 1e-5, 1e-2
_MASKED = 1e4


def compare_pairs(rows, targets):
    """Whether the positives are the anchors themselves, and whether anchors are among their own negatives.

    The similarity of two vectors of length 1 that are the same is the same in all rows, and a table of one set of
    vectors with itself is symmetric.

    Args:
        rows: The first rows of a square table, as lists.
        targets: The column that each of them chooses.

    Returns:
        `self_pairs` and `self_negatives`, both booleans; empty where the table is too small, or nothing varies in it.
    """
    count = len(rows)
    if count < _LEAST or len(targets) != count or not all(0 <= column < len(rows[0]) for column in targets):
        return {}
    others = [
        value
        for at, row in enumerate(rows)
        for column, value in enumerate(row)
        if column not in (at, targets[at]) and abs(value) < _MASKED
    ]
    if not others:
        return {}
    positives = [row[column] for row, column in zip(rows, targets)]
    own = [row[at] for at, row in enumerate(rows)]
    size = max(max(map(abs, others)), max(map(abs, positives)))
    if max(others) - min(others) <= _VARIED * size:
        return {}
    close = _EQUAL * size
    constant = max(positives) - min(positives) <= close
    same = targets == list(range(count)) and all(
        abs(rows[at][other] - rows[other][at]) <= close for at in range(count) for other in range(at)
    )
    among = all(column != at for at, column in enumerate(targets))
    largest = all(value >= max(row) - close for value, row in zip(own, rows))
    return {"self_pairs": constant or same, "self_negatives": among and largest}
