"""A commit of an entry leaves the user's repository as it is, whatever it is in the middle of."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from dataclasses import replace

import pytest

from labbook.store.commit.commit_queue import pending_commits
from labbook.store.commit.entry_commit import commit_files, commit_queued
from labbook.store.config import Config
from labbook.store.notebook_finder import create_notebook, find_notebook

pytestmark = pytest.mark.process


def git(folder, *arguments, check=True, **environ):
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **environ}
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done.stdout


def make_code(folder, *options):
    """A repository with two branches that conflict in `a.txt`."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main", *options)
    git(folder, "config", "user.name", "Wei")
    git(folder, "config", "user.email", "wei@example.com")
    for branch, text in (("main", "one\n"), ("other", "two\n"), ("main", "three\n")):
        git(folder, "checkout", "-q", *(["-b", branch] if branch == "other" else [branch]), check=text != "one\n")
        (folder / "a.txt").write_text(text)
        (folder / "b.txt").write_text("same\n")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", text.strip())
    return folder


def snapshot(folder):
    """Everything of the user's that must not move."""
    index = folder / git(folder, "rev-parse", "--git-path", "index").strip()
    return {
        "status": git(folder, "status", "--porcelain=v2", GIT_OPTIONAL_LOCKS="0", check=False),
        "staged": git(folder, "diff", "--cached", GIT_OPTIONAL_LOCKS="0", check=False),
        "head": git(folder, "rev-parse", "--verify", "-q", "HEAD", check=False),
        "branch": git(folder, "symbolic-ref", "-q", "HEAD", check=False),
        "stash": git(folder, "stash", "list", check=False),
        "index": hashlib.sha256(index.read_bytes()).hexdigest() if index.exists() else "",
        "refs": [r for r in git(folder, "for-each-ref").splitlines() if not r.endswith("refs/heads/labbook")],
    }


def staged_and_dirty(folder):
    (folder / "a.txt").write_text("staged\n")
    git(folder, "add", "a.txt")
    (folder / "a.txt").write_text("dirty\n")
    (folder / "new.py").write_text("x = 1\n")
    git(folder, "add", "--intent-to-add", "new.py")
    (folder / "untracked.py").write_text("y = 1\n")


def stashed(folder):
    (folder / "a.txt").write_text("stashed\n")
    git(folder, "stash")


def merging(folder):
    git(folder, "merge", "other", check=False)
    assert (folder / ".git" / "MERGE_HEAD").exists()


def rebasing(folder):
    git(folder, "rebase", "other", check=False)
    assert (folder / ".git" / "rebase-merge").exists()


def bisecting(folder):
    git(folder, "bisect", "start")
    git(folder, "bisect", "bad")
    git(folder, "bisect", "good", "HEAD~1")


def detached(folder):
    git(folder, "checkout", "-q", "--detach")


def index_locked(folder):
    (folder / ".git" / "index.lock").write_text("")


def failing_hooks(folder):
    for name in ("pre-commit", "commit-msg", "reference-transaction", "post-commit", "post-index-change"):
        hook = folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)


def signing_without_key(folder):
    git(folder, "config", "commit.gpgsign", "true")
    git(folder, "config", "gpg.program", "false")


def nameless(folder):
    git(folder, "config", "--unset", "user.name")
    git(folder, "config", "--unset", "user.email")
    git(folder, "config", "user.useConfigOnly", "true")


def plain(folder):
    pass


def folder_of_the_branch_name(folder):
    (folder / "labbook").mkdir()


UNDISTURBED = [
    plain,
    staged_and_dirty,
    stashed,
    merging,
    rebasing,
    bisecting,
    detached,
    index_locked,
    failing_hooks,
    signing_without_key,
    nameless,
    folder_of_the_branch_name,
]
WAITS = [merging, rebasing, bisecting, detached]


def write_entry(notebook, name="runs/2026/11/21/20261121-101010-abcd.md", text="# entry\n"):
    path = notebook.paths.notes / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("state", UNDISTURBED, ids=lambda s: s.__name__)
def test_own_branch_leaves_every_state_alone(tmp_path, state):
    folder = make_code(tmp_path / "code")
    notebook, _ = create_notebook(folder)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "notebook")
    state(folder)
    entry = write_entry(notebook)
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "exclude").write_text("/notes/runs/\n/notes/experiments/\n/notes/reports/\n")
    before = snapshot(folder)
    outcome = commit_files(notebook, [entry], "an entry")
    assert outcome.status == "committed", outcome
    assert outcome.ref == "refs/heads/labbook"
    assert snapshot(folder) == before
    listed = git(folder, "ls-tree", "-r", "--name-only", "refs/heads/labbook")
    assert listed == "notes/runs/2026/11/21/20261121-101010-abcd.md\n"
    assert git(folder, "rev-parse", "refs/heads/labbook").strip() == outcome.commit
    git(folder, "fsck", "--strict")


@pytest.mark.parametrize("state", WAITS, ids=lambda s: s.__name__)
def test_checked_out_branch_waits_until_the_state_is_over(tmp_path, state):
    folder = make_code(tmp_path / "code")
    notebook, _ = create_notebook(folder, config=Config(commit="checkout"))
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "notebook")
    state(folder)
    entry = write_entry(notebook)
    before = snapshot(folder)
    outcome = commit_files(notebook, [entry], "an entry", when=1_700_000_000)
    assert outcome.status == "queued"
    expected = {"merging": "merge", "rebasing": "rebase", "bisecting": "bisect", "detached": "detached"}
    assert expected[state.__name__] in outcome.reason
    assert snapshot(folder) == before
    assert [o.status for o in commit_queued(notebook)] == ["queued"]
    assert len(pending_commits(notebook.paths)) == 1
    over = {"merging": ("merge", "--abort"), "rebasing": ("rebase", "--abort"), "bisecting": ("bisect", "reset")}
    git(folder, *over.get(state.__name__, ("checkout", "-q", "main")))
    done = commit_queued(notebook)
    assert [o.status for o in done] == ["committed"]
    assert done[0].ref == "refs/heads/main"
    assert pending_commits(notebook.paths) == []
    assert commit_queued(notebook) == []
    assert git(folder, "log", "-1", "--format=%ct %s").strip() == "1700000000 an entry"
    assert git(folder, "status", "--porcelain") == ""


@pytest.mark.parametrize("state", [plain, failing_hooks, signing_without_key, nameless], ids=lambda s: s.__name__)
def test_commit_on_checked_out_branch_preserves_staged_changes(tmp_path, state):
    folder = make_code(tmp_path / "code")
    notebook, _ = create_notebook(folder, config=Config(commit="checkout"))
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "notebook")
    staged_and_dirty(folder)
    state(folder)
    before = snapshot(folder)
    entry = write_entry(notebook)
    outcome = commit_files(notebook, [entry], "an entry")
    assert outcome.status == "committed", outcome
    after = snapshot(folder)
    assert {k: after[k] for k in ("status", "staged", "branch", "stash")} == {
        k: before[k] for k in ("status", "staged", "branch", "stash")
    }
    assert git(folder, "show", "--stat", "--format=", "HEAD").split()[0].endswith("20261121-101010-abcd.md")
    assert git(folder, "rev-list", "--count", "HEAD~1..HEAD").strip() == "1"


def test_foreign_index_lock_queues_a_commit_on_the_checked_out_branch(tmp_path, monkeypatch):
    monkeypatch.setattr("labbook.store.commit.entry_commit._PATIENCE_S", 0.3)
    notebook, _ = create_notebook(tmp_path / "own")
    lock = notebook.paths.root / ".git" / "index.lock"
    lock.write_text("")
    outcome = commit_files(notebook, [write_entry(notebook)], "an entry")
    assert outcome.status == "queued"
    assert "index.lock" in outcome.reason
    assert lock.exists(), "a lock that is not ours is never removed"
    lock.unlink()
    assert [o.status for o in commit_queued(notebook)] == ["committed"]
    assert git(notebook.paths.root, "status", "--porcelain") == ""


def test_an_index_lock_that_somebody_left_behind_costs_no_time(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "labbook.store.commit.entry_commit._PATIENCE_S", 1_000.0
    )  # whoever waits for it is stopped by pytest
    notebook, _ = create_notebook(tmp_path / "own")
    lock = notebook.paths.root / ".git" / "index.lock"
    lock.write_text("")
    os.utime(lock, (time.time() - 600, time.time() - 600))
    outcome = commit_files(notebook, [write_entry(notebook)], "an entry")
    assert outcome.status == "queued" and "index.lock, 10 min old" in outcome.reason
    assert lock.exists()


def test_unborn_branch(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "labbook.toml").write_text("")
    notebook = find_notebook(folder, environ={})
    before = snapshot(folder)
    assert commit_files(notebook, [write_entry(notebook)], "first").status == "committed"
    after = snapshot(folder)
    assert after == before
    assert after["head"] == ""
    checked_out = replace(notebook, config=Config(commit="checkout"))
    assert commit_files(checked_out, [folder / "labbook.toml"], "second").ref == "refs/heads/main"
    assert git(folder, "ls-tree", "-r", "--name-only", "main") == "labbook.toml\n"


def test_sha256_repository(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", "--object-format=sha256")
    (folder / "labbook.toml").write_text('commit = "checkout"\n')
    notebook = find_notebook(folder, environ={})
    entry = write_entry(notebook)
    outcome = commit_files(notebook, [entry, folder / "labbook.toml"], "first")
    assert outcome.status == "committed"
    assert len(outcome.commit) == 64
    assert git(folder, "status", "--porcelain") == ""
    assert commit_files(notebook, [entry], "again").status == "unchanged"
    entry.unlink()
    assert commit_files(notebook, [entry], "gone").status == "committed"
    assert git(folder, "status", "--porcelain") == ""


def test_linked_work_tree_and_submodule(tmp_path):
    code = make_code(tmp_path / "code")
    linked = tmp_path / "linked"
    git(code, "worktree", "add", "-q", str(linked), "other")
    outer = make_code(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(code), "sub")
    git(outer, "commit", "-qm", "sub")
    for folder in (linked, outer / "sub"):
        (folder / "labbook.toml").write_text("")
        notebook = find_notebook(folder, environ={})
        entry = write_entry(notebook)
        commit_files(notebook, [entry], "so that the exclude file is there")
        before = snapshot(folder), snapshot(outer)
        entry.write_text("changed")
        assert commit_files(notebook, [entry], "entry").status == "committed"
        assert (snapshot(folder), snapshot(outer)) == before
        assert "labbook" in git(folder, "for-each-ref", "--format=%(refname:short)")


def test_bare_repository_with_linked_work_trees(tmp_path):
    code = make_code(tmp_path / "code")
    place = tmp_path / "place"
    git(tmp_path, "clone", "-q", "--bare", str(code), str(place / ".bare"))
    (place / ".git").write_text("gitdir: ./.bare\n")
    (place / "labbook.toml").write_text("")
    notebook = find_notebook(place, environ={})
    assert notebook.repository == place
    assert commit_files(notebook, [write_entry(notebook)], "entry").status == "committed"
    assert git(place, "ls-tree", "-r", "--name-only", "labbook").startswith("notes/runs/")


def test_branch_that_is_checked_out_in_another_work_tree(tmp_path):
    folder = make_code(tmp_path / "code")
    notebook, _ = create_notebook(folder)
    first = write_entry(notebook)
    commit_files(notebook, [first], "first")
    other = tmp_path / "entries"
    git(folder, "worktree", "add", "-q", str(other), "labbook")
    second = write_entry(notebook, "runs/second.md", "two\n")
    (other / "notes/runs/third.md").write_text("somebody's own\n")
    third = write_entry(notebook, "runs/third.md", "three\n")
    first.unlink()
    assert commit_files(notebook, [first, second, third], "more").status == "committed"
    assert (other / "notes/runs/second.md").read_text() == "two\n"
    assert (other / "notes/runs/third.md").read_text() == "somebody's own\n"
    assert not (other / "notes/runs/2026").exists() or not list((other / "notes/runs/2026").rglob("*.md"))
    assert git(other, "status", "--porcelain") == " M notes/runs/third.md\n"


def test_branch_that_is_being_rebased_waits(tmp_path):
    folder = make_code(tmp_path / "code")
    (folder / "labbook.toml").write_text('branch = "main"\n')
    rebasing(folder)
    notebook = find_notebook(folder, environ={})
    outcome = commit_files(notebook, [write_entry(notebook)], "entry")
    assert outcome.status == "queued"
    assert "rebased" in outcome.reason
    git(folder, "rebase", "--abort")
    assert [o.status for o in commit_queued(notebook)] == ["committed"]


def test_called_from_inside_a_hook_of_another_repository(tmp_path, monkeypatch):
    elsewhere = make_code(tmp_path / "elsewhere")
    before = snapshot(elsewhere)
    for name, value in (("GIT_DIR", ".git"), ("GIT_WORK_TREE", "."), ("GIT_INDEX_FILE", ".git/index")):
        monkeypatch.setenv(name, str(elsewhere / value))
    notebook, _ = create_notebook(tmp_path / "own")
    assert commit_files(notebook, [write_entry(notebook)], "entry").status == "committed"
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name)
    assert snapshot(elsewhere) == before
    assert git(notebook.paths.root, "status", "--porcelain") == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_repository_of_another_owner(tmp_path):
    folder = make_code(tmp_path / "code")
    notebook, _ = create_notebook(folder)
    for path in (folder, folder / ".git"):
        os.chown(path, 12345, 12345)
    assert "dubious" in subprocess.run(["git", "status"], cwd=folder, capture_output=True, text=True).stderr
    assert commit_files(notebook, [write_entry(notebook)], "entry").status == "committed"
