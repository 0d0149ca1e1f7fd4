"""Rules about validation data that training has seen: nodes of graphs, folds, overlapping windows, rows drawn twice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence, Set

from labbook.review.call_syntax import calls_of, is_call, receiver
from labbook.review.code_index import Code
from labbook.review.eval_loops import names_evaluation
from labbook.review.expressions import number, without_form
from labbook.review.gradient_flow import events, reached_nodes
from labbook.review.names import assigned_pairs, assigned_value, assigns, dotted_target, last_name, named_values, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

HELD_OUT = re.compile(r"(?<!la)test|valid(?:ation)?|val|dev|eval|te(?=$|_)")
_NODES = re.compile(
    r"^(?:idx_)?(train|val|test)(?:(?<=idx_train)|(?<=idx_val)|(?<=idx_test)|_mask|_idx|_index|_nodes)$"
)
_LOSSES = ("cross_entropy", "nll_loss", "criterion", "loss_fn")
_REMAINDERS = ("setdiff1d", "drop", "isin", "delete", "difference", "in1d")
"""Functions that take the rows of one part out of the other."""

_SPLITS = ("random_split", "train_test_split")


@warning("train_val_overlap", "scikit-learn, TimeSeriesSplit: samples of a series depend on those before", row="data")
def windows_split_at_random(code: Code, source: Source) -> Iterator[Hit]:
    """Overlapping windows of a series are divided at random into training and validation data."""
    definitions = [
        (name, node) for table in (code.functions, code.classes) for name in table for _, node in table[name]
    ]
    makers = {name for name, node in definitions if any(map(_cuts_windows, ast.walk(node)))}
    ranges = {name for name, its, _ in named_values(source) if _is_range_of_places(its)}
    for name in _SPLITS:
        for call in code.calls_in(source, name):
            ordered = any(k.arg == "shuffle" and ast.unparse(k.value) == "False" for k in call.keywords)
            if ordered or not call.args:
                continue
            function = source.function(call)
            windows = _windows_in(function.body if function is not None else source.tree.body, makers, ranges)
            if _is_made_of(call.args[0], windows, makers, ranges):
                yield Hit(call, {"split": name, "windows": ast.unparse(call.args[0])})
    windows = _windows_in(source.tree.body, makers, ranges)
    parts: dict[str, set[str]] = {}
    for node in source.of_type(ast.Assign):
        for target, its in assigned_pairs(node):
            drawn = _drawn_rows(code, source, its) if source.function(node) is None else ""
            if drawn in windows:
                names = parts.setdefault(drawn, set())
                names.add(dotted_target(target))
                if any("train" in one for one in names) and any(map(HELD_OUT.search, names)):
                    yield Hit(node, {"split": "a random order", "windows": drawn})
                    return


def _drawn_rows(code: Code, source: Source, node: ast.expr | None) -> str:
    """The name of the rows of which this takes some in random order: `x` of `x[order[:n]]`; or ""."""
    rows, order = (node.value, node.slice) if isinstance(node, ast.Subscript) else (None, None)
    order = code.made(source, order)
    order = code.made(source, order.value) if isinstance(order, ast.Subscript) else order
    return dotted_target(rows) if rows is not None and is_call(order, "randperm", "permutation") else ""


def _windows_in(body: Sequence[ast.stmt], makers: Set[str], ranges: Set[str]) -> set[str]:
    """Names of overlapping windows, and of all that is made of them."""
    names: set[str] = set()
    for node in walk(body):
        if isinstance(node, ast.For) and _cuts_windows(node, ranges):
            calls = list(calls_of(ast.walk(node), "append"))
            names |= {dotted_target(one.func.value) for one in calls}  # type: ignore[attr-defined]
        elif isinstance(node, ast.Assign) and _is_made_of(node.value, names, makers, ranges):
            names |= {dotted_target(one) for target in node.targets for one in ast.walk(target)}
    return names - {"", "_"}


def _is_made_of(node: ast.expr, windows: Set[str], makers: Set[str], ranges: Set[str]) -> bool:
    """Whether an expression contains windows: their name, a call that cuts them, or the cutting itself."""
    for one in ast.walk(node):
        made = isinstance(one, ast.Call) and last_name(one.func) in makers
        if made or dotted_target(one) in windows or _cuts_windows(one, ranges):
            return True
    return False


def _is_range_of_places(node: ast.AST | None) -> bool:
    """Whether this is `range(length - width)`, all places of windows, or with a step that another name gives."""
    if not is_call(node, "range") or (len(node.args) > 2 and not isinstance(node.args[2], ast.Name)):
        return False
    return any(isinstance(one, ast.Sub) for one in ast.walk(node))


def _cuts_windows(node: ast.AST, ranges: Set[str] = frozenset()) -> bool:
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
    shorter = _is_range_of_places(steps) or dotted_target(steps) in ranges
    step = steps.args[2] if shorter and is_call(steps, "range") and len(steps.args) > 2 else None
    windows = (one for one in ast.walk(inner) if isinstance(target, ast.Name) and _is_window(one, target.id))
    # Pieces beside each other, `x[i : i + width] for i in range(0, n, width)`, have nothing in common.
    return shorter and any(step is None or ast.unparse(step) not in ast.unparse(one) for one in windows)


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
        if not any(isinstance(one, ast.Call) and is_split_of_folds(code, source, one) for one in ast.walk(loop.iter)):
            continue
        called = [one for _, one in reached_nodes(code, source, loop.body)]
        steps = (one for one in events(code, source, loop.body) if one.what == "step" and one.sure)
        for optimizer in dict.fromkeys(one.on for one in steps):
            holder, _, attribute = optimizer.partition(".")
            names = (holder, f"self.{attribute}") if attribute else (holder,)
            # `update(opt)` with an optimizer of the loop; `learner.fit()` with one of the object.
            model = _model_of(code, source, holder, loop)
            renewed = (model,) if model and code.value(source, model, loop) is not None else (*names, model)
            made = any(assigns(one, name) for one in called for name in renewed)
            if holder and not made and not _is_reset(called):
                yield Hit(loop, {"optimizer": optimizer, "folds": ast.unparse(loop.iter)})
                break


def _model_of(code: Code, source: Source, optimizer: str, loop: ast.For) -> str:
    """The name of the model that an optimizer is made with, before a loop or in it; "" if it is not known."""
    own = next((assigned_value(one, optimizer) for one in loop.body if assigns(one, optimizer)), None)
    made = own or code.value(source, optimizer, loop)
    given = made.args[0] if isinstance(made, ast.Call) and made.args else None
    is_method = isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute)
    return dotted_target(given.func.value) if is_method else ""  # type: ignore[union-attr]


def is_split_of_folds(code: Code, source: Source, call: ast.Call) -> bool:
    """Whether this is `split` of a cross-validation of scikit-learn, which yields each fold in turn."""
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
        if "train" in before.lower() and first is not node and HELD_OUT.search(name) and "train" not in name.lower():
            yield Hit(node, {"name": name, "other": before, "rows": key[1].removesuffix(".sample")})


@warning("train_val_overlap", "Leave-one-out split: the item that is held out is no training item", row="data")
def held_out_rows_kept(code: Code, source: Source) -> Iterator[Hit]:
    """The last rows are held out, and the training rows are all rows: nothing is taken out of them."""
    for node in source.nodes:
        if not isinstance(node, ast.stmt):
            continue
        for name, part in _added_parts(node):
            cut = next((one for one in ast.walk(part) if _is_end(one)), None)
            rows = dotted_target(cut.value) if isinstance(cut, ast.Subscript) else ""
            if not rows or not HELD_OUT.search(name) or "train" in name.lower():
                continue
            for other in source.blocks.get(node, ([], 0))[0]:
                if any(_is_whole(rest, rows) and _TRAINING.search(its) for its, rest in _added_parts(other)):
                    yield Hit(other, {"rows": rows, "held": name, "code": ast.unparse(other)})


_TRAINING = re.compile(r"(?:^|[_.])train(?:ing)?(?!.*(?:all|full|whole|final))")


def _added_parts(statement: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield names and what a statement gives them, as their value, an item, or a further element."""
    if isinstance(statement, (ast.Assign, ast.AugAssign)):
        given = (
            assigned_pairs(statement) if isinstance(statement, ast.Assign) else [(statement.target, statement.value)]
        )
        for target, its in given:
            if its is not None:
                yield dotted_target(target.value if isinstance(target, ast.Subscript) else target), its
    elif isinstance(statement, ast.Expr) and is_call(statement.value, "append", "extend") and statement.value.args:
        owner = receiver(statement.value)
        owner = owner.value if isinstance(owner, ast.Subscript) else owner
        yield dotted_target(owner) if owner is not None else "", statement.value.args[0]


def _is_end(node: ast.AST) -> bool:
    """Whether this is the last item or the last rows: `x[-1]`, `x[n:]`."""
    cut = node.slice if isinstance(node, ast.Subscript) else None
    if isinstance(cut, ast.Slice):
        return cut.lower is not None and cut.upper is None and cut.step is None
    return number(cut) == -1.0


def _is_whole(node: ast.expr, rows: str) -> bool:
    """Whether an expression has all rows: their name alone, in another form, or each of them in a list."""
    if isinstance(node, ast.ListComp) and len(node.generators) == 1:
        places = node.generators[0]
        return dotted_target(places.iter) == rows and not places.ifs
    return dotted_target(without_form(node)) == rows


@warning("train_val_overlap", "scikit-learn, Cross-validation: the test set is for the final evaluation", row="data")
def best_by_test(code: Code, source: Source) -> Iterator[Hit]:
    """The best weights or epoch are chosen by a metric of the test data, and there are validation data."""
    names = {str(getattr(one, "arg", None) or last_name(one)).lower() for one in source.nodes}
    if not any(map(_VALIDATION.match, names)):
        return
    for node in source.of_type(ast.If):
        sides = [node.test.left, *node.test.comparators] if isinstance(node.test, ast.Compare) else []
        measured = next((one for one in sides if _TEST.match(last_name(one).lower())), None)
        best = next((dotted_target(one) for one in sides if "best" in last_name(one).lower()), "")
        kept = any(is_call(one, "state_dict", "deepcopy", "save") for one in walk(node.body))
        if measured is not None and kept and any(assigns(one, best) for one in node.body):
            yield Hit(node.test, {"code": ast.unparse(node.test), "metric": last_name(measured)})


_VALIDATION = re.compile(r"(?:val|valid|validation|dev)_?(?:loader|dl|set|ds|data|dataset|x|idx|iter)")
_TEST = re.compile(
    r"(?:mean_|avg_|cur_|current_)?test_?(?:acc|accuracy|loss|score|f1|auc|metric|error|mae|mse|rmse|r2)"
)


@warning("train_val_overlap", "Hu et al. 2020, OGB: message passing is over the training edges", row="data")
def graph_has_test_edges(code: Code, source: Source) -> Iterator[Hit]:
    """A model passes messages over all edges, and some of them are held out to be predicted."""
    for node in source.of_type(ast.Assign):
        target, call = dotted_target(node.targets[0]), node.value
        if not _GRAPH.search(target) or not isinstance(call, ast.Call):
            continue
        edges = {
            dotted_target(one)
            for one in call.args
            if "edge" in dotted_target(one) and "train" not in dotted_target(one)
        }
        parts = {
            name
            for name, its, _ in named_values(source)
            if isinstance(its, ast.Subscript) and isinstance(its.slice, ast.Slice) and dotted_target(its.value) in edges
        }
        is_divided = any("train" in one for one in parts) and any(map(HELD_OUT.search, parts))
        others = [dotted_target(one) for _, its in code.calls.get(last_name(call.func), ()) for one in its.args]
        calls = (one for one in source.of_type(ast.Call) if target in map(dotted_target, one.args))
        given = any(code.is_model(code.kind(source, one.func)) for one in calls)
        if is_divided and given and not any("train" in one for one in others):
            yield Hit(node, {"graph": target, "edges": next(iter(edges))})


_GRAPH = re.compile(r"(?:^|_)(?:adj|adjacency|a_hat|a_norm|graph|edge_index|laplacian)(?:$|_)")
