"""How a program prints a value: the pattern of the line, the words before the value, the epoch or step beside it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.frozen import dataclass
from labbook.review.names import LOOPS, dotted_target, last_name, last_names
from labbook.review.source_file import Source

NUMBER = r"[-+]?(?:\d{1,15}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?|[-+]?(?:nan|inf)"
_SOME_NUMBER = r"\s*[-+]?[\d.]{1,24}(?:e[-+]?\d{1,3})?%?"
_SOME_TEXT = r".{0,120}?"
_COUNTING = {"range", "trange", "enumerate", "count"}
_PERCENT_FIELD = re.compile(r"%(?:\(\w+\))?[-+ #0]*(?:\d+|\*)?(?:\.\d+)?([diouxXeEfFgGcrsa%])")
_BRACE_FIELD = re.compile(r"\{(\w*)(?:![rsa])?(?::([^{}]*))?\}")
_BREAK = re.compile(r"[-=]>|→|[|,;，；。\]\[(){}\n\t]|\s[-–]\s|\s{2,}")
_MEASURE_WORD = re.compile(r"^(?:(?:轮次?|步|次|回合)[\s:：]+|(?:s|ms|sec)\s+)")
"""Behind the value before: "第 3 轮 ...", "1.5 s ..."."""
_NOTE = re.compile(r"(?<=\w)\([^()]{1,12}\)$")
_UNIT = re.compile(r"\s*(?:ms|us|s|secs?|seconds|min|it/s|\w{1,12}/s(?:ec)?|[KMG]i?B)(?![\w/])")
"""Behind a time, a speed or an amount of memory."""
_TOTAL = re.compile(r"/\s*\d[\d,]*\s+")
"""What the value before is a part of, before a name: "/8 " of "modes: 3/8 quality: 0.5"."""
_PAIR = re.compile(r".*\w=\S+\s+")
"""A setting before a name: "task=cls " of "task=cls train_ce=0.3"."""
_MOST_LABEL = 40


@dataclass(frozen=True)
class PrintedValue:
    """A line that prints a value.

    Args:
        pattern: Regular expression with the group `value`, and `place` where the line names its epoch or step.
        anchor: Text that the line has.
        label: Words before the value, or "".
        in_loop: Whether a loop prints it.
        is_copy: Whether it prints another variable that was given the value, as the best one.
        call: The call in the line that returns the value; "" where a variable has it.
        unit: "epoch", "step" or "" of the place.
    """

    pattern: str
    anchor: str
    label: str
    in_loop: bool
    unit: str = ""
    is_copy: bool = False
    call: str = ""


def bare_value(node: ast.expr) -> tuple[ast.expr, bool]:
    """Returns a value without conversions (`float(x)`, `x.item()`, `100 * x`), and whether it is its negative."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner, negative = bare_value(node.operand)
        return inner, not negative
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, ast.Constant) and one.value == 100:
                return bare_value(other)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "detach", "cpu", "numpy", "tolist"):
            return bare_value(node.func.value)
        if last_name(node.func) in ("float", "round", "str") and node.args:
            return bare_value(node.args[0])
    return node, False


def templates(source: Source) -> Iterator[tuple[ast.AST, list[str | ast.expr]]]:
    """Yields each text with values in it, as its node and its parts: texts, and the expressions between them."""
    for node in source.nodes:
        if isinstance(node, ast.JoinedStr) and not isinstance(source.parents.get(node), ast.FormattedValue):
            yield node, [_read_part(one) for one in node.values]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _text(node.left):
            values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            yield node, _fill(_text(node.left), values)
        elif isinstance(node, ast.Call):
            yield from _parts_of_call(node)


def _parts_of_call(node: ast.Call) -> Iterator[tuple[ast.AST, list[str | ast.expr]]]:
    first = _text(node.args[0]) if node.args else ""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "format" and _text(node.func.value):
        yield node, _fill_braces(_text(node.func.value), node)
    elif len(node.args) > 1 and "%" in first:
        yield node, _fill(first, node.args[1:])
    elif last_name(node.func) in ("print", "write", "echo") and len(node.args) > 1:
        parts: list[str | ast.expr] = []
        for one in node.args:
            own = [_read_part(each) for each in one.values] if isinstance(one, ast.JoinedStr) else [_text(one) or one]
            for part in [" ", *own] if parts else own:
                if isinstance(part, str) and parts and isinstance(parts[-1], str):
                    parts[-1] += part
                else:
                    parts.append(part)
        yield node, parts


def _read_part(node: ast.expr) -> str | ast.expr:
    return node.value if isinstance(node, ast.FormattedValue) else _text(node)


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _fill(text: str, values: list[ast.expr]) -> list[str | ast.expr]:
    """Returns the parts of a text with percent signs."""
    parts: list[str | ast.expr] = []
    waiting, end = list(values), 0
    for found in _PERCENT_FIELD.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        if found[1] == "%":
            parts.append("%")
        elif waiting:
            parts.append(waiting.pop(0))
    return [*parts, text[end:]]


def _fill_braces(text: str, call: ast.Call) -> list[str | ast.expr]:
    parts: list[str | ast.expr] = []
    named = {one.arg: one.value for one in call.keywords}
    end = number = 0
    for found in _BRACE_FIELD.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        at = int(found[1]) if found[1].isdigit() else number
        number += not found[1]
        value = named.get(found[1]) if found[1] and not found[1].isdigit() else None
        parts.append(value or (call.args[at] if at < len(call.args) else ast.Constant(None)))
    return [*parts, text[end:]]


def printed_value(source: Source, node: ast.AST, parts: list[str | ast.expr], at: int) -> PrintedValue | None:
    """Returns how a text prints its part `at`; `None` if only numbers would show it, or if it is a time."""
    after = parts[at + 1] if at + 1 < len(parts) else ""
    if isinstance(after, str) and _UNIT.match(after):
        return None
    counters = _loop_names(source, node)
    pattern, texts, unit, before, others = "", [], "", "", ""
    for number, part in enumerate(parts):
        if isinstance(part, str):
            texts += part.split()
            if others.endswith(_SOME_TEXT) and not part.strip():
                continue
            pattern += _without_ways_back(others + _literal(part), pattern) if others else _literal(part)
            others = ""
            if number > at and part.strip():
                break
        elif number == at:
            pattern += rf"{others}\s*(?P<value>{NUMBER})(?![\w.]*\d)%?"
            others = ""
        elif number < at and "(?P<place>" not in pattern and (name := _counter(part, counters)):
            pattern += rf"{others}\s*(?P<place>\d{{1,12}})"
            others = ""
            unit = _unit_of(name, before, parts[number + 1])
        elif number > at:
            break
        elif not others.endswith(_SOME_TEXT):
            others += _any(source, part)
        if number < at:
            before = part if isinstance(part, str) else ""
    anchor = max(texts, key=len, default="")
    in_loop = any(isinstance(one, LOOPS) for one in source.parents_of(node))
    if not re.search(r"\w", anchor) and not ("place" in pattern and pattern.count(_SOME_NUMBER) + 2 >= 3):
        return None
    if not re.search(r"\w", anchor):
        pattern = rf"^{pattern}"
    return PrintedValue(pattern, anchor, words_before(before), in_loop, unit)


def _without_ways_back(part: str, pattern: str) -> str:
    """Returns a part of a pattern that is matched in one way only: a long line takes no longer than its length."""
    name = f"part{pattern.count('(?=')}"
    return f"(?=(?P<{name}>{part}))(?P={name})"


def _any(source: Source, node: ast.expr) -> str:
    """Returns the pattern of another value: a number if the program formats it as one."""
    outer = source.parents.get(node)
    spec = outer.format_spec if isinstance(outer, ast.FormattedValue) else None
    kind = ast.unparse(spec).rstrip("'\"")[-1:] if spec is not None else ""
    return _SOME_NUMBER if kind in tuple("dfFeEgG%") else _SOME_TEXT


def _literal(text: str) -> str:
    """Returns the pattern of a text, whatever its blanks."""
    words = [re.escape(word) for word in text.split()]
    blank = r"\s*" if words else r"\s+"
    inner = r"\s+".join(words)
    return (blank if text[:1].isspace() else "") + inner + (blank if words and text[-1:].isspace() else "")


def _loop_names(source: Source, node: ast.AST) -> set[str]:
    """Returns the names that the loops around a node, or its function is given, count with."""
    found: set[str] = {"epoch", "step", "ep", "it", "iteration", "update", "global_step"}
    for outer in source.parents_of(node):
        if isinstance(outer, (ast.For, ast.AsyncFor)) and last_names(outer.iter) & _COUNTING:
            first = outer.target.elts[0] if isinstance(outer.target, ast.Tuple) and outer.target.elts else outer.target
            found.add(dotted_target(first))
    return found - {""}


def _counter(node: ast.expr, names: set[str]) -> str:
    """Returns the name of a counter, alone or with a number added to it; "" of any other value."""
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
        node = node.left
    name = dotted_target(node).removeprefix("self.")
    return name if name in names else ""


def _unit_of(counter: str, before: str, after: str | ast.expr) -> str:
    """Returns what a counter counts, by its name and the words beside it: "epoch", "step", or "" of rounds, say."""
    words = f"{before} {counter} {after[:3] if isinstance(after, str) else ''}".lower()
    if "epoch" in words or "轮" in words or (counter == "ep" and "episode" not in words):
        return "epoch"
    return "step" if re.search(r"step|iter|update|batch|步|迭代|\bit\b", words) else ""


def words_before(before: str) -> str:
    """Returns the last words of a text before a value: "energy distance" of " | energy distance "."""
    text = before.rstrip(" \t:=：~≈")
    text = _BREAK.split(_NOTE.sub("", text))[-1].lstrip()
    text = text[total.end() :] if (total := _TOTAL.match(text)) else text
    text = _PAIR.sub("", text).strip(" \t:=：*#>%℃°")
    text = _MEASURE_WORD.sub("", text)
    is_unit = _UNIT.fullmatch(text) is not None  # of the value before
    short = text if len(text) <= _MOST_LABEL else text[-_MOST_LABEL:].partition(" ")[2]
    return short if re.search(r"[^\W\d]", short) and not is_unit else ""
