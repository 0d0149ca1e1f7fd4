"""The line of the program that a finding is about, where a page names its kind and the program has one such line."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from labbook.review.gradient_flow import is_optimizer, is_scheduler
from labbook.review.names import dotted_target, last_name
from labbook.review.source_file import Source, Unreadable, read_source


def find_culprit(kinds: Iterable[str], files: Sequence[Path]) -> tuple[str, int] | None:
    """Returns file and line of the only call of the first kind that the program has; `None` if there are several.

    Args:
        kinds: "optimizer", "scheduler" and "loader" where one is created, "scheduler.step", "clipping", "loss" where
            what `backward` is called on is computed.
        files: The files of the program.
    """
    sources = []
    for path in (path for path in files if path.suffix == ".py"):
        with suppress(Unreadable):
            sources.append(read_source(path, str(path)))
    found: dict[str, set[tuple[str, int]]] = {}
    for source in sources:
        for kind, call in _iter_calls(source):
            found.setdefault(kind, set()).add((source.label, call.lineno))
    places = next((found[kind] for kind in kinds if kind in found), set())
    return next(iter(places)) if len(places) == 1 else None


def _line(node: ast.stmt) -> int:
    return node.lineno


def _iter_calls(source: Source) -> Iterator[tuple[str, ast.Assign | ast.Call]]:
    schedulers = {
        dotted_target(target)
        for node in source.of_type(ast.Assign)
        if isinstance(node.value, ast.Call) and is_scheduler(source.dotted(node.value.func))
        for target in node.targets
    }
    for call in source.of_type(ast.Call):
        name = source.dotted(call.func)
        if is_optimizer(name):
            yield "optimizer", call
        elif is_scheduler(name):
            yield "scheduler", call
        elif name.endswith(".DataLoader"):
            yield "loader", call
        elif last_name(call.func).startswith(("clip_grad_", "ClipGradBy")):
            yield "clipping", call
        elif last_name(call.func) == "step" and dotted_target(getattr(call.func, "value", call)) in schedulers - {""}:
            yield "scheduler.step", call
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
            loss = dotted_target(call.func.value)
            made = [node for node in source.of_type(ast.Assign) if loss and loss == dotted_target(node.targets[0])]
            yield "loss", max((one for one in made if one.lineno < call.lineno), key=_line, default=call)
