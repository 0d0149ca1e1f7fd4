"""Rules about initial weights and states: lost after they were loaded, not loaded, weights that are no parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.names import SCOPES, assigns, dotted_target, last_name, last_names, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_DRAWN = ("torch.randn", "torch.rand", "paddle.randn", "paddle.rand")
_LEARNED = re.compile(
    r"(?:^|[_.])(?:cls|class|token|tokens|pos|position|positions|embed|embedding|weight|bias|query)(?:$|_)"
)
_LOADING = ("load_state_dict", "set_state_dict", "set_dict")
_COUNT = re.compile(r"epoch|step|iter", re.IGNORECASE)
_INITIALISES = re.compile(r"(?:^|_)(?:init|initiali[sz]e|reset)(?:$|_)", re.IGNORECASE)


@warning("parameters_initialised_again", "PyTorch: saving and loading models; torch.nn.Module.apply", row="loop-bug")
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


@warning(
    "parameters_initialised_again",
    "torch.nn.Module.load_state_dict: changes the module that it is called of",
    row="loop-bug",
)
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


@warning("parameters_initialised_again", "torch.nn.Module: a new module has new random weights", row="loop-bug")
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
