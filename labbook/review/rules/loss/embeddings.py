"""Rules about losses of embeddings and latent codes: the distances of a triplet, the deviation of a code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import is_call, receiver
from labbook.review.code_index import Code
from labbook.review.expressions import both_orders, made_of, signed_terms
from labbook.review.names import dotted_target, last_name, last_names, of_type, parameters
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_LOG_VARIANCE = re.compile(r"(?:^|[_.])(?:log_?var(?:iance)?s?|lv)(?:$|_)|(?:^|[_.])(?:z|q)_?logvar", re.IGNORECASE)
_NOISE = re.compile(r"(?:^|_)(?:eps|epsilon|noise)$", re.IGNORECASE)
_DRAWN = ("randn_like", "randn", "normal", "standard_normal", "normal_")
_POSITIVE = re.compile(r"(?:^|_)(?:p|ap|pos|positive)(?:$|_)", re.IGNORECASE)
_NEGATIVE = re.compile(r"(?:^|_)(?:n|an|neg|negative)(?:$|_)", re.IGNORECASE)
_DISTANCE = re.compile(r"(?:^|_)(?:d|dist|dists|distance|distances)(?:$|_)|^d(?=[pn]$|pos|neg)", re.IGNORECASE)
_LOG_SIGMOIDS = ("logsigmoid", "log_sigmoid", "softplus")
_HINGES = ("relu", "clamp", "clip", "maximum", "max")


@warning("latent_deviation_wrong", "Kingma and Welling 2014, 2.4: z = mean + deviation * noise")
def deviation_of_code(code: Code, source: Source) -> Iterator[Hit]:
    """Noise is scaled by a log variance, or by a variance, instead of the standard deviation."""
    for node in source.of_type(ast.BinOp):
        if not isinstance(node.op, ast.Mult):
            continue
        for scale, noise in both_orders(node):
            if not _is_noise(code, source, noise):
                continue
            value = code.value(source, dotted_target(scale), scale) if dotted_target(scale) else None
            given = scale if value is None or _is_log_variance(scale) else value
            inner = given
            if is_call(given, "exp"):
                inner = given.args[0] if given.args else getattr(given.func, "value", given)
            if _is_log_variance(inner) and not _is_changed(source, inner):
                yield Hit(node, {"scale": ast.unparse(given)})


def _is_noise(code: Code, source: Source, node: ast.expr) -> bool:
    value = code.made(source, node)
    drawn = is_call(value, *_DRAWN)
    return drawn or (value is None and _NOISE.search(last_name(node)) is not None)


def _is_log_variance(node: ast.AST) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and _LOG_VARIANCE.search(last_name(node)) is not None


def _is_changed(source: Source, node: ast.AST) -> bool:
    """Whether a function computes what it calls a log variance: half of it, its exponential."""
    for one in of_type(ast.walk(source.function(node) or source.tree), ast.Assign):
        if any(last_name(target) == last_name(node) for target in one.targets) and re.search(
            r"0?\.5|exp|softplus|sqrt|/ ?2", ast.unparse(one.value)
        ):
            return True
    return False


@warning("triplet_swapped", "Schroff et al. 2015, FaceNet, equation 3")
def swapped_triplet(code: Code, source: Source) -> Iterator[Hit]:
    """A triplet loss pulls the negative towards the anchor and pushes the positive away."""
    for node in source.of_type(ast.Call):
        names = [last_name(one) for one in node.args]
        if "triplet" in ast.unparse(node.func).lower() and len(names) >= 3:
            own = code.function_named(source, node.func)
            order = parameters(own[1])[1:3] if own is not None else ["positive", "negative"]
            swapped = _sides(names[1:3]) == "np" and _sides(order) == "pn"
        else:
            swapped = last_name(node.func) in _HINGES and any(_is_swapped(code, source, one) for one in _parts(node))
        if swapped:
            yield Hit(node, {"loss": ast.unparse(node)})


def _sides(names: list[str]) -> str:
    """The order of a positive and a negative by their names: "pn" or "np"."""
    found = ["p" if _POSITIVE.search(one) else "n" if _NEGATIVE.search(one) else "" for one in names]
    return "".join(found)


def _parts(node: ast.Call) -> list[ast.expr]:
    owner = receiver(node)
    return [*node.args, *([owner] if isinstance(owner, ast.BinOp) else [])]


def _is_swapped(code: Code, source: Source, node: ast.expr) -> bool:
    """Whether this is `negative distance - positive distance + margin`."""
    terms = dict(_terms(node, 1))
    near = [sign for name, sign in terms.items() if _POSITIVE.search(name) or name.lower() in ("dp", "dpos")]
    far = [sign for name, sign in terms.items() if _NEGATIVE.search(name) or name.lower() in ("dn", "dneg")]
    distances = all(_DISTANCE.search(name) for name in terms if name and not re.search("margin|alpha|^m$", name))
    return near == [-1] and far == [1] and len(terms) >= 3 and distances


def _terms(node: ast.expr, sign: int) -> Iterator[tuple[str, int]]:
    """The names that are added up, each with its sign; a number has the name ""."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _terms(node.left, sign)
        yield from _terms(node.right, sign if isinstance(node.op, ast.Add) else -sign)
    else:
        yield last_name(node), sign


@warning(
    "triplet_swapped", "Hadsell et al. 2006, equation 4: similar pairs have the squared distance, others the margin"
)
def pairs_swapped(code: Code, source: Source) -> Iterator[Hit]:
    """A contrastive loss pulls pairs of different samples together, and pushes those of the same class apart."""
    for node in (one for one in source.of_type(ast.BinOp) if isinstance(one.op, ast.Add)):
        for same, other in both_orders(node):
            name = _factor(same)
            is_rest = ast.unparse(other).startswith((f"(1 - {name})", f"(1.0 - {name})"))
            if name and is_rest and "margin" in ast.unparse(same) and "margin" not in ast.unparse(other):
                yield Hit(node, {"same": name, "code": ast.unparse(node)})


def _factor(product: ast.expr) -> str:
    """The first factor of a product if it is the name of a mark of similar pairs."""
    while isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
        product = product.left
    name = dotted_target(product)
    return name if re.fullmatch(r"(?:is_?)?(?:same|similar|sim|match|matching|positive|pos)", name) else ""


@warning(
    "loss_formula_wrong", "Hadsell et al. 2006, equation 4: max(0, margin - distance) for pairs of different samples"
)
def margin_reversed(code: Code, source: Source) -> Iterator[Hit]:
    """Both parts of a contrastive loss grow with the distance: `max(0, distance - margin)` pulls pairs together."""
    for node in (one for one in source.of_type(ast.BinOp) if isinstance(one.op, ast.Add)):
        parts = [code.made(source, term) or term for _, term in signed_terms(node)]
        hinges = [[one for one in of_type(ast.walk(part), ast.Call) if _margin_sign(one)] for part in parts]
        found = [one for part in hinges for one in part]
        if len(parts) != 2 or len(found) != 1 or _margin_sign(found[0]) > 0:
            continue
        distances = {name for name, _ in _hinge_terms(found[0]) if "margin" not in name.lower()}
        other = parts[0] if hinges[1] else parts[1]
        if distances & last_names(other):
            yield Hit(found[0], {"code": ast.unparse(found[0])})


def _hinge_terms(call: ast.Call) -> list[tuple[str, int]]:
    """The names in what a hinge is of, each with its sign: `relu(distance - margin)`."""
    parts = [one for one in _parts(call) if isinstance(one, ast.BinOp)] if last_name(call.func) in _HINGES else []
    return list(_terms(parts[0], 1)) if len(parts) == 1 else []


def _margin_sign(call: ast.Call) -> int:
    """The sign of the margin in a hinge of one distance and a margin; 0 for anything else."""
    terms = _hinge_terms(call)
    margins = [sign for name, sign in terms if "margin" in name.lower()]
    return margins[0] if len(terms) == 2 and len(margins) == 1 and terms[0][1] != terms[1][1] else 0


@warning("triplet_swapped", "Rendle et al. 2009, BPR: -log(sigmoid(positive score - negative score))")
def ranking_reversed(code: Code, source: Source) -> Iterator[Hit]:
    """A pairwise ranking loss falls when the negative gets a higher score than the positive."""
    for node in (one for one in source.of_type(ast.Call) if last_name(one.func) in _LOG_SIGMOIDS):
        terms = [dict(_terms(one, 1)) for one in _parts(node) if isinstance(one, ast.BinOp)]
        outer = [one for one in source.parents_of(node) if isinstance(one, ast.expr)]
        minus = any(isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.USub) for one in outer)
        added = "softplus" in last_name(node.func)
        if len(terms) != 1 or len(terms[0]) != 2 or minus == added or any(isinstance(one, ast.BinOp) for one in outer):
            continue
        near = [sign for name, sign in terms[0].items() if _POSITIVE.search(name)]
        far = [sign for name, sign in terms[0].items() if _NEGATIVE.search(name)]
        if near == ([1] if added else [-1]) and far == [-near[0]]:
            yield Hit(node, {"loss": ast.unparse(node)})


@warning(
    "loss_formula_wrong",
    "Mikolov et al. 2013, equation 4: log sigmoid(score) + sum of log sigmoid(-score of a negative)",
)
def negatives_not_negated(code: Code, source: Source) -> Iterator[Hit]:
    """Negative sampling raises the scores of the negatives as it does those of the positives."""
    for node in source.of_type(ast.BinOp):
        if not isinstance(node.op, (ast.Add, ast.Sub)) or isinstance(source.parents[node], ast.BinOp):
            continue
        found = [(sign, *_log_sigmoid(code, source, term)) for sign, term in signed_terms(node)]
        known = {name: sign * its for sign, its, name in found if its}
        near = [sign for name, sign in known.items() if _POSITIVE.search(name) and not _NEGATIVE.search(name)]
        far = [sign for name, sign in known.items() if _NEGATIVE.search(name) and not _POSITIVE.search(name)]
        if len(found) == 2 and near == far and len(near) == 1:
            yield Hit(node, {"loss": ast.unparse(node)})


def _log_sigmoid(code: Code, source: Source, term: ast.expr) -> tuple[int, str]:
    """Return the sign and the name of the score that a term is the log-sigmoid of; 0 where it is not known."""
    terms = list(signed_terms(code.made(source, term) or term))
    calls = [(sign, one) for sign, one in terms if is_call(one, *_LOG_SIGMOIDS[:2])]
    if len(terms) != 1 or not calls:
        return 0, ""
    outer, call = calls[0]
    scores = list(signed_terms(call.args[0] if source.dotted(call.func) and call.args else receiver(call) or call))
    if len(scores) != 1:
        return 0, ""
    sign, score = scores[0]
    inner = [one for one in made_of(code, source, score) if isinstance(one, ast.UnaryOp) or is_call(one, "neg")]
    # A minus further inside may turn the sign of the score.
    turned = any(not isinstance(getattr(one, "operand", None), ast.Constant) for one in inner)
    return (0, "") if turned else (outer * sign, last_name(score) or " ".join(sorted(last_names(score))))
