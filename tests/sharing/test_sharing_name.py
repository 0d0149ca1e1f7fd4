"""`labbook name`: a run has a name in its title, front matter and heading, and keeps its script, id and text."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.process

RUN = "20261122-035531-ab2c"
EVIL = "<script>alert(1)</script> | [x](javascript:y) {{ 7*7 }} `a` **b** --> \x1b[31m: #1"


@pytest.fixture
def book(notes):
    notes.run(
        RUN, "My own text.\n\n# A heading of mine", title="train.py: finished, val_acc 0.5 → 0.9", script="train.py"
    )
    return notes


def test_a_name_replaces_the_script_and_can_be_taken_back(book):
    path = book.folder / f"notes/runs/2026/11/22/{RUN}.md"
    before = path.read_text()

    assert "warm-up 500: finished, val_acc 0.5 → 0.9" in book.labbook("name", "ab2c", "warm-up  500").stdout
    shown = book.labbook("list", "warm-up").stdout
    assert "warm-up 500: finished" in shown and RUN in shown
    text = path.read_text()
    assert "# warm-up 500: finished, val_acc 0.5 → 0.9\n" in text and "# A heading of mine" in text
    assert book.labbook("list", "script:train.py").stdout == shown, "the script stays known"

    made = json.loads(book.labbook("name", RUN, "two: three", "--json").stdout)
    assert made["title"] == "two: three: finished, val_acc 0.5 → 0.9"
    book.labbook("name", RUN, "")
    assert "# train.py: finished, val_acc 0.5 → 0.9\n" in path.read_text()
    assert before.split("---", 2)[2] == path.read_text().split("---", 2)[2]


def test_a_hostile_name_is_text_and_a_secret_is_none(book):
    path = book.folder / f"notes/runs/2026/11/22/{RUN}.md"
    before = path.read_text()
    for name in ("x" * 61, "token ghp_16C7e42F292c6912E7710c838347Ae178B4a"):
        refused = book.labbook("name", RUN, name, check=False)
        assert refused.returncode == 2 or refused.returncode == 3
        assert path.read_text() == before

    book.labbook("name", RUN, EVIL[:60])
    body = path.read_text().split("---\n", 2)[2]
    assert "<script" not in body and "](javascript" not in body
    assert "My own text." in body and "\x1b" not in book.labbook("list").stdout


def test_a_running_run_is_not_named(book, monkeypatch):
    from labbook.errors import EntryError
    from labbook.sharing import name_run
    from labbook.store.notebook_finder import find_notebook

    monkeypatch.setattr(name_run, "is_going_on", lambda *_: True)
    notebook = find_notebook(book.folder, chosen=book.folder, environ={})
    with pytest.raises(EntryError):
        name_run.name_run(notebook, RUN, "x")
