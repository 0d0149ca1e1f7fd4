"""Finds tables of which each row was scaled by its own statistics, so that all rows are almost the same."""

_FEWEST_ROWS = 16
_FEWEST_COLUMNS = 3
_ROUNDING = 1e-5
_BETWEEN_COLUMNS = 0.99
_ROUGHNESS = 1.0
"""Share of the variance that columns have, and the von Neumann ratio of their means. Source: chosen by us."""


def are_rows_scaled(rows):
    """Whether each row has length 1 or deviation 1, and differs from the others in the last hundredth only.

    Windows of a series and embeddings have rows that differ; spectra have means that change little between columns.

    Args:
        rows: Lists of numbers, as many in each.
    """
    width = len(rows[0]) if rows else 0
    if len(rows) < _FEWEST_ROWS or width < _FEWEST_COLUMNS:
        return False
    squares = [sum(value * value for value in row) for row in rows]
    if not min(abs(squares[0] / size - 1) for size in (1, width, width - 1)) < 100 * _ROUNDING:
        return False
    if not all(abs(square / squares[0] - 1) < _ROUNDING for square in squares):
        return False
    means = [sum(column) / len(rows) for column in zip(*rows)]
    center = sum(means) / width
    between = sum((mean - center) ** 2 for mean in means)
    total = sum((value - center) ** 2 for row in rows for value in row) / len(rows)
    steps = sum((means[at] - means[at + 1]) ** 2 for at in range(width - 1))
    return between > _BETWEEN_COLUMNS * total and steps > _ROUGHNESS * between
