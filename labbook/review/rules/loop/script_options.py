"""Rules about command-line options."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.call_syntax import argument
from labbook.review.code_index import Code
from labbook.review.gradient_flow import is_optimizer
from labbook.review.loaders import LOADERS
from labbook.review.names import dotted_target, last_name
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_OPTIONS = (
    "lr", "learning_rate", "batch_size", "epochs", "num_epochs", "weight_decay", "momentum", "dropout", "seed",
    "n_epochs",
)  # fmt: skip


@warning("", "chosen by us", tier=1, row="")
def option_not_used(code: Code, source: Source) -> Iterator[Hit]:
    """An option is never read, and its value is hard-coded."""
    parsers = list(code.calls_in(source, "parse_args"))
    if not parsers or _arguments_escape(source):
        return
    for call in code.calls_in(source, "add_argument"):
        names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        long = next((n for n in names if n.startswith("--")), "")
        dest = next(
            (ast.literal_eval(k.value) for k in call.keywords if k.arg == "dest" and isinstance(k.value, ast.Constant)),
            "",
        )
        name = str(dest) or long.lstrip("-").replace("-", "_")
        if name not in _OPTIONS or code.loaded.get(name) or name in code.texts - {long}:
            continue
        written = _hard_coded(source, name)
        if written is not None:
            yield Hit(written, {"option": long or name})


_WHOLE = ("args", "opt", "opts", "options", "config", "cfg", "parser", "hparams", "flags")
"""Names of all options together."""

_PRINTING = ("print", "str", "repr")


def _arguments_escape(source: Source) -> bool:
    """Whether the parsed options are passed on as a whole."""
    for node in source.nodes:
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in _PRINTING):
            for arg in [*node.args, *(k.value for k in node.keywords)]:
                arg = arg.value if isinstance(arg, ast.Starred) else arg
                if isinstance(arg, ast.Name) and arg.id.lower() in _WHOLE:
                    return True
        if (
            isinstance(node, (ast.Return, ast.Yield))
            and node.value is not None
            and isinstance(node.value, (ast.Call, ast.Name))
        ) and ("parse_args" in ast.unparse(node.value) or ast.unparse(node.value) in ("args", "opt")):
            return True
    return False


def _hard_coded(source: Source, option: str) -> ast.AST | None:
    """Return the node where a number is hard-coded instead of the option."""
    keyword = {"learning_rate": ("lr", "learning_rate"), "lr": ("lr", "learning_rate")}.get(option, (option,))
    for node in source.of_type(ast.Call):
        name = source.dotted(node.func)
        if option in ("lr", "learning_rate", "weight_decay", "momentum") and is_optimizer(name):
            given = next((k for k in node.keywords if k.arg in keyword), None)
            if given is not None and isinstance(given.value, ast.Constant):
                return node
        if option == "batch_size" and name in LOADERS:
            size = argument(node, 1, "batch_size")
            if isinstance(size, ast.Constant):
                return node
        if option in ("epochs", "num_epochs", "n_epochs") and last_name(node.func) == "range":
            loop = source.parents.get(node)
            if (
                isinstance(loop, ast.For)
                and dotted_target(loop.target) == "epoch"
                and isinstance(node.args[-1], ast.Constant)
            ):
                return node
        if (
            option == "seed"
            and name in ("torch.manual_seed", "paddle.seed")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            return node
    return None
