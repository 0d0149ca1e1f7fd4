"""Rules about random changes of samples: those of training that validation gets as well."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call
from labbook.review.code_index import Code
from labbook.review.expressions import constant, made_of, names_in
from labbook.review.gradient_flow import reached_nodes
from labbook.review.names import dotted_target, last_name, named_values, of_type, walk
from labbook.review.rules.data.leaks import HELD_OUT
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_AUGMENTS = {
    *("RandomHorizontalFlip", "RandomVerticalFlip", "RandomRotation", "RandomCrop", "RandomResizedCrop", "ColorJitter"),
    *("RandomAffine", "RandomErasing", "RandAugment", "AutoAugment", "TrivialAugmentWide", "RandomPerspective"),
}
DRAWS = {"rand", "randn", "randint", "random", "uniform", "normal", "integers", "choice", "bernoulli", "randrange"}
_SEEDED = ("default_rng", "RandomState", "Random", "manual_seed", "seed")
_RANDOM = re.compile(r"aug|jitter|flip|crop|eras|rotat|rand|mirror|shift|cutout", re.IGNORECASE)
"""Names of changes that keep the label; noise that is to be removed is another task."""


@warning(
    "metric_of_wrong_values",
    "torchvision references: random transforms for training, fixed ones for evaluation",
    row="data",
)
def augmented_validation(code: Code, source: Source) -> Iterator[Hit]:
    """Held-out images get the same random augmentation as those of the training."""
    trained: set[str] = set()
    held_out: list[tuple[str, ast.Call]] = []
    for name, call, dataset, where in _data_sets(code, source):
        how = _augmentation(code, where, dataset)
        if how and HELD_OUT.search(name.lower()):
            held_out.append((how, call))
        elif how and "train" in name.lower():
            trained.add(how)
    for how, call in held_out:
        if how in trained:
            yield Hit(call, {"code": ast.unparse(call)})
            break


def _data_sets(code: Code, source: Source) -> Iterator[tuple[str, ast.Call, ast.Call, Source]]:
    """Yield the name of each data set and the call behind it, and the call that makes it or what it is a part of."""
    for name, made, _ in named_values(source):
        for call in of_type(ast.walk(made), ast.Call) if made is not None else ():
            yield name, call, call, source
    changed = {dotted_target(one) for node in source.of_type(ast.Assign) for one in _owners(node.targets[0])}
    for node in source.of_type(ast.Assign):
        target, part = node.targets[0], node.value
        if not is_call(part, "Subset", "random_split") or not part.args:
            continue
        names = [dotted_target(one) for one in (target.elts if isinstance(target, ast.Tuple) else [target])]
        kind = code.kind(source, part.args[0])
        if kind is not None and not changed & {*names, dotted_target(part.args[0])}:
            yield from ((name, part, kind.call, kind.source) for name in names if name)


def _owners(target: ast.expr) -> Iterator[ast.expr]:
    """Yield the objects of which an attribute is assigned: `val` and `val.dataset` of `val.dataset.transform`."""
    while isinstance(target, ast.Attribute):
        target = target.value
        yield target


def _augmentation(code: Code, source: Source, call: ast.Call) -> str:
    """What changes the items of a data set at random, as text; "" for nothing, or where a mode of the set decides."""
    transform = argument(call, None, "transform", "transforms")
    if transform is not None:
        is_random = _AUGMENTS & names_in(code, source, transform) or _draws(code, source, transform)
        return ast.unparse(transform) if is_random else ""
    own = code.class_named(source, call.func)
    found = code.method(*own, "__getitem__") if own is not None else None
    for where, node in reached_nodes(code, found[0], found[1].body) if found is not None else ():
        is_random = is_call(node, *_AUGMENTS) or (isinstance(node, ast.Call) and "augment" in last_name(node.func))
        outer = [one.test for one in where.parents_of(node) if isinstance(one, (ast.If, ast.IfExp))]
        if is_random and not any(isinstance(one, ast.Attribute) for test in outer for one in ast.walk(test)):
            settings = [ast.unparse(one) for one in call.args if isinstance(one, ast.Constant)]
            return " ".join([own[1].name, *settings, *(ast.unparse(one.value) for one in call.keywords)])  # type: ignore[index]
    return ""


def calls_of_transform(code: Code, source: Source, func: ast.expr, *methods: str) -> list[ast.Call]:
    """Return the calls in a function of the program, or in the `__call__` of its class, else in another of its methods.

    Args:
        methods: Their names, in this order.
    """
    own = code.class_named(source, func)
    if own is None:
        found = code.function_named(source, func)
    else:
        where, owner = own
        found = next(filter(None, (code.method(where, owner, name) for name in ("__call__", *methods))), None)
    nodes = reached_nodes(code, found[0], found[1].body) if found is not None else ()
    return [one for _, one in nodes if isinstance(one, ast.Call)]


def _draws(code: Code, source: Source, transform: ast.expr) -> bool:
    """Whether a transform is a function or an object of the program that is named as random and draws numbers."""
    for node in (one for one in made_of(code, source, transform) if isinstance(one, (ast.Name, ast.Call))):
        func = node.func if isinstance(node, ast.Call) else node
        calls = calls_of_transform(code, source, func) if _RANDOM.search(last_name(func)) else []
        seeded = any(is_call(one, *_SEEDED) and one.args for one in calls)  # by the index, for instance
        if not seeded and any(is_call(one, *DRAWS) for one in calls):
            return True
    return False


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
        if part and HELD_OUT.search(part) and not is_replaced:
            yield Hit(target, {"part": part, "code": ast.unparse(source.statement(target) or target)})


@warning("seed_reset_in_loop", "numpy.random.default_rng: the same seed gives the same numbers", row="data")
def generator_made_for_each_sample(code: Code, source: Source) -> Iterator[Hit]:
    """A random change of a sample begins with a seed that is always the same, so that all samples are changed alike."""
    for call in source.of_type(ast.Call):
        function, owner = source.function(call), source.class_of(call)
        if function is None or function.name not in ("__getitem__", "__call__") or not is_call(call, *_SEEDED):
            continue
        named = [owner.name if owner is not None else "", *(one.name for one in source.of_type(ast.FunctionDef))]
        is_switched = any(isinstance(one, (ast.If, ast.IfExp)) for one in source.parents_of(call))
        fixed = call.args[:1] and constant(code, source, call.args[0]) is not None
        if fixed and not is_switched and any(map(_RANDOM.search, named)) and _draws_below(call, function):
            yield Hit(call, {"call": ast.unparse(call), "function": function.name})


def _draws_below(seeded: ast.Call, function: ast.AST) -> bool:
    """Whether numbers are drawn below a seed in the function that returns one sample."""
    calls = of_type(ast.walk(function), ast.Call)
    return any(is_call(one, *DRAWS) and one.lineno >= seeded.lineno and one is not seeded for one in calls)


@warning("order_identical_each_epoch", "torchvision.transforms: a random transform is drawn at each access", row="data")
def augmented_once(code: Code, source: Source) -> Iterator[Hit]:
    """A data set stores a sample after its random augmentation, so that all later epochs have the same one."""
    for function in (one for one in source.of_type(ast.FunctionDef) if one.name == "__getitem__"):
        for missing in of_type(ast.walk(function), ast.If):
            read = {dotted_target(one) for one in ast.walk(missing.test)}
            stored = [
                one
                for one in of_type(walk(missing.body), ast.Assign)
                if isinstance(one.targets[0], ast.Subscript) and dotted_target(one.targets[0].value) in read - {""}
            ]
            calls = [one for one in of_type(walk(missing.body), ast.Call) if _draws(code, source, one)]
            if stored and calls and calls[0].lineno <= stored[0].lineno:
                yield Hit(stored[0], {"code": ast.unparse(stored[0]), "change": last_name(calls[0].func)})
