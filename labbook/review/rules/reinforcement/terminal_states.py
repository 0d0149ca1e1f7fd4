"""The rule about the end of an episode: behind it no value counts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.code_index import Code
from labbook.review.expressions import both_orders, without_form
from labbook.review.names import dotted_target, last_name, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_ENDS = re.compile(r"(?:^|_)(?:b?d|b?dones?|is_done|terminals?|terminated|not_dones?|ended|over)(?:$|_)", re.IGNORECASE)
_REWARD = re.compile(r"(?:^|_)(?:b?r|b?rews?|b?rewards?)(?:$|_)", re.IGNORECASE)


@warning("terminal_state_bootstrapped", "Mnih et al. 2015, Algorithm 1: the target of a terminal step is the reward")
def end_ignored(code: Code, source: Source) -> Iterator[Hit]:
    """The end of an episode is drawn from the memory and not read, so that the target goes on beyond it."""
    for node in source.of_type(ast.Assign):
        if not isinstance(node.targets[0], ast.Tuple):
            continue
        names = [dotted_target(one) for one in node.targets[0].elts]
        scope = source.function(node) or source.tree
        ends = [name for name in names if name and _ENDS.search(name)]
        if len(names) < 5 or len(ends) != 1:
            continue
        target = _bootstrapped(scope.body, node.lineno)
        if target is not None and not _is_read(scope.body, ends[0], node.lineno):
            yield Hit(target, {"end": ends[0]})
    for loop in (one for one in source.of_type(ast.For) if isinstance(one.target, ast.Tuple)):
        ends = [one.id for one in of_type(ast.walk(loop.target), ast.Name) if _ENDS.search(one.id)]
        target = _bootstrapped(loop.body, loop.lineno) if len(ends) == 1 else None
        if target is not None and not _is_read(loop.body, ends[0], loop.lineno):
            yield Hit(target, {"end": ends[0]})
    for fields in _record_fields(source):
        unread = [name for name in fields if _ENDS.search(name) and not code.loaded.get(name)]
        unpacked = any(isinstance(one, ast.Tuple) and len(one.elts) == len(fields) for one in _targets(source))
        if unread and not unpacked and (target := _bootstrapped(source.tree.body, 0, into=True)) is not None:
            yield Hit(target, {"end": unread[0]})


def _is_read(body: list[ast.stmt], name: str, after: int) -> bool:
    """Whether a name is read after a line, other than to give it or its copy a name that is not read either."""
    for use in of_type(walk(body), ast.Name):
        if use.id != name or not isinstance(use.ctx, ast.Load) or use.lineno <= after:
            continue
        copy = next((one for one in of_type(walk(body), ast.Assign) if use in ast.walk(one.value)), None)
        copied = _name_of_copy(copy, use) if copy is not None else ""
        if not copied or _is_read(body, copied, use.lineno):
            return True
    return False


def _name_of_copy(statement: ast.Assign, use: ast.Name) -> str:
    """The name that a value gets as it is or as a tensor, `d = torch.tensor(d)`; "" if it is used in another way."""
    target, value = statement.targets[0], statement.value
    both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
    for one, its in zip(target.elts, value.elts, strict=True) if both else [(target, value)]:  # type: ignore[attr-defined]
        if use in ast.walk(its) and not any(
            isinstance(part, (ast.BinOp, ast.Compare, ast.UnaryOp)) for part in ast.walk(its)
        ):
            return dotted_target(one)
    return ""


def _record_fields(source: Source) -> Iterator[list[str]]:
    """The names of the fields of each named tuple."""
    for node in source.of_type(ast.Call):
        if last_name(node.func) == "namedtuple" and len(node.args) == 2:
            given = node.args[1]
            words = given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]
            texts = [str(one.value) for one in words if isinstance(one, ast.Constant)]
            yield " ".join(texts).replace(",", " ").split()


def _targets(source: Source) -> Iterator[ast.expr]:
    for node in source.nodes:
        if isinstance(node, (ast.Assign, ast.For)):
            yield node.targets[0] if isinstance(node, ast.Assign) else node.target


def _bootstrapped(body: list[ast.stmt], after: int, into: bool = False) -> ast.AST | None:
    """The sum of a reward and a discounted value, in the code after a batch was drawn."""
    for node in of_type(walk(body, into), ast.BinOp):
        if not isinstance(node.op, ast.Add) or node.lineno < after:
            continue
        for side, other in both_orders(node):
            is_reward = re.search(
                r"(?:^|_)(?:b?r|b?rews?|b?rewards?)(?:$|_)", dotted_target(without_form(side)), re.IGNORECASE
            )
            text = ast.unparse(other)
            if is_reward and isinstance(other, ast.BinOp) and isinstance(other.op, ast.Mult) and "1 -" not in text:
                return node
    return None
