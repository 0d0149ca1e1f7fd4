"""Finds what in the recorded code can give another result in each run, although nothing was changed.

It reads the program's own files that the run used. It is asked when a rerun differs, and names places; whether they
changed the result is not proven.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from labbook.compare.run_settings import environment_variables, list_rows
from labbook.errors import LabbookError
from labbook.model.message import Message, message
from labbook.rerun.recorded_code import RecordedCode, recorded_code
from labbook.store.notebook import Notebook

_MAX_PLACES = 3
_MAX_BYTES = 1 << 20
_SEEDED_IF_GIVEN = ("default_rng", "RandomState", "Random", "SeedSequence")
"""Generators that have a seed of their own if they get an argument."""
_NO_DRAW = frozenset({"seed", "get_state", "set_state", "getstate", "setstate", "Generator", "PCG64", "BitGenerator"})
_CLOCK = frozenset({"time.time", "time.monotonic", "time.perf_counter", "time.time_ns", "datetime.datetime.now"})
_SYSTEM = frozenset({"os.urandom", "uuid.uuid4", "secrets.randbits", "secrets.token_bytes", "secrets.randbelow"})
_FOLDERS = frozenset({"os.listdir", "os.scandir", "glob.glob", "glob.iglob"})
_FOLDER_METHODS = frozenset({"iterdir", "rglob"})
_IN_ANY_ORDER = frozenset({"sorted", "len", "set", "any", "all", "sum", "max", "min", "frozenset"})

_REASONS = {
    "numpy": "rerun.reason_numpy",
    "python": "rerun.reason_python",
    "system": "rerun.reason_system",
    "clock": "rerun.reason_clock",
    "set_order": "rerun.reason_set_order",
    "file_order": "rerun.reason_file_order",
}
"""Kind of a place -> its sentence."""


def recorded_variations(notebook: Notebook, run: Mapping[str, Any]) -> list[Message]:
    """Returns what in the recorded code of a run varies from run to run; nothing if the code cannot be restored."""
    with contextlib.suppress(LabbookError), recorded_code(notebook, run, incomplete=True) as code:
        return varying_code(run, code)
    return []


def varying_code(run: Mapping[str, Any], code: RecordedCode) -> list[Message]:
    """Returns what in the code of a run varies from run to run, with places.

    Args:
        run: The `run.json`; generators that it gave a seed are left out.
    """
    found: dict[str, list[str]] = {}
    for path in run.get("sources") or ():
        original = Path(str(path)).expanduser()
        if original.suffix != ".py" or not original.is_relative_to(code.original_top):
            continue
        file = code.top / original.relative_to(code.original_top)
        try:
            tree = ast.parse(file.read_bytes()[:_MAX_BYTES])
        except (OSError, ValueError, SyntaxError, RecursionError):
            continue
        for kind, line in _variations(tree):
            place = f"{file.relative_to(code.top)}:{line}"
            if place not in found.setdefault(kind, []):
                found[kind].append(place)
    seeds: set[str] = set()
    for framework in list_rows(run, "frameworks"):
        state = framework.get("state")
        given = state.get("seeds") if isinstance(state, Mapping) else None
        seeds |= {str(name) for name, seed in (given or {}).items() if seed is not None}
    if (environment_variables(run) or {}).get("PYTHONHASHSEED", "random") not in ("random", ""):
        seeds.add("set_order")
    return [message(_REASONS[kind], places=places[:_MAX_PLACES]) for kind, places in found.items() if kind not in seeds]


def _variations(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yields kind and line of each place."""
    names = _imported_names(tree)
    sets, timed, ordered = _facts_of_names(tree, names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from ((kind, node.lineno) for kind in _call_kinds(node, names, ordered=id(node) in ordered))
        iterated = _iterated(node)
        is_set = iterated is not None and (_is_set(iterated) or _is_name(iterated, sets))
        if iterated is not None and is_set and id(iterated) not in ordered and id(node) not in ordered:
            yield "set_order", iterated.lineno
        if isinstance(node, (ast.While, ast.If)) and any(
            _called_name(part, names) in _CLOCK or (isinstance(node, ast.While) and _is_name(part, timed))
            for part in ast.walk(node.test)
        ):
            yield "clock", node.lineno


def _facts_of_names(tree: ast.AST, names: Mapping[str, str]) -> tuple[set[str], set[str], set[int]]:
    """Returns the names of sets, the names of times, and the `id` of nodes for which the order does not count."""
    sets: set[str] = set()
    timed: set[str] = set()
    ordered: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _IN_ANY_ORDER:
            ordered |= {id(part) for argument in node.args for part in ast.walk(argument)}
        if isinstance(node, ast.Assign):
            targets = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if _is_set(node.value):
                sets |= targets
            if any(_called_name(part, names) in _CLOCK for part in ast.walk(node.value)):
                timed |= targets
    return sets, timed, ordered


def _is_name(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _call_kinds(node: ast.Call, names: Mapping[str, str], *, ordered: bool) -> Iterator[str]:
    called = _called_name(node, names)
    module, _, function = called.rpartition(".")
    generator = {"numpy.random": "numpy", "random": "python"}.get(module)
    if generator and function not in _NO_DRAW:
        if function not in _SEEDED_IF_GIVEN:
            yield generator
        elif not (node.args or node.keywords):
            yield "system"
    if called in _SYSTEM:
        yield "system"
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if (called in _FOLDERS or method in _FOLDER_METHODS) and not ordered:
        yield "file_order"


def _imported_names(tree: ast.AST) -> dict[str, str]:
    """Returns name in the file -> full name of what was imported."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                names[one.asname or one.name.partition(".")[0]] = one.name if one.asname else one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                names[one.asname or one.name] = f"{node.module}.{one.name}"
    return names


def _called_name(node: ast.AST, names: Mapping[str, str]) -> str:
    """Returns the full name of what a call calls, "" if it is not imported."""
    if not isinstance(node, ast.Call):
        return ""
    parts = []
    at: ast.AST = node.func
    while isinstance(at, ast.Attribute):
        parts.append(at.attr)
        at = at.value
    if not isinstance(at, ast.Name) or at.id not in names:
        return ""
    return ".".join([names[at.id], *reversed(parts)])


def _is_set(node: ast.AST) -> bool:
    if isinstance(node, (ast.Set, ast.SetComp)):
        return True
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")


def _iterated(node: ast.AST) -> ast.expr | None:
    """Returns what a loop, a comprehension, or a call such as `list(...)` iterates."""
    if isinstance(node, (ast.For, ast.comprehension)):
        return node.iter
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        return node.args[0] if node.func.id in ("list", "tuple", "enumerate", "iter") else None
    return None
