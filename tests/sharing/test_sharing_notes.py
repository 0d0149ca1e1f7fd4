"""What two people do to the same notes on disk, without a command of labbook or git, is shared."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sharing_clones import call_git, copy_clones, make_template, sync, write_note

from labbook.errors import GitError
from labbook.sharing.remote_git import choose_remote
from labbook.store.branch_checkout import restore_before_writing

pytestmark = pytest.mark.process


@pytest.fixture
def pair(tmp_path):
    return copy_clones(make_template(tmp_path / "template"), tmp_path / "team", 2)


def test_two_versions_of_the_same_lines_both_stay(pair):
    note = write_note(pair[0], "ideas.md", "# Ideas\n\nfirst\n")
    sync(pair[0])
    sync(pair[1])
    write_note(pair[0], "ideas.md", "# Ideas\n\nlower the rate\n")
    write_note(pair[1], "ideas.md", "# Ideas\n\nraise the rate\n")
    sync(pair[0])
    assert sync(pair[1]).conflicts == ("notes/ideas.md",)
    sync(pair[0])
    text = note.read_text()
    assert "lower the rate" in text and "raise the rate" in text and "Two versions of the same lines" in text
    assert text == (pair[1].paths.notes / "ideas.md").read_text()


def test_a_note_that_was_renamed_by_hand_is_renamed_for_all_and_a_missing_one_stays(pair):
    for name in ("plan.md", "kept.md"):
        write_note(pair[0], name, f"# {name}\n")
    for book in pair:
        sync(book)
    notes = pair[0].paths.notes
    (notes / "plan.md").rename(notes / "plan-of-november.md")
    (notes / "kept.md").unlink()
    write_note(pair[0], "new.md", "# new\n")
    for book in pair:
        sync(book)
    assert {path.name for path in pair[1].paths.notes.glob("*.md")} == {"plan-of-november.md", "kept.md", "new.md"}


def test_a_renamed_page_does_not_come_back_before_the_next_sync(pair):
    book = pair[0]
    old = write_note(book, "experiments/exp001_digits_dynamic.md", "# digits\n")
    lost = write_note(book, "experiments/exp002_words_dynamic.md", "# words\n")
    sync(book)
    old.rename(old.with_name("exp001_digits-cnn_dynamic.md"))
    lost.unlink()
    restore_before_writing(book, book.paths.experiments)
    assert lost.exists() and not old.exists()
    for each in (*pair, book):
        sync(each)
    names = {path.name for path in pair[1].paths.experiments.glob("*.md")}
    assert names == {"exp001_digits-cnn_dynamic.md", "exp002_words_dynamic.md"}


def test_sync_outside_of_a_project_names_the_missing_project(pair):
    book = replace(pair[0], personal=True)
    call_git(book.paths.root, "remote", "remove", "origin")
    with pytest.raises(GitError, match="no notebook is above this folder"):
        choose_remote(book)
