"""Rules about averages of weights: how much of the average is kept, and whether training goes on from it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import is_call, receiver
from labbook.review.code_index import Code, Kind
from labbook.review.expressions import constant, signed_terms
from labbook.review.names import LOOPS, Function, dotted_target, last_name, loop_of, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_SMALL_SHARE = 0.2
"""An average of weights that keeps less of itself at each update is close to a copy. Source: chosen by us."""

_MOSTLY_OLD = 0.5
"""An average that has more of the first weights than this at the end says little of the training. Chosen by us."""

_WEIGHTS = re.compile(r"parameters|state_dict|buffers|params|weights", re.IGNORECASE)
_PUT_IN = re.compile(r"apply_shadow|apply_ema|copy_to|swap|store", re.IGNORECASE)
_PUT_BACK = re.compile(r"restore|swap_back|unapply", re.IGNORECASE)


@warning("averaged_weights_misused", "torch.optim.swa_utils.get_ema_multi_avg_fn: decay * average + (1 - decay) * new")
def average_forgets(code: Code, source: Source) -> Iterator[Hit]:
    """An average of weights keeps hardly anything of itself: its decay multiplies the new weights."""
    for node in source.nodes:
        average, sum_ = _moved_in_place(node) or _averaging(node)
        loop = next((one for one in source.parents_of(node) if isinstance(one, (*LOOPS, ast.FunctionDef))), None)
        if not average or sum_ is None or not isinstance(loop, ast.For) or not _WEIGHTS.search(ast.unparse(loop.iter)):
            continue
        shares = [_factor_of_average(term, average) for _, term in signed_terms(sum_)]
        own = [share for is_own, share in shares if is_own and share is not None]
        value = constant(code, source, own[0]) if len(own) == 1 and len(shares) == 2 else None
        if value is not None and 0 < value < _SMALL_SHARE:
            yield Hit(node, {"average": average, "share": f"{value:.3g}", "code": ast.unparse(sum_)})


@warning(
    "averaged_copy_never_updated",
    "torch.optim.swa_utils.AveragedModel: update_parameters after the step of the optimizer",
)
def average_never_updated(code: Code, source: Source) -> Iterator[Hit]:
    """An average of weights is made and never updated, so that it stays at the initial weights."""
    if not any(code.calls.get(name) for name in ("step", "minimize")):
        return
    for node in source.nodes:
        kind = code.kind(source, node) if isinstance(node, ast.Call) else None
        if kind is None or kind.call is not node:
            continue
        name = _update_of(kind)
        calls = code.calls.get(name, ()) if name else ()
        read = code.loaded[name] + (name in code.texts)
        if name and read == len(calls) and all(_is_of_another(code, kind, *one) for one in calls):
            yield Hit(node, {"average": ast.unparse(node.func), "update": name})


@warning(
    "averaged_weights_misused",
    "torch.optim.swa_utils.get_ema_multi_avg_fn: the average keeps `decay` of itself at each update",
)
def average_updated_rarely(code: Code, source: Source) -> Iterator[Hit]:
    """An average that keeps most of itself is updated once an epoch: at the end it is mostly the first weights."""
    for table in code.functions.values():
        for where, function in table:
            decay = _decay(code, where, function) if where is source else None
            for place, call in code.callers(where, function) if decay is not None else ():
                loop = loop_of(place, call)
                epochs = _epochs(code, place, loop) if isinstance(loop, ast.For) else None
                share = decay**epochs if epochs is not None and decay is not None else 0.0
                if share > _MOSTLY_OLD:
                    yield Hit(call, {"call": ast.unparse(call), "updates": f"{epochs:.0f}", "share": f"{share:.0%}"})


def _decay(code: Code, source: Source, function: Function) -> float | None:
    """The factor with which a function multiplies an average of weights, if it is one number; else `None`."""
    found = set()
    for node in (one for loop in of_type(ast.walk(function), ast.For) for one in walk(loop.body)):
        average, sum_ = _averaging(node)
        terms = [_factor_of_average(term, average) for _, term in signed_terms(sum_)] if sum_ is not None else []
        shares = [share for is_own, share in terms if is_own]
        shares += node.func.value.args[:1] if _moves_average(node) else []  # type: ignore[attr-defined]
        found |= {constant(code, source, share) if share is not None else None for share in shares}
    return found.pop() if len(found) == 1 else None


def _epochs(code: Code, source: Source, loop: ast.For) -> float | None:
    """The number of passes of a loop over `range(n)` that contains the loop over batches; `None` if unknown."""
    trains = (one for one in loop.body if isinstance(one, ast.For))
    if not any(is_call(part, "backward") for one in trains for part in ast.walk(one)):
        return None
    return constant(code, source, loop.iter.args[-1]) if is_call(loop.iter, "range") and loop.iter.args else None


def _update_of(kind: Kind) -> str:
    """The method with which an object averages weights; "" if it has none, or more than one."""
    if kind.name == "torch.optim.swa_utils.AveragedModel":
        return "update_parameters"
    methods = [one for one in kind.definition[1].body if isinstance(one, ast.FunctionDef)] if kind.definition else []
    found = [one.name for one in methods if any(_moves_average(node) for node in ast.walk(one))]
    return found[0] if len(found) == 1 and not found[0].startswith(("__", "forward")) else ""


def _moves_average(node: ast.AST) -> bool:
    """Whether a call moves an average in place: `s.mul_(decay).add_(p, alpha=1 - decay)`."""
    inner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    return is_call(node, "add_") and is_call(inner, "mul_") and "decay" in ast.unparse(inner).lower()


def _moved_in_place(node: ast.AST) -> tuple[str, ast.expr] | None:
    """What an average is, and its new value: of `s.mul_(a).add_(p, alpha=1 - a)`; `None` for anything else."""
    inner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    if not is_call(node, "add_") or not is_call(inner, "mul_") or len(node.args) != 1 or len(inner.args) != 1:
        return None
    owner, share = inner.func.value, inner.args[0]  # type: ignore[attr-defined]
    alpha = next((one.value for one in node.keywords if one.arg == "alpha"), ast.Constant(1.0))
    kept, new = ast.BinOp(owner, ast.Mult(), share), ast.BinOp(node.args[0], ast.Mult(), alpha)
    return ast.unparse(owner).removesuffix(".data"), ast.BinOp(kept, ast.Add(), new)


def _is_of_another(code: Code, kind: Kind, source: Source, call: ast.Call) -> bool:
    """Whether a method is called of an object that is known to be of another class."""
    other = code.kind(source, receiver(call))
    return other is not None and (other.name, other.definition) != (kind.name, kind.definition)


def _averaging(node: ast.AST) -> tuple[str, ast.expr | None]:
    """What an average is, and the sum that it is given: `e.copy_(a * e + b * p)`, `e.data = ...`, `shadow[n] = ...`."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return ast.unparse(node.targets[0]).removesuffix(".data"), node.value
    if is_call(node, "copy_", "set_value") and len(node.args) == 1:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        return ast.unparse(owner).removesuffix(".data"), node.args[0]
    return "", None


def _factor_of_average(term: ast.expr, average: str) -> tuple[bool, ast.expr | None]:
    """Whether a product is of the average, and its other factor."""
    if not isinstance(term, ast.BinOp) or not isinstance(term.op, ast.Mult):
        return False, None
    sides = [(term.left, term.right), (term.right, term.left)]
    found = next((share for one, share in sides if ast.unparse(one).removesuffix(".data") == average), None)
    return found is not None, found


@warning("averaged_weights_misused", "torch_ema: `restore` after an evaluation with averaged weights")
def average_left_in_model(code: Code, source: Source) -> Iterator[Hit]:
    """Averaged weights are put into the model in a loop of training, and are never taken out again."""
    for owner in source.of_type(ast.ClassDef):
        methods = {one.name for one in owner.body if isinstance(one, ast.FunctionDef)}
        back = [name for name in methods if _PUT_BACK.search(name)]
        if not back or any(code.calls.get(name) for name in back) or any(code.loaded.get(name) for name in back):
            continue
        for name in sorted(name for name in methods - set(back) if _PUT_IN.search(name)):
            for call in code.calls_in(source, name):
                loop = loop_of(source, call)
                called = {last_name(one.func) for one in of_type(ast.walk(loop), ast.Call)} if loop else set()
                if "backward" in called and dotted_target(getattr(call.func, "value", call)):
                    yield Hit(call, {"call": ast.unparse(call.func), "back": back[0]})
