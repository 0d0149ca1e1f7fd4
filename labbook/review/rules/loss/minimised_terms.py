"""Rules about the signs of the terms that `backward()` minimises, followed through names and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code, Kind
from labbook.review.definitions import LAYERS
from labbook.review.expressions import made_of, names_in, number, signed_terms, without_form
from labbook.review.names import Function, assigned_value, assigns, dotted_target, returned_values, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_INCREASING = frozenset({"relu", "softplus", "log", "exp", "sigmoid", "logsigmoid", "log_sigmoid", "tanh"})
"""Functions that grow with their argument, so that a term keeps its sign."""
_ZEROS = frozenset({"zeros", "zeros_like", "new_zeros"})
_DEPTH = 6


def minimised_losses(code: Code, source: Source) -> Iterator[tuple[ast.Call, list[tuple[int, ast.expr]]]]:
    """Yield each `loss.backward()` with the signed terms of the loss; none where gradients may be turned around."""
    if any(isinstance(node, ast.keyword) and node.arg == "maximize" for node in source.nodes):
        return
    for call in code.calls_in(source, "backward"):
        scaled = any(one.arg in ("gradient", "grad_tensor") for one in call.keywords)
        if not call.args and not scaled and isinstance(call.func, ast.Attribute):
            yield call, list(_terms(code, source, _without_scaler(call.func.value)))


def _without_scaler(loss: ast.expr) -> ast.expr:
    """Return `loss` of `scaler.scale(loss)`."""
    is_scaled = is_call(loss, "scale") and len(loss.args) == 1
    return loss.args[0] if is_scaled else loss  # type: ignore[attr-defined]


def _terms(
    code: Code, source: Source, node: ast.expr, sign: int = 1, depth: int = _DEPTH
) -> Iterator[tuple[int, ast.expr]]:
    """Yield the summands of an expression with their signs, through names and increasing functions."""
    for its, one in signed_terms(node, sign):
        term = without_form(one)
        inner = _value_of_name(code, source, term) if dotted_target(term) else _argument_of_increasing(source, term)
        inner = _only_return(code, source, term) if inner is None else inner
        inner = term if inner is None and term is not one else inner
        if inner is not None and depth:
            yield from _terms(code, source, inner, its, depth - 1)
        else:
            yield its, term


def _value_of_name(code: Code, source: Source, name: ast.expr) -> ast.expr | None:
    """Return what a name was last given, or the only argument for a parameter; `None` for a list, which grows."""
    origins = code.origins(source, name)
    made = code.made(source, name) or (origins[0][1] if [where for where, _ in origins] == [source] else None)
    return None if isinstance(made, ast.List) else made


def _only_return(code: Code, source: Source, node: ast.expr) -> ast.expr | None:
    """Return what a function of the same file returns, if it is called and returns in one place."""
    followed = code.function_named(source, node.func) if isinstance(node, ast.Call) else None
    if followed is None or followed[0] is not source or len(code.calls[followed[1].name]) != 1:
        return None
    ends = returned_values(followed[1])
    return ends[0] if len(ends) == 1 else None


def _argument_of_increasing(source: Source, node: ast.expr) -> ast.expr | None:
    """Return `x` of `F.relu(x)` and `x.exp()`."""
    if not is_call(node, *_INCREASING):
        return None
    if source.dotted(node.func).startswith(("torch.", "paddle.")):
        return node.args[0] if node.args else None
    return node.func.value if isinstance(node.func, ast.Attribute) and not node.args else None


@warning("adversaries_not_opposed", "Arjovsky et al. 2017, Wasserstein GAN, algorithm 1")
def same_direction(code: Code, source: Source) -> Iterator[Hit]:
    """A generator and its critic both lower, or both raise, the score of generated samples."""
    judged = [(call, _scores(code, source, terms)) for call, terms in minimised_losses(code, source)]
    pairs = [scores for _, scores in judged if len(scores) == 2 and scores[0][0] != scores[1][0]]
    for call, scores in judged:
        if len(scores) != 1 or "detach" in names_in(code, source, scores[0][1]):
            continue
        sign, score, critic = scores[0]
        makers = _modules(code, source, score) - {critic.call}
        for pair in pairs:
            fakes = [one for one in pair if makers & _modules(code, source, one[1])]
            if all(one[2].call is critic.call for one in pair) and len(fakes) == 1 and fakes[0][0] == sign:
                yield Hit(call, {"critic": ast.unparse(score.func), "score": ast.unparse(score)})
                break


def _scores(code: Code, source: Source, terms: list[tuple[int, ast.expr]]) -> list[tuple[int, ast.Call, Kind]]:
    """Return the terms that are the output of a network."""
    calls = [(sign, term) for sign, term in terms if isinstance(term, ast.Call) and term.args]
    kinds = [(sign, call, _network(code, source, call)) for sign, call in calls]
    return [(sign, call, kind) for sign, call, kind in kinds if kind is not None]


def _network(code: Code, source: Source, call: ast.Call) -> Kind | None:
    """Return the origin of a network that is called."""
    kind = code.kind(source, call.func) if dotted_target(call.func) else None
    return kind if code.is_model(kind, *LAYERS) else None


def _modules(code: Code, source: Source, score: ast.Call) -> set[ast.Call]:
    """Return the calls that made the networks which an argument of a critic has passed."""
    calls = (one for one in made_of(code, source, score.args[0]) if isinstance(one, ast.Call))
    kinds = (_network(code, source, one) for one in calls)
    return {kind.call for kind in kinds if kind is not None}


@warning("loss_formula_wrong", "Dinh et al. 2017, Real NVP, equations 2 and 6: log p(x) = log p(z) + log |det dz/dx|")
def determinant_sign(code: Code, source: Source) -> Iterator[Hit]:
    """The negative log-likelihood of a flow has the log-determinant of its layers with the wrong sign."""
    directions = {found for where in code.sources for found in _directions(code, where)} - {0}
    if len(directions) != 1:
        return
    direction = directions.pop()
    for call, terms in minimised_losses(code, source):
        latents = {_latent(sign, term) for sign, term in terms} - {""}
        for sign, term in terms:
            parts = _layer_sum(code, source, source.function(term), dotted_target(term))
            if parts and {latent for latent, _ in parts} == latents and {its for _, its in parts} == {sign * direction}:
                yield Hit(call, {"determinant": dotted_target(term)})
                break


def _directions(code: Code, source: Source) -> Iterator[int]:
    """Yield the direction of each layer of a flow in a file."""
    for cls in source.of_type(ast.ClassDef):
        if code.is_module(source, cls):
            yield from (_direction(code, where, *pair) for where, pair in _results(code, source, cls))


def _results(code: Code, source: Source, cls: ast.ClassDef) -> list[tuple[Source, list[ast.expr]]]:
    """Return the pairs that the forward of a class returns."""
    forward = code.method(source, cls, "forward")
    ends = returned_values(forward[1]) if forward is not None else []
    return [(forward[0], one.elts) for one in ends if forward and isinstance(one, ast.Tuple) and len(one.elts) == 2]


def _direction(code: Code, source: Source, out: ast.expr, log_det: ast.expr) -> int:
    """Return 1 where a layer returns the log-determinant of its own transform, -1 of the inverse, 0 if unknown."""
    scales = {one for part in made_of(code, source, out) for one in _exponents(part)}
    logs = _named_terms(code, source, log_det)
    if len(scales) != 1 or len(logs) != 1:
        return 0
    (sign, scale), (its, name) = scales.pop(), logs.pop()
    return sign * its if scale == name != "" else 0


def _exponents(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the sign and the name of `s` in `x * exp(s)`; the sign is turned in a division."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Mult, ast.Div)):
        return
    divides = isinstance(node.op, ast.Div)
    for side in (node.right,) if divides else (node.left, node.right):
        if is_call(side, "exp"):
            inner = side.args[0] if side.args else side.func.value  # type: ignore[attr-defined]
            for sign, term in signed_terms(inner):
                yield (-sign if divides else sign), dotted_target(term)


def _named_terms(code: Code, source: Source, node: ast.expr) -> set[tuple[int, str]]:
    """Return the summands of an expression that are names, through one name."""
    made = code.made(source, node)
    return {(sign, dotted_target(term)) for sign, term in signed_terms(made if made is not None else node)}


def _latent(sign: int, term: ast.expr) -> str:
    """Return `z` where a term of a loss is minus the log-density of `z`: `-log_prob(z)` or `z ** 2`."""
    if is_call(term, "log_prob") and term.args:
        return dotted_target(term.args[0]) if sign < 0 else ""
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Pow) and number(term.right) == 2:
        return dotted_target(term.left) if sign > 0 else ""
    if is_call(term, "square", "pow") and sign > 0:
        owner = term.func.value if isinstance(term.func, ast.Attribute) else term
        return dotted_target(owner) or (dotted_target(term.args[0]) if term.args else "")
    return ""


def _layer_sum(code: Code, source: Source, scope: Function | None, name: str) -> set[tuple[str, int]]:
    """Return `(z, sign)` of the calls `z, log_det = layer(x)` that a name is the sum of; empty if it is unknown."""
    found: set[tuple[str, int]] = set()
    nodes = list(walk(scope.body if scope is not None else source.tree.body)) if name else []
    pairs = [pair for node in nodes if (pair := _pair_of_layer(code, source, node)) is not None]
    for node in (one for one in nodes if assigns(one, name)):
        pair = _pair_of_layer(code, source, node)
        added = node.value if isinstance(node, ast.AugAssign) else assigned_value(node, name)
        if pair is not None and pair[1] == name:
            found.add((pair[0], 1))
        elif added is None:
            return set()
        elif number(added) != 0 and not is_call(added, *_ZEROS):
            turned = -1 if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub) else 1
            for sign, term in signed_terms(added, turned):
                latents = {pair[0] for pair in pairs if pair[1] == dotted_target(term)}
                found |= {(latent, sign) for latent in latents}
                if not latents and dotted_target(term) != name:
                    return set()
    return found


def _pair_of_layer(code: Code, source: Source, node: ast.AST) -> tuple[str, str] | None:
    """Return the names of `z, log_det = layer(x)`, where a flow of several layers adds up theirs."""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    call = node.value if isinstance(node, ast.Assign) else None
    if not isinstance(target, ast.Tuple) or len(target.elts) != 2 or not isinstance(call, ast.Call):
        return None
    if not dotted_target(call.func) or code.function_named(source, call.func) is not None:
        return None
    kind = code.kind(source, call.func)
    if kind is not None and kind.definition is not None:
        pairs = _results(code, *kind.definition)
        if not pairs or not all(
            _direction(code, where, *pair) or _is_sum(code, where, pair[1]) for where, pair in pairs
        ):
            return None
    return dotted_target(target.elts[0]), dotted_target(target.elts[1])


def _is_sum(code: Code, source: Source, log_det: ast.expr) -> bool:
    """Whether what a flow returns is the sum of the log-determinants of its layers."""
    key = ("log-determinant", log_det)
    if key not in code.remembered:
        # Ends the recursion of models that call each other.
        code.remembered[key] = False
        parts = _layer_sum(code, source, source.function(log_det), dotted_target(log_det))
        code.remembered[key] = {sign for _, sign in parts} == {1}
    return bool(code.remembered[key])
