"""A few programs of the health bench, recorded as a user records them: faults named, healthy ones green."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "programs" / "health"


def load_cases():
    spec = importlib.util.spec_from_file_location("health_cases", FOLDER / "cases.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


CASES = load_cases()
FAST = [case for case in CASES.CASES if case.id in CASES.FAST]


def marked(case):
    kind = pytest.mark.torch if case.framework == "torch" else pytest.mark.paddle
    return pytest.param(case, id=case.id, marks=[kind, pytest.mark.slow, pytest.mark.long])


@pytest.mark.parametrize("case", [marked(case) for case in FAST])
def test_what_is_planted_is_named_and_nothing_else(book, case, monkeypatch):
    pytest.importorskip(case.framework)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    book("record", "--quiet", "--no-commit", "--", *case.command)
    rows = [row for row in book.run()["checks"] if row["verdict"] in ("fail", "warn")]
    said = {row["id"] for row in rows}
    assert set(case.expected) <= said, f"said only {sorted(said)}"
    right = {*case.expected, *case.instead, *case.allowed}
    assert not [row for row in rows if row["id"] not in right and not row["explained_by"]]
    if case.healthy:
        assert not said


def programs_of(file):
    """Functions of a file that are programs: they take `broken`, or nothing in the healthy files."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    wanted = ([],) if file.stem.startswith("odd") else (["broken"],)
    if file.stem.startswith("strangers"):
        wanted = ([], ["broken"])
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.args.vararg is None]
    return {f"{file.stem}:{node.name}" for node in functions if [each.arg for each in node.args.args] in wanted}


def test_every_program_is_a_case_and_every_case_a_program():
    cases = {case.id.removesuffix(":fixed") for case in CASES.CASES}
    written = set().union(*(programs_of(file) for file in FOLDER.glob("*_*.py")))
    assert written <= cases
    optional = {"loops_torch:through_numpy"}  # takes the kind of its model too
    assert cases - written <= optional
    assert len([case for case in CASES.CASES if case.healthy and not case.twin]) >= 24
