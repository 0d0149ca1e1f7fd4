from __future__ import annotations

import subprocess

from labbook.store.branch_checkout import missing_files, restore_missing
from labbook.store.commit import commit_files
from labbook.store.config import Config
from labbook.store.notebook import create_notebook, find_notebook


def start(folder, git):
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "train.py").write_text("print(1)\n")
    notebook, _ = create_notebook(folder)
    git(folder, "add", ".")
    git(folder, "-c", "user.name=W", "-c", "user.email=w@x", "commit", "-qm", "first")
    return notebook


def write(notebook, name, text):
    path = notebook.paths.notes / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_fresh_clone_gets_its_entries_and_goes_on_with_the_branch(tmp_path, git):
    first = start(tmp_path / "code", git)
    names = [f"runs/2026/{n} 实验.md" for n in range(5)]
    entries = [write(first, name, f"{name}\n" * 3) for name in names]
    commit_files(first, entries, "entries")
    tip = git(first.repository, "rev-parse", "labbook")
    git(tmp_path, "clone", "-q", str(first.repository), "clone")
    clone = find_notebook(tmp_path / "clone", environ={})
    assert commit_files(clone, [write(clone, "runs/mine.md", "mine\n")], "mine").status == "committed"
    assert git(clone.repository, "rev-parse", "labbook~1") == tip
    assert len(missing_files(clone)) == 5
    own = write(clone, names[0], "edited here\n")
    assert len(restore_missing(clone)) == 4
    assert own.read_text() == "edited here\n"
    assert (clone.paths.notes / names[4]).read_text() == f"{names[4]}\n" * 3
    assert missing_files(clone) == restore_missing(clone) == []
    assert git(clone.repository, "status", "--porcelain") == ""


def test_a_branch_cannot_write_outside_the_notebook(tmp_path, git):
    notebook = start(tmp_path / "code", git)
    outside = tmp_path / "outside"
    outside.mkdir()
    blob = git(notebook.repository, "hash-object", "-w", "train.py")
    made = subprocess.run(
        ["git", "mktree"], cwd=notebook.repository, input=f"100644 blob {blob}\tx.md\n", capture_output=True, text=True
    ).stdout.strip()
    for name in ("link", ".."):
        inner = subprocess.run(
            ["git", "mktree"],
            cwd=notebook.repository,
            input=f"040000 tree {made}\t{name}\n",
            capture_output=True,
            text=True,
        ).stdout.strip()
        notes = subprocess.run(
            ["git", "mktree"],
            cwd=notebook.repository,
            input=f"040000 tree {inner}\tnotes\n",
            capture_output=True,
            text=True,
        ).stdout.strip()
        commit = git(notebook.repository, "-c", "user.name=x", "-c", "user.email=x@x", "commit-tree", "-m", "x", notes)
        git(notebook.repository, "update-ref", "refs/heads/labbook", commit)
        link = notebook.paths.notes / "link"
        if not link.is_symlink():
            link.symlink_to(outside)
        assert restore_missing(notebook) == []
    assert list(outside.iterdir()) == []
    assert not (notebook.paths.root / "x.md").exists()


def test_nothing_is_missing_without_a_repository(tmp_path):
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "labbook.toml").write_text("")
    notebook = find_notebook(folder, environ={})
    assert missing_files(notebook) == restore_missing(notebook) == []
    assert notebook.config == Config()
