"""Rules about runs of static programs of PaddlePaddle in an evaluation."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code
from labbook.review.eval_loops import names_evaluation
from labbook.review.names import last_name
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning


@warning("evaluation_updates_parameters", "paddle.static.Executor.run: it runs all operators of a program")
def test_data_in_training_program(code: Code, source: Source) -> Iterator[Hit]:
    """The program that an optimizer was built into is fed with held-out data, elsewhere with that of the training."""
    trained = {_program_around(source, call) for call in code.calls_in(source, "minimize")}
    runs: dict[str, list[tuple[ast.Call, bool]]] = {}
    for call in code.calls_in(source, "run"):
        kind, feed = code.kind(source, receiver(call)), argument(call, 1, "feed")
        if kind is None or not kind.name.endswith("static.Executor") or not isinstance(feed, ast.Dict):
            continue
        names = [
            last_name(one)
            for value in feed.values
            for one in ast.walk(value)
            if isinstance(one, (ast.Name, ast.Attribute))
        ]
        runs.setdefault(_name_program(argument(call, 0, "program")), []).append((call, names_evaluation(names)))
    for program, calls in runs.items():
        if program in trained and not all(is_held_out for _, is_held_out in calls):
            for call, is_held_out in calls:
                if is_held_out:
                    yield Hit(call, {"program": program or "default_main_program()"})


def _program_around(source: Source, call: ast.Call) -> str:
    """Return the program that a call builds into: of the innermost `program_guard`, "" for the default one."""
    for outer in source.parents_of(call):
        for item in outer.items if isinstance(outer, ast.With) else ():
            if is_call(item.context_expr, "program_guard"):
                return _name_program(argument(item.context_expr, 0, "main_program"))
    return ""


def _name_program(node: ast.expr | None) -> str:
    return "" if node is None or is_call(node, "default_main_program") else ast.unparse(node)
