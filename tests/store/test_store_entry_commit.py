from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from order_of_tests import further

from labbook.store.commit.commit_queue import WITHHELD, enqueue, pending_commits, withheld_files
from labbook.store.commit.entry_commit import commit_files, commit_queued
from labbook.store.config import Config
from labbook.store.notebook_finder import create_notebook, find_notebook

pytestmark = pytest.mark.process


@pytest.fixture
def own(tmp_path):
    return create_notebook(tmp_path / "own")[0]


@pytest.fixture
def inside(tmp_path, git):
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "train.py").write_text("print(1)\n")
    notebook, _ = create_notebook(folder / "my books [1]")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=W", "-c", "user.email=w@x", "commit", "-qm", "first")
    return notebook


def write(notebook, name, data=b"text\n"):
    path = notebook.paths.notes / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def tree(notebook, ref):
    done = subprocess.run(
        ["git", "ls-tree", "-r", "-z", ref], cwd=notebook.repository, capture_output=True, check=True
    ).stdout
    return {line.split(b"\t", 1)[1]: line.split()[0] for line in done.split(b"\0")[:-1]}


AWKWARD = [
    "a b.md",
    'quote".md',
    "back\\slash.md",
    "new\nline.md",
    "实验.md",
    "tab\t.md",
    "-dash.md",
    "cr\r.md",
    "glob*[x].md",
]


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_names_on_both_kinds_of_branch(own, inside, git, name):
    for notebook, prefix in ((own, ""), (inside, "my books [1]/")):
        outcome = commit_files(notebook, [write(notebook, f"runs/{name}")], "m")
        assert outcome.status == "committed", outcome
        assert os.fsencode(f"{prefix}notes/runs/{name}") in tree(notebook, outcome.ref)
        assert git(notebook.repository, "status", "--porcelain") == ""


def test_name_that_is_no_utf8(own):
    path = own.paths.notes / "runs" / os.fsdecode(b"\xff\xfe.md")
    path.parent.mkdir()
    path.write_text("x")
    assert commit_files(own, [path], "m").status == "committed"
    assert b"notes/runs/\xff\xfe.md" in tree(own, "HEAD")


def test_committed_content_is_identical_and_not_executable(own, git):
    git(own.paths.root, "config", "core.autocrlf", "true")
    (own.paths.root / ".gitattributes").write_text("* text eol=crlf filter=spoil\n")
    git(own.paths.root, "config", "filter.spoil.clean", "sed s/a/b/")
    data = {"a.md": b"a\r\nb\n", "big.bin": os.urandom(3_000_000), "empty.md": b"", "nul.bin": b"data 3\n\0done\n"}
    files = [write(own, f"runs/{name}", content) for name, content in data.items()]
    files[0].chmod(0o755)
    outcome = commit_files(own, files, "m")
    assert outcome.status == "committed", outcome
    for name, content in data.items():
        stored = subprocess.run(
            ["git", "cat-file", "blob", f"{outcome.commit}:notes/runs/{name}"], cwd=own.paths.root, capture_output=True
        )
        assert stored.stdout == content
        assert tree(own, "HEAD")[f"notes/runs/{name}".encode()] == b"100644"


def test_message_author_and_time(own, git):
    named = replace(own, config=replace(own.config, author="魏 <evil@x>\nfrom bad"))
    message = "标题\n\nfrom refs/heads/main\nM 644 inline x\ndata 3\n"
    outcome = commit_files(named, [write(own, "runs/a.md")], message, when=1_700_000_000.9)
    said = git(own.paths.root, "log", "-1", "--format=%an|%ae|%cn|%at|%B", outcome.commit)
    assert said == "魏 evil@x from bad|labbook@localhost|labbook|1700000000|" + message.strip()


def test_folder_deletion_and_nothing_new(own, git):
    write(own, "runs/x/a.md")
    write(own, "runs/x/b.md")
    folder = own.paths.notes / "runs" / "x"
    (folder / "link.md").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    assert commit_files(own, [folder], "folder").status == "committed"
    assert {n for n in tree(own, "HEAD") if n.startswith(b"notes/runs")} == {b"notes/runs/x/a.md", b"notes/runs/x/b.md"}
    assert commit_files(own, [folder], "again").status == "unchanged"
    (folder / "a.md").unlink()
    assert commit_files(own, [folder / "a.md"], "gone").status == "committed"
    assert commit_files(own, [folder / "a.md"], "gone again").status == "unchanged"
    assert commit_files(own, [folder / "link.md"], "a link").status == "unchanged"
    assert b"notes/runs/x/a.md" not in tree(own, "HEAD")


def test_paths_outside_the_notebook_are_rejected(own, tmp_path):
    outside = tmp_path / "secret"
    outside.write_text("x")
    private = own.paths.private / "runs" / "raw.txt"
    private.parent.mkdir(parents=True)
    private.write_text("raw")
    for path in (outside, own.paths.root / ".." / "secret", private, own.paths.root / ".git" / "config"):
        outcome = commit_files(own, [path], "m")
        assert outcome.status == "failed", path
        assert outcome.reason
    assert pending_commits(own.paths) == []


def test_entries_are_hidden_from_the_status_of_the_code(inside, git):
    ignored = (inside.repository / ".gitignore").exists()
    entry = write(inside, "runs/a.md")
    by_hand = write(inside, "mine.md")
    assert commit_files(inside, [entry], "m").status == "committed"
    assert git(inside.repository, "status", "--porcelain", "-uall") == f'?? "my books [1]/notes/{by_hand.name}"'
    assert (inside.repository / ".gitignore").exists() == ignored
    exclude = (inside.repository / ".git" / "info" / "exclude").read_text()
    commit_files(inside, [write(inside, "runs/b.md")], "m")
    assert (inside.repository / ".git" / "info" / "exclude").read_text() == exclude


def test_off_and_without_repository(own, tmp_path):
    off = replace(own, config=Config(commit="off"))
    assert commit_files(off, [write(own, "a.md")], "m").status == "off"
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "labbook.toml").write_text("")
    notebook = find_notebook(plain, environ={})
    outcome = commit_files(notebook, [write(notebook, "a.md")], "m")
    assert (outcome.status, outcome.reason) == (
        "off",
        "the notebook is not in a git repository; `labbook commit` works once it is",
    )


def test_no_git_on_the_path_queues(own, monkeypatch):
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", "/nonexistent")
    outcome = commit_files(own, [write(own, "a.md")], "m")
    assert outcome.status == "queued"
    assert "no git on the PATH" in outcome.reason
    monkeypatch.setenv("PATH", path)
    assert [o.status for o in commit_queued(own)] == ["committed"]


def test_queue_preserves_order_and_has_one_file_per_set_of_files(own, git):
    first, second = write(own, "a.md"), write(own, "b.md")
    for name, when in (("notes/a.md", 1), ("notes/b.md", 2), ("notes/a.md", 3)):
        enqueue(own.paths, (name,), f"m{when}", when, "because")
    assert [item.message for item in pending_commits(own.paths)] == ["m2", "m3"]
    (own.paths.private / "queue" / "0.json").write_text("{broken")
    assert [o.status for o in commit_queued(own)] == ["committed", "committed"]
    assert git(own.paths.root, "log", "-2", "--format=%s") == "m3\nm2"
    assert first.exists() and second.exists()
    assert (own.paths.private / "queue" / "0.broken").exists()


@pytest.mark.parametrize("call", ["read_bytes", "replace"])
def test_a_withheld_entry_stays_withheld_where_its_slip_cannot_be_read_or_replaced(own, monkeypatch, call):
    """As with too many open files, or on a full disk."""
    slip = enqueue(own.paths, ("notes/a.md",), "m", 1.0, "a secret", queue=WITHHELD)

    def fail(self, *args, **kwargs):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as broken, pytest.raises(OSError, match="Too many"):
        broken.setattr(Path, call, fail)
        enqueue(own.paths, ("notes/a.md",), "m", 2.0, "a secret", queue=WITHHELD)
    assert slip.exists() and withheld_files(own.paths) == {"notes/a.md"}


def test_broken_repository_never_raises(own):
    (own.paths.root / ".git" / "objects").rename(own.paths.root / ".git" / "gone")
    outcome = commit_files(own, [write(own, "a.md")], "m")
    assert outcome.status == "queued"
    assert outcome.reason


def test_a_clashing_branch_name_is_reported(inside, git):
    git(inside.repository, "branch", "labbook/x")
    outcome = commit_files(inside, [write(inside, "runs/a.md")], "m")
    assert outcome.status == "queued"
    assert "labbook/x" in outcome.reason
    assert not list((inside.repository / ".git").glob("fast_import_crash_*"))


def _committer(root, number):
    notebook = find_notebook(Path(root), environ={})
    path = notebook.paths.notes / "runs" / f"{number}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(str(number))
    return commit_files(notebook, [path], f"entry {number}").status


@pytest.mark.parametrize("kind", ["inside", *further("own")])
def test_many_committers_all_land(kind, request, git):
    notebook = request.getfixturevalue(kind)
    before = git(notebook.repository, "status", "--porcelain")
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        said = pool.starmap(_committer, [(str(notebook.paths.root), n) for n in range(24)])
    assert said == ["committed"] * 24
    ref = "HEAD" if kind == "own" else "labbook"
    assert len({n for n in tree(notebook, ref) if b"notes/runs/" in n}) == 24
    entries = git(notebook.repository, "log", "--format=%s", ref).splitlines()
    assert len([line for line in entries if line.startswith("entry ")]) == 24
    assert git(notebook.repository, "status", "--porcelain") == before == ""
    git(notebook.repository, "fsck", "--strict")


def test_committers_without_locks_land_by_compare_and_swap(inside, git, monkeypatch):
    """The branch moves between reading its tip and writing it: git refuses, and it is tried again."""
    from labbook.store.commit import entry_commit

    moved = []
    stream = entry_commit.commit_stream

    def move_first(*arguments, **options):
        if not moved:
            moved.append(1)
            with monkeypatch.context() as context:
                context.setattr(entry_commit, "commit_stream", stream)
                context.setattr(entry_commit, "_PATIENCE_S", 0.2)
                assert commit_files(inside, [write(inside, "runs/rival.md")], "rival").status == "committed"
        return stream(*arguments, **options)

    monkeypatch.setattr(entry_commit, "commit_stream", move_first)
    assert commit_files(inside, [write(inside, "runs/mine.md")], "mine").status == "committed"
    assert git(inside.repository, "log", "--format=%s", "labbook") == "mine\nrival"


KILLED = """
import sys, os
from pathlib import Path
from labbook.store.notebook_finder import find_notebook
from labbook.store.commit.entry_commit import commit_files
notebook = find_notebook(Path(sys.argv[1]), environ={})
path = notebook.paths.notes / "runs" / f"{sys.argv[2]}.md"
path.parent.mkdir(exist_ok=True)
path.write_text(sys.argv[2])
print("go", flush=True)
commit_files(notebook, [path], sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["inside", *further("own")])
def test_killed_commits_lose_no_entry_and_leave_no_lock(kind, request, git):
    notebook = request.getfixturevalue(kind)
    root = notebook.paths.root
    for number in range(20):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(root), str(number)], stdout=subprocess.PIPE, start_new_session=True
        )
        process.stdout.readline()
        time.sleep(0.001 * number)
        process.kill()
        process.wait()
        process.stdout.close()
        again = commit_files(notebook, [notebook.paths.notes / "runs" / f"{number}.md"], str(number))
        assert again.status in ("committed", "unchanged"), again
        assert not (notebook.repository / ".git" / "index.lock").exists()
        assert not list((notebook.repository / ".git").glob("labbook-index-*"))
    assert len([n for n in tree(notebook, again.ref) if b"notes/runs/" in n]) == 20
    assert git(notebook.repository, "status", "--porcelain") == ""
    git(notebook.repository, "fsck")


def test_a_git_that_outlives_its_killed_committer_leaves_nothing(own, git, tmp_path, monkeypatch):
    """The draft of an index is renamed by git: nobody clears up while a git of a dead committer may still do so."""
    slow = tmp_path / "slow"
    slow.mkdir()
    started, ended = tmp_path / "started", tmp_path / "ended"
    real = shutil.which("git")
    (slow / "git").write_text(
        f'#!/bin/sh\ncase "$*" in *update-index*) touch {started}; sleep 0.7;; *) exec {real} "$@";; esac\n'
        f'{real} "$@"\ntouch {ended}\n'
    )
    (slow / "git").chmod(0o755)
    root = own.paths.root
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(root), "1"],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PATH": f"{slow}:{os.environ['PATH']}"},
    )
    while not started.exists():
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert commit_files(own, [write(own, "a.md")], "m").status == "committed"
    while not ended.exists():
        time.sleep(0.005)
    assert not list((root / ".git").glob("labbook-index-*"))
    assert git(root, "status", "--porcelain", "--", "notes/a.md") == ""


def test_stale_locks_are_removed_and_fresh_ones_are_not(own, git, monkeypatch):
    # Also where git is so slow that the time limit is over before the locks are looked at.
    monkeypatch.setattr("labbook.store.commit.entry_commit._PATIENCE_S", 0.0)
    lock = own.paths.root / ".git" / "HEAD.lock"
    lock.write_text("")
    assert commit_files(own, [write(own, "a.md")], "m").status == "queued"
    assert lock.exists(), "it is not a minute old, and nobody of ours died"
    old = time.time() - 61
    os.utime(lock, (old, old))
    assert [o.status for o in commit_queued(own)] == ["committed"]
    lock.write_text("")
    two_seconds_ago = time.time() - 2
    os.utime(lock, (two_seconds_ago, two_seconds_ago))
    (own.paths.root / ".git" / "labbook-commits").write_text(f"{two_seconds_ago - 1:.3f}")
    index_lock = own.paths.root / ".git" / "index.lock"
    index_lock.write_text("labbook\n")
    assert commit_files(own, [write(own, "b.md")], "m").status == "committed"
    assert git(own.paths.root, "status", "--porcelain") == ""
    assert (own.paths.root / ".git" / "labbook-commits").read_text() == ""
