"""Rules about Q learning: the target network, the value that is corrected, exploration."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.definitions import MODULES
from labbook.review.expressions import without_form
from labbook.review.names import LOOPS, assigns, dotted_target, last_name, named_values, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_TARGET = re.compile(r"(?:^|[_.])(?:target|tgt)(?:$|_(?!layer|module|block|size|dim))", re.IGNORECASE)
_DISCOUNT = re.compile(r"gamma|discount|0?\.9\d* \*", re.IGNORECASE)
_NEXT = re.compile(r"next|new|prime|^s_$|^[A-Za-z]+_?2$", re.IGNORECASE)
_STORES = ("append", "push", "add", "store", "remember", "put", "cache")
_STATE = re.compile(r"state|obs|^s", re.IGNORECASE)


@warning(
    "target_network_never_updated",
    "Mnih et al. 2015, Algorithm 1: the target network is a copy that is updated every C steps",
)
def no_target_copy(code: Code, source: Source) -> Iterator[Hit]:
    """The target network is the trained network itself, or is given its own weights."""
    names = [name for name, _, _ in named_values(source)]
    for target, value, node in named_values(source):
        if not isinstance(node, ast.Assign) or not _TARGET.search(target) or names.count(target) > 1:
            continue
        online = "" if value is None or isinstance(value, ast.Call) else ast.unparse(value)
        kind = code.kind(source, value) if value is not None and online and not _TARGET.search(online) else None
        if kind is not None and (code.is_model(kind) or kind.name in MODULES):
            yield Hit(node, {"code": ast.unparse(node), "target": target})
    for node in source.of_type(ast.Call):
        if last_name(node.func) in ("load_state_dict", "set_state_dict") and node.args:
            given = node.args[0]
            own = is_call(given, "state_dict")
            pair = [ast.unparse(one.func.value) for one in (node, given)] if own else []  # type: ignore[attr-defined]
            if len(set(pair)) == 1 and _TARGET.search(pair[0].rpartition(".")[2]):
                yield Hit(node, {"code": ast.unparse(node), "target": pair[0]})


@warning(
    "target_network_never_updated",
    "Mnih et al. 2015, Algorithm 1: the target network is a copy that is updated every C steps",
)
def target_never_synced(code: Code, source: Source) -> Iterator[Hit]:
    """A target network gives the best value of the next state in a loop, and is given weights before that loop only."""
    for call in (node for node in source.of_type(ast.Call) if _TARGET.search(dotted_target(node.func))):
        target, statement = dotted_target(call.func), source.statement(call)
        best = source.parents.get(call)
        is_best = isinstance(best, ast.Attribute) and best.attr in ("max", "amax", "gather") and statement is not None
        owner, is_attribute = source.class_of(call), target.startswith("self.")
        if not is_best or (owner is not None) != is_attribute or not code.calls.get("backward"):
            continue
        uses = [node for node in ast.walk(owner or source.tree) if dotted_target(node) == target]
        # Other objects may update or replace the network of an agent.
        name = target.removeprefix("self.")
        if is_attribute and (code.stored[name] or code.loaded[name] > sum(_is_read(one) for one in uses)):
            continue
        later = [node for node in uses if _is_after_start(source, node)]
        made = code.assigned_values(owner or source.tree, target)
        if len(made) == 1 and all(_is_only_read(source, node) for node in later):
            yield Hit(call, {"target": target})
            return


def _is_read(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Load)


def _is_after_start(source: Source, node: ast.AST) -> bool:
    """Whether a node is in a loop, or in another function than `__init__`."""
    function = source.function(node)
    in_loop = any(isinstance(one, LOOPS) for one in source.parents_of(node))
    return in_loop or (function is not None and function.name != "__init__")


def _is_only_read(source: Source, node: ast.AST) -> bool:
    """Whether a network is called here, or its mode is set."""
    outer = source.parents[node]
    if isinstance(outer, ast.Attribute):
        return outer.attr in ("eval", "train", "to", "cuda", "requires_grad_")
    return isinstance(outer, ast.Call) and outer.func is node


@warning("exploration_reversed", "Mnih et al. 2015, Algorithm 1: a random action with probability epsilon")
def exploration_reversed(code: Code, source: Source) -> Iterator[Hit]:
    """Random actions become more frequent as epsilon falls: they are taken where the random number is above it."""
    for node in (one for one in source.of_type(ast.If) if isinstance(one.test, ast.Compare)):
        left, right = node.test.left, node.test.comparators[0]  # type: ignore[attr-defined]
        above = isinstance(node.test.ops[0], (ast.Gt, ast.GtE))  # type: ignore[attr-defined]
        if not isinstance(left, ast.Call):
            left, right, above = right, left, isinstance(node.test.ops[0], (ast.Lt, ast.LtE))  # type: ignore[attr-defined]
        drawn = is_call(left, "random", "rand", "uniform")
        if not (drawn and above and re.search(r"eps", last_name(right), re.IGNORECASE)):
            continue
        rest: list[ast.stmt] = node.orelse
        if not rest and any(isinstance(one, ast.Return) for one in node.body):
            block, index = source.blocks.get(node, ([], 0))
            rest = block[index + 1 :]
        if _draws_action(node.body) and not _draws_action(rest) and _names_of_calls(rest) & {"argmax", "max"}:
            yield Hit(node.test, {"test": ast.unparse(node.test), "epsilon": ast.unparse(right)})


def _names_of_calls(body: list[ast.stmt]) -> set[str]:
    return {last_name(one.func) for one in of_type(walk(body), ast.Call)}


def _draws_action(body: list[ast.stmt]) -> bool:
    called = _names_of_calls(body)
    return bool(called & {"randrange", "randint", "sample", "choice", "integers"}) and not called & {"argmax", "max"}


@warning("q_target_wrong", "Mnih et al. 2015: the value of the action that was taken")
def value_of_best_action(code: Code, source: Source) -> Iterator[Hit]:
    """The value that Q learning corrects is the largest of a state, not that of the action that was taken."""
    for call in (node for node in source.of_type(ast.Call) if len(node.args) >= 2):
        given = _best_value(code, source, call.args[0])
        target = code.made(source, without_form(call.args[1])) if given is not None else None
        if given is not None and target is not None and _DISCOUNT.search(ast.unparse(target)):
            yield Hit(given, {"code": ast.unparse(given)})


def _best_value(code: Code, source: Source, node: ast.expr) -> ast.expr | None:
    """The largest output of a model for each sample: `q(s).max(1)[0]`, `q(s).max(dim=1).values`."""
    made = inner = code.made(source, node)
    while isinstance(inner, (ast.Subscript, ast.Attribute)):
        inner = inner.value
    values = _maximised(inner)
    model = code.made(source, values)
    along_axis = isinstance(inner, ast.Call) and (inner.args or inner.keywords)
    is_model = isinstance(model, ast.Call) and code.kind(source, model.func) is not None
    return made if along_axis and is_model else None


def _maximised(node: ast.AST | None) -> ast.expr | None:
    """The `x` of `x.max(...)`."""
    is_maximum = is_call(node, "max", "amax")
    return node.func.value if is_maximum and isinstance(node.func, ast.Attribute) else None  # type: ignore[union-attr]


@warning("q_target_wrong", "Sutton and Barto, Reinforcement Learning (2018), 6.5")
def target_of_same_state(code: Code, source: Source) -> Iterator[Hit]:
    """The target of Q learning is computed from the state itself; no model is given the next state."""
    for node in source.nodes:
        values = _maximised(node)
        judged = code.made(source, values)
        if not isinstance(judged, ast.Call) or len(judged.args) != 1 or not _TARGET.search(ast.unparse(judged.func)):
            continue
        state, scope = dotted_target(judged.args[0]), source.function(node) or source.tree
        if not state or _NEXT.search(state) or not _DISCOUNT.search(_text_of_block(source, node)):
            continue
        calls = list(of_type(ast.walk(scope), ast.Call))
        models = [one for one in calls if code.kind(source, one.func) is not None]
        is_trained = any(
            one.args and dotted_target(one.args[0]) == state and ast.unparse(one.func) != ast.unparse(judged.func)
            for one in models
        )
        given = {dotted_target(arg) for one in models for arg in one.args}
        following = {one.id for one in of_type(ast.walk(scope), ast.Name) if _NEXT.search(one.id)}
        states = {name for name in following if _STATE.search(name)}
        if is_trained and following and not states & given:
            yield Hit(judged, {"code": ast.unparse(judged), "state": state})


def _text_of_block(source: Source, node: ast.AST) -> str:
    statement = source.statement(node)
    block, _ = source.blocks.get(statement, ([], 0)) if statement is not None else ([], 0)
    return " ".join(map(ast.unparse, block))


@warning("q_target_wrong", "Mnih et al. 2015, Algorithm 1: store the transition, then go on to the next state")
def stored_after_step_on(code: Code, source: Source) -> Iterator[Hit]:
    """A transition is stored after the state was set to the next one: both states of it are the same."""
    for node in (one for one in source.of_type(ast.Assign) if isinstance(one.value, ast.Name)):
        state, following = dotted_target(node.targets[0]), dotted_target(node.value)
        block, index = source.blocks.get(node, ([], 0))
        for later in block[index + 1 :] if _STATE.search(state) and _NEXT.search(following) else ():
            if any(assigns(one, name) for one in walk([later]) for name in (state, following)):
                break
            call = later.value if isinstance(later, ast.Expr) else None
            names = (
                [dotted_target(one) for arg in call.args for one in ast.walk(arg)] if isinstance(call, ast.Call) else []
            )
            if call is not None and last_name(call.func) in _STORES and {state, following} <= set(names):  # type: ignore[attr-defined]
                yield Hit(later, {"code": ast.unparse(later), "state": state, "following": following})
