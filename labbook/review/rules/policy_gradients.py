"""Rules about reinforcement learning: the sign of a policy gradient, its actions and returns; the target network."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.code_index import LOOPS, MODULES, SCOPES, Code, assigns, dotted_target, last_name, walk
from labbook.review.expressions import signed_terms
from labbook.review.output_activation import last_operation
from labbook.review.source_file import Source
from labbook.review.violation import Hit, rule

_LOG_PROBABILITY = re.compile(r"(?:^|_)log_?(?:probs?|pi|p)s?(?:$|_)", re.IGNORECASE)
_GAIN = re.compile(r"(?:^|_)(?:rewards?|returns?|advantages?|adv)(?:$|_)", re.IGNORECASE)
_TARGET = re.compile(r"(?:^|[_.])(?:target|tgt)(?:$|_(?!layer|module|block|size|dim))", re.IGNORECASE)
_DISCOUNT = re.compile(r"gamma|discount|0?\.9\d* \*", re.IGNORECASE)
_NEXT = re.compile(r"next|new|prime|^s_$|^[A-Za-z]+_?2$", re.IGNORECASE)
_TURNED = re.compile(r"neg|minus|cost|loss|penalt", re.IGNORECASE)
_JOINING = frozenset({"mean", "sum", "stack", "cat", "concat", "add_n"})
_AS_IS = frozenset(
    {"detach", "to_tensor", "tensor", "squeeze", "unsqueeze", "reshape", "view", "astype", "to", "float"}
)
_ENTROPIES = frozenset({"cross_entropy", "softmax_with_cross_entropy", "nll_loss"})


@rule("reward_falling", "warning", 2, "Sutton and Barto, Reinforcement Learning (2018), chapter 13")
def policy_gradient_sign(code: Code, source: Source) -> Iterator[Hit]:
    """A loss is log-probability times reward or advantage without a minus, so that good actions become less likely."""
    maximises = any(isinstance(node, ast.keyword) and node.arg == "maximize" for node in source.nodes)
    if maximises or not code.calls.get("backward"):
        return
    for node in source.nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.Call) and last_name(node.func) == "append" and len(node.args) == 1:
            target, value = node.func.value, node.args[0]  # type: ignore[attr-defined]
        else:
            continue
        name = dotted_target(target)
        if "loss" not in name.lower() or _TURNED.search(name.lower().replace("loss", "")):
            continue
        for sign, chance, gain in _products(value):
            uncertain = _may_be_negative(source, chance) or _may_be_negative(source, gain)
            if sign > 0 and not uncertain and not _is_negated(source, last_name(target)):
                yield Hit(node, {"loss": name, "chance": chance, "gain": gain})
                break


def _products(node: ast.expr) -> Iterator[tuple[int, str, str]]:
    """Yield `(sign, log-probability, gain)` of the summands of an expression that are such a product."""
    for sign, term in signed_terms(node):
        signs, names = _factors(term)
        chance = [name for name in names if _LOG_PROBABILITY.search(name) and not _TURNED.search(name)]
        gain = [name for name in names if _GAIN.search(name) and not _TURNED.search(name)]
        if len(chance) == len(gain) == 1 and len(names) == 2:
            yield sign * signs, chance[0], gain[0]


def _factors(node: ast.expr) -> tuple[int, list[str]]:
    """Return the sign of a product, and the names of its factors; "" for a factor that is no name."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, names = _factors(node.operand)
        return -sign, names
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        (one, first), (other, second) = _factors(node.left), _factors(node.right)
        return one * other, first + second
    if isinstance(node, ast.Call) and last_name(node.func) in _AS_IS | _JOINING:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        is_method = owner is not None and dotted_target(owner) not in ("torch", "paddle", "")
        inner = owner if is_method else (node.args[0] if node.args else None)
        return _factors(inner) if inner is not None else (1, [""])
    if isinstance(node, ast.Subscript):
        return _factors(node.value)
    if isinstance(node, ast.Call):
        return 1, [last_name(node.func)]
    return 1, [dotted_target(node).rpartition(".")[2]]


def _is_negated(source: Source, name: str) -> bool:
    """Whether a name is used with a minus before it, or subtracted, anywhere in the file."""
    return any(
        (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and name in _names(node.operand))
        or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and name in _names(node.right))
        for node in source.nodes
    )


def _may_be_negative(source: Source, name: str) -> bool:
    """Whether a name is given a negative, a cost, a cross entropy, or a difference with a reward on its right side."""
    for node in source.nodes:
        if not isinstance(node, ast.Assign) or all(last_name(one) != name for one in node.targets):
            continue
        for one in ast.walk(node.value):
            if isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.USub) and one is node.value:
                return True
            if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub):
                if any(_GAIN.search(other) for other in _names(one.right) - _names(one.left)):
                    return True
            elif last_name(one) in _ENTROPIES or _TURNED.search(last_name(one)):
                return True
    return False


def _names(node: ast.AST) -> set[str]:
    return {last_name(one) for one in ast.walk(node)} - {""}


@rule(
    "policy_gradient_mismatched",
    "warning",
    2,
    "torch.distributions: score function, the log-probability of the action that was taken",
    row="loop-bug",
)
def other_action(code: Code, source: Source) -> Iterator[Hit]:
    """The log-probability is that of an action drawn anew, not of the one that was rewarded."""
    for where, call in code.calls.get("log_prob", ()):
        drawn = call.args[0] if where is source and call.args else None
        if not isinstance(drawn, ast.Call) or last_name(drawn.func) != "sample":
            continue
        again = ast.unparse(drawn.func)
        scope = source.function(call) or source.tree
        taken = (one for one in ast.walk(scope) if isinstance(one, ast.Call) and one is not drawn)
        statement = source.statement(call)
        names = _names(statement) if statement is not None else set()
        if not any("entropy" in name.lower() for name in names) and any(
            ast.unparse(one.func) == again for one in taken
        ):
            yield Hit(call, {"call": ast.unparse(call)})


@rule(
    "policy_gradient_mismatched",
    "warning",
    2,
    "Sutton and Barto, Reinforcement Learning (2018), 3.3: a return contains the rewards after it",
    row="loop-bug",
)
def discounted_from_start(code: Code, source: Source) -> Iterator[Hit]:
    """Returns are added up from the first reward on: each contains the rewards before it instead of those after it."""
    for loop in (node for node in source.nodes if isinstance(node, ast.For)):
        rewards, reward = dotted_target(loop.iter), dotted_target(loop.target)
        scope = source.function(loop) or source.tree
        if not _GAIN.search(rewards) or not reward or _is_turned(scope, rewards):
            continue
        for node in (one for one in loop.body if isinstance(one, ast.Assign)):
            total = dotted_target(node.targets[0])
            kept = [
                dotted_target(one.func.value)  # type: ignore[attr-defined]
                for one in walk(loop.body)
                if isinstance(one, ast.Call) and last_name(one.func) == "append" and _names(one) & {total}
            ]
            # A return that runs on over episodes scales the rewards.
            block, index = source.blocks.get(loop, ([], 0))
            fresh = {name for name in (total, *kept) if any(assigns(one, name) for one in block[:index])}
            turned = any(_is_turned(scope, one) for one in kept)
            if _is_discounted(node.value, reward, total) and kept and not turned and fresh >= {total, *kept}:
                yield Hit(loop, {"rewards": rewards, "returns": kept[0]})


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
    """Whether a list is put into the opposite order: `reversed(x)`, `x[::-1]`, `x.reverse()`, `x.flip(0)`."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and last_name(node.func) in ("reversed", "reverse", "flip", "flipud"):
            if name in _names(node) | {dotted_target(one) for one in ast.walk(node)}:
                return True
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Slice)
            and dotted_target(node.value) == name
            and node.slice.step is not None
        ):
            return True
    return False


@rule(
    "target_network_never_updated",
    "warning",
    2,
    "Mnih et al. 2015, Algorithm 1: the target network is a copy that is updated every C steps",
    row="loop-bug",
)
def no_target_copy(code: Code, source: Source) -> Iterator[Hit]:
    """The target network is the trained network itself, or is given its own weights."""
    for node in source.nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and _TARGET.search(dotted_target(node.targets[0])):
            target, online = dotted_target(node.targets[0]), dotted_target(node.value)
            kind = code.kind(source, node.value) if online and not _TARGET.search(online) else None
            scope = source.class_of(node) if target.startswith("self.") else source.function(node) or source.tree
            is_model = kind is not None and (
                code.is_module(kind.class_source or source, kind.class_node)
                if kind.class_node is not None
                else kind.name in MODULES
            )
            if is_model and scope is not None and len(code.assigned_values(scope, target)) == 1:
                yield Hit(node, {"code": ast.unparse(node), "target": target})
        elif isinstance(node, ast.Call) and last_name(node.func) in ("load_state_dict", "set_state_dict") and node.args:
            given = node.args[0]
            own = isinstance(given, ast.Call) and last_name(given.func) == "state_dict"
            pair = [ast.unparse(one.func.value) for one in (node, given)] if own else []  # type: ignore[attr-defined]
            if len(set(pair)) == 1 and _TARGET.search(pair[0].rpartition(".")[2]):
                yield Hit(node, {"code": ast.unparse(node), "target": pair[0]})


@rule(
    "target_network_never_updated",
    "warning",
    2,
    "Mnih et al. 2015, Algorithm 1: the target network is a copy that is updated every C steps",
    row="loop-bug",
)
def target_never_synced(code: Code, source: Source) -> Iterator[Hit]:
    """A target network gives the best value of the next state in a loop, and is given weights before that loop only."""
    for call in (
        node for node in source.nodes if isinstance(node, ast.Call) and _TARGET.search(dotted_target(node.func))
    ):
        target, statement = dotted_target(call.func), source.statement(call)
        best = source.parents.get(call)
        is_best = isinstance(best, ast.Attribute) and best.attr in ("max", "amax", "gather") and statement is not None
        if not is_best or source.class_of(call) is not None or not code.calls.get("backward"):
            continue
        uses = (node for node in source.nodes if dotted_target(node) == target)
        later = [node for node in uses if any(isinstance(one, (*LOOPS, *SCOPES)) for one in source.parents_of(node))]
        made = code.assigned_values(source.tree, target)
        if len(made) == 1 and all(_is_only_read(source, node) for node in later):
            yield Hit(call, {"target": target})
            return


def _is_only_read(source: Source, node: ast.AST) -> bool:
    """Whether a network is called here, or its mode is set."""
    outer = source.parents[node]
    if isinstance(outer, ast.Attribute):
        return outer.attr in ("eval", "train", "to", "cuda", "requires_grad_")
    return isinstance(outer, ast.Call) and outer.func is node


@rule(
    "exploration_reversed",
    "warning",
    2,
    "Mnih et al. 2015, Algorithm 1: a random action with probability epsilon",
    row="loop-bug",
)
def exploration_reversed(code: Code, source: Source) -> Iterator[Hit]:
    """Random actions become more frequent as epsilon falls: they are taken where the random number is above it."""
    for node in (one for one in source.nodes if isinstance(one, ast.If) and isinstance(one.test, ast.Compare)):
        left, right = node.test.left, node.test.comparators[0]  # type: ignore[attr-defined]
        above = isinstance(node.test.ops[0], (ast.Gt, ast.GtE))  # type: ignore[attr-defined]
        if not isinstance(left, ast.Call):
            left, right, above = right, left, isinstance(node.test.ops[0], (ast.Lt, ast.LtE))  # type: ignore[attr-defined]
        drawn = isinstance(left, ast.Call) and last_name(left.func) in ("random", "rand", "uniform")
        if not (drawn and above and re.search(r"eps", last_name(right), re.IGNORECASE)):
            continue
        rest: list[ast.stmt] = node.orelse
        if not rest and any(isinstance(one, ast.Return) for one in node.body):
            block, index = source.blocks.get(node, ([], 0))
            rest = block[index + 1 :]
        if _draws_action(node.body) and not _draws_action(rest) and _names_of_calls(rest) & {"argmax", "max"}:
            yield Hit(node.test, {"test": ast.unparse(node.test), "epsilon": ast.unparse(right)})


def _names_of_calls(body: list[ast.stmt]) -> set[str]:
    return {last_name(one.func) for one in walk(body) if isinstance(one, ast.Call)}


def _draws_action(body: list[ast.stmt]) -> bool:
    called = _names_of_calls(body)
    return bool(called & {"randrange", "randint", "sample", "choice", "integers"}) and not called & {"argmax", "max"}


@rule(
    "softmax_before_cross_entropy",
    "warning",
    2,
    "torch.distributions.Categorical: logits are unnormalised",
    row="loop-bug",
)
def probabilities_as_logits(code: Code, source: Source) -> Iterator[Hit]:
    """A distribution is given the output of a softmax as its logits, and normalises it a second time."""
    for name in ("Categorical", "OneHotCategorical"):
        for where, call in code.calls.get(name, ()):
            logits = next((k.value for k in call.keywords if k.arg == "logits"), None)
            if where is source and logits is not None and last_operation(code, source, logits) == "softmax":
                yield Hit(call, {"given": "softmax", "call": ast.unparse(call)})


@rule("q_target_wrong", "warning", 2, "Mnih et al. 2015: the value of the action that was taken", row="loop-bug")
def value_of_best_action(code: Code, source: Source) -> Iterator[Hit]:
    """The value that Q learning corrects is the largest of a state, not that of the action that was taken."""
    for call in (node for node in source.nodes if isinstance(node, ast.Call) and len(node.args) >= 2):
        given = _best_value(code, source, call.args[0])
        aim = call.args[1]
        if isinstance(aim, ast.Call) and isinstance(aim.func, ast.Attribute) and last_name(aim.func) in _AS_IS:
            aim = aim.func.value
        target = code.made(source, aim) if given is not None else None
        if given is not None and target is not None and _DISCOUNT.search(ast.unparse(target)):
            yield Hit(given, {"code": ast.unparse(given)})


def _best_value(code: Code, source: Source, node: ast.expr) -> ast.expr | None:
    """The largest output of a model for each sample: `q(s).max(1)[0]`, `q(s).max(dim=1).values`."""
    made = code.made(source, node)
    inner = made
    while isinstance(inner, (ast.Subscript, ast.Attribute)):
        inner = inner.value
    if (
        not isinstance(inner, ast.Call)
        or last_name(inner.func) not in ("max", "amax")
        or not isinstance(inner.func, ast.Attribute)
    ):
        return None
    model = code.made(source, inner.func.value)
    is_model = isinstance(model, ast.Call) and code.kind(source, model.func) is not None
    return made if is_model and (inner.args or inner.keywords) else None


@rule("q_target_wrong", "warning", 2, "Sutton and Barto, Reinforcement Learning (2018), 6.5", row="loop-bug")
def target_of_same_state(code: Code, source: Source) -> Iterator[Hit]:
    """The target of Q learning is computed from the state itself; no model is given the next state."""
    for node in source.nodes:
        if (
            not isinstance(node, ast.Call)
            or last_name(node.func) not in ("max", "amax")
            or not isinstance(node.func, ast.Attribute)
        ):
            continue
        judged = code.made(source, node.func.value)
        scope = source.function(node) or source.tree
        statement = source.statement(node)
        block, _ = source.blocks.get(statement, ([], 0)) if statement is not None else ([], 0)
        if (
            not isinstance(judged, ast.Call)
            or len(judged.args) != 1
            or not _DISCOUNT.search(" ".join(map(ast.unparse, block)))
        ):
            continue
        state, calls = dotted_target(judged.args[0]), [one for one in ast.walk(scope) if isinstance(one, ast.Call)]
        own = [
            one
            for one in calls
            if one.args and dotted_target(one.args[0]) == state and ast.unparse(one.func) != ast.unparse(judged.func)
        ]
        trained = [one for one in own if code.kind(source, one.func) is not None]
        names = {one.id for one in ast.walk(scope) if isinstance(one, ast.Name) and _NEXT.search(one.id)}
        given = {dotted_target(arg) for one in calls for arg in one.args if code.kind(source, one.func) is not None}
        if (
            state
            and not _NEXT.search(state)
            and trained
            and names
            and not any(name in given for name in names if re.search("state|obs|^s", name, re.IGNORECASE))
            and _TARGET.search(ast.unparse(judged.func))
        ):
            yield Hit(judged, {"code": ast.unparse(judged), "state": state})
