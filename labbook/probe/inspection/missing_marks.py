"""Finds marks of missing values in a table: a number, as -999, that many rows have and that is far from all others."""

ROWS, COLUMNS = 128, 64
"""Rows and columns of a table that are looked at."""

_FEWEST_ROWS = 16
_FEWEST_OTHERS = 8
_PIXELS = 16
_PIXEL_ENDS = {-1.0, 0.0, 1.0}
"""Ends of the range of a pixel: where most of at least 16 columns have one far off, they are a picture."""
_DISTANCE = 5.0
"""How many times the range of all other values a mark is away from them. Source: chosen by us."""


def marked_columns(rows):
    """Columns in which the smallest or the largest value is a mark: repeated, in at most half of the rows, and far off.

    Args:
        rows: Lists of numbers. A column with few different values beside the mark is a code of classes.
    """
    if len(rows) < _FEWEST_ROWS:
        return []
    columns = [sorted(column) for column in zip(*rows)]
    marks = {}
    for at, values in enumerate(columns):
        for ordered, sign in ((values, 1), (values[::-1], -1)):
            if _begins_with_mark(ordered, sign):
                marks[at] = ordered[0]
    is_picture = len(columns) >= _PIXELS and 2 * len(marks) > len(columns) and _PIXEL_ENDS.issuperset(marks.values())
    return [] if is_picture else list(marks)


def _begins_with_mark(values, sign):
    times = values.count(values[0])
    others = values[times:]
    if not 2 <= times <= len(values) // 2 or len(set(others)) < _FEWEST_OTHERS:
        return False
    return (others[0] - values[0]) * sign > _DISTANCE * (others[-1] - others[0]) * sign
