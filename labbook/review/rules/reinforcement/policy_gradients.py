"""Rules about reinforcement learning: the sign of a policy gradient, its actions and probabilities."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code
from labbook.review.expressions import AS_IS, JOINING, both_orders, constant, signed_terms, without_form
from labbook.review.names import (
    LOOPS,
    Function,
    assigned_value,
    assigns,
    dotted_target,
    last_name,
    last_names,
    of_type,
    parameters,
    walk,
)
from labbook.review.output_activation import last_operation
from labbook.review.rules.loss.minimised_terms import minimised_losses
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_LOG_PROBABILITY = re.compile(r"(?:^|_)log_?(?:probs?|pi|p)s?(?:$|_)", re.IGNORECASE)
GAIN = re.compile(r"(?:^|_)(?:rewards?|returns?|advantages?|adv)(?:$|_)", re.IGNORECASE)
_TURNED = re.compile(r"neg|minus|cost|loss|penalt", re.IGNORECASE)
_COEFFICIENT = re.compile(r"(?:^|_)(?:beta|coefs?|coeffs?|coefficient|weight)(?:$|_)", re.IGNORECASE)
_SHORT = 4
"""Names with fewer letters say nothing: `g`, `adv` does. Source: chosen by us."""
_CHANCE, _REWARD, _GRADIENT, _ENTROPY = "log-probability", "reward", "policy gradient", "entropy"
_HOLDING = frozenset({"sum", "list", "reversed", "as_tensor", "FloatTensor", "array", "asarray"})
"""Calls with the same items, or their sum."""
_ENTROPIES = frozenset({"cross_entropy", "softmax_with_cross_entropy", "nll_loss"})


@warning("reward_falling", "Sutton and Barto, Reinforcement Learning (2018), chapter 13")
def policy_gradient_sign(code: Code, source: Source) -> Iterator[Hit]:
    """A loss is log-probability times reward or advantage without a minus, so that good actions become less likely."""
    maximises = any(isinstance(node, ast.keyword) and node.arg == "maximize" for node in source.nodes)
    if maximises or not code.calls.get("backward"):
        return
    for node in source.nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif is_call(node, "append") and len(node.args) == 1:
            target, value = node.func.value, node.args[0]  # type: ignore[attr-defined]
        else:
            continue
        name = dotted_target(target)
        if "loss" not in name.lower() or _TURNED.search(name.lower().replace("loss", "")):
            continue
        for sign, chance, gain in _products(code, source, value):
            uncertain = _may_be_negative(source, chance) or _may_be_negative(source, gain)
            if sign > 0 and not uncertain and not _is_negated(source, last_name(target)):
                yield Hit(node, {"loss": name, "chance": chance, "gain": gain})
                break


@warning("reward_falling", "torch.distributions: score function; gymnasium.Env.step returns the reward second")
def rewarded_less_likely(code: Code, source: Source) -> Iterator[Hit]:
    """Minimising a loss lowers the log-probability of rewarded actions, by the data flow of both factors."""
    if any(policy_gradient_sign.find(code, source)):
        return
    for call, terms in minimised_losses(code, source):
        meanings = {one for sign, term in terms for one in _meanings(code, source, term, sign)}
        if (1, _GRADIENT) in meanings and (-1, _GRADIENT) not in meanings:
            yield Hit(call, {"loss": ast.unparse(call.func.value)})  # type: ignore[attr-defined]


@warning("loss_formula_wrong", "Mnih et al. 2016, A3C: the entropy of the policy is added to the objective")
def entropy_minimised(code: Code, source: Source) -> Iterator[Hit]:
    """The loss of a policy gradient contains the entropy with a plus: training makes the policy deterministic."""
    if not code.calls.get("log_prob"):
        return
    for call, terms in minimised_losses(code, source):
        meanings = {one for sign, term in terms for one in _meanings(code, source, term, sign)}
        if (1, _ENTROPY) in meanings and (-1, _ENTROPY) not in meanings:
            yield Hit(call, {"loss": ast.unparse(call.func.value)})  # type: ignore[attr-defined]


def _meanings(
    code: Code, source: Source, node: ast.expr, sign: int = 1, seen: frozenset[object] = frozenset()
) -> Iterator[tuple[int, str]]:
    """Yield the sign and the meaning of the summands of a value, through names, lists and loops; "" if unknown."""
    terms = [(its, without_form(one)) for its, one in signed_terms(node, sign)]
    added = {ast.unparse(one) for its, one in terms if its == sign}
    for its, one in terms:
        if its != sign and ast.unparse(one) in added:
            continue  # `x - x.mean()` has the sign of `x`.
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult):
            yield from _meanings_of_product(code, source, one, its, seen)
        elif is_call(one, "log_prob"):
            yield its, _CHANCE
        elif is_call(one, "entropy") and not one.args:
            yield its, _ENTROPY
        elif is_call(one, *_HOLDING) and one.args:
            yield from _meanings(code, source, one.args[0], its, seen)
        elif isinstance(one, (ast.ListComp, ast.GeneratorExp)):
            yield from _meanings(code, source, one.elt, its, seen)
        elif isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Slice):
            yield from _meanings(code, source, one.value, its, seen)
        elif dotted_target(one):
            yield from _meanings_of_name(code, source, one, its, seen)
        elif not isinstance(one, (ast.List, ast.Constant)):
            yield its, ""


def _meanings_of_product(
    code: Code, source: Source, node: ast.BinOp, sign: int, seen: frozenset[object]
) -> Iterator[tuple[int, str]]:
    """Yield what a product is: log-probability times reward, a positive number times a meaning; "" if unknown."""
    for one, other in both_orders(node):
        factor = constant(code, source, one)
        if factor is None and _COEFFICIENT.search(last_name(one)):
            factor = 1.0
        if factor is not None and factor > 0:
            yield from _meanings(code, source, other, sign, seen)
            return
    sides = [set(_meanings(code, source, one, 1, seen)) for one in (node.left, node.right)]
    known = [[one for one in side if one[1]] for side in sides]
    is_gradient = {one[1] for side in known for one in side} == {_CHANCE, _REWARD}
    if is_gradient and [len(side) for side in known] == [1, 1]:
        yield sign * known[0][0][0] * known[1][0][0], _GRADIENT
    else:
        yield sign, ""


def _meanings_of_name(
    code: Code, source: Source, name: ast.expr, sign: int, seen: frozenset[object]
) -> Iterator[tuple[int, str]]:
    """Yield the meanings of all values that a name is given in its function, and of the items of a list."""
    target = dotted_target(name)
    of_object = target.startswith("self.")
    scope = (source.class_of(name) if of_object else source.function(name)) or source.tree
    if (scope, target) in seen:
        return
    seen = seen | {(scope, target)}
    if isinstance(scope, ast.FunctionDef) and target in parameters(scope):
        for where, other in code.arguments(source, scope, target):
            yield from _meanings(code, where, other, sign, seen)
    for node in walk(scope.body, of_object):
        value, its = None, sign
        if isinstance(node, ast.AugAssign) and dotted_target(node.target) == target:
            value, its = node.value, -sign if isinstance(node.op, ast.Sub) else sign
        elif is_call(node, "append", "insert") and node.args:
            owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            value = node.args[-1] if dotted_target(owner) == target else None
        elif isinstance(node, (*LOOPS, ast.comprehension)) and not isinstance(node, ast.While):
            value = _iterated(node.target, node.iter, target)
        elif assigns(node, target):
            value = assigned_value(node, target)
            if value is None and _is_reward(node, target):
                yield sign, _REWARD
            elif value is None:
                for where, other in code.origins(source, name):
                    yield from _meanings(code, where, other, sign, seen)
        if value is not None:
            yield from _meanings(code, source, value, its, seen)


def _iterated(target: ast.expr, values: ast.expr, name: str) -> ast.expr | None:
    """Return the list that a name runs over: `rewards` of `for r in rewards` and `for p, r in zip(ps, rewards)`."""
    if dotted_target(target) == name:
        return values
    pairs = values.args if is_call(values, "zip") else []
    names = [dotted_target(one) for one in target.elts] if isinstance(target, ast.Tuple) else []
    return pairs[names.index(name)] if name in names and len(pairs) == len(names) else None


def _is_reward(node: ast.AST, name: str) -> bool:
    """Whether a name is the second value that the step of an environment returns, and is not called a cost."""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    call = node.value if isinstance(node, ast.Assign) else None
    is_step = is_call(call, "step") and len(call.args) == 1
    values = target.elts if is_step and isinstance(target, ast.Tuple) else []
    return len(values) in (4, 5) and dotted_target(values[1]) == name and not _TURNED.search(name)


def _products(code: Code, source: Source, node: ast.expr) -> Iterator[tuple[int, str, str]]:
    """Yield `(sign, log-probability, gain)` of the summands of an expression that are such a product."""
    for sign, term in signed_terms(node):
        signs, names = _factors(code, source, term)
        chance = [name for name in names if _LOG_PROBABILITY.search(name) and not _TURNED.search(name)]
        gain = [name for name in names if GAIN.search(name) and not _TURNED.search(name)]
        if len(chance) == len(gain) == 1 and len(names) == 2:
            yield sign * signs, chance[0], gain[0]


def _factors(code: Code, source: Source, node: ast.expr) -> tuple[int, list[str]]:
    """Return the sign of a product, and the names of its factors; "" for a factor that is no name."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, names = _factors(code, source, node.operand)
        return -sign, names
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        (one, first), (other, second) = (_factors(code, source, side) for side in (node.left, node.right))
        return one * other, first + second
    if isinstance(node, ast.Call) and last_name(node.func) in AS_IS | JOINING:
        owner = receiver(node)
        is_method = owner is not None and dotted_target(owner) not in ("torch", "paddle", "")
        inner = owner if is_method else (node.args[0] if node.args else None)
        return _factors(code, source, inner) if inner is not None else (1, [""])
    if isinstance(node, ast.Subscript):
        return _factors(code, source, node.value)
    if isinstance(node, ast.Call):
        return 1, [last_name(node.func)]
    return 1, [_meaning(code, source, node)]


def _meaning(code: Code, source: Source, node: ast.expr) -> str:
    """Return a name or, where a function of the program gave a short one its value, the name of that function."""
    name = dotted_target(node).rpartition(".")[2]
    made = code.made(source, node) if name and len(name) < _SHORT else None
    followed = code.function_named(source, made.func) if isinstance(made, ast.Call) else None
    return name if followed is None or _turns_sign(followed[1]) else followed[1].name


def _turns_sign(function: Function) -> bool:
    """Whether a function has a minus before anything but a number, which may be a step of a slice."""
    minuses = (one for one in of_type(ast.walk(function), ast.UnaryOp) if isinstance(one.op, ast.USub))
    return any(not isinstance(one.operand, ast.Constant) for one in minuses)


def _is_negated(source: Source, name: str) -> bool:
    """Whether a name is used with a minus before it, or subtracted, anywhere in the file."""
    return any(
        (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and name in last_names(node.operand))
        or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and name in last_names(node.right))
        for node in source.nodes
    )


def _may_be_negative(source: Source, name: str) -> bool:
    """Whether a name is given a negative, a cost, a cross entropy, or a difference with a reward on its right side."""
    for node in source.of_type(ast.Assign):
        if all(last_name(one) != name for one in node.targets):
            continue
        for one in ast.walk(node.value):
            if isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.USub) and one is node.value:
                return True
            if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub):
                if any(GAIN.search(other) for other in last_names(one.right) - last_names(one.left)):
                    return True
            elif last_name(one) in _ENTROPIES or _TURNED.search(last_name(one)):
                return True
    return False


@warning(
    "policy_gradient_mismatched",
    "torch.distributions: score function, the log-probability of the action that was taken",
)
def other_action(code: Code, source: Source) -> Iterator[Hit]:
    """The log-probability is that of an action drawn anew, not of the one that was rewarded."""
    for call in code.calls_in(source, "log_prob"):
        drawn = call.args[0] if call.args else None
        again = ast.unparse(drawn.func) if is_call(drawn, "sample") else ""
        if again.removesuffix(".sample") != ast.unparse(call.func).removesuffix(".log_prob"):
            continue  # a likelihood of another distribution's samples
        scope = source.function(call) or source.tree
        if not any(GAIN.search(name) for name in last_names(scope)):
            continue  # a divergence between two distributions
        taken = (one for one in of_type(ast.walk(scope), ast.Call) if one is not drawn)
        statement = source.statement(call)
        names = last_names(statement) if statement is not None else set()
        if not any("entropy" in name.lower() for name in names) and any(
            ast.unparse(one.func) == again for one in taken
        ):
            yield Hit(call, {"call": ast.unparse(call)})


@warning("softmax_before_cross_entropy", "torch.distributions.Categorical: logits are unnormalised")
def probabilities_as_logits(code: Code, source: Source) -> Iterator[Hit]:
    """A distribution is given the output of a softmax as its logits, and normalises it a second time."""
    for call in code.calls_in(source, "Categorical", "OneHotCategorical"):
        if last_operation(code, source, argument(call, None, "logits")) == "softmax":
            yield Hit(call, {"given": "softmax", "call": ast.unparse(call)})


@warning(
    "reward_falling",
    "Sutton and Barto, Reinforcement Learning (2018), 13.4: the baseline is subtracted from the return",
)
def advantage_reversed(code: Code, source: Source) -> Iterator[Hit]:
    """An advantage is the value minus the return, and the loss is minus log-probability times advantage."""
    for node in source.of_type(ast.Assign):
        name = last_name(node.targets[0])
        terms = {last_name(without_form(term)): sign for sign, term in signed_terms(without_form(node.value))}
        values = [sign for its, sign in terms.items() if re.search(r"(?:^|_)(?:v|values?|baselines?)(?:$|_)", its)]
        gains = [sign for its, sign in terms.items() if re.search(r"(?:^|_)(?:returns?|rewards?|rtg)(?:$|_)", its)]
        reversed_ = re.search(r"(?:^|_)adv(?:antages?)?(?:$|_)", name) and (values, gains) == ([1], [-1])
        if reversed_ and len(terms) == 2 and code.calls["log_prob"] and _is_negated(source, name):
            yield Hit(node, {"code": ast.unparse(node)})
