"""Rules about initial weights and states: lost after they were loaded, not loaded, weights that are no parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.expressions import made_of
from labbook.review.names import SCOPES, assigns, dotted_target, last_name, last_names, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_DRAWN = ("torch.randn", "torch.rand", "paddle.randn", "paddle.rand")
_LEARNED = re.compile(
    r"(?:^|[_.])(?:cls|class|token|tokens|pos|position|positions|embed|embedding|weight|bias|query)(?:$|_)"
)
_LOADING = ("load_state_dict", "set_state_dict", "set_dict")
_COUNT = re.compile(r"epoch|step|iter", re.IGNORECASE)
_CONSTANT = ("zeros", "ones", "full")
_FILLS = re.compile(r"(?:normal|uniform|orthogonal|xavier\w*|kaiming\w*|eye|copy|trunc_normal|sparse|dirac)_$")
_INITIALISES = re.compile(r"(?:^|_)(?:init|initiali[sz]e|reset)(?:$|_)", re.IGNORECASE)


@warning("parameters_initialised_again", "PyTorch: saving and loading models; torch.nn.Module.apply")
def initialised_after_loading(code: Code, source: Source) -> Iterator[Hit]:
    """A model is initialised after its weights were loaded, so that the checkpoint is lost."""
    for name in _LOADING:
        for where, load in code.calls.get(name, ()):
            if where is not source or not isinstance(load.func, ast.Attribute):
                continue
            model, statement = dotted_target(load.func.value), source.statement(load)
            block, index = source.blocks.get(statement, ([], 0)) if statement is not None else ([], 0)
            for later in block[index + 1 :] if model else ():
                if any(assigns(one, model) for one in walk([later])) or isinstance(later, SCOPES):
                    break
                call = later.value if isinstance(later, ast.Expr) else None
                if isinstance(call, ast.Call) and _initialises_all(call, model):
                    yield Hit(call, {"code": ast.unparse(call), "line": str(source.line(load)[0])})
                    break


def _initialises_all(call: ast.Call, model: str) -> bool:
    """Whether this is `model.apply(init_weights)`, `init_weights(model)`, or `model.init_weights()`."""
    function = call.func
    is_method = isinstance(function, ast.Attribute) and dotted_target(function.value) == model
    given = [dotted_target(one) for one in call.args]
    if is_method and last_name(function) == "apply":
        return len(given) == 1 and _INITIALISES.search(last_name(call.args[0])) is not None
    return bool(_INITIALISES.search(last_name(function))) and (given == [model] or (is_method and not call.args))


@warning("parameters_initialised_again", "torch.nn.Module.load_state_dict: changes the module that it is called of")
def loaded_into_nothing(code: Code, source: Source) -> Iterator[Hit]:
    """Weights are loaded into a model that is made in the same expression and lost after it."""
    for name in ("load_state_dict", "set_state_dict"):
        for where, load in code.calls.get(name, ()):
            made = load.func.value if where is source and isinstance(load.func, ast.Attribute) else None
            is_statement = isinstance(source.parents.get(load), ast.Expr)
            if is_statement and isinstance(made, ast.Call) and code.class_named(source, made.func) is not None:
                yield Hit(load, {"code": ast.unparse(load)})


@warning(
    "unregistered_parameters",
    "torch.nn.Parameter: a tensor that is an attribute of a module is no parameter",
    row="activation",
)
def token_without_parameter(code: Code, source: Source) -> Iterator[Hit]:
    """A token, a position table or a weight of a model is a random tensor, which no optimizer changes."""
    for cls in (node for node in source.of_type(ast.ClassDef) if code.is_module(source, node)):
        made = code.method(source, cls, "__init__")
        for node in walk(made[1].body) if made is not None else ():
            name = dotted_target(node.targets[0]) if isinstance(node, ast.Assign) else ""
            if not _LEARNED.search(name):
                continue
            drawn = [one for one in of_type(ast.walk(node), ast.Call) if source.dotted(one.func) in _DRAWN]
            wrapped = last_names(node) & {"Parameter", "register_buffer", "create_parameter"}
            uses = [one for one in source.of_type(ast.Attribute) if f"self.{one.attr}" == name]
            inside = all(source.class_of(one) is cls for one in uses)
            if drawn and not wrapped and inside and len(uses) > 1:
                yield Hit(node, {"name": name, "code": ast.unparse(node)})


@warning("parameters_initialised_again", "torch.nn.Module: a new module has new random weights")
def model_made_each_epoch(code: Code, source: Source) -> Iterator[Hit]:
    """The loop over epochs makes a new model, so that each epoch begins with random weights."""
    for loop in source.of_type(ast.For):
        head = ast.unparse(loop.target) + ast.unparse(loop.iter)
        if "epoch" not in head.lower() or not any(is_call(one, "backward") for one in walk(loop.body)):
            continue
        for statement in (one for one in loop.body if isinstance(one, ast.Assign)):
            kind = code.kind(source, statement.value) if isinstance(statement.value, ast.Call) else None
            name = dotted_target(statement.targets[0])
            is_own = kind is not None and kind.call is statement.value and kind.definition is not None
            is_loaded = any(is_call(one, *_LOADING) for one in walk(loop.body))
            if name and is_own and not is_loaded and code.is_module(*kind.definition):  # type: ignore[union-attr, misc]
                yield Hit(statement, {"code": ast.unparse(statement), "model": name})


@warning(
    "init_symmetric", "Goodfellow et al. 2016, Deep Learning, 8.4: initial weights break symmetry", row="activation"
)
def constants_in_series(code: Code, source: Source) -> Iterator[Hit]:
    """Two matrices of a network of plain tensors begin constant, one behind the other: hidden units stay equal."""
    weights = {
        node.targets[0].id
        for node in source.of_type(ast.Assign)
        if isinstance(node.targets[0], ast.Name) and _is_constant_matrix(source, node.value)
    }
    filled = [one for one in source.of_type(ast.Call) if _FILLS.search(last_name(one.func))]
    weights -= {name for one in filled for name in last_names(one)}
    for product in source.of_type(ast.BinOp) if len(weights) > 1 else ():
        last = product.right.id if isinstance(product.op, ast.MatMult) and isinstance(product.right, ast.Name) else ""
        if last in weights:
            before = {one.id for one in of_type(made_of(code, source, product.left), ast.Name)} & (weights - {last})
            if before:
                yield Hit(product, {"first": min(before), "last": last})
                return


def _is_constant_matrix(source: Source, value: ast.expr) -> bool:
    """Whether this is `torch.full((4, 8), 0.1, requires_grad=True)`, or the like by `Parameter` or `requires_grad_`."""
    made = next((one for one in of_type(ast.walk(value), ast.Call) if last_name(one.func) in _CONSTANT), None)
    if made is None or not source.dotted(made.func).startswith(("torch.", "paddle.")) or not made.args:
        return False
    shape = made.args[0].elts if isinstance(made.args[0], (ast.Tuple, ast.List)) else made.args
    trains = re.search(r"requires_grad_?\b|Parameter|stop_gradient", ast.unparse(value)) is not None
    return len(shape) > 1 and trains and not any(isinstance(one, (ast.Add, ast.Sub)) for one in ast.walk(value))
