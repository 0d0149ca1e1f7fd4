"""Rules about losses that a program writes itself: a score for a loss, a wrong sign, a wrong factor."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code
from labbook.review.expressions import made_of, names_in, number, signed_terms
from labbook.review.names import dotted_target, last_name, of_type, parameters, returned_values, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_SCORE = re.compile(r"(?i:dice|jaccard|tversky|ssim)|IoU|IOU|(?:^|_)[gdcm]?iou(?:_|$)")
_COMMON = re.compile(r"inter|(?:^|_)tp(?:$|_)", re.IGNORECASE)
CROSS_ENTROPY = re.compile(r"cross_entropy|(?:^|_)(?:bce|ce)(?:$|_)|(?:CrossEntropy|BCEWithLogits)Loss", re.IGNORECASE)
_DEPTH = 4
_DERIVATIVES = ("torch.autograd.grad", "paddle.grad", "paddle.autograd.grad")
_MOST_ORDERS = 4
_WEIGHTS = re.compile(r"(?:^|_)(?:w|wb|ws|wts?|sw|weights|sample_weight|importance)$", re.IGNORECASE)
_DEVIATION = re.compile(r"(?:^|_)(?:std|stds|stddev|sigma|sigmas|deviation)(?:$|_)", re.IGNORECASE)
_LOG_VARIANCE = re.compile(r"log_?(?:var|sigma|std)", re.IGNORECASE)


def is_subtracted(source: Source, name: str) -> bool:
    """Whether a name, or the result of a function of this name, is used with a minus anywhere in the file."""
    for node in source.nodes:
        if isinstance(node, (ast.UnaryOp, ast.BinOp)) and isinstance(node.op, (ast.USub, ast.Sub)):
            right = node.operand if isinstance(node, ast.UnaryOp) else node.right
            if any(last_name(one) == name for one in ast.walk(right)):
                return True
    return False


@warning("loss_formula_wrong", "Milletari et al. 2016: the loss is 1 - Dice")
def score_as_loss(code: Code, source: Source) -> Iterator[Hit]:
    """A function named as a loss returns the overlap itself, which is larger for better predictions."""
    for table in code.functions.values():
        for where, function in table:
            owner = where.class_of(function)
            called = owner.name if owner is not None and function.name == "forward" else function.name
            if where is not source or "loss" not in called.lower() or not _SCORE.search(called):
                continue
            ends = [node for node in of_type(walk(function.body), ast.Return) if node.value is not None]
            scores = [one for one in ends if one.value is not None and _is_score(code, source, one.value)]
            if ends and len(scores) == len(ends) and not _is_negated_later(source, called):
                yield Hit(ends[-1], {"loss": called, "returned": ast.unparse(ends[-1].value or ends[-1])})


def _is_negated_later(source: Source, called: str) -> bool:
    """Whether the result of a loss, or of an object of its class, is used with a minus."""
    objects = {
        last_name(node.targets[0])
        for node in source.of_type(ast.Assign)
        if isinstance(node.value, ast.Call) and last_name(node.value.func) == called
    }
    return any(is_subtracted(source, name) for name in {called, *objects} - {""})


def _is_score(code: Code, source: Source, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression is an intersection divided by something, without a minus before it."""
    terms = list(signed_terms(node))
    if any(sign < 0 for sign, _ in terms) or depth > _DEPTH:
        return False
    for one in ast.walk(node):
        is_ratio = isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div)
        if is_ratio and any(map(_COMMON.search, names_in(code, source, one.left))):  # type: ignore[attr-defined]
            return True
    value = code.made(source, terms[0][1]) if len(terms) == 1 and dotted_target(terms[0][1]) else None
    return value is not None and _is_score(code, source, value, depth + 1)


@warning("loss_formula_wrong", "Lin et al. 2017, Focal Loss: the probability is exp(-cross entropy)")
def probability_of_entropy(code: Code, source: Source) -> Iterator[Hit]:
    """A focal loss takes `exp(cross entropy)`, which is above 1, for the probability of the right class."""
    for _, power, sign, term, _ in _focal_weights(code, source):
        if sign > 0:
            yield Hit(power, {"power": ast.unparse(power), "entropy": ast.unparse(term)})


@warning("loss_formula_wrong", "Lin et al. 2017, Focal Loss: the weight is that of a sample")
def focal_of_mean(code: Code, source: Source) -> Iterator[Hit]:
    """A focal loss weights the mean cross entropy of a batch, all of its samples alike, not each sample."""
    for rest, power, sign, term, call in _focal_weights(code, source):
        outer, kind = source.parents.get(rest), code.kind(source, call.func)
        is_function = source.dotted(call.func).startswith(("torch.nn.functional.", "paddle.nn.functional."))
        made = call if is_function else kind.call if kind is not None and kind.definition is None else None
        reduction = argument(made, None, "reduction") if made is not None else None
        is_mean = made is not None and (reduction is None or getattr(reduction, "value", "") == "mean")
        if is_mean and sign < 0 and isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Pow):
            yield Hit(power, {"code": ast.unparse(outer), "entropy": ast.unparse(term)})


def _focal_weights(code: Code, source: Source) -> Iterator[tuple[ast.BinOp, ast.Call, int, ast.expr, ast.Call]]:
    """Yield each `1 - exp(s)`, its `exp(s)`, the sign and the name of the cross entropy in `s`, and its call."""
    for node in source.of_type(ast.BinOp):
        rest = isinstance(node.op, ast.Sub) and number(node.left) == 1.0
        power = code.made(source, node.right) if rest else None
        if not isinstance(power, ast.Call) or not is_call(power, "exp"):
            continue
        exponent = power.args[0] if power.args else receiver(power) if not source.dotted(power.func) else None
        for sign, term in signed_terms(exponent) if exponent is not None else ():
            entropy = code.made(source, term)
            inner = list(signed_terms(entropy)) if entropy is not None else []
            call = inner[0][1] if len(inner) == 1 else None
            if isinstance(call, ast.Call) and CROSS_ENTROPY.search(last_name(call.func)):
                yield node, power, sign * inner[0][0], term, call


@warning("loss_formula_wrong", "Kendall and Gal 2017, equation 8: exp(-s) * error + s, with s = log variance")
def error_times_variance(code: Code, source: Source) -> Iterator[Hit]:
    """A loss adds a log-variance to an error times its exponential: both fall with it, so the loss has no minimum."""
    for node in source.nodes:
        is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        terms = list(signed_terms(node)) if is_sum else []  # type: ignore[arg-type]
        plain = {(sign, ast.unparse(term)) for sign, term in terms}
        for sign, term in terms:
            factors = list(_factors(term))
            powers = [one for factor in factors for one in _exponent(code, source, factor)]
            grows = any((sign * its, name) in plain for its, name in powers if its > 0)
            if grows and any(_is_error(code, source, one) for one in factors):
                yield Hit(node, {"code": ast.unparse(node), "power": ast.unparse(term)})


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _factors(node.left)
        yield from _factors(node.right)
    else:
        yield node


def _exponent(code: Code, source: Source, node: ast.expr) -> Iterator[tuple[int, str]]:
    """Yield the sign and the name of `s` in `exp(s)`, also where a name was given it."""
    power = code.made(source, node)
    if is_call(power, "exp"):
        given = power.args[0] if power.args else getattr(power.func, "value", power)
        yield from ((sign, ast.unparse(term)) for sign, term in signed_terms(given))


def _is_error(code: Code, source: Source, node: ast.expr) -> bool:
    """Whether a factor is a loss, a square or an absolute value, also where a name was given it."""
    made = code.made(source, node)
    is_square = isinstance(made, ast.BinOp) and isinstance(made.op, ast.Pow) and number(made.right) == 2.0
    return (
        is_square
        or last_name(node) == "loss"
        or is_call(made, "square", "pow", "abs", "mse_loss", "l1_loss", "smooth_l1_loss")
    )


@warning("loss_formula_wrong", "Goodfellow et al. 2016, Deep Learning, 7.1: the penalty is added")
def penalty_subtracted(code: Code, source: Source) -> Iterator[Hit]:
    """A penalty on the weights is subtracted from the loss, so that training makes the weights larger."""
    for node in source.of_type(ast.Assign):
        if "loss" not in last_name(node.targets[0]).lower() or any(k in ast.unparse(node) for k in ("elbo", "reward")):
            continue
        terms = list(signed_terms(node.value))
        for _, term in (one for one in terms if one[0] < 0 and len(terms) > 1):
            nodes = list(made_of(code, source, term))
            called = {last_name(one.func) for one in nodes if isinstance(one, ast.Call)}
            if called & {"parameters", "named_parameters"} and called & {"abs", "norm", "pow", "square"}:
                yield Hit(node, {"penalty": ast.unparse(term)})
                break


@warning(
    "loss_formula_wrong",
    "Raissi et al. 2019, Physics-informed neural networks: u_xx is the derivative of u_x with respect to x",
)
def derivative_misnamed(code: Code, source: Source) -> Iterator[Hit]:
    """A derivative is taken with respect to another input, or of another order, than its name says."""
    taken = []
    for node in source.of_type(ast.Assign):
        pair = _differentiated(code, source, node.value)
        if pair is not None and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            taken.append((node, node.targets[0].id, *pair))
    inputs = {given for _, _, _, given in taken if len(given) == 1}
    for node, name, of, given in taken:
        claimed, before = _named_derivative(name, inputs), _named_derivative(of, inputs)
        if given not in inputs or claimed is None or len(claimed[1]) > _MOST_ORDERS:
            continue
        same = before is not None and before[0] == claimed[0]
        letters = "".join(sorted((before[1] if same and before else "") + given))
        if given not in claimed[1] or ((same or of == claimed[0]) and letters != claimed[1]):
            yield Hit(node, {"name": name, "of": of, "given": given})


def _differentiated(code: Code, source: Source, value: ast.expr) -> tuple[str, str] | None:
    """Return the names of what is differentiated and by what, in `grad(u, x)[0]` or a function that returns this."""
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        value = value.value
    if not isinstance(value, ast.Call) or len(value.args) < 2:
        return None
    names = [_name_of_summed(one) for one in value.args[:2]]
    if source.dotted(value.func) in _DERIVATIVES:
        return (names[0], names[1]) if all(names) else None
    followed = code.function_named(source, value.func)
    ends = returned_values(followed[1]) if followed is not None else []
    inner = _differentiated(code, followed[0], ends[0]) if followed and len(ends) == 1 and ends[0] is not None else None
    order = parameters(followed[1]) if followed is not None else []
    is_helper = inner is not None and all(names) and list(inner) == order[:2]
    return (names[0], names[1]) if is_helper else None


def _name_of_summed(node: ast.expr) -> str:
    """Return the name `u` of `u`, `u.sum()` and `[u]`; "" for anything else."""
    if is_call(node, "sum") and isinstance(node.func, ast.Attribute) and not node.args:
        node = node.func.value
    if isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) == 1:
        node = node.elts[0]
    return node.id if isinstance(node, ast.Name) else ""


def _named_derivative(name: str, inputs: set[str]) -> tuple[str, str] | None:
    """Return the function and the sorted inputs of `u_xt`, `du_dx`, `dudx`, `d2u_dx2`; `None` for other names."""
    fraction = re.fullmatch(r"d(2?)_?(\w+?)_?d([a-z])(2?)", name)
    if fraction is not None and fraction[3] in inputs and fraction[1] == fraction[4]:
        return fraction[2], fraction[3] * (2 if fraction[1] else 1)
    stem, _, letters = name.rpartition("_")
    return (stem, "".join(sorted(letters))) if stem and letters and set(letters) <= inputs else None


@warning("loss_formula_wrong", "torch.nn.GaussianNLLLoss: var, the variance of each output; positive values")
def deviation_as_variance(code: Code, source: Source) -> Iterator[Hit]:
    """A Gaussian likelihood is given a standard deviation or a log-variance where it expects the variance."""
    for call in source.of_type(ast.Call):
        kind = code.kind(source, call.func)
        is_likelihood = kind is not None and kind.name == "torch.nn.GaussianNLLLoss"
        if not is_likelihood and source.dotted(call.func) != "torch.nn.functional.gaussian_nll_loss":
            continue
        given = argument(call, 2, "var")
        name = last_name(given) if isinstance(given, (ast.Name, ast.Attribute)) else ""
        made = code.made(source, given) if name else None
        is_squared = made is not given and made is not None and re.search(r"\*\* ?2|pow|square|exp", ast.unparse(made))
        is_deviation = _DEVIATION.search(name) and any(_is_used_as_deviation(where, name) for where in code.sources)
        if name and not is_squared and (is_deviation or _LOG_VARIANCE.search(name)):
            yield Hit(call, {"given": name})


def _is_used_as_deviation(source: Source, name: str) -> bool:
    """Whether a file squares a value, compares an error with it, or scales noise by it."""
    for node in source.nodes:
        sides = (
            [node.left, node.right] if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Pow)) else []
        )
        sides += [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        sides += node.args if is_call(node, "Normal") else []
        if any(last_name(side) == name for side in sides):
            return True
    return False


@warning("loss_formula_wrong", "torch.nn.MSELoss: reduction='mean' returns one number for the whole batch")
def weights_without_effect(code: Code, source: Source) -> Iterator[Hit]:
    """Weights of samples multiply a loss that is averaged already: every sample has the same weight."""
    for node in (one for one in source.of_type(ast.Call) if is_call(one, "mean", "sum")):
        inner = node.args[0] if node.args and source.dotted(node.func) else getattr(node.func, "value", None)
        factors = list(_factors(inner)) if isinstance(inner, ast.BinOp) else []
        losses = [one for one in factors if _is_reduced(code, source, one)]
        weights = [
            one for one in factors if one not in losses and re.search("w(?:eight|ts?)?", last_name(one), re.IGNORECASE)
        ]
        if len(losses) == 1 and weights:
            yield Hit(node, {"weights": ast.unparse(weights[0]), "loss": ast.unparse(losses[0])})


def _is_reduced(code: Code, source: Source, node: ast.expr) -> bool:
    """Whether a value is one number for a batch: of a loss of the framework whose reduction is not changed."""
    call = code.made(source, node)
    if not isinstance(call, ast.Call):
        return False
    kind = code.kind(source, call.func)
    made = kind.call if kind is not None else call
    name = kind.name if kind is not None else source.dotted(call.func)
    is_loss = re.fullmatch(r"(?:torch|paddle)\.nn\.(?:\w+Loss|functional\.(?:\w+_loss|\w*cross_entropy\w*))", name)
    options = {one.arg: getattr(one.value, "value", "") for one in made.keywords}
    changed = {"reduce", "size_average"} & set(options)
    return is_loss is not None and options.get("reduction", "mean") in ("mean", "sum") and not changed
