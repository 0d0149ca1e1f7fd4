"""Rules about data: shuffling, validation data, and iterators that end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code, Kind
from labbook.review.expressions import names_in
from labbook.review.gradient_flow import step_loops, trains
from labbook.review.loaders import INPUTS, LABELS, LOADERS, find_loader
from labbook.review.names import LOOPS, SCOPES, assigns, dotted_target, last_name, named_values, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_PLAIN_DATASETS = {"torch.utils.data.Dataset", "torch.utils.data.dataset.Dataset", "paddle.io.Dataset", "object"}
_KNOWN_DATASETS = (
    *("torch.utils.data.TensorDataset", "torchvision.datasets."),
    *("paddle.io.TensorDataset", "paddle.vision.datasets."),
)
_SAMPLERS_OF_RANKS = ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler")
_ITERATORS = ("zip", "map", "filter", "iter", "enumerate")
_OF_SETS = ("intersection", "union", "difference", "symmetric_difference")
_TEXTS = re.compile(
    r"(?:^|_)(?:words?|tokens?|chars?|text|texts|corpus|vocab|vocabulary|sentences?|files?|filenames?|names?|paths?|tags?"
    r"|listdir|i?glob|split)(?:$|_)"
)
"""Names of strings, and of functions that return them: hashes of numbers are the same in each process."""

_REPEATED = (
    *("save", "save_checkpoint", "load_state_dict", "set_state_dict", "load_from_checkpoint"),
    *("manual_seed", "seed_everything", "set_seed", "seed"),
)
"""Calls of programs that another process goes on with, or that are to be repeated."""

_REORDERS = ("shuffle", "permutation", "randperm", "take", "gather", "index_select", "sort", "sorted", "sample")
_SORTS = {"shuffle", "randperm", "permutation", "random_split", "sample", "train_test_split", "choice", "randint"}


@warning(
    "training_not_shuffled",
    "torch.utils.data.DataLoader: shuffle=False by default, the same in paddle",
    loop=True,
    row="",
)
def not_shuffled(code: Code, source: Source) -> Iterator[Hit]:
    """The loader of a training loop does not shuffle the samples."""
    seen: set[int] = set()
    for loop, found in step_loops(code, source):
        whats = {one.what for one in found}
        if not isinstance(loop, (ast.For, ast.AsyncFor)) or not {"backward", "step"} <= whats:
            continue
        kind = find_loader(code, source, loop.iter)
        if kind is None or id(kind.call) in seen:
            continue
        seen.add(id(kind.call))
        call = kind.call
        torch = kind.name.startswith("torch")
        keywords = {k.arg for k in call.keywords}
        if (
            keywords & {"sampler", "batch_sampler", None}
            or any(isinstance(a, ast.Starred) for a in call.args)
            or len(call.args) > 3
        ):
            continue
        shuffle = argument(call, 2 if torch else None, "shuffle")
        if shuffle is not None and not (isinstance(shuffle, ast.Constant) and shuffle.value is False):
            continue
        if _order_is_free(code, kind):
            continue
        yield Hit(call, {"said": "shuffle=False" if shuffle is not None else "no shuffle=True"})


def _order_is_free(code: Code, kind: Kind) -> bool:
    """Whether shuffling may happen elsewhere, or is impossible or irrelevant."""
    if any(code.calls.get(name) for name in _SORTS):
        return True
    size = argument(kind.call, 1, "batch_size")
    if size is not None and "len(" in ast.unparse(size):
        return True
    dataset = argument(kind.call, 0, "dataset")
    if dataset is None:
        return True
    origin = code.kind(kind.source, dataset)
    if origin is None:
        return True
    if origin.definition is not None:
        return not code.bases(*origin.definition) <= _PLAIN_DATASETS
    return not origin.name.startswith(_KNOWN_DATASETS)


@warning("train_val_overlap", "Humbatova et al., ICSE 2020", tier=1, row="")
def validated_on_training(code: Code, source: Source) -> Iterator[Hit]:
    """A validation or test loader reads the dataset of the training loader."""
    loaders: list[tuple[str, ast.Call, ast.AST]] = []
    for name, value, node in named_values(source):
        if isinstance(value, ast.Call) and source.dotted(value.func) in LOADERS:
            loaders.append((name.lower(), value, node))
    for name, call, node in loaders:
        if not _is_validation(name) or argument(call, None, "sampler") or argument(call, None, "batch_sampler"):
            continue
        data = argument(call, 0, "dataset")
        for other, its, its_node in loaders:
            same = data is not None and argument(its, 0, "dataset") is not None
            near = _owner(source, node) is _owner(source, its_node)
            if not other.startswith("train") or not same or not near:
                continue
            if argument(its, None, "sampler") or argument(its, None, "batch_sampler"):
                continue
            first, second = argument(its, 0, "dataset"), data
            if (
                first is None
                or second is None
                or not dotted_target(second)
                or dotted_target(first) != dotted_target(second)
            ):
                continue
            if code.value(source, dotted_target(first), first) is code.value(source, dotted_target(second), second):
                yield Hit(node, {"name": name, "data": dotted_target(second), "other": other})
                break


def _owner(source: Source, node: ast.AST) -> ast.AST | None:
    """The function that gives a name, or the class of a method that returns what is named after it."""
    return source.class_of(node) if isinstance(node, ast.Return) else source.function(node)


def _is_validation(name: str) -> bool:
    return name.startswith(("val", "test", "dev", "eval")) and "train" not in name


@warning("train_val_overlap", "torchvision.datasets; paddle.vision.datasets", tier=1, row="")
def validated_on_training_split(code: Code, source: Source) -> Iterator[Hit]:
    """A dataset named test or validation is created with `train=True` (paddle: mode="train")."""
    for named, value, node in named_values(source):
        name = named.lower()
        if not isinstance(value, ast.Call) or not _is_validation(name):
            continue
        if not source.dotted(value.func).startswith(("torchvision.datasets.", "paddle.vision.datasets.")):
            continue
        if code.calls.get("random_split") or code.calls.get("Subset") or code.calls.get("SubsetRandomSampler"):
            continue
        if any("ampler" in name for name in code.calls) or any("split" in name.lower() for name in code.calls):
            continue
        keywords = {k.arg: ast.unparse(k.value) for k in value.keywords}
        if keywords.get("train") == "True" or keywords.get("mode") == "'train'" or keywords.get("split") == "'train'":
            yield Hit(node, {"name": name, "data": ast.unparse(value.func) + "(train)", "other": "training"})


@warning("labels_out_of_order", "numpy.random.shuffle and permutation: each call draws another order", row="data")
def shuffled_apart(code: Code, source: Source) -> Iterator[Hit]:
    """Inputs and labels are brought into two random orders that have nothing to do with each other."""
    found = [(*one, node) for node in source.nodes for one in _shufflings(code, source, node)]
    for label, of_label, node in found:
        match = LABELS.fullmatch(label)
        if match is None:
            continue
        for name, of_input, other in found:
            its = INPUTS.fullmatch(name)
            near = source.function(node) is source.function(other) and not _seeds_between(source, node, other)
            if its is None or not near or of_label is of_input:
                continue
            same = any(one == name and order is of_label for one, order, _ in found)
            if (its["part"], its["end"]) == (match["part"], match["end"]) and not same:
                yield Hit(node, {"labels": label, "inputs": name})
                break
    for name, _, node in found:
        labels = _labels_left(source, name, node) if INPUTS.fullmatch(name) and _is_used_once(source, node) else ""
        if labels and labels not in {one for one, _, _ in found}:
            yield Hit(node, {"labels": labels, "inputs": name})
    comprehensions: list[ast.ListComp | ast.GeneratorExp] = [
        *source.of_type(ast.ListComp),
        *source.of_type(ast.GeneratorExp),
    ]
    for made in comprehensions:
        names = _arrays_of_orders(code, source, made)
        labels, inputs = (next((one for one in names if kind.fullmatch(one)), "") for kind in (LABELS, INPUTS))
        if labels and inputs:
            yield Hit(made, {"labels": labels, "inputs": inputs})
    for copied in source.of_type(ast.Assign):
        labels = _labels_in_old_order(code, source, copied)
        if labels and labels not in {one for one, _, _ in found}:
            yield Hit(copied, {"labels": labels, "inputs": dotted_target(copied.targets[0])})


def _arrays_of_orders(code: Code, source: Source, node: ast.ListComp | ast.GeneratorExp) -> list[str]:
    """Names of the arrays that `[a[permutation(len(a))] for a in arrays]` brings into a new order each; or none."""
    loop, rows, function = node.generators[0], node.elt, source.function(node)
    if not isinstance(rows, ast.Subscript) or dotted_target(rows.value) != dotted_target(loop.target):
        return []
    drawn = {last_name(call.func) for call in of_type(ast.walk(rows.slice), ast.Call)}
    if not is_call(rows.slice, "permutation", "randperm") or drawn - {"len", "permutation", "randperm"}:
        return []  # Or each has a generator of its own with one seed.
    ends: list[ast.AST] = [node]
    if isinstance(source.statement(node), ast.Return) and isinstance(function, ast.FunctionDef):
        ends = [call for where, call in code.callers(source, function) if where is source]
    lists = [loop.iter, *(one.targets[0] for one in of_type(map(source.statement, ends), ast.Assign))]  # type: ignore[arg-type]
    return [dotted_target(name) for one in lists if isinstance(one, (ast.Tuple, ast.List)) for name in one.elts]


def _labels_in_old_order(code: Code, source: Source, copied: ast.Assign) -> str:
    """Name of the labels that batches take from the same places as inputs of which `x = data[order]` is a copy."""
    value, inputs = copied.value, dotted_target(copied.targets[0])
    if not isinstance(value, ast.Subscript) or not inputs or not _is_used_once(source, copied):
        return ""
    order = code.value(source, value.slice.id, copied) if isinstance(value.slice, ast.Name) else value.slice
    for node in source.nodes if is_call(order, "permutation", "randperm") else ():
        if isinstance(node, (ast.Dict, ast.Tuple, ast.Call)) and source.function(node) is source.function(copied):
            parts = {dotted_target(one.value): one.slice for one in of_type(ast.walk(node), ast.Subscript)}
            copy_rows = parts.get(inputs)
            for name, rows in parts.items() if copy_rows is not None and isinstance(copy_rows, ast.Slice) else ():
                made = code.value(source, name, node)
                moved = made is not None and any(map(_may_reorder, ast.walk(made)))
                if LABELS.fullmatch(name) and ast.dump(rows) == ast.dump(copy_rows or rows) and not moved:
                    return name
    return ""


def _may_reorder(node: ast.AST) -> bool:
    """Whether a part of an expression may give rows another order: an index, or a function that takes one."""
    indexed = isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice)
    return indexed or is_call(node, *_REORDERS)


def _labels_left(source: Source, inputs: str, shuffled: ast.AST) -> str:
    """Name of the labels that one call gave together with inputs, in the function that shuffles the inputs."""
    its = INPUTS.fullmatch(inputs)
    for node in source.of_type(ast.Assign):
        if source.function(node) is not source.function(shuffled):
            continue
        target = node.targets[0]
        names = [dotted_target(one) for one in target.elts] if isinstance(target, ast.Tuple) else []
        if its is None or inputs not in names or not isinstance(node.value, ast.Call):
            continue
        for name in names:
            match = LABELS.fullmatch(name)
            if match is not None and (its["part"], its["end"]) == (match["part"], match["end"]):
                return name
    return ""


def _is_used_once(source: Source, shuffled: ast.AST) -> bool:
    """Whether the random order of `x = x[order]` is used nowhere else, as that of `shuffle(x)` cannot be."""
    one = shuffled.value if isinstance(shuffled, ast.Assign) else None
    if isinstance(shuffled, ast.Expr):
        return True
    if not isinstance(one, ast.Subscript):
        return False
    order = one.slice.id if isinstance(one.slice, ast.Name) else ""
    uses = [n for n in source.of_type(ast.Name) if n.id == order and isinstance(n.ctx, ast.Load)]
    return not order or sum(not is_call(source.parents.get(n), "len") for n in uses) == 1


def _shufflings(code: Code, source: Source, node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Names that a statement brings into a random order, each with the call that draws it."""
    alone = isinstance(node, ast.Expr) and is_call(node.value, "shuffle")
    shuffled = [dotted_target(one).removeprefix("self.") for one in node.value.args] if alone else []  # type: ignore[attr-defined]
    if len(shuffled) == 1 and shuffled[0]:
        yield shuffled[0], node
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return
    target, value = node.targets[0], node.value
    both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
    pairs = zip(target.elts, value.elts, strict=True) if both else [(target, value)]  # type: ignore[attr-defined]
    for name, one in pairs:
        rows = dotted_target(name)
        if not rows or not isinstance(one, ast.Subscript) or dotted_target(one.value) != rows:
            continue
        order: ast.expr | None = one.slice
        if isinstance(order, ast.Name):
            order = code.value(source, order.id, node)
        if is_call(order, "permutation", "randperm"):
            yield rows.removeprefix("self."), order


def _seeds_between(source: Source, one: ast.AST, other: ast.AST) -> bool:
    """Whether a random state is set between two nodes, so that both may draw the same numbers."""
    low, high = sorted((getattr(one, "lineno", 0), getattr(other, "lineno", 0)))
    calls = [node for node in source.of_type(ast.Call) if low <= node.lineno <= high]
    return any("seed" in (name := last_name(call.func).lower()) or "state" in name or "rng" in name for call in calls)


@warning("iterator_exhausted", "Python glossary: an exhausted iterator appears like an empty container")
def exhausted(code: Code, source: Source) -> Iterator[Hit]:
    """Batches come from an iterator that is made once, before the loop over epochs: after one pass it is empty."""
    if not trains(code):
        return
    for loop in source.of_type(ast.For):
        batches = loop.iter
        while is_call(batches, "enumerate", "tqdm") and batches.args:
            batches = batches.args[0]
        outer = next((one for one in source.parents_of(loop) if isinstance(one, (*LOOPS, *SCOPES))), None)
        name = dotted_target(batches)
        if not isinstance(outer, LOOPS) or not name or any(isinstance(one, ast.Break) for one in ast.walk(loop)):
            continue
        made = code.value(source, name, outer)
        again = any(assigns(one, name) for one in walk([outer]))
        if not again and isinstance(made, (ast.Call, ast.GeneratorExp)) and _ends(code, source, made):
            yield Hit(loop, {"batches": name, "made": ast.unparse(made)})


def _ends(code: Code, source: Source, made: ast.Call | ast.GeneratorExp) -> bool:
    """Whether an expression is an iterator, which yields its items once: of a function with `yield`, of `zip`."""
    if isinstance(made, ast.GeneratorExp):
        return True
    if isinstance(made.func, ast.Name) and made.func.id in _ITERATORS:
        return made.func.id not in source.names and not code.functions.get(made.func.id)
    found = code.function_named(source, made.func)
    body = list(walk(found[1].body)) if found is not None and not found[1].decorator_list else []
    endless = any(isinstance(one, ast.While) or last_name(one) in ("count", "cycle") for one in body)
    return not endless and any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in body)


@warning("order_identical_each_epoch", "torch.utils.data.distributed.DistributedSampler", tier=1, loop=True, row="")
def no_set_epoch(code: Code, source: Source) -> Iterator[Hit]:
    """`set_epoch` of a `DistributedSampler` of torch is never called. Paddle's counts epochs itself."""
    if code.calls.get("set_epoch") or not trains(code):
        return
    for node in source.of_type(ast.Call):
        if source.dotted(node.func) not in _SAMPLERS_OF_RANKS:
            continue
        shuffle = next((k.value for k in node.keywords if k.arg in ("shuffle", None)), None)
        if shuffle is not None and not (isinstance(shuffle, ast.Constant) and shuffle.value is True):
            continue
        statement = source.statement(node)
        name = dotted_target(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
        if _is_validation(name.removeprefix("self.").lower()) or "train" not in ast.unparse(statement or node).lower():
            continue
        yield Hit(node, {"name": name or "sampler"})


@warning("order_of_set", "Python, PYTHONHASHSEED: hashes of strings differ in each process", row="data")
def order_of_set(code: Code, source: Source) -> Iterator[Hit]:
    """Strings of a set are numbered in the order of their hashes, which is another one in each process."""
    if not any(code.calls.get(name) for name in _REPEATED):
        return
    for call in code.calls_in(source, "list", "tuple", "enumerate"):
        items = call.args[0] if len(call.args) == 1 else None
        if items is None or not _is_set(code, source, items) or is_call(source.parents[call], "sorted"):
            continue
        if not any(map(_TEXTS.search, names_in(code, source, items))):
            continue
        statement = source.statement(call)
        is_kept = isinstance(statement, ast.Assign) and statement.value is call
        name = dotted_target(statement.targets[0]) if is_kept else ""  # type: ignore[union-attr]
        if is_call(call, "enumerate") or (name and _has_numbered_items(source, name)):
            yield Hit(call, {"code": ast.unparse(call), "set": ast.unparse(items)})


def _is_set(code: Code, source: Source, node: ast.expr | None) -> bool:
    """Whether this is `set(...)`, or made of sets."""
    made = code.made(source, node)
    if is_call(made, "set", "frozenset"):
        return isinstance(made.func, ast.Name)
    if is_call(made, *_OF_SETS):
        return _is_set(code, source, receiver(made))
    if isinstance(made, ast.BinOp) and isinstance(made.op, (ast.BitAnd, ast.BitOr, ast.Sub)):
        return _is_set(code, source, made.left)
    return isinstance(made, ast.SetComp)


def _has_numbered_items(source: Source, name: str) -> bool:
    """Whether the places of items of a list matter, and it is neither sorted nor saved, nor what is made of it."""
    tables = (
        one for one in source.of_type(ast.Assign) if isinstance(one.value, (ast.DictComp, ast.ListComp, ast.Dict))
    )
    made = {dotted_target(one.targets[0]) for one in tables if _reads(one.value, {name})} | {name}
    numbered = False
    for call in source.of_type(ast.Call):
        if last_name(call.func) in ("sort", "sorted", "dump", "dumps", "save", "write") and _reads(call, made - {""}):
            return False
        numbered = numbered or (is_call(call, "enumerate", "index") and _reads(call, {name}))
    items = (one for one in source.of_type(ast.Subscript) if dotted_target(one.value) == name)
    return numbered or any(getattr(source.function(one), "name", "") == "__getitem__" for one in items)


def _reads(node: ast.AST, names: set[str]) -> bool:
    return any(dotted_target(one) in names for one in ast.walk(node))
