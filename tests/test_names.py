"""Functions are named by a verb and its object; a predicate begins with is or has."""

from __future__ import annotations

import ast
from pathlib import Path

from source_trees import PACKAGE, python_files, syntax_of

# What says nothing at a call: `told(x)`, `of(x)`, `kept(x)`.
PARTICLES = frozenset((Path(__file__).parent / "data" / "particles.txt").read_text("utf-8").split())


def test_no_function_is_named_by_a_lone_participle_or_preposition():
    lone = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}"
        for path in python_files()
        for node in ast.walk(syntax_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.strip("_") in PARTICLES
        and not any("property" in ast.unparse(each) for each in node.decorator_list)
    ]
    assert not lone
