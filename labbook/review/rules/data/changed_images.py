"""Rules about images and what lies on them: random changes of an image are those of its mask or boxes, too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.expressions import names_in
from labbook.review.loaders import LABELS
from labbook.review.names import (
    SCOPES,
    assigned_values,
    dotted_target,
    last_name,
    of_type,
    walk,
)
from labbook.review.rules.data.augmentation import DRAWS, calls_of_transform
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_IMAGE = re.compile(r"(?:^|_)(?:im|ims|img|imgs|image|images|x|picture|photo|frame|pixels)(?:$|_|\d)", re.IGNORECASE)
_SHAPES = re.compile(
    r"(?:^|_)(?:masks?|segs?|segmentation|bx|box|boxes|bbox|bboxes|keypoints?|kps?|kpts?|pts|points|coords"
    r"|corners|polygons?|landmarks?|joints|label_map|heatmaps?|depth|flow)(?:$|_)",
    re.IGNORECASE,
)
_FLIP = re.compile(
    r"(?:^|_)[hv]?_?(?:flip|fliplr|flipud|mirror|rot90)(?:$|_)|(?:horizontal|vertical)_flip", re.IGNORECASE
)
_MOVES = re.compile(r"flip|rot90|rotate|crop|roll|affine|warp|mirror", re.IGNORECASE)
_MOVING = {
    *("RandomHorizontalFlip", "RandomVerticalFlip", "RandomRotation", "RandomCrop", "RandomResizedCrop"),
    *("RandomAffine", "RandomPerspective", "ElasticTransform"),
}
_SEEDS = ("seed", "manual_seed", "setstate", "set_state", "set_rng_state", "default_rng")
_READS = re.compile(r"Image\.open\(|imread\(")
_RANDOM = re.compile(r"rand|bernoulli|choice|coin|flip|augment", re.IGNORECASE)
_CONSTANTS = ("ones", "zeros", "ones_like", "zeros_like", "full", "len", "tensor", "to_tensor")


@warning(
    "flipped_without_target",
    "torchvision: transforms of images are joint with their masks and boxes since v2",
    row="data",
)
def flipped_alone(code: Code, source: Source) -> Iterator[Hit]:
    """An image is flipped at random, and what lies on it, a mask or boxes, is left as it is."""
    for node in source.nodes:
        image = _flipped(node)
        if not image or not isinstance(node, ast.Assign):
            continue
        branch = next((one for one in source.parents_of(node) if isinstance(one, (ast.If, *SCOPES))), None)
        function = source.function(node)
        is_random = isinstance(branch, ast.If) and _RANDOM.search(ast.unparse(branch.test))
        if not is_random and not (function is not None and branch is function and _FLIP.search(function.name)):
            continue
        scope = function or source.tree
        for name in _partners(scope, image, _maps(code)):
            if not _is_changed(scope, branch, name, function) and not _is_constant(scope, name):
                yield Hit(node, {"image": image, "other": name})
                break


@warning(
    "flipped_without_target",
    "torchvision: transforms of images are joint with their masks and boxes since v2",
    row="data",
)
def transformed_apart(code: Code, source: Source) -> Iterator[Hit]:
    """A random flip, crop or rotation is called for an image and again for its mask: each call draws anew."""
    images: dict[tuple[ast.AST, str], str] = {}
    for call in source.of_type(ast.Call):
        scope, name = source.function(call), dotted_target(call.args[0]) if len(call.args) == 1 else ""
        if scope is None or not name or any(is_call(one, *_SEEDS) for one in of_type(walk(scope.body), ast.Call)):
            continue
        key = scope, ast.unparse(call.func)
        if not _SHAPES.search(name):
            images.setdefault(key, name if _IMAGE.search(name) else "")
        elif images.get(key) and _moves_at_random(code, source, call.func):
            yield Hit(call, {"call": ast.unparse(call), "image": images[key], "other": name})


def _moves_at_random(code: Code, source: Source, transform: ast.expr) -> bool:
    """Whether a transform moves pixels, each time in another way: one of torchvision, or a function or class here."""
    makers = code.makers(source, transform) or [(source, transform)]
    if any(_MOVING & names_in(code, where, node) for where, node in makers):
        return True
    for where, node in makers:
        func = node.func if isinstance(node, ast.Call) else node
        calls = calls_of_transform(code, where, func, "forward")
        if any(is_call(one, *DRAWS) for one in calls) and any(_MOVES.search(last_name(one.func)) for one in calls):
            return True
    return False


def _flipped(node: ast.AST) -> str:
    """The name of an image that a statement replaces by its mirror image, or ""."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return ""
    name, value = dotted_target(node.targets[0]), node.value
    if not name or not _IMAGE.search(name) or _SHAPES.search(name):
        return ""
    names = {dotted_target(one) for one in ast.walk(value)}
    called = any(isinstance(one, ast.Call) and _FLIP.search(last_name(one.func)) for one in ast.walk(value))
    mirrored = "FLIP_" in ast.unparse(value) or any(
        isinstance(one, ast.Slice) and isinstance(one.step, ast.UnaryOp) for one in ast.walk(value)
    )
    return name if name in names and (called or mirrored) else ""


def _maps(code: Code) -> set[str]:
    """Names of labels that are an image: read from a file of one, or with parts of their rows and columns."""
    found = set()
    for node in (node for source in code.sources for node in source.nodes):
        if isinstance(node, ast.Assign) and _READS.search(ast.unparse(node.value)):
            found |= {dotted_target(one) for one in node.targets}
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            parts = [one for one in node.slice.elts if isinstance(one, ast.Slice) and (one.lower or one.upper)]
            found |= {dotted_target(node.value)} if len(parts) > 1 else set()
    return {name for name in found if LABELS.fullmatch(name.rpartition(".")[2])}


def _partners(scope: ast.AST, image: str, maps: set[str]) -> list[str]:
    """Names of masks, boxes or points that stand beside the image: unpacked, returned or passed together.

    Args:
        maps: Names of labels that are images.
    """
    found: dict[str, None] = {}
    for node in ast.walk(scope):
        group: list[ast.AST] = []
        if isinstance(node, (ast.Tuple, ast.List)):
            group = list(node.elts)
        elif isinstance(node, ast.Dict):
            group = list(node.values)
        elif isinstance(node, ast.arguments):
            names = [one.arg for one in node.args]
            found.update(dict.fromkeys(n for n in names if (_SHAPES.search(n) or n in maps) and image in names))
            continue
        # `torch.from_numpy(image)[None]` as well.
        names = [dotted_target(one) for part in group for one in ast.walk(part)]
        if image in names:
            found.update(dict.fromkeys(n for n in names if n and (_SHAPES.search(n) or n in maps)))
    return list(found)


def _is_changed(scope: ast.AST, branch: ast.AST | None, name: str, function: ast.AST | None) -> bool:
    """Whether a branch names what belongs to the image, or another part of the function flips it."""
    if isinstance(branch, ast.If) and any(dotted_target(one) == name for part in branch.body for one in ast.walk(part)):
        return True
    for node in ast.walk(scope):
        if isinstance(node, (ast.If, ast.IfExp)) and node is not branch:
            parts = node.body if isinstance(node, ast.If) else [node.body]
            if any(dotted_target(one) == name for part in parts for one in ast.walk(part)):
                return True
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            # `boxes[:, 0] = width - boxes[:, 0]` mirrors; `mask[2:5] = 1` draws.
            written = any(isinstance(t, ast.Subscript) and dotted_target(t.value) == name for t in targets)
            written = written and any(dotted_target(one) == name for one in ast.walk(node.value))
            made = branch is function and any(dotted_target(t) == name for t in targets)
            if written or made or (any(dotted_target(t) == name for t in targets) and _FLIP.search(ast.unparse(node))):
                return True
    return False


def _is_constant(scope: ast.AST, name: str) -> bool:
    """Whether a name is made without the data, and nothing is drawn into it: `torch.ones(1)`."""
    drawn = (one for one in of_type(ast.walk(scope), ast.Subscript) if isinstance(one.ctx, ast.Store))
    if any(dotted_target(one.value) == name for one in drawn):
        return False
    return any(
        isinstance(value, ast.Constant) or (is_call(value, *_CONSTANTS)) for value in assigned_values(scope, name)
    )
