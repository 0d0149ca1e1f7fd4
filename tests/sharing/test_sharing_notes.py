"""What two people do to the same notes on disk, without a command of labbook or git, is shared."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import permutations

import pytest
from sharing_clones import call_git, copy_clones, make_template, sync, write_entry, write_note

from labbook.errors import GitError
from labbook.sharing.note_merge import merge_notes
from labbook.sharing.remote_git import choose_remote
from labbook.store.branch_checkout import restore_before_writing
from labbook.store.entry_text import block

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


def test_an_edit_follows_a_renamed_page_and_brings_a_removed_entry_back_whole(pair):
    entry = write_entry(pair[0], "20261122-035531-ab12", "healthy")
    old = write_note(pair[0], "experiments/exp001_digits_dynamic.md", "# digits\n\n## Goal\n\n## Notes\n")
    for book in pair:
        sync(book)
    old.rename(old.with_name("exp001_digits-cnn_dynamic.md"))
    shutil.rmtree(entry.with_suffix(""))
    entry.unlink()
    page = pair[1].paths.notes / "experiments" / old.name
    page.write_text(page.read_text().replace("## Goal", "## Goal\n\nread all ten digits"))
    there = pair[1].paths.entry(entry.stem)
    there.write_text(there.read_text().replace("## Goal", "## Goal\n\nis 0.1 enough?"))
    for book in (*pair, *pair):
        sync(book)
    for book in pair:
        [page] = (book.paths.notes / "experiments").glob("*.md")
        assert page.stem == "exp001_digits-cnn_dynamic" and "read all ten digits" in page.read_text()
    assert "is 0.1 enough?" in entry.read_text() and (entry.with_suffix("") / "run.json").exists()


def test_a_third_version_stands_beside_the_two_others():
    def merged(one, other):
        return merge_notes("# Ideas\n\nfirst\n", one, other).text

    notes = [f"# Ideas\n\nrate {number}\n" for number in range(3)]
    for order in permutations(notes):
        text = merged(merged(order[0], order[1]), order[2])
        assert text == merged(merged(*notes[:2]), notes[2]) and text.count("Two versions") == 1
        assert [line for line in text.splitlines() if line.startswith("rate")] == ["rate 0", "rate 1", "rate 2"]


def test_of_two_fixes_run_sentence_and_block_are_of_the_same_person():
    def note(run, text):
        return f"---\nid: a\nstatus: failed\nfix: {run}\nfix_text: {text}\n---\n\n{block('fix', f'Fixed in {run}')}"

    base, one, other = note("null", "null"), note("run-1", "z lower"), note("run-2", "a norm")
    text = merge_notes(base, one, other).text
    assert text == merge_notes(base, other, one).text
    assert "fix: run-2\nfix_text: a norm" in text and "Fixed in run-2" in text and "Fixed in run-1" not in text
    assert "- `fix`: run-1" in text and "- `fix_text`: z lower" in text


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
