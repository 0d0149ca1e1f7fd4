"""Rules about the labels that a loss compares with: mixed, smoothed, weighted by class, padded."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code
from labbook.review.expressions import both_orders, made_of, names_in, number
from labbook.review.gradient_flow import is_under_no_grad
from labbook.review.names import SCOPES, Function, contains, dotted_target, last_name, last_names, of_type, walk
from labbook.review.rules.loss.formulas import CROSS_ENTROPY
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_POSITIVE = re.compile(r"(?:^|_)(?:n_?|num_?)?(?:pos|positives?)(?:$|_)", re.IGNORECASE)
_NEGATIVE = re.compile(r"(?:^|_)(?:n_?|num_?)?(?:neg|negatives?)(?:$|_)", re.IGNORECASE)
_WITH_LABELS = ("cross_entropy", "criterion", "loss_fn", "loss_func")
_SMOOTHING = re.compile(r"(?:^|_)(?:eps|epsilon|smooth|smoothing|alpha)(?:$|_)")


@warning("loss_formula_wrong", "Zhang et al. 2018, mixup: inputs and targets are mixed alike")
def labels_not_mixed(code: Code, source: Source) -> Iterator[Hit]:
    """Two samples are mixed, and the loss has the label of the first one alone: the share is read nowhere else."""
    labelled = any(code.calls.get(name) for name in _WITH_LABELS)
    for node in source.nodes if labelled else ():
        share = _share_of_mixing(node)
        if not share:
            continue
        function = source.function(node)
        body = function.body if function is not None else source.tree.body
        outside = [one for one in _reads(body, share) if not contains(node, one)]
        ends = {source.statement(one) for one in outside}
        if function is None or not all(isinstance(one, ast.Return) for one in ends):
            is_read = bool(outside)
        else:
            is_read = any(_is_result_read(code, one, function, share) for one in ends)
        if not is_read:
            yield Hit(node, {"share": share, "mixed": ast.unparse(node)})


def _reads(body: list[ast.stmt], name: str) -> list[ast.AST]:
    return [one for one in of_type(walk(body), ast.Name) if one.id == name and isinstance(one.ctx, ast.Load)]


def _share_of_mixing(node: ast.AST) -> str:
    """The name of the share in `share * x + (1 - share) * x[order]`, in any order of factors; or ""."""
    if is_call(node, "add") and len(node.args) == 1:  # `x.mul(share).add(x[order], alpha=1 - share)`
        first, rest = receiver(node), argument(node, None, "alpha")
        if not is_call(first, "mul") or not first.args or rest is None:
            return ""
        parts = [(receiver(first), first.args[0]), (node.args[0], rest)]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [one for one in (node.left, node.right) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)]
        parts = [(one.right, one.left) for one in sides]
    else:
        return ""
    return _share_of_parts(parts) or _share_of_parts([(factor, rows) for rows, factor in parts if rows is not None])


def _share_of_parts(parts: list[tuple[ast.expr | None, ast.expr]]) -> str:
    """The name of the share, of two pairs of rows and the factor that they have."""
    if len(parts) != 2:
        return ""
    (first, share), (second, rest) = parts
    again = isinstance(second, ast.Subscript) and not isinstance(second.slice, (ast.Slice, ast.Constant, ast.Tuple))
    name = dotted_target(share)
    is_mixed = again and first is not None and dotted_target(first) == dotted_target(second.value) != ""  # type: ignore[union-attr]
    return name if is_mixed and ast.unparse(rest) in (f"1 - {name}", f"1.0 - {name}") else ""


def _is_result_read(code: Code, end: ast.AST | None, function: Function, share: str) -> bool:
    """Whether a caller reads the value that a function returns under a name."""
    value = end.value if isinstance(end, ast.Return) else None
    if not isinstance(value, ast.Tuple):
        return True
    place = next((at for at, one in enumerate(value.elts) if dotted_target(one) == share), None)
    for where, call in code.calls.get(function.name, ()):
        statement, caller = where.statement(call), where.function(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if place is None or not isinstance(target, ast.Tuple) or len(target.elts) != len(value.elts):
            return True
        if _reads(caller.body if caller is not None else where.tree.body, dotted_target(target.elts[place])):
            return True
    return not code.calls.get(function.name)


@warning("class_weights_inverted", "torch.nn.BCEWithLogitsLoss: pos_weight is negatives / positives")
def weights_inverted(code: Code, source: Source) -> Iterator[Hit]:
    """A loss gives the frequent class the larger weight: `positives / negatives`, `counts / total`."""
    for node in source.of_type(ast.Call):
        if not last_name(node.func)[:1]:
            continue
        positive, weight = argument(node, None, "pos_weight"), argument(node, None, "weight")
        if positive is not None:
            share = _ratio(code, source, positive)
            sides = [_side(code, source, one) for one in (share.left, share.right)] if share is not None else []
            if sides == ["positive", "negative"]:
                yield Hit(
                    node, {"weight": "pos_weight", "made": ast.unparse(share or node), "right": "negatives / positives"}
                )
        if weight is not None and CROSS_ENTROPY.search(last_name(node.func)) and _is_frequency(code, source, weight):
            made = _ratio(code, source, weight)
            yield Hit(node, {"weight": "weight", "made": ast.unparse(made or weight), "right": "total / counts"})


def _ratio(code: Code, source: Source, node: ast.expr) -> ast.BinOp | None:
    """The division that an argument is, through names and calls that make a tensor of it."""
    made = code.made(source, node)
    while isinstance(made, ast.Call) and (made.args or isinstance(made.func, ast.Attribute)):
        inner = made.args[0] if made.args and source.dotted(made.func) else getattr(made.func, "value", None)
        if isinstance(inner, ast.List) and len(inner.elts) == 1:
            inner = inner.elts[0]
        made = code.made(source, inner)
    while isinstance(made, ast.BinOp) and isinstance(made.op, ast.Mult):  # by a number, as that of the classes
        made = code.made(source, next((one for one, other in both_orders(made) if number(other) is not None), None))
    return made if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Div) else None


def _side(code: Code, source: Source, node: ast.expr) -> str:
    """Whether a number counts the positive or the negative samples, by its name or by how it was counted."""
    names = last_names(node)
    if any(map(_POSITIVE.search, names)) != any(map(_NEGATIVE.search, names)):
        return "positive" if any(map(_POSITIVE.search, names)) else "negative"
    tests = {number(one.comparators[0]) for one in made_of(code, source, node) if isinstance(one, ast.Compare)}
    return "positive" if tests == {1.0} else "negative" if tests == {0.0} else ""


def _is_frequency(code: Code, source: Source, weight: ast.expr) -> bool:
    """Whether weights of classes are their counts divided by the sum of the counts."""
    share = _ratio(code, source, weight)
    if share is None or not isinstance(share.left, (ast.Name, ast.Call)):
        return False
    counted = bool(names_in(code, source, share.left) & {"bincount", "Counter", "value_counts"})
    # `[(labels == k).sum() for k in range(3)]`
    listed = list(of_type(made_of(code, source, share.left), ast.ListComp))
    counted |= any(
        is_call(one, "sum") and isinstance(receiver(one), ast.Compare) for all_ in listed for one in ast.walk(all_.elt)
    )
    total = share.right
    is_total = last_name(getattr(total, "func", total)) in ("len", "sum") and not isinstance(
        source.parents[share], SCOPES
    )
    return counted and is_total and not _has_division(code, source, share.left)


def _has_division(code: Code, source: Source, node: ast.expr) -> bool:
    return any(isinstance(one, (ast.Div, ast.Pow, ast.Sub)) for one in made_of(code, source, node))


@warning("loss_formula_wrong", "Szegedy et al. 2016, section 7: (1 - eps) * one_hot + eps / classes")
def smoothing_not_divided(code: Code, source: Source) -> Iterator[Hit]:
    """Labels are smoothed by adding the whole share to each class: a row has a sum above 1."""
    for node in (one for one in source.of_type(ast.BinOp) if isinstance(one.op, ast.Add)):
        for product, share in both_orders(node):
            name = dotted_target(share)
            factors = [ast.unparse(product.left), ast.unparse(product.right)] if _is_product(product) else []  # type: ignore[attr-defined]
            is_rest = name and {f"1 - {name}", f"1.0 - {name}"} & set(factors)
            if is_rest and _SMOOTHING.search(name) and names_in(code, source, product) & {"one_hot", "eye", "scatter_"}:
                yield Hit(node, {"code": ast.unparse(node), "share": name})


def _is_product(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


@warning("padding_in_loss", "torch.nn.CrossEntropyLoss: ignore_index")
def padding_only_in_metric(code: Code, source: Source) -> Iterator[Hit]:
    """The metric leaves out padded labels, and a loss that the program writes itself counts them."""
    if not code.calls.get("pad_sequence") or re.search("ignore_index|reduction=|lengths", "\n".join(source.lines)):
        return
    tests = [one for one in source.of_type(ast.Compare) if isinstance(one.ops[0], ast.NotEq)]
    padded = {dotted_target(one.left) for one in tests if number(one.comparators[0]) == 0.0} - {""}
    if not padded or not all(is_under_no_grad(source, one) for one in tests):
        return
    for node in source.of_type(ast.Assign):
        call = node.value
        own = code.function_named(source, call.func) if isinstance(call, ast.Call) else None
        names = {dotted_target(one) for one in call.args} if isinstance(call, ast.Call) else set()
        is_masked = own is not None and re.search(r"mask|pad|> 0|\bne\(", ast.unparse(own[1])) is not None
        is_loss = "loss" in last_name(node.targets[0]) and not is_under_no_grad(source, node)
        if own is not None and is_loss and not is_masked and names & padded:
            yield Hit(node, {"loss": own[1].name, "labels": next(iter(names & padded))})
