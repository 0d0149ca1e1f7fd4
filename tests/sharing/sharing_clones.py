"""Clones of one remote for the tests of sharing: made with few processes, written to as the recorder does."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from labbook.sharing.remote_git import choose_remote
from labbook.sharing.synchronize import SyncResult, synchronize
from labbook.store.commit.entry_commit import commit_files
from labbook.store.notebook import Notebook
from labbook.store.notebook_finder import find_notebook
from labbook.store.text import frontmatter
from labbook.store.text.entry_text import block

SETTINGS = 'language = "en"\nauthor = "Wei"\n'


def call_git(folder: Path, *arguments: str, check: bool = True) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=check)
    return done.stdout.strip()


def make_template(folder: Path, settings: str = SETTINGS) -> Path:
    """A bare remote `remote.git` and a code repository `clone` with a notebook, one commit each, in a new folder."""
    folder.mkdir(parents=True)
    call_git(folder, "init", "-q", "--bare", "-b", "main", "remote.git")
    clone = folder / "clone"
    call_git(folder, "init", "-q", "-b", "main", "clone")
    (clone / "labbook.toml").write_text(settings)
    (clone / "train.py").write_text("print(1)\n")
    (clone / ".gitignore").write_text(".labbook/\n")
    for name, value in (
        ("user.name", "Wei"),
        ("user.email", "wei@example.com"),
        ("remote.origin.url", "../remote.git"),
    ):
        call_git(clone, "config", name, value)
    call_git(clone, "config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    call_git(clone, "add", ".")
    call_git(clone, "commit", "-qm", "first")
    call_git(clone, "push", "-q", "origin", "main")
    return folder


def copy_clones(template: Path, folder: Path, count: int) -> list[Notebook]:
    """A remote of its own and some clones of it."""
    folder.mkdir()
    shutil.copytree(template / "remote.git", folder / "remote.git")
    for number in range(count):
        shutil.copytree(template / "clone", folder / f"clone{number}")
    return [open_clone(folder / f"clone{number}") for number in range(count)]


def add_work_trees(notebook: Notebook, count: int) -> list[Notebook]:
    """Further work trees of a clone, each with the notebook."""
    folders = [notebook.paths.root.parent / f"tree{number}" for number in range(count)]
    for folder in folders:
        call_git(notebook.paths.root, "worktree", "add", "-q", str(folder))
    return [open_clone(folder) for folder in folders]


def open_clone(folder: Path) -> Notebook:
    return find_notebook(folder, chosen=folder, environ={})


def sync(notebook: Notebook, **options: str) -> SyncResult:
    return synchronize(choose_remote(notebook, timeout_s=30), **options)


def write_entry(notebook: Notebook, run_id: str, sentence: str, *, experiment: str = "", **facts: object) -> Path:
    """Write and commit an entry with its data, as the recorder does; `facts` are of the front matter."""
    meta = {
        "schema": 1,
        "id": run_id,
        "title": f"run {run_id}",
        "experiment": experiment or None,
        "status": "finished",
        "started": "2026-11-22T03:55:31Z",
        "command": "python train.py",
        "host": "vm",
        "tags": ["torch"],
        "fix": None,
        **facts,
    }
    body = f"\n{block('title', f'# run {run_id}')}\n## Goal\n\n<!-- yours: the goal -->\n\n{block('health', sentence)}"
    entry = notebook.paths.entry(run_id)
    folder = notebook.paths.attachments(run_id)
    folder.mkdir(parents=True, exist_ok=True)
    entry.write_text(frontmatter.emit(meta) + body)
    (folder / "run.json").write_text(json.dumps({"id": run_id, "status": "finished", "says": sentence}))
    outcome = commit_files(notebook, [entry, folder], f"run {run_id}\n")
    assert outcome.status == "committed", outcome
    return entry


def write_note(notebook: Notebook, name: str, text: str) -> Path:
    path = notebook.paths.notes / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def tip(notebook: Notebook, ref: str = "labbook") -> str:
    return call_git(notebook.paths.root, "rev-parse", ref)


def tree_hash(notebook: Notebook, ref: str = "labbook") -> str:
    return call_git(notebook.paths.root, "rev-parse", f"{ref}^{{tree}}")


def disk(notebook: Notebook) -> dict[str, str]:
    """Name -> text of all files below `notes/`."""
    notes = notebook.paths.notes
    return {p.relative_to(notes).as_posix(): p.read_text() for p in sorted(notes.rglob("*")) if p.is_file()}


def assert_code_untouched(notebook: Notebook) -> None:
    assert call_git(notebook.paths.root, "status", "--porcelain") == ""
    root = notebook.paths.root
    assert call_git(root, "symbolic-ref", "--short", "HEAD") == (root.name if (root / ".git").is_file() else "main")
