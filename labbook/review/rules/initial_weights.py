"""Rules about initial weights: an initialisation after a checkpoint was loaded."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.code_index import Code
from labbook.review.names import SCOPES, assigns, dotted_target, last_name, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_INITIALISES = re.compile(r"(?:^|_)(?:init|initiali[sz]e|reset)(?:$|_)", re.IGNORECASE)


@warning("parameters_initialised_again", "PyTorch: saving and loading models; torch.nn.Module.apply", row="loop-bug")
def initialised_after_loading(code: Code, source: Source) -> Iterator[Hit]:
    """A model is initialised after its weights were loaded, so that the checkpoint is lost."""
    for name in ("load_state_dict", "set_state_dict", "set_dict"):
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
