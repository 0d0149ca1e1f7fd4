"""Evaluates conditions over series. The recorder has parsed their text to plain data; nothing is executed here.

A condition is a list: `["and", condition, ...]`, `["or", condition, ...]`, `["not", condition]`, `["compare", operand,
sign, operand, ...]` (a chain is true if each comparison is), `["nonfinite"]` or `["infinite"]` (a loss or gradient
norm). An operand is `["number", "10.0"]` or `["series", "loss"]`.
"""

from math import isinf, isnan

_EVERYWHERE = ("loss", "grad_norm")
_SIGNS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b or (isnan(a) and isnan(b)),
    "!=": lambda a, b: a != b and not (isnan(a) and isnan(b)),
}


def is_true(condition, values):
    """Whether a condition is true for the latest values; `None` while a deciding series has no value.

    Args:
        condition: The condition, see above.
        values: Name of a series -> its latest value.
    """
    kind = condition[0]
    if kind == "compare":
        return _compare(condition, values)
    if kind == "not":
        inner = is_true(condition[1], values)
        return None if inner is None else not inner
    if kind in ("and", "or"):
        parts = [is_true(part, values) for part in condition[1:]]
        decisive = kind == "or"
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    watched = [value for name, value in values.items() if is_everywhere(name)]
    if not watched:
        return None
    bad = any(isinf(value) for value in watched)
    return bad or (kind == "nonfinite" and any(isnan(value) for value in watched))


def _compare(condition, values):
    operands = [_value(operand, values) for operand in condition[1::2]]
    result = True
    for sign, left, right in zip(condition[2::2], operands, operands[1:]):
        if left is None or right is None:
            result = None
        elif not _SIGNS[sign](left, right):
            return False
    return result


def _value(operand, values):
    kind, what = operand
    return float(what) if kind == "number" else values.get(what)


def is_everywhere(name):
    """Whether `nan` and `inf` apply to a series: losses and gradient norms of all optimizers."""
    return name.partition(".opt")[0] in _EVERYWHERE


def names_in(condition):
    """Return the names of the series in a condition; empty for `nan` and `inf`."""
    if condition[0] == "series":
        return {condition[1]}
    found = set()
    for part in condition[1:]:
        if isinstance(part, list):
            found |= names_in(part)
    return found
