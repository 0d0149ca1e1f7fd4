"""Parses the conditions of `--watch`, `--break` and `--stop-on` for the probe.

The text is parsed with Python's own grammar, and only the nodes listed here are accepted: nothing is ever executed.
Names are those of the series in `metrics.csv`: `loss`, `grad_norm`, `lr`, `step_time_s`, `grad_scale`, `loss.opt1` of a
second optimizer, and the names that the program logs (`val/loss`, or in quotes: `"val/acc@5"`).
"""

from __future__ import annotations

import ast
import math
import warnings
from typing import Any

from labbook.errors import UsageError
from labbook.model.message import Message, message

_MAX_TEXT = 500

_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_NUMBERS = {"nan": math.nan, "inf": math.inf}


class _ConditionError(Exception):
    """An invalid part of a condition; `at` counts bytes from 0."""

    def __init__(self, reason: Message, at: int) -> None:
        super().__init__(reason.key)
        self.reason = reason
        self.at = at


def parse_condition(text: str, option: str) -> list[Any]:
    """Returns the condition as nested lists of strings, as the probe evaluates them.

    Args:
        option: The option it belongs to ("--watch"), for the message.

    Raises:
        UsageError: The text is no condition; the message has the position, counted from 1.
    """
    plain = text.strip()
    try:
        if len(plain) > _MAX_TEXT:
            raise _ConditionError(message("errors.record.condition_long", most=_MAX_TEXT), _MAX_TEXT)
        return _condition(_parse_expression(plain))
    except _ConditionError as error:
        place = len(plain.encode()[: error.at].decode(errors="replace")) + 1
        excerpt = plain if len(plain) <= 80 else plain[:80] + "..."
        raise UsageError(
            "errors.record.condition", option=option, excerpt=excerpt, place=place, reason=error.reason
        ) from None


def _parse_expression(text: str) -> ast.expr:
    if not text:
        raise _ConditionError(message("errors.record.condition_empty"), 0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        # Python gives no offset for an error at the end of the text; other offsets count characters from 1.
        at = len(text[: error.offset - 1].encode()) if error.offset and error.lineno == 1 else len(text.encode())
        raise _ConditionError(message("errors.record.condition_syntax"), at) from None
    except (ValueError, MemoryError, RecursionError):
        raise _ConditionError(message("errors.record.condition_syntax"), 0) from None


def _condition(node: ast.expr) -> list[Any]:
    if isinstance(node, ast.BoolOp):
        return ["and" if isinstance(node.op, ast.And) else "or", *[_condition(value) for value in node.values]]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ["not", _condition(node.operand)]
    if isinstance(node, ast.Compare):
        return _comparison(node)
    if isinstance(node, ast.Name) and node.id in _NUMBERS:
        return ["nonfinite" if node.id == "nan" else "infinite"]
    if _series_name(node):
        raise _ConditionError(message("errors.record.condition_series", series=_series_name(node)), node.col_offset)
    raise _ConditionError(message("errors.record.condition_expected"), node.col_offset)


def _comparison(node: ast.Compare) -> list[Any]:
    operands = [_operand(each) for each in (node.left, *node.comparators)]
    comparison: list[Any] = ["compare", operands[0]]
    for sign, operand, part in zip(node.ops, operands[1:], node.comparators, strict=True):
        if type(sign) not in _SIGNS:
            raise _ConditionError(message("errors.record.condition_sign"), part.col_offset)
        about_nan = ["number", "nan"] in (operand, comparison[-1])
        if about_nan and not isinstance(sign, (ast.Eq, ast.NotEq)):
            raise _ConditionError(message("errors.record.condition_nan"), part.col_offset)
        comparison += [_SIGNS[type(sign)], operand]
    if not any(operand[0] == "series" for operand in operands):
        raise _ConditionError(message("errors.record.condition_no_series"), node.col_offset)
    return comparison


def _operand(node: ast.expr) -> list[str]:
    """Returns a number, as text because JSON has no nan and inf, or the name of a series."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        try:
            return ["number", repr(float(node.value))]
        except OverflowError:
            return ["number", "inf"]
    if isinstance(node, ast.Name) and node.id in _NUMBERS:
        return ["number", node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        kind, value = _operand(node.operand)
        if kind == "number":
            return ["number", repr(-float(value) if isinstance(node.op, ast.USub) else float(value))]
    name = _series_name(node)
    if not name:
        raise _ConditionError(message("errors.record.condition_operand"), node.col_offset)
    return ["series", name]


def _series_name(node: ast.expr) -> str:
    """Returns the name of a series: a word, words joined by `.` or `/`, or a quoted text; else ""."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Attribute):
        before = _series_name(node.value)
        return f"{before}.{node.attr}" if before else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        left, right = _series_name(node.left), _series_name(node.right)
        return f"{left}/{right}" if left and right else ""
    return ""
