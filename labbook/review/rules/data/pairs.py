"""Rules about what belongs together: a loss and its mask, inputs and their labels."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.expressions import number, without_form
from labbook.review.loaders import INPUTS, LABELS, find_loader
from labbook.review.names import (
    assigned_values,
    dotted_target,
    last_name,
    named_values,
    parameters,
    returned_values,
    walk,
)
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_MASK = re.compile(r"(?:^|_)(?:mask|masks|valid|msk|m)(?:$|_)", re.IGNORECASE)
_PADDING = re.compile(r"pad|arange|length|!= 0|ne\(0\)|valid", re.IGNORECASE)
_SAME_MASK = ("float", "to", "astype", "cast", "unsqueeze", "view", "reshape", "bool", "type_as", "long", "squeeze")


@warning(
    "masked_mean_over_all", "torch.nn.CrossEntropyLoss: `ignore_index` divides by the targets that are not ignored"
)
def masked_mean(code: Code, source: Source) -> Iterator[Hit]:
    """The mean of a loss over all elements is taken after a mask has set some to 0."""
    for node in source.nodes:
        given = _mean_of(source, node)
        function = source.function(node)
        statement = source.statement(node)
        if given is None or statement is None or not _is_loss(statement):
            continue
        product = code.made(source, given)
        if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult):
            continue
        sides = [(product.left, product.right), (product.right, product.left)]
        mask = next((name for one, other in sides if (name := _mask_name(one)) and not _mask_name(other)), "")
        around = next((one for one in source.parents_of(node) if isinstance(one, ast.BinOp)), None)
        if not mask or (around is not None and mask in ast.unparse(around).replace(ast.unparse(node), "")):
            continue
        origin = _origin(code, source, mask, function, 0)
        yield Hit(node, {"mask": mask}, "" if _PADDING.search(origin) and "rand" not in origin else "note")


def _mean_of(source: Source, node: ast.AST) -> ast.expr | None:
    """What the mean over all elements is taken of."""
    if not is_call(node, "mean"):
        return None
    if source.dotted(node.func).startswith(("torch.", "paddle.")):
        return node.args[0] if len(node.args) == 1 and not node.keywords else None
    return node.func.value if isinstance(node.func, ast.Attribute) and not node.args and not node.keywords else None


def _is_loss(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return):
        return True
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any("loss" in last_name(one).lower() for one in targets)


def _mask_name(node: ast.expr) -> str:
    """The name of a mask, with new axes or as another type; "" for anything else."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node.func, ast.Attribute) and last_name(node.func) in _SAME_MASK:
            node = node.func.value
        else:
            return ""
    name = dotted_target(node)
    return name if name and _MASK.search(name) else ""


def _origin(code: Code, source: Source, name: str, scope: ast.AST | None, depth: int) -> str:
    """The text of what a mask is made of, through names."""
    text = name
    for value in assigned_values(source.tree, name) if depth < 3 else ():
        inner = _mask_name(value)
        text += " " + ast.unparse(value)
        text += " " + _origin(code, source, inner, scope, depth + 1) if inner and inner != name else ""
    return text


@warning(
    "labels_out_of_order",
    "torch.nn.utils.rnn.pack_padded_sequence: sequences sorted by length, with everything that belongs to them",
    row="data",
)
def sorted_alone(code: Code, source: Source) -> Iterator[Hit]:
    """The samples of a batch are sorted, by their length for instance, and their labels stay in the old order."""
    for function in source.of_type(ast.FunctionDef):
        nodes = list(walk(function.body))
        returned = {dotted_target(one) for end in nodes if isinstance(end, ast.Return) for one in ast.walk(end)}
        orders = {name for node in nodes for name in _sorting_orders(node)}
        uses = [
            one for one in nodes if isinstance(one, ast.Name) and one.id in orders and isinstance(one.ctx, ast.Load)
        ]
        ordered = [rows for rows in (_rows_in_order(source, one) for one in uses) if rows]
        if not orders or len(ordered) < len(uses):
            continue  # The order is returned, or turned back.
        for names in map(_unzipped, nodes):
            moved = [name for name in names if _forms_of(nodes, name) & set(ordered)]
            left = [name for name in names if name not in moved and _forms_of(nodes, name) & returned]
            if moved and left:
                yield Hit(uses[0], {"sorted": moved[0], "other": left[0]})


def _sorting_orders(node: ast.AST) -> list[str]:
    """The names that are given indices in sorted order: `_, order = lengths.sort()`, `order = np.argsort(lengths)`."""
    call = node.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) else None
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    if call is not None and last_name(call.func) == "sort" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        return [dotted_target(target.elts[1])]
    by_index = (
        call is not None
        and last_name(call.func) == "sorted"
        and call.args
        and "range" in map(last_name, ast.walk(call.args[0]))
    )
    is_order = call is not None and (by_index or last_name(call.func) == "argsort")
    return [dotted_target(target)] if is_order and target is not None else []


def _rows_in_order(source: Source, use: ast.Name) -> str:
    """The name of the rows that an order is applied to: `x[order]`, `[x[i] for i in order]`; "" for another use."""
    outer = source.parents.get(use)
    if isinstance(outer, ast.comprehension):
        listed = source.parents.get(outer)
        inner = listed.elt if isinstance(listed, ast.ListComp) else None
        index = dotted_target(outer.target)
        is_item = isinstance(inner, ast.Subscript) and dotted_target(inner.slice) == index
        return dotted_target(inner.value) if is_item else ""  # type: ignore[union-attr]
    if is_call(outer, "index_select") and isinstance(outer.func, ast.Attribute):
        return dotted_target(outer.func.value)
    return dotted_target(outer.value) if isinstance(outer, ast.Subscript) and outer.slice is use else ""


def _unzipped(node: ast.AST) -> list[str]:
    """The names of `seqs, labels = zip(*batch)`."""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    value = node.value if isinstance(node, ast.Assign) else None
    is_unzipped = is_call(value, "zip") and len(value.args) == 1
    return [dotted_target(one) for one in target.elts] if is_unzipped and isinstance(target, ast.Tuple) else []


def _forms_of(nodes: list[ast.AST], name: str) -> set[str]:
    """A name, and the names of what is made of it: `labels` and `y` after `y = torch.tensor(labels)`."""
    found = {name}
    for node in (one for one in nodes if isinstance(one, ast.Assign)):
        if found & {dotted_target(one) for one in ast.walk(node.value)}:
            found |= {dotted_target(one) for target in node.targets for one in ast.walk(target)} - {"", "_"}
    return found


@warning(
    "labels_out_of_order",
    "Python reference, slicings: a slice without a lower bound begins with the first item",
    row="data",
)
def held_out_rows_differ(code: Code, source: Source) -> Iterator[Hit]:
    """The held-out inputs are the last rows, and what is called their labels are the first ones."""
    cuts = [
        (name, dotted_target(its.value), first, its)
        for name, its, _ in named_values(source)
        if isinstance(its, ast.Subscript) and (first := _begins_at_start(its)) is not None
    ]
    firsts = {(name, rows) for name, rows, first, _ in cuts if first}
    for name, rows, first, _ in cuts:
        its = INPUTS.fullmatch(name)
        for label, labels, _, cut in cuts if its is not None and rows and not first else ():
            match = LABELS.fullmatch(label)
            is_pair = match is not None and (its["part"], its["end"]) == (match["part"], match["end"])  # type: ignore[index]
            others = {one for one, cut_rows in firsts if cut_rows == rows}
            if is_pair and rows != labels and others and (label, labels) in firsts:
                yield Hit(cut, {"labels": label, "inputs": name, "code": ast.unparse(cut)})


def _begins_at_start(node: ast.Subscript) -> bool | None:
    """Whether a slice begins with the first row; `None` if this is no slice of rows."""
    if not isinstance(node.slice, ast.Slice) or node.slice.step is not None:
        return None
    return node.slice.lower is None or number(node.slice.lower) == 0


@warning("arguments_swapped", "Rice et al. 2017, Detecting argument selection defects: the same for names of results")
def results_exchanged(code: Code, source: Source) -> Iterator[Hit]:
    """Two results of a function, or two parts of a sample, are unpacked at each other's place, by the names of both."""
    pairs = [(one.targets[0], one.value) for one in source.of_type(ast.Assign)]
    for target, its in [*pairs, *((one.target, one.iter) for one in source.of_type(ast.For))]:
        if is_call(its, "enumerate") and isinstance(target, ast.Tuple):
            target = target.elts[-1]
        given = [_bare_name(one) for one in target.elts] if isinstance(target, ast.Tuple) else []
        for names in _names_of_results(code, source, its) if len(set(given)) > 1 else ():
            places = [at for at, (one, other) in enumerate(zip(given, names, strict=False)) if one != other]
            swapped = len(names) == len(given) and [given[at] for at in places[::-1]] == [names[at] for at in places]
            if swapped and len(places) == 2 and all(len(names[at]) > 1 for at in places):
                first, second = (names[at] for at in places)
                yield Hit(its, {"code": ast.unparse(its), "first": first, "second": second})
                break


def _names_of_results(code: Code, source: Source, node: ast.expr) -> Iterator[list[str]]:
    """Yields the names of what a call returns, or of what a loader of the program has in each sample."""
    loader, dataset, function = find_loader(code, source, node), None, None
    if loader is not None and loader.call.args and not any("collate" in str(k.arg) for k in loader.call.keywords):
        dataset = code.kind(loader.source, loader.call.args[0])
    if dataset is not None and dataset.definition is not None:
        function = code.method(*dataset.definition, "__getitem__")
    elif dataset is not None and dataset.name.endswith(".TensorDataset"):
        yield [_bare_name(one) for one in dataset.call.args]
    elif isinstance(node, ast.Call):
        function = code.function_named(source, node.func)
    for value in returned_values(function[1]) if function is not None else ():
        names = [_bare_name(one) for one in value.elts] if isinstance(value, ast.Tuple) else []
        if function is not None and not set(names) <= set(parameters(function[1])):
            yield names


def _bare_name(node: ast.expr) -> str:
    """The name of a value or of the rows that it is one of, without a plural: `mask` of `self.masks[i]`."""
    node = without_form(node)
    while isinstance(node, ast.Subscript):
        node = node.value
    return last_name(node).lower().removesuffix("s")
