"""Rules about validation data that training has seen, or that are scaled by themselves: scalers and windows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence, Set

from labbook.review.call_syntax import calls_of, is_call, receiver
from labbook.review.code_index import Code, Kind
from labbook.review.eval_loops import names_evaluation
from labbook.review.expressions import made_of
from labbook.review.gradient_flow import events, reached_nodes
from labbook.review.names import Function, assigns, dotted_target, last_name, parameters, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, note, warning

_FITTED = ("sklearn.preprocessing", "sklearn.decomposition", "sklearn.impute", "sklearn.feature_selection")
_STATELESS = ("Label", "OneHot", "Ordinal", "MultiLabel", "Binarizer", "Normalizer", "Function", "Polynomial")
"""Beginnings of the names of classes that learn no statistics of the rows."""

_HELD_OUT = re.compile(r"(?<!la)test|valid(?:ation)?|val|dev|eval|te(?=$|_)")
_PART = re.compile(r"(?:^|_)(?:val|valid|validation|test|dev)(?:$|_)")
_NODES = re.compile(
    r"^(?:idx_)?(train|val|test)(?:(?<=idx_train)|(?<=idx_val)|(?<=idx_test)|_mask|_idx|_index|_nodes)$"
)
_LOSSES = ("cross_entropy", "nll_loss", "criterion", "loss_fn")
_REMAINDERS = ("setdiff1d", "drop", "isin", "delete", "difference", "in1d")
"""Functions that take the rows of one part out of the other."""

_SPLITS = ("random_split", "train_test_split")


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
        splits = [*code.calls.get("train_test_split", ()), *code.calls.get("split", ())]
        for where, split in splits:
            after = where is source and source.function(split) is source.function(node) and split.lineno > node.lineno
            divides = last_name(split.func) != "split" or _is_split_of_folds(code, where, split)
            if after and divides and any(dotted_target(one) in names for one in split.args):
                yield Hit(node, {"fitted": kind.name.rpartition(".")[2], "rows": name})
                break


def _transformed(source: Source, fit: ast.Call, rows: str, scaler: str) -> set[str]:
    """Names of what a fitted scaler makes of the rows that it was fitted on, and of the rows themselves."""
    names = {rows} if last_name(fit.func) == "fit" else set()
    for node in source.of_type(ast.Assign):
        if not isinstance(node.value, ast.Call) or node.lineno < fit.lineno:
            continue
        call = node.value
        is_result = call is fit or (
            last_name(call.func) == "transform"
            and dotted_target(getattr(call.func, "value", call)) == scaler != ""
            and [dotted_target(one) for one in call.args[:1]] == [rows]
        )
        names |= {dotted_target(node.targets[0])} - {""} if is_result else set()
    return names


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
    """Whether rows are split at random, or into those before and those after a row, below a line."""
    ends: set[str] = set()
    for node in nodes:
        if getattr(node, "lineno", 0) <= after:
            continue
        split = node.args if is_call(node, "train_test_split") else ()
        if any(dotted_target(one) == name for one in split):
            return True
        cut = node.slice if isinstance(node, ast.Subscript) and dotted_target(node.value) == name else None
        if isinstance(cut, ast.Slice) and (cut.lower is None) != (cut.upper is None):
            ends.add(f"before {ast.unparse(cut.upper)}" if cut.upper is not None else f"after {ast.unparse(cut.lower)}")  # type: ignore[arg-type]
    return any(one.startswith("before ") and one.replace("before", "after") in ends for one in ends)


@warning("validation_inputs_differ", "scikit-learn, Common pitfalls: inconsistent preprocessing", row="data")
def fitted_again(code: Code, source: Source) -> Iterator[Hit]:
    """A scaler is fitted on held-out rows although the same kind of scaler was fitted on those of training."""
    fits = [
        (node, source.function(node), ast.unparse(node.args[0]), kind.name)
        for node in source.of_type(ast.Call)
        if node.args and (kind := _scaler(code, source, node)) is not None
    ]
    for node, function, rows, fitted in fits:
        twins = {_HELD_OUT.sub(part, rows) for part in ("train", "tr", "training")} - {rows}
        if any(its == fitted and where is function and one in twins for _, where, one, its in fits):
            yield Hit(node, {"fitted": fitted.rpartition(".")[2], "rows": rows})


def _scaler(code: Code, source: Source, fit: ast.Call) -> Kind | None:
    """The object of a call of `fit`, if it is of scikit-learn and learns statistics of the rows; else `None`."""
    if not isinstance(fit.func, ast.Attribute) or fit.func.attr not in ("fit", "fit_transform"):
        return None
    kind = code.kind(source, fit.func.value)
    package, _, fitted = kind.name.rpartition(".") if kind is not None else ("", "", "")
    return kind if package in _FITTED and not fitted.startswith(_STATELESS) else None


@warning("train_val_overlap", "scikit-learn, TimeSeriesSplit: samples of a series depend on those before", row="data")
def windows_split_at_random(code: Code, source: Source) -> Iterator[Hit]:
    """Overlapping windows of a series are divided at random into training and validation data."""
    definitions = [
        (name, node) for table in (code.functions, code.classes) for name in table for _, node in table[name]
    ]
    makers = {name for name, node in definitions if any(map(_cuts_windows, ast.walk(node)))}
    for name in _SPLITS:
        for call in code.calls_in(source, name):
            ordered = any(k.arg == "shuffle" and ast.unparse(k.value) == "False" for k in call.keywords)
            if ordered or not call.args:
                continue
            function = source.function(call)
            windows = _windows_in(function.body if function is not None else source.tree.body, makers)
            if _is_made_of(call.args[0], windows, makers):
                yield Hit(call, {"split": name, "windows": ast.unparse(call.args[0])})


def _windows_in(body: Sequence[ast.stmt], makers: Set[str]) -> set[str]:
    """Names of overlapping windows, and of all that is made of them."""
    names: set[str] = set()
    for node in walk(body):
        if isinstance(node, ast.For) and _cuts_windows(node):
            calls = list(calls_of(ast.walk(node), "append"))
            names |= {dotted_target(one.func.value) for one in calls}  # type: ignore[attr-defined]
        elif isinstance(node, ast.Assign) and _is_made_of(node.value, names, makers):
            names |= {dotted_target(one) for target in node.targets for one in ast.walk(target)}
    return names - {"", "_"}


def _is_made_of(node: ast.expr, windows: Set[str], makers: Set[str]) -> bool:
    """Whether an expression contains windows: their name, a call that cuts them, or the cutting itself."""
    for one in ast.walk(node):
        made = isinstance(one, ast.Call) and last_name(one.func) in makers
        if made or dotted_target(one) in windows or _cuts_windows(one):
            return True
    return False


def _cuts_windows(node: ast.AST) -> bool:
    """Whether a loop, a list or `__getitem__` cuts `x[i : i + width]` at each place `i`."""
    if isinstance(node, ast.FunctionDef):
        index = node.args.args[1].arg if node.name == "__getitem__" and len(node.args.args) == 2 else ""
        return bool(index) and any(_is_window(one, index) for one in ast.walk(node))
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        places, inner = node.generators[0], node.elt
        target, steps = places.target, places.iter
    elif isinstance(node, ast.For):
        target, steps, inner = node.target, node.iter, node  # type: ignore[assignment]
    else:
        return False
    each = is_call(steps, "range") and len(steps.args) < 3
    shorter = each and any(isinstance(one, ast.Sub) for one in ast.walk(steps))
    return shorter and isinstance(target, ast.Name) and any(_is_window(one, target.id) for one in ast.walk(inner))


def _is_window(node: ast.AST, index: str) -> bool:
    """Whether this is `x[index : index + width]`."""
    cut = node.slice if isinstance(node, ast.Subscript) else None
    cut = cut.elts[0] if isinstance(cut, ast.Tuple) and cut.elts else cut
    upper = cut.upper if isinstance(cut, ast.Slice) and cut.lower is not None else None
    if not isinstance(cut, ast.Slice) or not isinstance(upper, ast.BinOp) or not isinstance(upper.op, ast.Add):
        return False
    return ast.unparse(cut.lower or cut) == index and index in (ast.unparse(upper.left), ast.unparse(upper.right))


@warning("train_val_overlap", "Kipf and Welling 2017, 3.1: the loss is over the nodes with labels", row="data")
def trained_on_all_nodes(code: Code, source: Source) -> Iterator[Hit]:
    """The loss of a graph is that of all nodes although the metric is that of the test nodes."""
    read = list(_read_masks(source))
    parts = {part for _, part in read}
    if "train" in parts or not parts or not code.calls.get("backward"):
        return
    for call in code.calls_in(source, *_LOSSES):
        whole = call.args[:2] if not call.keywords else []
        loss = source.statement(call)
        known = isinstance(loss, ast.Assign) and "loss" in last_name(loss.targets[0])
        masked = any(_NODES.search(last_name(one)) for one in ast.walk(loss or call))
        named = len(whole) == 2 and all(isinstance(one, (ast.Name, ast.Attribute)) for one in whole)
        if known and named and not masked:
            yield Hit(call, {"loss": ast.unparse(call), "mask": last_name(read[0][0])})
            return


@warning("train_val_overlap", "Kipf and Welling 2017, 5.2: accuracy on the test nodes", row="data")
def tested_on_training_nodes(code: Code, source: Source) -> Iterator[Hit]:
    """A function that is named as a test reads the mask of the training nodes, and nothing reads another mask."""
    read = list(_read_masks(source))
    named = any(isinstance(one, ast.Constant) and str(one.value).endswith("_mask") for one in source.nodes)
    if named or {part for _, part in read} != {"train"} or not code.calls.get("backward"):
        return
    for node, _ in read:
        function = source.function(node)
        if function is not None and names_evaluation([function.name]):
            yield Hit(node, {"function": function.name, "mask": ast.unparse(node)})
            return


def _read_masks(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Yield the names of masks of nodes where they are used, and the part of the data: "train", "val" or "test"."""
    for node in source.nodes:
        match = _NODES.search(last_name(node)) if isinstance(node, (ast.Name, ast.Attribute)) else None
        if match is not None and isinstance(node.ctx, ast.Load) and not _is_stored(source, node):  # type: ignore[attr-defined]
            yield node, match[1]  # type: ignore[misc]


def _is_stored(source: Source, node: ast.AST) -> bool:
    """Whether a mask is only filled or given to a graph: `train_mask[:9] = True`, `Data(train_mask=train_mask)`."""
    outer = source.parents.get(node)
    if isinstance(outer, ast.Subscript):
        return outer.value is node and isinstance(outer.ctx, ast.Store)
    given = outer.arg or "" if isinstance(outer, ast.keyword) else ""
    if isinstance(outer, ast.Assign):
        given = last_name(outer.targets[0])
    return given == last_name(node)


@warning("train_val_overlap", "scikit-learn, cross_val_score: each fold fits a clone of the estimator", row="data")
def model_kept_over_folds(code: Code, source: Source) -> Iterator[Hit]:
    """The folds of a cross-validation train one model, which has seen the validation rows in the folds before."""
    for loop in source.of_type(ast.For):
        if not any(isinstance(one, ast.Call) and _is_split_of_folds(code, source, one) for one in ast.walk(loop.iter)):
            continue
        called = [one for _, one in reached_nodes(code, source, loop.body)]
        steps = (one for one in events(code, source, loop.body) if one.what == "step" and one.sure)
        for optimizer in dict.fromkeys(one.on for one in steps):
            holder, _, attribute = optimizer.partition(".")
            names = (holder, f"self.{attribute}") if attribute else (holder,)
            # `update(opt)` with an optimizer of the loop; `learner.fit()` with one of the object.
            made = any(assigns(one, name) for one in called for name in (*names, _model_of(code, source, holder, loop)))
            if holder and not made and not _is_reset(called):
                yield Hit(loop, {"optimizer": optimizer, "folds": ast.unparse(loop.iter)})
                break


def _model_of(code: Code, source: Source, optimizer: str, loop: ast.For) -> str:
    """The name of the model that an optimizer is made with, before a loop; "" if it is not known."""
    made = code.value(source, optimizer, loop)
    given = made.args[0] if isinstance(made, ast.Call) and made.args else None
    is_method = isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute)
    return dotted_target(given.func.value) if is_method else ""  # type: ignore[union-attr]


def _is_split_of_folds(code: Code, source: Source, call: ast.Call) -> bool:
    kind = code.kind(source, receiver(call))
    return last_name(call.func) == "split" and kind is not None and kind.name.rpartition(".")[2].endswith("KFold")


def _is_reset(called: Iterable[ast.AST]) -> bool:
    """Whether weights are loaded or initialised by calls."""
    words = ("load_state_dict", "set_state_dict", "apply", "reset_parameters", "deepcopy")
    return any(
        isinstance(one, ast.Call)
        and (last_name(one.func) in words or "reset" in last_name(one.func) or "init" in last_name(one.func))
        for one in called
    )


@warning("validation_inputs_differ", "torch.utils.data.random_split: the parts share one data set", row="data")
def shared_transform(code: Code, source: Source) -> Iterator[Hit]:
    """The transform of the validation part is replaced, and so is that of the training part: both read one data set."""
    if not code.calls.get("random_split"):
        return
    targets = [node.targets[0] for node in source.of_type(ast.Assign)]
    attributes = [one for one in targets if isinstance(one, ast.Attribute)]
    for target in (one for one in attributes if "transform" in one.attr):
        inner = target.value if isinstance(target.value, ast.Attribute) else None
        part = dotted_target(inner.value) if inner is not None and inner.attr == "dataset" else ""
        is_replaced = any(one.attr == "dataset" and dotted_target(one.value) == part for one in attributes)
        if part and _HELD_OUT.search(part) and not is_replaced:
            yield Hit(target, {"part": part, "code": ast.unparse(source.statement(target) or target)})


@warning("train_val_overlap", "numpy.random.choice, pandas.DataFrame.sample: each call draws anew", tier=1, row="data")
def rows_drawn_twice(code: Code, source: Source) -> Iterator[Hit]:
    """Training and held-out rows are two random draws from the same rows, and have some in common."""
    if any(code.calls.get(name) for name in _REMAINDERS):
        return
    draws: dict[tuple[ast.AST | None, str], tuple[str, ast.AST]] = {}
    for node in (one for one in source.of_type(ast.Assign) if isinstance(one.value, ast.Call)):
        call, name = node.value, dotted_target(node.targets[0])
        if not is_call(call, "choice", "sample"):
            continue
        # `rows.sample(...)`, or `random.sample(rows, ...)`.
        rows = call.args[:1] if source.dotted(call.func) else [call.func]
        key = (source.function(node), ast.unparse(rows[0]) if rows else "")
        before, first = draws.setdefault(key, (name, node))
        if "train" in before.lower() and first is not node and _HELD_OUT.search(name) and "train" not in name.lower():
            yield Hit(node, {"name": name, "other": before, "rows": key[1].removesuffix(".sample")})


@warning(
    "label_noise_or_shuffled",
    "torchvision.datasets.DatasetFolder: class_to_idx is made of the sorted names of all classes",
    row="data",
)
def numbered_per_part(code: Code, source: Source) -> Iterator[Hit]:
    """Training and validation data number their classes or words themselves, in the order in which they find them."""
    for node in source.of_type(ast.DictComp):
        function = source.function(node)
        if function is None or not _numbers_by_appearance(code, source, node):
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
            yield Hit(node, {"code": ast.unparse(node.generators[0].iter)})


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
