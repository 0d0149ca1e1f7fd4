"""Rules about scalers and other statistics: fitted on all rows, or again on held-out rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence, Set

from labbook.review.call_syntax import calls_of, is_call, receiver
from labbook.review.code_index import Code, Kind
from labbook.review.expressions import made_of, without_form
from labbook.review.names import (
    Function,
    assigned_pairs,
    assigns,
    dotted_target,
    last_name,
    last_names,
    of_type,
    parameters,
    walk,
)
from labbook.review.rules.data.label_values import is_target_column
from labbook.review.rules.data.leaks import HELD_OUT, is_split_of_folds
from labbook.review.source_file import Source
from labbook.review.violation import Hit, note, warning

_FITTED = (
    *("sklearn.preprocessing", "sklearn.decomposition", "sklearn.impute", "sklearn.feature_selection"),
    *("sklearn.feature_extraction.text", "category_encoders", "category_encoders.target_encoder"),
)
_STATELESS = (
    "Label",
    "Hashing",
    "OneHot",
    "Ordinal",
    "MultiLabel",
    "Binarizer",
    "Normalizer",
    "Function",
    "Polynomial",
)
"""Beginnings of the names of classes that learn no statistics of the rows."""
_PART = re.compile(r"(?:^|_)(?:val|valid|validation|test|dev)(?:$|_)")


@warning("train_val_overlap", "scikit-learn, Common pitfalls: data leakage during pre-processing", row="data")
def fitted_before_split(code: Code, source: Source) -> Iterator[Hit]:
    """A scaler is fitted on all rows, which are split into training and validation data only after that."""
    for node in source.of_type(ast.Call):
        if not node.args:
            continue
        rows = node.args[0]
        while is_call(rows, "fit_transform") and rows.args:
            rows = rows.args[0]
        name, kind = dotted_target(rows), _scaler(code, source, node)
        if kind is None or not name or "train" in name.lower():
            continue
        names = _transformed(source, node, name, dotted_target(getattr(node.func, "value", node)))
        fitted = kind.name.rpartition(".")[2]
        how = _divided_later(code, source, node, names)
        if how:
            is_scaler = fitted.endswith("Scaler") and how == "place"
            yield Hit(node, {"fitted": fitted, "rows": name}, "note" if is_scaler else "")


@warning("train_val_overlap", "imbalanced-learn, Common pitfalls: resampling the entire dataset", row="data")
def resampled_before_split(code: Code, source: Source) -> Iterator[Hit]:
    """Rows of a rare class are added, as copies or between others, and some of them are held out after that."""
    for node in code.calls_in(source, "fit_resample", "fit_sample"):
        kind, statement = code.kind(source, receiver(node)), source.statement(node)
        rows = dotted_target(node.args[0]) if node.args else ""
        package, _, sampler = kind.name.rpartition(".") if kind is not None else ("", "", "")
        adds = package.startswith("imblearn.") and "under" not in package and "train" not in rows.lower()
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        names = {
            dotted_target(one) for one in (target.elts if isinstance(target, ast.Tuple) else [target] if target else [])
        }
        if adds and rows and _divided_later(code, source, node, names - {""}):
            yield Hit(node, {"sampler": sampler, "rows": rows})


def _divided_later(code: Code, source: Source, node: ast.AST, names: Set[str]) -> str:
    """How rows with one of some names are divided below a node: by a function ("split"), by "place", or ""."""
    scope, line = source.function(node), getattr(node, "lineno", 0)
    splits = [*code.calls.get("train_test_split", ()), *code.calls.get("split", ())]
    given = [
        one
        for where, split in splits
        if where is source and source.function(split) is scope and split.lineno > line
        if last_name(split.func) != "split" or is_split_of_folds(code, where, split)
        for one in split.args
    ]
    # `random_split(TensorDataset(x, y), ...)` divides what was made of the rows.
    for split in code.calls_in(source, "random_split"):
        given += calls_of(made_of(code, source, split), "TensorDataset")
    if any(names & {dotted_target(part) for part in ast.walk(one)} for one in given):
        return "split"
    body = scope.body if scope is not None else source.tree.body
    return "place" if any(_is_divided(walk(body), one, line) for one in names) else ""


def _transformed(source: Source, fit: ast.Call, rows: str, scaler: str) -> set[str]:
    """Names of what a fitted scaler makes of the rows that it was fitted on, and of the rows themselves."""
    names = {rows} if last_name(fit.func) == "fit" else set()
    for node in source.of_type(ast.Assign):
        if node.lineno < fit.lineno or source.function(node) is not source.function(fit):
            continue
        calls = list(of_type(ast.walk(node.value), ast.Call))
        is_result = any(
            call is fit
            or (
                last_name(call.func) == "transform"
                and dotted_target(getattr(call.func, "value", call)) == scaler != ""
                and [dotted_target(one) for one in call.args[:1]] == [rows]
            )
            for call in calls
        )
        is_form = dotted_target(without_form(node.value)) in names
        names |= {dotted_target(node.targets[0])} - {""} if is_result or is_form else set()
    return names


@warning("train_val_overlap", "scikit-learn, Common pitfalls: feature selection on all rows", row="data")
def selected_before_split(code: Code, source: Source) -> Iterator[Hit]:
    """What transforms the inputs is fitted on all rows and their labels, some of which are held out after that."""
    for node in code.calls_in(source, "fit", "fit_transform"):
        owner, scope = getattr(node.func, "value", None), source.function(node)
        kind, names = code.kind(source, owner), [dotted_target(one) for one in node.args]
        if owner is None or len(names) != 2 or not all(names) or any("train" in one.lower() for one in names):
            continue
        own = kind.definition if kind is not None else None
        selects = kind is not None and kind.name.startswith("sklearn.feature_selection.")
        if not selects and (own is None or code.is_module(*own) or code.method(*own, "transform") is None):
            continue
        body = scope.body if scope is not None else source.tree.body
        parts = {(ast.unparse(one.value), ast.unparse(one.slice)) for one in of_type(walk(body), ast.Subscript)}
        if any((names[1], part) in parts for pair in _complements(body) for part in pair):
            fitted = (own[1].name if own is not None else kind.name).rpartition(".")[2]  # type: ignore[union-attr]
            yield Hit(node, {"fitted": fitted, "rows": names[0], "labels": names[1]})


def _complements(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yields the names of the rows before and after a place, as of `train, held = order[:n], order[n:]`."""
    cuts = [
        (dotted_target(target), ast.unparse(value.value), value.slice)
        for node in of_type(walk(body), ast.Assign)
        for target, value in assigned_pairs(node)
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice)
    ]
    for name, rows, cut in cuts:
        for other, its, rest in cuts:
            is_cut = rows == its and cut.lower is None and rest.upper is None and cut.upper and rest.lower
            if is_cut and ast.unparse(cut.upper) == ast.unparse(rest.lower):  # type: ignore[arg-type]
                yield name, other


@note("train_val_overlap", "scikit-learn, Common pitfalls: data leakage during pre-processing", row="data")
def scaled_before_split(code: Code, source: Source) -> Iterator[Hit]:
    """All rows are scaled by their own mean and deviation, and divided into training and validation data after that."""
    for node in source.of_type(ast.Assign):
        if not isinstance(node.value, ast.BinOp):
            continue
        name = dotted_target(node.targets[0])
        rows = _scaled_by_themselves(code, source, node.value)
        scope = source.function(node)
        body = scope.body if scope is not None else source.tree.body
        if name and rows and "train" not in rows.lower() and _is_divided(walk(body), name, node.lineno):
            yield Hit(node, {"rows": rows, "code": ast.unparse(node)})


@warning("train_val_overlap", "scikit-learn, TargetEncoder: the encoding of a row is learnt on other rows", row="data")
def encoded_before_split(code: Code, source: Source) -> Iterator[Hit]:
    """A feature is the mean of the labels of a group of rows, those that are held out after that among them."""
    for node in source.of_type(ast.Assign):
        target, group = node.targets[0], _grouped_column(node.value)
        frame = dotted_target(target.value) if isinstance(target, ast.Subscript) else ""
        if not frame or not group or "train" in frame.lower() or not is_target_column(source, group):
            continue
        if _divided_later(code, source, node, {frame}):
            yield Hit(node, {"code": ast.unparse(node), "column": group, "rows": frame})


def _grouped_column(value: ast.expr) -> str:
    """The column whose mean is taken in each group: "y" of `t.groupby("shop")["y"].transform("mean")`; or ""."""
    means = {one.value for one in of_type(ast.walk(value), ast.Constant)} | last_names(value)
    for node in of_type(ast.walk(value), ast.Subscript):
        if is_call(node.value, "groupby") and "train" not in ast.unparse(node.value).lower():
            column = node.slice.value if isinstance(node.slice, ast.Constant) else ""
            return str(column) if means & {"mean", "sum", "median"} else ""
    return ""


def _scaled_by_themselves(code: Code, source: Source, node: ast.BinOp) -> str:
    """The name of the rows in `(x - x.mean(0)) / x.std(0)`, through names of the mean and the deviation; or ""."""
    is_scaled = isinstance(node.op, ast.Div) and isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Sub)
    rows = dotted_target(node.left.left) if is_scaled else ""  # type: ignore[attr-defined]
    sides = ((getattr(node.left, "right", node), ("mean", "min")), (node.right, ("std", "max")))
    for part, wanted in sides if rows else ():
        calls = [
            one for one in made_of(code, source, part) if isinstance(one, ast.Call) and last_name(one.func) in wanted
        ]
        of_rows = [
            one
            for one in calls
            if rows in (dotted_target(getattr(one.func, "value", one)), *map(dotted_target, one.args))
        ]
        if not of_rows or any(ast.unparse(k.value) in ("1", "-1") for one in of_rows for k in one.keywords):
            return ""
    return rows


def _is_divided(nodes: Iterator[ast.AST], name: str, after: int) -> bool:
    """Whether rows are split at random, into those before and those after a row, or by two indices, below a line."""
    ends: set[str] = set()
    indices: set[str] = set()
    for node in nodes:
        if getattr(node, "lineno", 0) <= after:
            continue
        split = node.args if is_call(node, "train_test_split") else ()
        if any(dotted_target(one) == name for one in split):
            return True
        cut = node.slice if isinstance(node, ast.Subscript) and dotted_target(node.value) == name else None
        indices |= {dotted_target(cut)} - {""} if cut is not None else set()
        if isinstance(cut, ast.Slice) and (cut.lower is None) != (cut.upper is None):
            ends.add(f"before {ast.unparse(cut.upper)}" if cut.upper is not None else f"after {ast.unparse(cut.lower)}")  # type: ignore[arg-type]
    by_index = any("train" in one for one in indices) and any(map(_PART.search, indices))
    return by_index or any(one.startswith("before ") and one.replace("before", "after") in ends for one in ends)


@warning("validation_inputs_differ", "scikit-learn, Common pitfalls: inconsistent preprocessing", row="data")
def fitted_again(code: Code, source: Source) -> Iterator[Hit]:
    """A scaler is fitted on held-out rows although the same kind of scaler was fitted on those of training."""
    fits = [
        (node, source.function(node), ast.unparse(node.args[0]), kind.name)
        for node in source.of_type(ast.Call)
        if node.args and (kind := _scaler(code, source, node)) is not None
    ]
    for node, function, rows, fitted in fits:
        twins = {HELD_OUT.sub(part, rows) for part in ("train", "tr", "training")} - {rows}
        twins |= {ast.unparse(before) for before in _rows_before(code, source, node.args[0])}
        if any(its == fitted and where is function and one in twins for _, where, one, its in fits):
            yield Hit(node, {"fitted": fitted.rpartition(".")[2], "rows": rows})


def _rows_before(code: Code, source: Source, rows: ast.expr) -> Iterator[ast.expr]:
    """Yield `x[:n]`, and the name that was given it, for `x[n:]`, or for a name that was given that."""
    cut = code.made(source, rows)
    place = cut.slice if isinstance(cut, ast.Subscript) else None
    if isinstance(place, ast.Slice) and place.lower is not None and place.upper is None and place.step is None:
        before = ast.Subscript(cut.value, ast.Slice(None, place.lower))  # type: ignore[union-attr]
        yield before
        text = ast.unparse(before)
        for node in source.of_type(ast.Assign):
            yield from (one for one, its in assigned_pairs(node) if its is not None and ast.unparse(its) == text)


def _scaler(code: Code, source: Source, fit: ast.Call) -> Kind | None:
    """The object of a call of `fit`, if it is of scikit-learn and learns statistics of the rows; else `None`."""
    if not isinstance(fit.func, ast.Attribute) or fit.func.attr not in ("fit", "fit_transform"):
        return None
    kind = code.kind(source, fit.func.value)
    package, _, fitted = kind.name.rpartition(".") if kind is not None else ("", "", "")
    return kind if package in _FITTED and not fitted.startswith(_STATELESS) else None


@warning(
    "classes_renumbered",
    "torchvision.datasets.DatasetFolder: class_to_idx is made of the sorted names of all classes",
    row="data",
)
def numbered_per_part(code: Code, source: Source) -> Iterator[Hit]:
    """Training and validation data number their classes or words themselves, in the order in which they find them."""
    for node in (*source.of_type(ast.DictComp), *source.of_type(ast.Assign)):
        function = source.function(node)
        if isinstance(node, ast.DictComp):
            numbers = _numbers_by_appearance(code, source, node)
        else:  # a table that the function makes itself
            table = _numbers_new(node)
            numbers = bool(table) and any(assigns(one, table) for one in walk(function.body if function else ()))
        if function is None or not numbers:
            continue
        owner = source.class_of(function)
        shared = {
            name for one in source.parents_of(node) if isinstance(one, ast.If) for name in _missing_names(one.test)
        }
        is_made = owner is not None and function.name == "__init__"
        calls = code.calls.get(owner.name if is_made and owner is not None else function.name, ())
        alone = [where.statement(call) for where, call in calls if not _is_given(function, call, shared, is_made)]
        names = {last_name(one) for statement in alone if statement is not None for one in ast.walk(statement)}
        if len(alone) > 1 and any(map(_PART.search, names)) and any("train" in one for one in names):
            yield Hit(node, {"code": ast.unparse(node.generators[0].iter if isinstance(node, ast.DictComp) else node)})


def _numbers_new(node: ast.AST) -> str:
    """The name of a table in `table[word] = len(table)`, or ""."""
    target, size = (node.targets[0], node.value) if isinstance(node, ast.Assign) else (None, None)
    table = dotted_target(target.value) if isinstance(target, ast.Subscript) else ""
    return table if is_call(size, "len") and [dotted_target(one) for one in size.args] == [table] else ""


def _numbers_by_appearance(code: Code, source: Source, node: ast.DictComp) -> bool:
    """Whether this is `{name: i for i, name in enumerate(names)}` with names of a parameter that are not sorted."""
    places = node.generators[0]
    call = places.iter
    if not is_call(call, "enumerate") or not isinstance(places.target, ast.Tuple):
        return False
    if dotted_target(places.target.elts[0]) not in map(dotted_target, ast.walk(node.value)):
        return False
    nodes = [one for given in call.args for one in made_of(code, source, given)]
    called = {last_name(one.func) for one in nodes if isinstance(one, ast.Call)}
    function = source.function(node)
    read = {one.id for one in nodes if isinstance(one, ast.Name)} & (set(parameters(function)) if function else set())
    return bool(called & {"set", "fromkeys", "Counter"}) and "sorted" not in called and bool(read - {"self"})


def _missing_names(test: ast.expr) -> set[str]:
    """The names that a test finds to be `None`."""
    is_test = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is)
    return {dotted_target(test.left)} if is_test else set()  # type: ignore[attr-defined]


def _is_given(function: Function, call: ast.Call, names: Set[str], is_method: bool) -> bool:
    """Whether a call has an argument for one of some parameters."""
    places = parameters(function)[1:] if is_method else parameters(function)
    given = {*places[: len(call.args)], *(one.arg for one in call.keywords)}
    return bool(names & given)
