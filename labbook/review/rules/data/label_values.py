"""Rules about the values of labels: missing ones that were filled, class ids that were interpolated."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set

from labbook.review.call_syntax import argument, is_call
from labbook.review.code_index import Code
from labbook.review.expressions import made_of, number
from labbook.review.loaders import LABELS
from labbook.review.names import dotted_target, last_name, last_names, of_type, returned_values
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_FINDS_MISSING = frozenset(
    {"isnan", "isna", "isnull", "notna", "notnull", "isfinite", "dropna", "nanmean", "masked_invalid"}
)
_ADDS_ROWS = ("pivot", "pivot_table", "unstack", "resample", "asfreq", "reindex", "merge", "join", "crosstab", "concat")
"""Methods of pandas after which a missing value is a number of events, and 0 is right."""

_MAKES_MISSING = frozenset({"pct_change", "diff", "shift", "rolling", "log", "log10", "log1p", "divide", "sqrt"})
_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "criterion", "loss_fn", "loss_func")
_OF_CLASSES = re.compile(r"cross_?entropy|BCE|NLL|nll_loss", re.IGNORECASE)

_CLASS_MAP = re.compile(
    r"(?:^|_)(?:masks?|msks?|segs?|segmentation|seg_?maps?|label_?maps?|labels?|targets?|gts?|annos?|annotations?|y)(?:$|_|\d)"
)
_SMOOTH = re.compile(
    r"bilinear|bicubic|trilinear|lanczos|antialias|INTER_(?:LINEAR|CUBIC|AREA|LANCZOS4)", re.IGNORECASE
)
_WHOLE = re.compile(r"\b(?:u?int(?:8|16|32|64)?|long|i8|i4)\b")
_SAME_VALUES = (
    "squeeze",
    "unsqueeze",
    "from_numpy",
    "as_tensor",
    "tensor",
    "to_tensor",
    "array",
    "asarray",
    "round",
    "cpu",
    "permute",
)


def is_target_column(source: Source, name: object) -> bool:
    """Whether a column of a table is what the program predicts: it is dropped from the features, or is the labels."""
    for node in source.of_type(ast.Constant):
        outer = source.parents.get(node)
        if not name or node.value != name:
            continue
        listed = source.parents.get(outer) if isinstance(outer, ast.List) and len(outer.elts) == 1 else outer
        dropped = source.parents.get(listed) if isinstance(listed, ast.keyword) else listed
        if is_call(dropped, "drop", "pop") or (isinstance(outer, ast.Compare) and isinstance(outer.ops[0], ast.NotEq)):
            return True
        if not isinstance(outer, ast.Subscript) or not isinstance(outer.ctx, ast.Load):
            continue
        statement = source.statement(outer)
        if isinstance(statement, ast.Assign) and LABELS.fullmatch(dotted_target(statement.targets[0])):
            return True
        pair = next(
            (one for one in source.parents_of(outer) if isinstance(one, ast.Tuple) or is_call(one, "TensorDataset")),
            None,
        )
        parts = pair.elts if isinstance(pair, ast.Tuple) else pair.args if isinstance(pair, ast.Call) else []
        if len(parts) > 1 and isinstance(getattr(pair, "ctx", ast.Load()), ast.Load) and outer in ast.walk(parts[-1]):
            return True
    return False


def label_expressions(source: Source) -> Iterator[ast.expr]:
    """Yield what a program takes as labels: by name, or as the last part of a data set, of its samples or of a loss."""
    for node in source.of_type(ast.Assign):
        target = node.targets[0]
        if LABELS.fullmatch(dotted_target(target).removeprefix("self.")) or (
            isinstance(key := getattr(target, "slice", None), ast.Constant) and is_target_column(source, str(key.value))
        ):
            yield node.value
    for call in source.of_type(ast.Call):
        if is_call(call, "TensorDataset", *_LOSSES) and len(call.args) > 1:
            yield call.args[-1]
    for function in source.of_type(ast.FunctionDef):
        for value in returned_values(function) if function.name == "__getitem__" else ():
            if isinstance(value, ast.Tuple) and len(value.elts) > 1:
                yield value.elts[-1]


@warning("missing_marks", "pandas, Working with missing data: a filled value is like any other", row="data")
def missing_labels_filled(code: Code, source: Source) -> Iterator[Hit]:
    """Missing labels of a regression are replaced by a number and trained on: no mask, and no row is dropped."""
    if any(map(_OF_CLASSES.search, code.calls)):
        return
    found: dict[int, ast.AST] = {}
    for labels in label_expressions(source):
        for one in made_of(code, source, labels):
            if _is_filled(one):
                found.setdefault(one.lineno, one)  # type: ignore[attr-defined]
    for given in source.of_type(ast.Assign):  # `y[np.isnan(y)] = 0`
        target = given.targets[0]
        name = dotted_target(target.value) if isinstance(target, ast.Subscript) else ""
        is_labels = LABELS.fullmatch(name.removeprefix("self.")) and number(given.value) is not None
        if is_labels and last_names(target.slice) & {"isnan", "isna", "isnull"}:  # type: ignore[attr-defined]
            found.setdefault(given.lineno, given)
    for node in found.values():
        statement = source.statement(node)
        others = [
            one
            for one in source.of_type(ast.Call)
            if last_name(one.func) in _FINDS_MISSING and source.statement(one) is not statement
        ]
        if all(_is_only_shown(source, one) for one in others) and not _is_meant(code, source, node):
            yield Hit(node, {"code": ast.unparse(node)})


def _is_filled(node: ast.AST) -> bool:
    """Whether this replaces missing values by one number: `nan_to_num(y)`, `y.fillna(0)`, `where(isnan(y), 0, y)`."""
    if is_call(node, "nan_to_num"):
        return True
    if is_call(node, "fillna"):
        return len(node.args) == 1 and number(node.args[0]) is not None
    if is_call(node, "where") and len(node.args) == 3:
        return bool(last_names(node.args[0]) & {"isnan", "isna"}) and number(node.args[1]) is not None
    return False


def _is_only_shown(source: Source, node: ast.AST) -> bool:
    return any(is_call(one, "print", "info", "debug") or isinstance(one, ast.Assert) for one in source.parents_of(node))


def _is_meant(code: Code, source: Source, node: ast.AST) -> bool:
    """Whether the number may be right: of events that did not happen, of an edge, or as a mark that is left out."""
    if is_call(node, "fillna") and any(code.calls.get(name) for name in _ADDS_ROWS):
        return True
    if last_names(node) & _MAKES_MISSING or any(isinstance(one, ast.Div) for one in ast.walk(node)):
        return True
    filled = {0.0, *(value for one in ast.walk(node) if (value := number(one)) is not None)}  # type: ignore[arg-type]
    equalities = (one for one in source.of_type(ast.Compare) if isinstance(one.ops[0], (ast.Eq, ast.NotEq)))
    return any(number(side) in filled for one in equalities for side in (one.left, one.comparators[0]))


@warning("mask_interpolated", "torch.nn.functional.interpolate: only `nearest` makes no new values", row="data")
def class_ids_interpolated(code: Code, source: Source) -> Iterator[Hit]:
    """A map of class ids is resized with interpolation, so that other ids appear between two classes."""
    for node in source.of_type(ast.Call):
        whole = _made_whole(node)
        resized, names = _resized(code, source, whole) if whole is not None else (None, set())
        if resized is not None and any(map(_CLASS_MAP.search, names)):
            yield Hit(resized, {"code": ast.unparse(resized), "whole": last_name(node.func)})


def _made_whole(call: ast.Call) -> ast.expr | None:
    """What is converted to integers: `mask.long()`, `mask.to(torch.int64)`, `mask.astype("int64")`."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if last_name(call.func) in ("long", "int") and not call.args:
        return owner
    is_cast = last_name(call.func) in ("to", "type", "astype") and len(call.args) == 1
    return (
        owner
        if is_cast and _WHOLE.search(ast.unparse(call.args[0])) and "uint8" not in ast.unparse(call.args[0])
        else None
    )


def _resized(code: Code, source: Source, node: ast.expr, depth: int = 6) -> tuple[ast.Call | None, Set[str]]:
    """The call that interpolates a value, through names and forms of it, and the names that the value has."""
    names: set[str] = set()
    while depth:
        depth -= 1
        if dotted_target(node):
            names.add(last_name(node).lower())
            made = code.made(source, node)
            if made is None or made is node:
                return None, names
            node = made
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif is_call(node, "interpolate") and _SMOOTH.search(ast.unparse(argument(node, 3, "mode") or node.func)):
            return node, names | {one.lower() for one in last_names(node.args[0] if node.args else node)}
        elif is_call(node, "resize") and (
            _SMOOTH.search(ast.unparse(node)) or source.dotted(node.func) == "cv2.resize"
        ):
            is_nearest = "nearest" in ast.unparse(node).lower()
            return (None if is_nearest else node), names | {one.lower() for one in last_names(node)}
        elif is_call(node, *_SAME_VALUES):
            is_method = isinstance(node.func, ast.Attribute) and not source.dotted(node.func)
            inner = node.func.value if is_method else next(iter(node.args), None)  # type: ignore[attr-defined]
            if inner is None:
                break
            node = inner
        else:
            break
    return None, names


@warning("labels_out_of_order", "os.listdir: the list is in arbitrary order", row="data")
def files_and_rows_apart(code: Code, source: Source) -> Iterator[Hit]:
    """Inputs are the files of a folder, and labels the rows of a table at the same places, in an order of its own.

    A sorted list is one too, if the table has named columns: `img_10` comes before `img_2`.
    """
    for inputs, labels in _paired(source):
        files, rows = _calls_of(code, source, inputs), _calls_of(code, source, labels)
        listing = next((one for one in files if is_call(one, *_LISTS)), None)
        table = next((one for one in rows if is_call(one, *_TABLES)), None)
        # Labels that are made of the names of the files, or looked up by them, and files that the table names.
        if listing is None or table is None or any(is_call(one, *_LISTS) for one in rows) or set(files) & set(rows):
            continue
        is_sorted = any(is_call(one, "sorted", "natsorted", "sort") for one in files)
        if not is_sorted or is_call(table, *_NAMED_COLUMNS):
            yield Hit(listing, {"files": ast.unparse(listing), "table": ast.unparse(table)})
            return


_NAMED_COLUMNS = ("DictReader", "read_csv", "read_table", "read_excel")
_TABLES = (*_NAMED_COLUMNS, "reader", "load", "loadtxt", "loadmat", "readlines", "read_json", "genfromtxt")
_LISTS = ("glob", "iglob", "rglob", "listdir", "scandir", "iterdir")


def _paired(source: Source) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what has the inputs and what has the labels: `self.files` and `self.labels` of `__getitem__`."""
    for call in source.of_type(ast.Call):
        if is_call(call, "TensorDataset") and len(call.args) == 2:
            yield call.args[0], call.args[1]
    for function in source.of_type(ast.FunctionDef):
        if function.name != "__getitem__" or len(function.args.args) != 2:
            continue
        index = function.args.args[1].arg
        cut = [one for one in of_type(ast.walk(function), ast.Subscript) if dotted_target(one.slice) == index]
        stored = {dotted_target(one.value): one.value for one in cut if dotted_target(one.value).startswith("self.")}
        labels = [one for name, one in stored.items() if LABELS.fullmatch(name.removeprefix("self."))]
        yield from ((one, labels[0]) for one in stored.values() if len(labels) == 1 and one is not labels[0])


def _calls_of(code: Code, source: Source, node: ast.expr) -> list[ast.Call]:
    """All calls in what a value was made of, through attributes, arguments and names."""
    return [one for where, made in code.makers(source, node) for one in of_type(made_of(code, where, made), ast.Call)]
