"""`labbook commit`: what people wrote in notes lands where the entries are, and nothing else does."""

from __future__ import annotations

import re
import shutil
import sys

import pytest


@pytest.fixture(scope="module")
def edited_once(tmp_path_factory, make_project, git):
    """A notebook in a code repository whose last entry got a conclusion; the entry's path in the repository."""
    project = make_project(tmp_path_factory.mktemp("edited") / "project")
    project.record(sys.executable, "train.py")
    entry = project.run()["entry"]
    file = project.folder / entry
    file.write_text(file.read_text().replace("## Conclusion\n", "## Conclusion\n\nIt works.\n"))
    assert "It works." in file.read_text()
    assert "It works." not in git(project.folder, "show", f"labbook:{entry}")
    return project, entry


@pytest.fixture
def edited(edited_once, tmp_path, git):
    """A copy of it for each test."""
    project, entry = edited_once
    shutil.copytree(project.folder, tmp_path / "project")
    git(tmp_path / "project", "update-index", "--refresh")  # the copies of the files are new to the index
    return type(project)(tmp_path / "project"), entry


def test_edited_notes_land_on_the_branch_of_the_entries(edited, git):
    labbook, entry = edited
    (labbook.folder / "train.py").write_text("changed\n")
    git(labbook.folder, "add", "train.py")
    head, staged = git(labbook.folder, "rev-parse", "HEAD"), git(labbook.folder, "diff", "--cached")
    done = labbook("commit", "-m", "what we learned")

    assert entry in done.stdout and " on labbook" in done.stdout
    assert "It works." in git(labbook.folder, "show", f"labbook:{entry}")
    assert git(labbook.folder, "log", "-1", "--format=%s", "labbook") == "what we learned"
    assert git(labbook.folder, "show", "--name-only", "--format=", "labbook") == entry
    assert (git(labbook.folder, "rev-parse", "HEAD"), git(labbook.folder, "diff", "--cached")) == (head, staged)
    assert "no edited notes" in labbook("commit").stderr


def test_only_the_notes_that_are_named(edited, git):
    labbook, entry = edited
    slug = labbook("new", "a question").stdout.strip()
    page = f"notes/experiments/{slug}.md"
    labbook("commit", page)

    assert git(labbook.folder, "show", "--name-only", "--format=", "labbook") == page
    assert entry in labbook("commit").stdout

    (labbook.folder / page).unlink()
    assert page in labbook("commit", page).stdout
    assert page not in git(labbook.folder, "ls-tree", "-r", "--name-only", "labbook")
    refused = labbook("commit", "notes/experiments/no-such-page.md", check=False)
    assert refused.returncode == 2 and "there is no note" in refused.stderr


def test_a_deleted_entry_takes_its_files_along_and_notes_of_people_are_hidden_from_the_code(edited, git):
    labbook, entry = edited
    for name in ("ideas.md", "plans/spring term.md"):
        page = labbook.folder / "notes" / name
        page.parent.mkdir(exist_ok=True)
        page.write_text("# Note\n")
    assert "notes/ideas.md" in git(labbook.folder, "status", "--porcelain", "-uall")
    labbook("commit")
    assert ".md" not in git(labbook.folder, "status", "--porcelain", "-uall")

    (labbook.folder / entry).unlink()
    shutil.rmtree((labbook.folder / entry).with_suffix(""))
    labbook("commit", entry)
    assert "notes/runs/" not in git(labbook.folder, "ls-tree", "-r", "--name-only", "labbook")


def test_the_entry_of_a_running_run_is_left_to_its_end(edited, git):
    labbook, entry = edited
    file = labbook.folder / entry
    file.write_text(file.read_text().replace("\nstatus: finished\n", "\nstatus: running\n"))

    assert "no edited notes" in labbook("commit").stderr


def test_a_secret_is_not_committed(edited, git):
    labbook, entry = edited
    file = labbook.folder / entry
    file.write_text(file.read_text() + "\nAWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYzzzKEYaaaaaa\n")
    before = git(labbook.folder, "rev-parse", "labbook")
    done = labbook("commit", check=False)

    assert done.returncode == 3 and "may contain a secret" in done.stderr
    assert git(labbook.folder, "rev-parse", "labbook") == before


def test_a_note_with_both_sides_of_a_conflict_is_not_committed(edited, git):
    labbook, entry = edited
    file = labbook.folder / entry
    clean = file.read_text()
    file.write_text(clean.replace("It works.", "<<<<<<< ours\nIt works.\n=======\nIt fails.\n>>>>>>> theirs"))
    before = git(labbook.folder, "rev-parse", "labbook")
    done = labbook("commit", check=False)
    assert done.returncode == 3 and f"{entry} has conflict markers" in done.stderr
    assert git(labbook.folder, "rev-parse", "labbook") == before

    file.write_text(clean)
    assert entry in labbook("commit").stdout


def test_other_files_are_refused(edited):
    labbook, _ = edited
    done = labbook("commit", "train.py", check=False)

    assert done.returncode == 2 and "train.py is not a note of this notebook" in done.stderr


def test_a_notebook_that_commits_nothing_says_so(edited):
    labbook, _ = edited
    settings = labbook.folder / "labbook.toml"
    settings.write_text(re.sub(r"^commit = .*$", 'commit = "off"', settings.read_text(), flags=re.MULTILINE))
    done = labbook("commit", check=False)

    assert done.returncode == 4 and "commits are switched off" in done.stderr
