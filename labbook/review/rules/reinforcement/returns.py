"""Rules about returns: in which direction rewards are added up, and in which order they are kept."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.names import (
    assigns,
    dotted_target,
    last_name,
    last_names,
    of_type,
    walk,
)
from labbook.review.rules.reinforcement.policy_gradients import GAIN
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning


@warning(
    "policy_gradient_mismatched",
    "Sutton and Barto, Reinforcement Learning (2018), 3.3: a return contains the rewards after it",
)
def discounted_from_start(code: Code, source: Source) -> Iterator[Hit]:
    """Returns are added up from the first reward on: each contains the rewards before it instead of those after it."""
    for loop in source.of_type(ast.For):
        rewards, reward = dotted_target(loop.iter), dotted_target(loop.target)
        scope = source.function(loop) or source.tree
        if not GAIN.search(rewards) or not reward or _is_turned(scope, rewards):
            continue
        for node in (one for one in loop.body if isinstance(one, ast.Assign)):
            total = dotted_target(node.targets[0])
            kept = [
                dotted_target(one.func.value)  # type: ignore[attr-defined]
                for one in of_type(walk(loop.body), ast.Call)
                if last_name(one.func) == "append" and last_names(one) & {total}
            ]
            # A return that runs on over episodes scales the rewards.
            block, index = source.blocks.get(loop, ([], 0))
            fresh = {name for name in (total, *kept) if any(assigns(one, name) for one in block[:index])}
            turned = any(_is_turned(scope, one) for one in kept)
            if _is_discounted(node.value, reward, total) and kept and not turned and fresh >= {total, *kept}:
                yield Hit(loop, {"rewards": rewards, "returns": kept[0]})


@warning(
    "policy_gradient_mismatched",
    "PyTorch examples, REINFORCE: `returns.appendleft(R)` while the rewards are read from the end",
)
def returns_left_reversed(code: Code, source: Source) -> Iterator[Hit]:
    """Returns are added up from the last reward on and appended: the first return belongs to the last action."""
    turns = [node for node in source.nodes if _turned_names(node)]
    for loop in source.of_type(ast.For):
        if not _turned_names(loop.iter) or any(one is not loop.iter for one in turns):
            continue
        for node in (one for one in loop.body if isinstance(one, ast.Assign)):
            total = dotted_target(node.targets[0])
            kept = [
                dotted_target(one.func.value)  # type: ignore[attr-defined]
                for one in walk(loop.body)
                if is_call(one, "append") and last_names(one) & {total}
            ]
            if (
                total
                and total in {dotted_target(one) for one in ast.walk(node.value)}
                and kept
                and code.calls["log_prob"]
            ):
                yield Hit(loop, {"returns": kept[0]})


def _is_discounted(node: ast.expr, reward: str, total: str) -> bool:
    """Whether this is `reward + gamma * total`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return False
    sides = (node.left, node.right) if dotted_target(node.left) == reward else (node.right, node.left)
    product = sides[1]
    return (
        dotted_target(sides[0]) == reward
        and isinstance(product, ast.BinOp)
        and isinstance(product.op, ast.Mult)
        and total in (dotted_target(product.left), dotted_target(product.right))
    )


def _is_turned(scope: ast.AST, name: str) -> bool:
    """Whether a list is put into the opposite order."""
    return any(name in _turned_names(node) for node in ast.walk(scope))


def _turned_names(node: ast.AST) -> set[str]:
    """Names in what is put into the opposite order: `reversed(x)`, `x[::-1]`, `x.reverse()`, `x.flip(0)`; else none."""
    if is_call(node, "reversed", "reverse", "flip", "flipud"):
        return (last_names(node) | {dotted_target(one) for one in ast.walk(node)}) - {""}
    is_cut = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.step is not None
    return {dotted_target(node.value), last_name(node.value)} if is_cut else set()  # type: ignore[attr-defined]
