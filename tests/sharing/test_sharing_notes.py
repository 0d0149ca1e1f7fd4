"""What two people do to the same notes on disk, without a command of labbook or git, is shared."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from click.testing import CliRunner
from sharing_clones import call_git, copy_clones, make_template, sync, write_entry, write_note

from labbook.commands.commit import command as commit_command
from labbook.errors import GitError
from labbook.sharing import disk_update, local_merge
from labbook.sharing.file_merge import is_of_other_run
from labbook.sharing.follow_remote import follow_remote
from labbook.sharing.note_merge import merge_notes
from labbook.sharing.remote_git import choose_remote
from labbook.sharing.tree_merge import NewFile, commit_merge, write_commit
from labbook.store.commit.branch_checkout import restore_before_writing
from labbook.store.commit.entry_commit import commit_files
from labbook.store.git.git_identity import Signers
from labbook.store.text.entry_text import block

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


@pytest.mark.parametrize("key", ["host", "duration_s"])
def test_two_different_runs_with_one_id_both_stay_and_are_named(pair, key):
    run_id = "20260101-000000-abcd"
    for number, book in enumerate(pair):
        write_entry(book, run_id, f"result {number}", **{key: f"{number + 1}"})
    sync(pair[0])
    [named] = sync(pair[1]).conflicts
    sync(pair[0])
    entries = {path.name: path.read_text() for path in pair[0].paths.notes.rglob("2026*.md")}
    assert len(entries) == 2 and run_id + ".md" in entries and Path(named).name in entries and is_of_other_run(named)
    assert {number for number in (0, 1) for text in entries.values() if f"result {number}" in text} == {0, 1}
    assert not is_of_other_run(f"notes/runs/2026/01/01/{run_id}.md") and not is_of_other_run("notes/ideas.md")


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


class KilledError(BaseException):
    """What ends a sync in the middle."""


def kill_sync(monkeypatch, book, module, name, *, after=0):
    """Sync up to some call of a function."""
    calls = iter(range(after))
    function = getattr(module, name)

    def call(*arguments, **options):
        if next(calls, None) is None:
            raise KilledError
        return function(*arguments, **options)

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(module, name, call)
        sync(book)


def test_an_entry_that_was_removed_after_a_killed_sync_leaves_no_files(pair, monkeypatch):
    write_note(pair[0], "ideas.md", "# Ideas\n")
    for book in pair:
        sync(book)
    entry = write_entry(pair[0], "20261122-035531-ab12", "healthy")
    files = [entry, entry.with_suffix("") / "run.json"]
    sync(pair[0])
    kill_sync(monkeypatch, pair[1], local_merge, "move_branch")
    assert pair[1].paths.entry(entry.stem).exists()
    for file in files:
        file.unlink()
    commit_files(pair[0], files, "delete\n")
    for book in (*pair, pair[0]):
        sync(book)
    for book in pair:
        assert [path for path in book.paths.notes.rglob("*") if path.is_file()] == [book.paths.notes / "ideas.md"]


@pytest.mark.parametrize("fetched", [False, True])
def test_a_first_sync_that_was_killed_reverts_nothing(pair, monkeypatch, fetched):
    for name in ("ideas.md", "plan.md"):
        write_note(pair[0], name, "# Title\n\nfirst\n")
    sync(pair[0])
    if fetched:
        call_git(pair[1].paths.root, "fetch", "-q")
    kill_sync(monkeypatch, pair[1], disk_update, "write_atomically", after=1)
    assert (pair[1].paths.notes / "ideas.md").exists()
    write_note(pair[0], "ideas.md", "# Title\n\nfirst\n\nsecond\n")
    sync(pair[0])
    call_git(pair[1].paths.root, "fetch", "-q")
    for book in (pair[1], pair[0]):
        sync(book)
        assert (book.paths.notes / "ideas.md").read_text() == "# Title\n\nfirst\n\nsecond\n"
        assert (book.paths.notes / "plan.md").exists()


@pytest.mark.parametrize("first", ["", "record", "record, list", "commit"])
def test_a_note_that_was_written_before_the_first_sync_meets_the_one_of_others(pair, first):
    write_note(pair[0], "ideas.md", "# Ideas\n\nlower the rate\n")
    sync(pair[0])
    write_note(pair[1], "ideas.md", "# Ideas\n\nraise the rate\n")
    if first:
        call_git(pair[1].paths.root, "fetch", "-q")
    if first.startswith("record"):
        write_entry(pair[1], "20261122-035531-ab12", "healthy")
    if first == "record, list":
        follow_remote(pair[1])
    if first == "commit":
        CliRunner().invoke(commit_command, ["--notebook", str(pair[1].paths.root)], catch_exceptions=False)
    sync(pair[1])
    assert "lower the rate" in (text := (pair[1].paths.notes / "ideas.md").read_text()) and "raise the rate" in text


def test_data_of_a_removed_entry_that_was_edited_here_stays_and_is_named(pair):
    entry = write_entry(pair[0], "20261122-035531-ab12", "healthy")
    for book in pair:
        sync(book)
    data, there = (book.paths.attachments(entry.stem) / "run.json" for book in pair)
    there.write_text("{}")
    entry.unlink()
    data.unlink()
    commit_files(pair[0], [entry, data], "delete\n")
    sync(pair[0])
    assert sync(pair[1]).left == (there.relative_to(pair[1].paths.root).as_posix(),)
    assert there.read_text() == "{}" and sync(pair[1]).left == ()


def test_a_sentence_that_two_people_tidied_in_different_places_stays(pair):
    """Both have merged the same two commits (several common ancestors), and each removed another copy."""
    folders = pair[0].git_folders()

    def commit(text, *parents, when=0):
        note = {b"notes/ideas.md": NewFile("100644", data=text.encode())}
        return write_commit(folders, parents, note, signers=Signers(), when=when, message="-")

    def merged(one, other):
        tip, _ = commit_merge(folders, None, one, other, signers=Signers(), when=9, message="-")
        return call_git(folders.top, "show", f"{tip}:notes/ideas.md")

    texts = ["a\n\nuse warmup\n\nb\n\nc\n", "a\n\nb\n\nuse warmup\n\nc\n"]
    root = commit("a\n\nb\n\nc\n")
    for when in (1, 2):
        bases = [commit(text, root, when=when) for text in texts]
        one, other = (commit(text, *bases, when=when) for text in texts)
        assert "use warmup" in merged(one, other)
        assert merged(one, other) == merged(other, one)


def test_a_third_version_stands_beside_the_two_others():
    def merged(one, other):
        return merge_notes("# Ideas\n\nfirst\n", one, other).text

    notes = [f"# Ideas\n\nrate {number}\n" for number in range(3)]
    for order in permutations(notes):
        text = merged(merged(order[0], order[1]), order[2])
        assert text == merged(merged(*notes[:2]), notes[2]) and text.count("Two versions") == 1
        assert [line for line in text.splitlines() if line.startswith("rate")] == ["rate 0", "rate 1", "rate 2"]


@pytest.mark.parametrize(
    ("base", "one", "other", "merged"),
    [
        ("a", "a, b", "a, c", "a, b, c"),
        ("", "b", "c", "b, c"),
        ("a, b", "a", "a, b, c", "a, c"),
        ("a, b", "b", "a", ""),
        ("a", "a, b", "a, b", "a, b"),
    ],
)
def test_of_tags_each_added_one_stays_and_each_removed_one_goes(base, one, other, merged):
    notes = [f"---\nstatus: finished\ntags: [{tags}]\n---\n\nText.\n" for tags in (base, one, other)]
    assert f"tags: [{merged}]" in merge_notes(*notes).text


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


def test_a_clone_of_which_another_branch_has_the_notebook_names_that_branch(pair, tmp_path, monkeypatch):
    remote = pair[0].paths.root.parent / "remote.git"
    call_git(remote, "symbolic-ref", "HEAD", "refs/heads/master")  # as `git init --bare` leaves it
    call_git(tmp_path, "clone", "-q", str(remote), "joined")
    book = replace(pair[0], personal=True)
    call_git(book.paths.root, "remote", "remove", "origin")
    monkeypatch.chdir(tmp_path / "joined")
    with pytest.raises(GitError) as caught:
        choose_remote(book)
    assert "git checkout main" in caught.value.hint
    call_git(tmp_path / "joined", "checkout", "-q", "main")
    with pytest.raises(GitError, match="no notebook is above this folder"):
        choose_remote(book)


def test_an_edit_after_the_clock_was_set_back_is_shared(pair, monkeypatch):
    note = write_note(pair[0], "ideas.md", "# Ideas\n")
    with monkeypatch.context() as patch:
        patch.setattr(local_merge, "file_system_time", lambda book: time.time_ns() + 3600 * 10**9)
        sync(pair[0])
    note.write_text("# Ideas\n\nlower the rate\n")
    assert sync(pair[0]).sent_files == 1
