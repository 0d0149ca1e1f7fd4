from __future__ import annotations

import os
import subprocess
import time

import pytest

from labbook.fixes.confirm_fix import _write_pages
from labbook.publish.reports import write_report
from labbook.report.period import week_named
from labbook.sharing.follow_remote import follow_remote
from labbook.store.commit.branch_checkout import missing_files, restore_missing
from labbook.store.commit.entry_commit import commit_files, commit_queued
from labbook.store.config import Config
from labbook.store.experiment_creation import new_experiment
from labbook.store.experiment_of_script import choose_experiment
from labbook.store.notebook_finder import create_notebook, find_notebook


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


def test_a_fresh_clone_restores_entries_and_continues_the_branch(tmp_path, git):
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


def test_a_look_at_another_branch_and_back_brings_the_entries_back(tmp_path, git):
    book = start(tmp_path / "code", git)
    entry = write(book, "runs/2026/a.md", "a\n")
    commit_files(book, [entry], "entry")
    follow_remote(book)
    git(book.repository, "checkout", "-q", "labbook")
    git(book.repository, "checkout", "-q", "-")
    assert not entry.exists()
    assert [done.key for done in follow_remote(book)] == ["sync.restored"]
    assert entry.read_text() == "a\n" and follow_remote(book) == []


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


GOAL = "## Goal\n\nReach 99 % on digits with a third of the weights.\n"


def with_goal(folder, git):
    """A code repository whose branch `labbook` holds a team's pages."""
    first = start(folder, git)
    slug = choose_experiment(first, "train.py")
    page = first.paths.experiments / f"{slug}.md"
    page.write_text(page.read_text().replace("## Goal\n", GOAL))
    pages = [page, write(first, "symptoms/loss_printed_nan.md", GOAL), write(first, "reports/2026-W47.md", GOAL)]
    commit_files(first, pages, "The goal")
    return first, slug


def fresh_clone(first, git):
    git(first.paths.root.parent, "clone", "-q", str(first.repository), "clone")
    return find_notebook(first.paths.root.parent / "clone", environ={})


def clone_of_another_remote(first, git):
    clone = fresh_clone(first, git)
    git(clone.repository, "remote", "rename", "origin", "team")
    return clone


def after_switching_branches(first, git):
    for folder in ("experiments", "symptoms", "reports"):
        for page in (first.paths.notes / folder).glob("*.md"):
            page.unlink()
    git(first.repository, "checkout", "-q", "labbook")
    git(first.repository, "checkout", "-q", "main")
    assert not first.paths.experiments.exists()
    return first


@pytest.mark.parametrize("reach", [fresh_clone, clone_of_another_remote, after_switching_branches])
def test_a_page_of_the_branch_is_never_replaced_by_an_empty_one(tmp_path, git, reach):
    first, slug = with_goal(tmp_path / "code", git)
    tip = git(first.repository, "rev-parse", "labbook")
    notebook = reach(first, git)
    assert choose_experiment(notebook, "train.py") == slug
    assert GOAL in (notebook.paths.experiments / f"{slug}.md").read_text()
    assert choose_experiment(notebook, "other.py").startswith("exp002_")
    assert GOAL in git(notebook.repository, "show", f"labbook:notes/experiments/{slug}.md") + "\n"
    assert git(notebook.repository, "rev-parse", "labbook~1") == tip
    assert git(notebook.repository, "status", "--porcelain") == ""


@pytest.mark.parametrize("act", ["named", "new", "report", "symptom"])
def test_an_edit_in_a_fresh_clone_continues_the_page_of_the_branch(tmp_path, git, act):
    first, slug = with_goal(tmp_path / "code", git)
    clone = fresh_clone(first, git)
    page = clone.paths.experiments / f"{slug}.md"
    if act == "named":
        assert choose_experiment(clone, "other.py", "exp001") == slug
    elif act == "new":
        assert new_experiment(clone, "train", script="train.py").startswith("exp002_")
    elif act == "report":
        page = write_report(clone, week_named("2026-W47", 0.0), 1_764_000_000.0).path
    else:
        page = _write_pages(clone, ["loss_printed_nan"], [])[0]
    assert GOAL.strip() in page.read_text()
    if act in ("new", "report"):
        assert GOAL.strip() in git(clone.repository, "show", f"labbook:{page.relative_to(clone.paths.root)}")


@pytest.mark.parametrize("edited", [False, True])
def test_a_page_created_without_git_does_not_replace_the_page_of_the_branch(tmp_path, git, monkeypatch, edited):
    first, slug = with_goal(tmp_path / "code", git)
    clone = fresh_clone(first, git)
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        assert choose_experiment(clone, "train.py") == slug
    page = clone.paths.experiments / f"{slug}.md"
    assert GOAL not in page.read_text()
    if edited:
        page.write_text("mine\n")
        os.utime(page, (time.time() + 60, time.time() + 60))
    assert [outcome.status for outcome in commit_queued(clone)] == ["unchanged"]
    assert GOAL.strip() in git(clone.repository, "show", f"labbook:notes/experiments/{slug}.md")
    assert page.read_text() == "mine\n" if edited else GOAL in page.read_text()


def test_notes_of_any_name_are_hidden_from_the_status_of_the_code(tmp_path, git):
    book = start(tmp_path / "code", git)
    names = [
        "a\nb",
        "a\rb",
        "tab\there",
        "trail ",
        " lead",
        "#hash",
        "!bang",
        "star*[x]?",
        "back\\slash",
        "模型",
        "\udcff",
    ]
    notes = [write(book, f"{name}.md", "text\n") for name in names]
    assert commit_files(book, notes, "notes").status == "committed"
    assert git(book.repository, "status", "--porcelain") == ""
