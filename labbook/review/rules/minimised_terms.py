"""Rules about the signs of the terms that `backward()` minimises, followed through names and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.code_index import Code, Kind, dotted_target, last_name
from labbook.review.expressions import made_of, names_in, signed_terms, without_form
from labbook.review.source_file import Source
from labbook.review.violation import Hit, rule

_INCREASING = frozenset({"relu", "softplus", "log", "exp", "sigmoid", "logsigmoid", "log_sigmoid", "tanh"})
"""Functions that grow with their argument, so that a term keeps its sign."""
_DEPTH = 6


def minimised_losses(code: Code, source: Source) -> Iterator[tuple[ast.Call, list[tuple[int, ast.expr]]]]:
    """Yield each `loss.backward()` with the signed terms of the loss; none where gradients may be turned around."""
    if any(isinstance(node, ast.keyword) and node.arg == "maximize" for node in source.nodes):
        return
    for where, call in code.calls.get("backward", ()):
        scaled = any(one.arg in ("gradient", "grad_tensor") for one in call.keywords)
        if where is source and not call.args and not scaled and isinstance(call.func, ast.Attribute):
            yield call, list(_terms(code, source, _without_scaler(call.func.value)))


def _without_scaler(loss: ast.expr) -> ast.expr:
    """Return `loss` of `scaler.scale(loss)`."""
    is_scaled = isinstance(loss, ast.Call) and last_name(loss.func) == "scale" and len(loss.args) == 1
    return loss.args[0] if is_scaled else loss  # type: ignore[attr-defined]


def _terms(
    code: Code, source: Source, node: ast.expr, sign: int = 1, depth: int = _DEPTH
) -> Iterator[tuple[int, ast.expr]]:
    """Yield the summands of an expression with their signs, through names and increasing functions."""
    for its, one in signed_terms(node, sign):
        term = without_form(one)
        inner = code.made(source, term) if dotted_target(term) else _argument_of_increasing(source, term)
        inner = term if inner is None and term is not one else inner
        if inner is not None and depth:
            yield from _terms(code, source, inner, its, depth - 1)
        else:
            yield its, term


def _argument_of_increasing(source: Source, node: ast.expr) -> ast.expr | None:
    """Return `x` of `F.relu(x)` and `x.exp()`."""
    if not isinstance(node, ast.Call) or last_name(node.func) not in _INCREASING:
        return None
    if source.dotted(node.func).startswith(("torch.", "paddle.")):
        return node.args[0] if node.args else None
    return node.func.value if isinstance(node.func, ast.Attribute) and not node.args else None


@rule("adversaries_not_opposed", "warning", 2, "Arjovsky et al. 2017, Wasserstein GAN, algorithm 1", row="loop-bug")
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
    if kind is None:
        return None
    if kind.class_node is not None and kind.class_source is not None:
        return kind if code.is_module(kind.class_source, kind.class_node) else None
    return kind if kind.name.startswith(("torch.nn.", "paddle.nn.")) else None


def _modules(code: Code, source: Source, score: ast.Call) -> set[ast.Call]:
    """Return the calls that made the networks which an argument of a critic has passed."""
    calls = (one for one in made_of(code, source, score.args[0]) if isinstance(one, ast.Call))
    kinds = (_network(code, source, one) for one in calls)
    return {kind.call for kind in kinds if kind is not None}
