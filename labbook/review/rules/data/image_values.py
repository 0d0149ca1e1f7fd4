"""Rules about pixel values: scaling, normalisation, double scaling."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call
from labbook.review.code_index import Code
from labbook.review.expressions import made_of, without_form
from labbook.review.gradient_flow import trains
from labbook.review.loaders import find_loader
from labbook.review.names import dotted_target, last_name, of_type, parameters, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, note, warning

_TO_TENSOR = ("torchvision.transforms.ToTensor", "paddle.vision.transforms.ToTensor")
_DRAWS = {"normal", "randn", "randint", "integers", "uniform", "standard_normal", "gauss", "randn_like", "random"}
_LIMITS = {"clip", "clamp", "minimum", "maximum", "min", "max", "add", "where", "rint"}
_LARGEST_MEAN = 2.0
"""Means and deviations of pixels from 0 to 1 are smaller. Source: chosen by us."""


@note("input_not_normalised", "torchvision.transforms")
def no_normalise(code: Code, source: Source) -> Iterator[Hit]:
    """`ToTensor` is the last transform, and no other code normalises the images."""
    if not trains(code) or any("ormali" in name or "batchnorm" in name.lower() for name in code.calls):
        return
    call = next((one for one in source.of_type(ast.Call) if source.dotted(one.func) in _TO_TENSOR), None)
    if call is not None:
        yield Hit(call)


@warning("input_double_normalised", "torchvision.transforms.ToTensor: scales to [0, 1]", tier=1, row="")
def divided_twice(code: Code, source: Source) -> Iterator[Hit]:
    """Images are divided by 255 twice."""
    to_tensor = any(source.dotted(call.func) in _TO_TENSOR for call in code.calls_in(source, "ToTensor"))
    for node in source.nodes:
        divided = _divided_value(node)
        if divided is None:
            continue
        earlier = code.made(source, divided)
        if earlier is not None and _divides(earlier):
            yield Hit(node, {"name": ast.unparse(divided)[:60], "first": "it was divided by 255 already"})
        elif to_tensor and dotted_target(divided) and _is_from_tensor_loader(code, source, divided):
            yield Hit(node, {"name": dotted_target(divided), "first": "ToTensor gives values from 0 to 1 already"})


def _divided_value(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div) and _is_255(node.value):
        return node.target
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_255(node.right):
        return node.left
    return None


def _is_255(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (255, 255.0)


def _divides(node: ast.expr) -> bool:
    """Whether a value was divided by 255 and at most reshaped or cast afterwards."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and last_name(node.func) in ("float", "to", "view", "astype", "reshape")
    ):
        node = node.func.value
    return _divided_value(node) is not None


def _is_from_tensor_loader(code: Code, source: Source, node: ast.expr) -> bool:
    """Whether a name is the batch of a loader over a torchvision dataset whose transform ends in `ToTensor`."""
    name = dotted_target(node)
    for outer in source.parents_of(node):
        if isinstance(outer, ast.For) and name in {dotted_target(one) for one in walk([outer.target])}:
            if sum(1 for one in of_type(walk(outer.body), ast.Assign) if name in map(dotted_target, one.targets)) > 1:
                return False
            loader = find_loader(code, source, outer.iter)
            data = argument(loader.call, 0, "dataset") if loader is not None else None
            origin = code.kind(loader.source, data) if loader is not None and data is not None else None
            transform = argument(origin.call, None, "transform") if origin is not None else None
            if (
                origin is None
                or transform is None
                or not origin.name.startswith(("torchvision.datasets.", "paddle.vision.datasets."))
            ):
                return False
            texts = [ast.unparse(transform), *(ast.unparse(one) for _, one in code.origins(origin.source, transform))]
            return any("ToTensor" in text and "255" not in text and "PILToTensor" not in text for text in texts)
    return False


@warning(
    "input_double_normalised",
    "torchvision.transforms.Normalize: after ToTensor, values are in [0, 1]",
    tier=1,
    row="data",
)
def normalised_as_bytes(code: Code, source: Source) -> Iterator[Hit]:
    """`Normalize` after `ToTensor`, which scales to [0, 1], has a mean or deviation of values up to 255."""
    for where, compose in code.calls.get("Compose", ()):
        steps = code.made(source, compose.args[0]) if where is source and compose.args else None
        scaled = False
        for step in steps.elts if isinstance(steps, (ast.List, ast.Tuple)) else ():
            scaled = scaled or (is_call(step, "ToTensor"))
            if not scaled or not is_call(step, "Normalize"):
                continue
            nodes = list(made_of(code, source, step))
            if any(isinstance(one, ast.Div) for one in nodes):  # [125.3 / 255, ...]
                continue
            # The 3 of `[0.5] * 3` is no mean.
            lists = [one.elts for one in nodes if isinstance(one, (ast.List, ast.Tuple))]
            calls = [one for one in nodes if isinstance(one, ast.Call)]
            given = [[*one.args, *(keyword.value for keyword in one.keywords)] for one in calls]
            numbers = [one.value for each in (*lists, *given) for one in each if isinstance(one, ast.Constant)]
            if any(isinstance(one, (int, float)) and one > _LARGEST_MEAN for one in numbers):
                yield Hit(step, {"call": ast.unparse(step)})


@warning("input_double_normalised", "NumPy: basic indexing returns a view; the same for tensors", row="data")
def stored_data_changed(code: Code, source: Source) -> Iterator[Hit]:
    """`__getitem__` scales a view of the stored data in place, so that each access scales them again."""
    for where, function in code.functions.get("__getitem__", ()):
        if where is not source:
            continue
        for node in of_type(walk(function.body), ast.AugAssign):
            stored = code.made(source, node.target) if isinstance(node.target, ast.Name) else node.target
            if not isinstance(stored, ast.Subscript) or not dotted_target(stored.value).startswith("self."):
                continue
            origins = code.origins(source, stored.value)
            arrays = [one for place, one in origins if _is_array(place, one)]
            if origins and len(arrays) == len(origins) and not isinstance(node.op, ast.Add):
                yield Hit(node, {"code": ast.unparse(node), "stored": ast.unparse(stored)})


def _is_array(source: Source, node: ast.expr) -> bool:
    """Whether a value is an array or a tensor with more than one axis as far as its making says."""
    called = {last_name(one.func) for one in of_type(ast.walk(node), ast.Call)}
    library = any(source.dotted(one).startswith(("numpy.", "torch.", "paddle.")) for one in ast.walk(node))
    return bool(called & {"astype", "float", "from_numpy", "as_tensor"}) or (library and bool(called))


@note("input_not_normalised", "Karpathy, A Recipe for Training Neural Networks (2019)")
def raw_bytes(code: Code, source: Source) -> Iterator[Hit]:
    """An image of bytes is converted to a float tensor without scaling."""
    if any("ormali" in name for name in code.calls) or "255" in "\n".join(source.lines):
        return
    for node in source.of_type(ast.Call):
        if last_name(node.func) != "float" or not isinstance(node.func, ast.Attribute):
            continue
        text = ast.unparse(node.func.value)
        inner = next(
            (
                n
                for n in of_type(ast.walk(node.func.value), ast.Call)
                if source.dotted(n.func) in ("torch.from_numpy", "torch.tensor")
            ),
            None,
        )
        if inner is None or not inner.args:
            continue
        array = inner.args[0]
        texts = [text, *(ast.unparse(one) for _, one in code.origins(source, array))]
        if any(word in one for one in texts for word in ("imread(", "Image.open(", "read_image(")):
            yield Hit(node)


@warning("uint8_overflow", "NumPy user guide, Data types: integers wrap around on overflow", row="data")
def bytes_wrap_around(code: Code, source: Source) -> Iterator[Hit]:
    """An augmentation adds random numbers to an image and makes bytes of the sum without a limit."""
    for node in source.of_type(ast.Call):
        given, function = _made_bytes(source, node), source.function(node)
        if not isinstance(given, ast.BinOp) or not isinstance(given.op, (ast.Add, ast.Sub)) or function is None:
            continue
        called = {last_name(one.func) for one in made_of(code, source, given) if isinstance(one, ast.Call)}
        sides = {dotted_target(without_form(one)) for one in (given.left, given.right)}
        is_sample = function.name in ("__getitem__", "__call__") or bool(sides & (set(parameters(function)) - {"self"}))
        if is_sample and called & _DRAWS and not called & _LIMITS:
            yield Hit(node, {"code": ast.unparse(node)})


@warning("uint8_overflow", "NumPy user guide, Data types: integers wrap around on overflow", row="data")
def bytes_subtracted(code: Code, source: Source) -> Iterator[Hit]:
    """A whole number or other bytes are subtracted from bytes: what is below 0 wraps around to 255.

    Not of 1: labels that begin with 1 become numbers from 0, and 0 becomes 255, the label to ignore.
    """
    for node in (one for one in source.of_type(ast.BinOp) if isinstance(one.op, ast.Sub)):
        right = code.makers(source, node.right)
        whole = [getattr(one, "value", None) for _, one in right]
        is_whole = bool(whole) and all(type(one) is int and one > 1 for one in whole)
        if (is_whole or _are_bytes(code, source, node.right)) and _are_bytes(code, source, node.left):
            yield Hit(node, {"code": ast.unparse(node)})


def _are_bytes(code: Code, source: Source, node: ast.expr, depth: int = 4) -> bool:
    """Whether all that a value may have been made by gives bytes: a conversion, a type, or the reading of an image."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Call):
        made = [one for one in code.makers(source, node) if one[1] is not node] if depth else []
        return bool(made) and all(_are_bytes(code, where, one, depth - 1) for where, one in made)
    types = [one.value for one in node.keywords if one.arg == "dtype"]
    if types or last_name(node.func) in ("astype", "to", "type"):
        types += node.args if not types else []
        return any(ast.unparse(one).strip("'\"").endswith("uint8") for one in types)
    if is_call(node, "array", "asarray") and node.args:
        return any(is_call(one, "open") for one in ast.walk(node.args[0])) or _are_bytes(
            code, source, node.args[0], depth
        )
    return source.dotted(node.func) == "numpy.uint8" or is_call(node, "imread", "read_image", "byte")


def _made_bytes(source: Source, call: ast.Call) -> ast.expr | None:
    """What is converted to bytes: of `x.astype(np.uint8)`, `np.uint8(x)`, `x.to(torch.uint8)`, `x.byte()`."""
    if source.dotted(call.func) == "numpy.uint8" and len(call.args) == 1:
        return call.args[0]
    is_method = isinstance(call.func, ast.Attribute) and last_name(call.func) in ("astype", "to", "type")
    to_bytes = is_method and len(call.args) == 1 and "uint8" in ast.unparse(call.args[0])
    return call.func.value if to_bytes else None  # type: ignore[attr-defined]
