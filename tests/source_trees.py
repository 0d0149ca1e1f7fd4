"""The syntax trees of labbook's files, parsed once for all tests that read its source; these run in one process."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "labbook"
READERS = frozenset(
    (
        "tests/model/test_model_events.py",
        "tests/store/test_store_sentences.py",
        "tests/test_house.py",
        "tests/test_names.py",
    )
)
"""The test files that use this module."""


@cache
def python_files() -> tuple[Path, ...]:
    """The files of labbook."""
    return tuple(sorted(PACKAGE.rglob("*.py")))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """The nodes of a file, the module first."""
    was_enabled = gc.isenabled()
    gc.disable()  # it would look through all earlier trees again and again, two thirds of the time
    try:
        return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    finally:
        if was_enabled:
            gc.enable()


def syntax_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    module = nodes_of(path)[0]
    assert isinstance(module, ast.Module)
    return module
