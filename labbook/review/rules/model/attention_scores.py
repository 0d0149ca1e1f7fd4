"""Rules about attention: scale, mask and axis of scores that the program computes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call
from labbook.review.code_index import Code
from labbook.review.expressions import axis_of, constant, made_of, number, option_default
from labbook.review.names import (
    Function,
    assigned_value,
    assigns,
    dotted_target,
    last_name,
    named_values,
    of_type,
    parameters,
)
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_SCALE = re.compile(
    r"scal|sqrt|temp|tau|norm|gamma|(?<![a-z])(?:relu|elu|softmax|sigmoid|tanh|exp|log|mul|div|multiply|divide)_?\("
    r"|\*\*\s*\(?-?\s*(?:0?\.5|\(1\s*/\s*2\))",
    re.IGNORECASE,
)
_OTHER_TERM = re.compile(r"bias|alibi|rel_|position|embed", re.IGNORECASE)
_CAUSAL = re.compile(r"tril|triu|causal", re.IGNORECASE)
_OWN_START = re.compile(r"init\.\w+\(|\.weight\.data|_init_weights|reset_parameters")

_QUERY, _KEY = re.compile(r"q(?:s|uery|ueries)?$", re.IGNORECASE), re.compile(r"k(?:s|eys?)?$", re.IGNORECASE)
_MASK = re.compile(r"(?:^|(?<!head)[._])(?:mask|valid)|(?<!head_)ma?sk$|^m$", re.IGNORECASE)
TRANSPOSED = re.compile(r"\.(?:transpose|swapaxes|permute|mT|T|t)\b|transpose_y=True|->")
_FAR_BELOW = re.compile(r"inf|-\s*(?:\d+e|\d{4})|1e\d|finfo")
_PRODUCTS = ("matmul", "bmm", "einsum", "baddbmm")
_ROOT = re.compile(r"(?:\w+\.)*sqrt\(.*\)|.* \*\* 0?\.5")
_FILLS = ("masked_fill", "masked_fill_")
_AS_IS = {*_FILLS, "float", "to", "type_as", "add", "clone", "contiguous", "astype", "cast"}
_RESCALING = ("normalize", "multinomial")
_SAME_MASK = ("unsqueeze", "float", "to", "astype", "cast", "expand", "view", "reshape", "type_as")


@warning("attention_not_scaled", "Vaswani et al. 2017, 3.2.1: scores grow with the width of a head", row="activation")
def unscaled_attention(code: Code, source: Source) -> Iterator[Hit]:
    """A softmax of products of queries and keys without a scale, in a causal or multi-head attention."""
    for _, function, steps in attentions(source):
        products = [one for step in steps for one in _products(step)]
        if len(products) != 1 or not TRANSPOSED.search(ast.unparse(products[0])):
            continue
        # A function is given queries that its callers may have scaled.
        owner = source.class_of(function)
        homes = [(source, owner)] if owner is not None else _calling_classes(code, source, function)
        models = [(where, cls) for where, cls in homes if code.is_module(where, cls)]
        if not models or len(models) < len(homes) or any(_starts_itself(code, *one) for one in models):
            continue
        texts = [ast.unparse(value) for value in _sources_of(function, products[0])]
        texts += [re.sub(r"\bsoftmax\b", "", ast.unparse(step)) for step in steps]
        if owner is None:
            texts += [ast.unparse(cls) for _, cls in models]
        is_attention = any(_CAUSAL.search(ast.unparse(cls)) or _splits_heads(cls) for _, cls in models)
        plain = not any(_OTHER_TERM.search(ast.unparse(step)) or _has_factor(step) for step in steps)
        if is_attention and plain and not any(map(_SCALE.search, texts)):
            yield Hit(products[0], {"scores": ast.unparse(products[0])})


@warning(
    "dropout_active_in_eval",
    "torch.nn.functional.scaled_dot_product_attention: dropout is applied whatever the mode of the module",
)
def fused_attention_dropout(code: Code, source: Source) -> Iterator[Hit]:
    """A module gives fused attention a rate of dropout that does not depend on its mode."""
    for call in code.calls_in(source, "scaled_dot_product_attention"):
        rate, function = argument(call, 4, "dropout_p"), source.function(call)
        cls = source.class_of(call)
        if rate is None or function is None or cls is None or not code.is_module(source, cls):
            continue
        given = [*made_of(code, source, rate)]
        is_parameter = any(last_name(one) in parameters(function)[1:] for one in given if isinstance(one, ast.Name))
        by_mode = "train" in ast.unparse(function) or any("train" in last_name(one) for one in given)
        if _is_positive(code, source, rate) and not is_parameter and not by_mode and code.calls.get("eval"):
            yield Hit(call, {"rate": ast.unparse(rate)})


def _is_positive(code: Code, source: Source, rate: ast.expr) -> bool:
    """Whether a rate is a number above 0, or all numbers that the program gives its name are."""
    name, known = last_name(rate), constant(code, source, rate)
    if known is not None:
        return known > 0
    values = [value for where in code.sources for one, value, _ in named_values(where) if one == name]
    values += [
        one.value for where in code.sources for one in where.of_type(ast.AnnAssign) if last_name(one.target) == name
    ]
    numbers = [*map(number, values), option_default(code, rate)]
    return any(numbers) and 0 not in numbers


@warning("attention_mask_multiplied", "softmax: a score of 0 has the weight exp(0), not 0")
def multiplied_mask(code: Code, source: Source) -> Iterator[Hit]:
    """Scores that a mask multiplies, or fills with 0, before their softmax: a hidden key keeps a weight of exp(0)."""
    for call, function, steps in attentions(source):
        found = next((one for step in steps for one in ast.walk(step) if _hides_by_zero(one)), None)
        if found is None or any(_FAR_BELOW.search(ast.unparse(step)) for step in steps):
            continue
        # Weights that are multiplied by the mask again, and divided by their sum, are right.
        again = (one for one in of_type(ast.walk(function), ast.BinOp) if one.lineno > call.lineno)
        if not any(_is_masked(one) for one in again):
            yield Hit(found, {"mask": ast.unparse(found)})


@warning("attention_mask_multiplied", "Vaswani et al. 2017, 3.2.3: masked before the softmax")
def mask_after_softmax(code: Code, source: Source) -> Iterator[Hit]:
    """A mask sets weights of an attention to 0 after the softmax: the others do not add up to 1, and depend on them."""
    for call, function, steps in attentions(source):
        hidden = (is_call(one, *_FILLS) or _is_masked(one) for step in steps for one in ast.walk(step))
        if any(_FAR_BELOW.search(ast.unparse(step)) for step in steps) or any(hidden):
            continue
        later = [one for one in ast.walk(function) if getattr(one, "lineno", 0) >= call.lineno]
        masked = next((one for one in later if _hides_by_zero(one) and _is_weights(source, call, one)), None)
        parts = [one.op for one in later if isinstance(one, (ast.BinOp, ast.AugAssign))]
        is_divided = any(isinstance(op, ast.Div) for op in parts) or any(is_call(one, *_RESCALING) for one in later)
        if masked is not None and not is_divided:
            yield Hit(masked, {"mask": ast.unparse(masked)})


def _is_weights(source: Source, call: ast.Call, node: ast.AST) -> bool:
    """Whether a product or a filled tensor is made of what this softmax returned."""
    statement = source.statement(call)
    name = dotted_target(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
    return any(one is call or (name and dotted_target(one) == name) for one in ast.walk(node))


@warning("attention_not_scaled", "Vaswani et al. 2017, 3.2.1: divided by the root of the width", row="activation")
def multiplied_by_root(code: Code, source: Source) -> Iterator[Hit]:
    """The products of queries and keys are multiplied by the root of the width, and not divided by it."""
    for _, _, steps in attentions(source):
        nodes = [one for step in steps for one in of_type(ast.walk(step), ast.BinOp)]
        if any(isinstance(one.op, (ast.Div, ast.Sub)) for one in nodes):
            continue
        for node in (one for one in nodes if isinstance(one.op, ast.Mult) and _products(one)):
            factors = [code.made(source, side) or side for side in (node.left, node.right)]
            if any(_ROOT.fullmatch(ast.unparse(one)) for one in factors):
                yield Hit(node, {"code": ast.unparse(node)})


@warning("softmax_wrong_axis", "Vaswani et al. 2017, 3.2.1: the weights of a query add up to 1")
def softmax_over_queries(code: Code, source: Source) -> Iterator[Hit]:
    """The weights of an attention are normalised over the queries, not over the keys."""
    for call, function, steps in attentions(source):
        products = [one for step in steps for one in _products(step) if isinstance(one, (ast.BinOp, ast.Call))]
        if len(products) != 1:
            continue
        owner = source.class_of(function)
        made = [len(shape) for value in _sources_of(function, products[0]) for shape in _shapes_in(value)]
        splits = (owner is not None and _splits_heads(owner)) or (bool(made) and min(made) >= 4)
        if axis_of(call, 1 if source.dotted(call.func) else 0) not in ((-2, 1, 2) if splits else (-2,)):
            continue
        sides = products[0].args if isinstance(products[0], ast.Call) else [products[0].left, products[0].right]
        turned = ast.unparse(products[0]) if len(sides) > 1 else ""
        # Slots compete for inputs, and divide their weights by the sum over the keys.
        others = [one for one in of_type(ast.walk(function), ast.Call) if last_name(one.func) == last_name(call.func)]
        divided = any(
            isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div) and "sum" in ast.unparse(one.right)
            for one in ast.walk(function)
        )
        is_query = len(sides) > 1 and _QUERY.match(last_name(sides[0])) and TRANSPOSED.search(turned)
        if is_query and len(others) == 1 and not divided:
            yield Hit(call, {"code": ast.unparse(call)})


def attentions(source: Source) -> Iterator[tuple[ast.Call, Function, list[ast.expr]]]:
    """Each softmax of products of matrices: its call, its function, and all that the scores are given there."""
    for node in source.of_type(ast.Call):
        func = node.func.func if isinstance(node.func, ast.Call) else node.func
        function = source.function(node)
        if last_name(func).lower() != "softmax" or function is None:
            continue
        owner = node.func.value if isinstance(node.func, ast.Attribute) and not source.dotted(node.func) else None
        is_layer = isinstance(owner, ast.Name) and owner.id == "self"
        given = owner if owner is not None and not is_layer else next(iter(node.args), None)
        steps = _steps(function, given) if given is not None else []
        if any(_products(step) for step in steps):
            yield node, function, steps


def _steps(function: Function, scores: ast.expr) -> list[ast.expr]:
    """An expression, and all that the names which it passes on as scores are assigned in the function."""
    found, seen = [scores], set()
    for step in found:
        for name in _passed_on(step):
            if name not in seen and len(found) < 50:
                seen.add(name)
                found += _assigned(function, name)
    return found


def _passed_on(node: ast.expr) -> Iterator[str]:
    """The names that an expression passes on as scores: of a sum, of a call that fills."""
    if dotted_target(node):
        yield dotted_target(node)
    elif isinstance(node, ast.BinOp):
        yield from _passed_on(node.left)
        if isinstance(node.op, ast.Add):
            yield from _passed_on(node.right)
    elif isinstance(node, ast.IfExp):
        yield from _passed_on(node.body)
        yield from _passed_on(node.orelse)
    elif isinstance(node, ast.Call):
        is_method = isinstance(node.func, ast.Attribute) and last_name(node.func) in _AS_IS
        for one in [node.func.value] if is_method else node.args if last_name(node.func) == "where" else []:  # type: ignore[attr-defined]
            yield from _passed_on(one)


def _assigned(function: Function, name: str) -> list[ast.expr]:
    found: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign) and dotted_target(node.target) == name:
            found.append(ast.copy_location(ast.BinOp(node.target, node.op, node.value), node))
        elif assigns(node, name) and (value := assigned_value(node, name)) is not None:
            found.append(value)
    return found


def _products(node: ast.expr) -> list[ast.expr]:
    """The matrix products that an expression passes on as scores."""
    if isinstance(node, ast.BinOp):
        both = [*_products(node.left), *_products(node.right)]
        return [node] if isinstance(node.op, ast.MatMult) else both
    if not isinstance(node, ast.Call) or last_name(node.func) in _PRODUCTS:
        return [node] if isinstance(node, ast.Call) else []
    parts = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    return [one for part in parts for one in _products(part)]


def _sources_of(function: Function, product: ast.expr) -> list[ast.expr]:
    """A product, and all that is assigned in the function to the names which it is made of."""
    found: list[ast.expr] = [product]
    seen: set[str] = set()
    for value in found:
        for name in {dotted_target(one) for one in ast.walk(value)} - {"", "self"} - seen:
            seen.add(name)
            found += [node.value for node in of_type(ast.walk(function), ast.Assign) if assigns(node, name)]
            found += [one for one in _assigned(function, name) if isinstance(one, ast.BinOp)]
    return found


def _calling_classes(code: Code, source: Source, function: Function) -> list[tuple[Source, ast.ClassDef]]:
    """The classes that call a function of queries and keys."""
    names = parameters(function)
    if not any(map(_QUERY.match, names)) or not any(map(_KEY.match, names)):
        return []
    calls = code.callers(source, function)
    return [(where, cls) for where, call in calls if (cls := where.class_of(call)) is not None]


def _starts_itself(code: Code, source: Source, cls: ast.ClassDef) -> bool:
    """Whether a class sets its initial weights, which may contain the scale, as in T5."""
    return any(_OWN_START.search(ast.unparse(one)) for _, one in code.lineage(source, cls))


def _splits_heads(cls: ast.ClassDef) -> bool:
    """Whether a class with heads gives a tensor a fourth axis."""
    return any(len(shape) >= 4 for shape in _shapes_in(cls)) and "head" in ast.unparse(cls).lower()


def _shapes_in(node: ast.AST) -> list[list[ast.expr]]:
    """The shapes that are given to `view` and `reshape` in a node."""
    return [
        call.args[0].elts if len(call.args) == 1 and isinstance(call.args[0], (ast.List, ast.Tuple)) else call.args
        for call in of_type(ast.walk(node), ast.Call)
        if last_name(call.func) in ("view", "reshape")
    ]


def _has_factor(step: ast.expr) -> bool:
    """Whether a step has a product or quotient that may be a scale: of anything but a mask."""
    factors = (one for one in of_type(ast.walk(step), ast.BinOp) if isinstance(one.op, (ast.Mult, ast.Div)))
    return any(not _is_masked(one) and not _FAR_BELOW.search(ast.unparse(one)) for one in factors)


def _hides_by_zero(node: ast.AST) -> bool:
    """Whether scores are multiplied by a mask, or filled with 0."""
    if is_call(node, *_FILLS) and len(node.args) == 2:
        return isinstance(node.args[1], ast.Constant) and node.args[1].value == 0
    return _is_masked(node)


def _is_masked(node: ast.AST) -> bool:
    """Whether this is the product of a mask and something that is neither a mask nor a number."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    others = [side for side in (node.left, node.right) if not _is_mask(side)]
    return len(others) == 1 and not isinstance(others[0], (ast.Constant, ast.UnaryOp))


def _is_mask(node: ast.expr) -> bool:
    """Whether an expression is the name of a mask, with new axes or as another type."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call) and last_name(node.func) not in _SAME_MASK:
            return False
        inner = node.value if isinstance(node, ast.Subscript) else getattr(node.func, "value", None)
        if not isinstance(inner, ast.expr):
            return False
        node = inner
    return bool(dotted_target(node)) and _MASK.search(dotted_target(node)) is not None
