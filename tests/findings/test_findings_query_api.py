"""`labbook.list_runs()` and `labbook.search()`."""

from __future__ import annotations

import pytest

import labbook
from labbook.errors import NotebookError, UsageError

A, B = "20261120-100000-aaaa", "20261121-100000-aaaa"


@pytest.fixture
def book(notes):
    notes.run(A, params={"lr": 0.01}, metrics={"val_acc": {"best": 0.95, "last": 0.91}}, status="finished")
    notes.run(
        B, params={"lr": 0.5}, status="failed", symptoms=["grad_not_cleared"], fix=A, fix_text="added zero_grad()"
    )
    return notes.folder


def test_runs_are_dictionaries_of_their_front_matter(book):
    (run,) = labbook.list_runs("lr<0.02 val_acc>0.9", notebook=book)

    assert run["id"] == A and run["params"] == {"lr": 0.01} and run["path"].endswith(f"{A}.md")
    assert [run["id"] for run in labbook.list_runs(notebook=book)] == [B, A]
    assert len(labbook.list_runs(limit=1, notebook=book)) == 1


@pytest.mark.parametrize("question", ["忘记清空梯度", "forgot to zero the gradients", "梯度没有清零"])
def test_the_fix_is_the_first_answer_and_the_page_the_second(book, question):
    fix, page, *_ = labbook.search(question, notebook=book)

    assert fix.fix == "added zero_grad()" and fix.meta["id"] == B
    assert page.kind == "catalogue" and page.symptom == "grad_not_cleared"


def test_what_is_unknown_is_refused(book, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="lrr"):
        labbook.list_runs("lrr<3", notebook=book)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotebookError):
        labbook.list_runs()
