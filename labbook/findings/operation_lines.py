"""Finds in the code the line of the operation that made a loss not finite, where the run itself did not show it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.health.rules.first_nonfinite import EXPRESSIONS
from labbook.model.events.inspection_kinds import Cut, Flight
from labbook.model.run import Run
from labbook.review.names import last_name

if TYPE_CHECKING:
    from labbook.review.source_file import Source

_BACKWARD = ("backward(", "grad(")
_CALLS = {
    "div": ("div", "divide", "true_divide"),
    "divide": ("div", "divide", "true_divide"),
    "pow": ("pow", "float_power"),
    **dict.fromkeys(("mm", "mv", "bmm"), ("matmul", "mm", "mv", "bmm")),
    **dict.fromkeys(("norm", "linalgvectornorm", "pnorm", "frobeniusnorm"), ("norm", "vector_norm")),
}
"""Operation in a graph, in lower case -> functions and methods that make it; others are called as they are named."""

_OPERATORS: dict[str, type[ast.operator]] = {
    "div": ast.Div,
    "divide": ast.Div,
    "pow": ast.Pow,
    "mul": ast.Mult,
    "sub": ast.Sub,
    **dict.fromkeys(("mm", "mv", "bmm"), ast.MatMult),
}
_SYMPTOMS = ("loss_nonfinite", "nonfinite_gradient")
_MOST_PLACES = 3
_MESSAGES = ("print", "write", "info", "debug", "warning", "format")


def add_operation_line(run: Run, files: Sequence[Path]) -> Run:
    """Returns a run with the line of the operation in the report of its flight recorder, where one line fits alone.

    Args:
        files: The source files that the program loaded.
    """
    originals = {Path(copy): name for name, copy in run.copies.items()}
    labels = {path: originals.get(path, str(path)) for path in files}
    signals = tuple(
        replace(one, flight=_add_place(one.flight, labels)) if _is_without_line(one.flight) else one
        for one in run.signals
    )
    return replace(run, signals=signals) if signals != run.signals else run


def _is_without_line(flight: Flight) -> bool:
    """Whether the operation is known and its line is not, or only that of the backward call."""
    if flight.get("finding") not in EXPRESSIONS or not (flight.get("made") or flight.get("may")):
        return False
    return not flight.get("file") or any(name in flight.get("source", "") for name in _BACKWARD)


def _add_place(flight: Flight, files: Mapping[Path, str]) -> Flight:
    from labbook.review.reviewer import RULES, review_files
    from labbook.review.source_file import Unreadable, read_source

    made = flight.get("made", {}).get("op", "")
    kinds = [made] if made else [one.get("op", "") for one in flight.get("may", [])]
    found: dict[tuple[str, int], Cut] = {}
    for path, label in files.items():
        with suppress(OSError, Unreadable):
            source = read_source(path, label)
            for kind in kinds:
                for node in _operations(source, kind.lower()):
                    found.setdefault((str(path), node.lineno), _operation(source, kind, node))
    if len(found) > 1:
        rules = [rule for rule in RULES if rule.symptom in _SYMPTOMS]
        risky = {(one.file, one.line) for one in review_files([*files], rules=rules).violations}
        found = {place: one for place, one in found.items() if place in risky}
    if len(found) == 1:
        return {**flight, **next(iter(found.values())), "op": flight.get("op", "")}
    # Several may have made it: each is shown.
    return {**flight, "may": list(found.values())} if 1 < len(found) <= _MOST_PLACES else flight


def _operation(source: Source, kind: str, node: ast.expr) -> Cut:
    """Returns an operation with its place."""
    function = source.function(node)
    name = function.name if function is not None else "<module>"
    return {"op": kind, "file": source.label, "line": node.lineno, "function": name, "source": source.line(node)[2]}


def _operations(source: Source, kind: str) -> Iterator[ast.expr]:
    """Yields the expressions of a file that may be an operation of a graph; none that is only printed."""
    operator, names = _OPERATORS.get(kind), _CALLS.get(kind, (kind,))
    for node in source.nodes:
        is_call = isinstance(node, ast.Call) and last_name(node.func) in names
        is_operator = operator is not None and isinstance(node, ast.BinOp) and isinstance(node.op, operator)
        if is_operator and isinstance(node.right, ast.Constant):  # type: ignore[attr-defined]
            continue
        if (is_call or is_operator) and not _is_printed(source, node):
            yield node  # type: ignore[misc]


def _is_printed(source: Source, node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.JoinedStr) or (isinstance(one, ast.Call) and last_name(one.func) in _MESSAGES)
        for one in source.parents_of(node)
    )
