"""Finds in the code the line of the operation that made a loss not finite, where the run itself did not show it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.model.events.inspection_kinds import Flight
from labbook.model.run import Run
from labbook.review.names import last_name

if TYPE_CHECKING:
    from labbook.review.source_file import Source

_EXPRESSIONS = ("expression", "loss expression")
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
_MESSAGES = ("print", "write", "info", "debug", "warning", "format")


def add_operation_line(run: Run, files: Sequence[Path]) -> Run:
    """Returns a run with the line of the operation in the report of its flight recorder, where one line fits alone.

    Args:
        files: The source files that the program loaded.
    """
    signals = tuple(
        replace(one, flight=_add_place(one.flight, files)) if _is_without_line(one.flight) else one
        for one in run.signals
    )
    return replace(run, signals=signals) if signals != run.signals else run


def _is_without_line(flight: Flight) -> bool:
    """Whether the operation is known and its line is not, or only that of the backward call."""
    if flight.get("finding") not in _EXPRESSIONS or not (flight.get("made") or flight.get("may")):
        return False
    return not flight.get("file") or any(name in flight.get("source", "") for name in _BACKWARD)


def _add_place(flight: Flight, files: Sequence[Path]) -> Flight:
    from labbook.review.reviewer import RULES, review_files
    from labbook.review.source_file import Unreadable, read_source

    made = flight.get("made", {}).get("op", "")
    kinds = {kind.lower() for kind in ([made] if made else [one.get("op", "") for one in flight.get("may", [])])}
    sources = {}
    for path in files:
        with suppress(OSError, Unreadable):
            sources[str(path)] = read_source(path, str(path))
    places = {(file, node.lineno): node for file, source in sources.items() for node in _operations(source, kinds)}
    if len(places) > 1:
        rules = [rule for rule in RULES if rule.symptom in _SYMPTOMS]
        risky = {(one.file, one.line) for one in review_files(files, rules=rules).violations}
        places = {place: node for place, node in places.items() if place in risky}
    if len(places) != 1:
        return flight
    ((file, line), node) = next(iter(places.items()))
    function = sources[file].function(node)
    name = function.name if function is not None else "<module>"
    return {**flight, "file": file, "line": line, "function": name, "source": sources[file].line(node)[2]}


def _operations(source: Source, kinds: set[str]) -> Iterator[ast.expr]:
    """Yields the expressions of a file that may be one of the operations; none that is only printed."""
    operators = tuple(_OPERATORS[kind] for kind in kinds if kind in _OPERATORS)
    names = {name for kind in kinds for name in _CALLS.get(kind, (kind,))}
    for node in source.nodes:
        is_operator = isinstance(node, ast.BinOp) and isinstance(node.op, operators)
        is_operator = is_operator and not isinstance(node.right, ast.Constant)  # type: ignore[attr-defined]
        if (is_operator or (isinstance(node, ast.Call) and last_name(node.func) in names)) and not _is_printed(
            source, node
        ):
            yield node  # type: ignore[misc]


def _is_printed(source: Source, node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.JoinedStr) or (isinstance(one, ast.Call) and last_name(one.func) in _MESSAGES)
        for one in source.parents_of(node)
    )
