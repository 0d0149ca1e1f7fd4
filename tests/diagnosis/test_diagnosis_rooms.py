"""The rooms of diagnosis: reading text, tables of families and the catalogue do not know each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOM = Path(__file__).resolve().parents[2] / "labbook" / "diagnosis"


def imported(path: Path) -> set[str]:
    """The modules of diagnosis that a file imports, below `labbook.diagnosis`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.removeprefix("labbook.diagnosis.") for name in names if name.startswith("labbook.diagnosis.")}


@pytest.mark.parametrize("room", ["text", "families", "catalogue"])
def test_a_room_imports_itself_and_the_reading_of_toml_files(room: str) -> None:
    for path in (ROOM / room).glob("*.py"):
        assert all(name == "toml_data" or name.split(".")[0] == room for name in imported(path)), path.name


def test_every_room_has_an_init_of_prose_without_imports():
    for path in ROOM.rglob("__init__.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert len(tree.body) == 1 and len((ast.get_docstring(tree) or "").splitlines()) >= 9, path
