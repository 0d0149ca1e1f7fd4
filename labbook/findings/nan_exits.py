"""Ends of a training by the program's own test for NaN, proven by what the program prints in that branch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from labbook.frozen import dataclass
from labbook.review.code_index import Code
from labbook.review.expressions import constant
from labbook.review.names import dotted_target, last_name, walk
from labbook.review.source_file import Source

_BAD = ("isnan", "isinf")
_REDUCTIONS = ("any", "all", "item", "bool")
_EXITS = ("exit", "quit", "_exit")
_PRINTS = ("print", "write", "debug", "info", "warning", "warn", "error", "critical", "exception", "log", "success")
_ENDS = (ast.Break, ast.Return, ast.Raise, ast.Continue, ast.Try, ast.Yield, ast.YieldFrom)
_FEWEST_LETTERS = 6
"""Letters of a printed text that make it one of this branch. Source: chosen by us."""
_HOLE = "\0"
_NUMBERED = re.compile(r"^[-> ]*\d+[ |]")
_FORMATTED = re.compile(r"%[-+ #0]*[\d.*]*[a-zA-Z]|\{[^{}]*\}")


@dataclass(frozen=True)
class NanExit:
    """A branch of the program that runs where a value is not finite, and that ran.

    Args:
        value: The expression that was tested, such as `loss`.
        line: Line of the test, from 1; `cell`: of a notebook, from 1, or 0.
        printed: The printed line that shows that the branch ran, or "".
        count: Steps of the loop that only the branch can have ended before, or 0.
    """

    value: str
    line: int
    cell: int
    printed: str = ""
    count: int = 0


def find_nan_exit(source: Source, printed: Sequence[str]) -> NanExit | None:
    """Returns the first branch that leaves the training where a value is not finite and of which a line was printed.

    Args:
        printed: The lines of the console.
    """
    code = {line.strip() for line in source.lines}
    # A traceback shows lines of the code, behind their numbers in a notebook.
    output = [line for line in printed if _NUMBERED.sub("", line).strip() not in code]
    for node in source.nodes:
        for value, branch in _branches(node) if isinstance(node, ast.If) else ():
            own = [text for call in _outputs(branch) for text in _patterns(call)]
            line = next((line for line in output if any(text.search(line) for text in own)), None)
            if line is not None and _leaves(branch) and not _is_printed_elsewhere(source, branch, line):
                number, cell, _ = source.line(node)
                return NanExit(value, number, cell, line.strip())
    return None


def find_only_exit(source: Source, backwards: int) -> NanExit | None:
    """Returns the branch that ended the training loop of a program, where nothing else in the loop can have done so.

    The program has one loop that trains, over a `range` of known length; each pass runs its backward calls, and a test
    for NaN is the only statement that leaves a pass.

    Args:
        backwards: Backward calls of the run, which ended without an error; without any the loop must
            be on the way of the program.
    """
    loops = [node for node in source.nodes if isinstance(node, ast.For) and any(map(_is_backward, ast.walk(node)))]
    if len(loops) != 1:
        return None
    loop, code = loops[0], Code([source])
    count = _length_of_range(code, source, loop.iter)
    calls = [
        one for one in loop.body if isinstance(one, (ast.Expr, ast.Assign)) and any(map(_is_backward, ast.walk(one)))
    ]
    nodes = list(walk(loop.body))
    tests = [(node, value, branch) for node in nodes if isinstance(node, ast.If) for value, branch in _branches(node)]
    inside = {one for _, _, branch in tests if _leaves(branch) for part in branch for one in ast.walk(part)}
    others = [one for one in nodes if isinstance(one, _ENDS) or _is_exit(one)]
    if not calls or not inside or backwards >= count * len(calls) or any(one not in inside for one in others):
        return None
    if not backwards and not _is_reached(source, loop):
        return None
    test, value, _ = tests[0]
    number, cell, _ = source.line(test)
    return NanExit(value, number, cell, count=count)


def _is_reached(source: Source, statement: ast.stmt) -> bool:
    """Whether a program that ends without an error must have come to a statement: no branch and no end is before it."""
    outer = source.parents[statement]
    block, place = source.blocks[statement]
    if any(isinstance(one, _ENDS) or _is_exit(one) for one in walk(block[:place])):
        return False
    if isinstance(outer, ast.If) and "__name__" in ast.unparse(outer.test):
        return _is_reached(source, outer)
    if not isinstance(outer, ast.FunctionDef):
        return isinstance(outer, ast.Module)
    calls = [one for one in source.nodes if isinstance(one, ast.Call) and dotted_target(one.func) == outer.name]
    places = [one for one in map(source.statement, calls) if isinstance(one, (ast.Expr, ast.Assign))]
    return any(source.function(one) is None and _is_reached(source, one) for one in places)


def _is_backward(node: ast.AST) -> bool:
    """Whether a node computes gradients: `loss.backward()`, `autograd.grad(loss, w)`."""
    return isinstance(node, ast.Call) and last_name(node.func) in ("backward", "grad")


def _length_of_range(code: Code, source: Source, node: ast.expr) -> int:
    """Returns the length of a `range` from 0 with a number that is known, else 0."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "range" or len(node.args) != 1:
        return 0
    return int(constant(code, source, node.args[0]) or 0)


def _is_printed_elsewhere(source: Source, branch: Sequence[ast.stmt], line: str) -> bool:
    """Whether another call of the file than those of a branch may have printed a line."""
    inside = set(_outputs(branch))
    others = (node for node in source.nodes if isinstance(node, ast.Call) and node.args and node not in inside)
    return any(text.search(line) for call in others if _is_output(call) for text in _patterns(call))


def _branches(node: ast.If) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yields what an `if` tests for NaN or infinity, and the statements that run where it is."""
    if value := _tested_value(node.test, is_bad=True):
        yield value, node.body
    if value := _tested_value(node.test, is_bad=False):
        yield value, node.orelse


def _tested_value(test: ast.expr, *, is_bad: bool) -> str:
    """Returns the expression of which a test says that it is not finite, or that it is; "" if it says anything else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _tested_value(test.operand, is_bad=not is_bad)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) is is_bad:
        values = [_tested_value(one, is_bad=is_bad) for one in test.values]
        return values[0] if all(values) else ""
    if (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], ast.NotEq if is_bad else ast.Eq)
    ):
        return ast.unparse(test.left) if ast.dump(test.left) == ast.dump(test.comparators[0]) else ""
    if not isinstance(test, ast.Call):
        return ""
    name, given = last_name(test.func), _operand(test)
    if name in _REDUCTIONS and isinstance(given, (ast.Call, ast.UnaryOp)):
        return _tested_value(given, is_bad=is_bad)
    wanted = _BAD if is_bad else ("isfinite",)
    return ast.unparse(given) if name in wanted and given is not None else ""


def _operand(call: ast.Call) -> ast.expr | None:
    """Returns the argument of a function or the object of a method."""
    if call.args:
        return call.args[0]
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _leaves(branch: Sequence[ast.stmt]) -> bool:
    """Whether statements end the loop, the function or the program."""
    return any(
        isinstance(one, (ast.Break, ast.Return, ast.Raise)) or (isinstance(one, ast.Expr) and _is_exit(one.value))
        for one in branch
    )


def _is_exit(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in _EXITS


def _outputs(branch: Sequence[ast.stmt]) -> Iterator[ast.Call]:
    """Yields the calls of a branch that print, messages of exits and errors included."""
    for node in (inner for one in branch for inner in ast.walk(one)):
        if isinstance(node, ast.Call) and node.args and _is_output(node):
            yield node


def _patterns(call: ast.Call) -> Iterator[re.Pattern[str]]:
    """Yields patterns of the lines that a call prints, where they have enough fixed letters."""
    for line in " ".join(_fixed(one) for one in call.args).splitlines():
        if sum(char.isalpha() for char in line) >= _FEWEST_LETTERS:
            yield re.compile(".{0,200}?".join(re.escape(part.strip()) for part in line.split(_HOLE)))


def _is_output(call: ast.Call) -> bool:
    """Whether a call prints or logs its arguments, ends the program with them, or makes an error of them."""
    name = last_name(call.func)
    return name in _PRINTS or name in _EXITS or name.endswith(("Error", "Exception"))


def _fixed(node: ast.expr) -> str:
    """Returns what an expression writes, as far as it is fixed; `_HOLE` for each value."""
    if isinstance(node, ast.Constant):
        return _FORMATTED.sub(_HOLE, str(node.value)) if isinstance(node.value, str) else str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(p.value) if isinstance(p, ast.Constant) else _HOLE for p in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.Add)):
        return _fixed(node.left) + (_fixed(node.right) if isinstance(node.op, ast.Add) else "")
    if isinstance(node, ast.Call) and last_name(node.func) == "format" and isinstance(node.func, ast.Attribute):
        return _fixed(node.func.value)
    return _HOLE
