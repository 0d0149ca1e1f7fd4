"""`labbook rm`: a run or an experiment leaves the notebook of everybody, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from sharing_clones import call_git, copy_clones, disk, make_template, sync, write_entry, write_note

from labbook.cli import labbook
from labbook.errors import EntryError, NothingFoundError, UsageError
from labbook.index.query import list_notes
from labbook.sharing.remove_run import plan_removal, remove_runs
from labbook.store.commit.branch_checkout import restore_missing
from labbook.store.commit.commit_queue import WITHHELD, enqueue, withheld_files
from labbook.store.notebook import Notebook

pytestmark = pytest.mark.process

RUN, TRIAL, OTHER = "20261122-035531-ab2c", "20261122-035531-ab2ct0001", "20261122-035600-ab2d"
EXPERIMENT = "exp003_digits_dynamic"
PAGE = f"---\nschema: 1\nexperiment: {EXPERIMENT}\n---\n\n# Digits\n\n## Goal\n\n<!-- yours: goal -->\n"


@pytest.fixture
def books(tmp_path: Path) -> list[Notebook]:
    books = copy_clones(make_template(tmp_path / "template"), tmp_path / "clones", 2)
    book = books[0]
    write_note(book, f"experiments/{EXPERIMENT}.md", PAGE)
    write_entry(book, RUN, "All is well.", experiment=EXPERIMENT)
    write_entry(book, TRIAL, "A trial.", experiment=EXPERIMENT)
    write_entry(book, OTHER, "Another.", experiment="exp004_other_dynamic")
    return books


def names(book: Notebook) -> str:
    branch = call_git(book.paths.root, "ls-tree", "-r", "--name-only", "labbook", check=False)
    indexed = [entry.id for entry in list_notes(book).entries]
    return "\n".join([*disk(book), branch, *indexed])


@pytest.mark.parametrize("word", ["ab2c", RUN, "exp003", EXPERIMENT])
def test_a_run_or_an_experiment_leaves_disk_branch_and_index_of_everybody(books: list[Notebook], word: str) -> None:
    first, second = books
    for book in (first, second):
        sync(book)
    removal = plan_removal(first, word)
    assert (removal.runs, removal.experiment, removal.written) == ((RUN, TRIAL), EXPERIMENT, "")
    assert remove_runs(first, removal).status == "committed"
    for book in (first, second, first):
        sync(book)
        restore_missing(book)
        assert "ab2c" not in names(book) and EXPERIMENT not in names(book)
        assert OTHER in names(book)
        assert call_git(book.paths.root, "status", "--porcelain") == ""
    log = call_git(first.paths.root, "log", "--format=%s", "labbook")
    assert f"Remove {EXPERIMENT}" in log
    assert call_git(first.paths.root, "log", "--format=%h", "labbook", "--", f"notes/experiments/{EXPERIMENT}.md")


def test_the_page_of_an_experiment_stays_while_it_has_runs_or_words(books: list[Notebook]) -> None:
    book = books[0]
    write_note(book, f"experiments/{EXPERIMENT}.md", PAGE + "\nDoes width matter?\n")
    removal = plan_removal(book, RUN)
    assert (removal.experiment, removal.written) == ("", EXPERIMENT)
    write_note(book, f"experiments/{EXPERIMENT}.md", PAGE)
    write_entry(book, "20261122-035532-ab2e", "One more.", experiment=EXPERIMENT)
    removal = plan_removal(book, RUN)
    assert (removal.experiment, removal.written) == ("", "")
    remove_runs(book, removal)
    assert EXPERIMENT in names(book)


@pytest.mark.parametrize(("word", "error"), [("exp", NothingFoundError), ("digits", NothingFoundError)])
def test_part_of_a_name_is_too_little(books: list[Notebook], word: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        plan_removal(books[0], word)
    with pytest.raises(UsageError):
        plan_removal(books[0], "exp009")


def test_a_run_that_goes_on_stays(books: list[Notebook]) -> None:
    entry = books[0].paths.entry(RUN)
    entry.write_text(entry.read_text().replace("status: finished", "status: running"))
    with pytest.raises(EntryError, match="still going on"):
        plan_removal(books[0], RUN)


def test_a_withheld_entry_can_be_removed(books: list[Notebook]) -> None:
    book = books[0]
    file = book.paths.entry(OTHER).relative_to(book.paths.root).as_posix()
    enqueue(book.paths, (file,), "m", 1.0, "secret", queue=WITHHELD)
    remove_runs(book, plan_removal(book, OTHER))
    assert not withheld_files(book.paths) and OTHER not in names(book)


def test_the_command_asks_and_without_a_terminal_refuses(
    books: list[Notebook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(books[0].paths.root)
    answer = CliRunner().invoke(labbook, ["rm", RUN])
    assert isinstance(answer.exception, UsageError) and RUN in names(books[0])
    answer = CliRunner().invoke(labbook, ["rm", RUN, "--yes"])
    assert "history of git" in answer.output and f"page of the experiment {EXPERIMENT}" in answer.output
    answer = CliRunner().invoke(labbook, ["rm", "last", "--yes", "--json"])
    assert json.loads(answer.output)["runs"] == [OTHER]
