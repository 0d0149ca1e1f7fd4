"""The changed lines of code between two runs, committed or not, in a repository or not."""

from __future__ import annotations

import difflib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labbook.capture.code.patch import new_file_section
from labbook.compare.code_changes import compare_code
from labbook.compare.code_diff import _apply_section, diff_code

OLD = "import torch\n\nmodel = torch.nn.Linear(32, 10)\n\nprint(model)\n"
NEW = OLD.replace("32", "64")


@pytest.fixture
def repository(tmp_path, git):
    top = tmp_path / "code"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    git(top, "config", "user.name", "Wei")
    git(top, "config", "user.email", "wei@example.com")
    (top / "train.py").write_text(OLD)
    git(top, "add", "train.py")
    git(top, "commit", "-qm", "first")
    return top


def side(tmp_path, git, top, name):
    """The facts of the code now, and the folder beside an entry with its patch."""
    folder = tmp_path / name
    folder.mkdir()
    patch = git(top, "diff", "--full-index", "HEAD") + "\n"
    (folder / "changes.patch").write_text(patch if patch.strip() else "")
    return {"repository": True, "top": str(top), "commit": git(top, "rev-parse", "HEAD"), "blobs": {}}, folder


def changed(diff):
    return [line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]


WIDER = ["-model = torch.nn.Linear(32, 10)", "+model = torch.nn.Linear(64, 10)"]


def test_uncommitted_against_committed_and_the_other_way_round(tmp_path, git, repository):
    before = side(tmp_path, git, repository, "a")
    (repository / "train.py").write_text(NEW)
    now = side(tmp_path, git, repository, "b")
    git(repository, "commit", "-qam", "wider")
    later = side(tmp_path, git, repository, "c")

    assert changed(diff_code(*before, *now, ["train.py"])["train.py"]) == WIDER
    assert changed(diff_code(*before, *later, ["train.py"])["train.py"]) == WIDER
    assert diff_code(*now, *later, ["train.py"]) == {}


def test_of_a_notebook_the_code_of_its_cells_is_compared(tmp_path, git, repository):
    def write(*cells, output):
        rows = [{"cell_type": "code", "source": [line + "\n" for line in code.split("\n")], "outputs": [output]}
                for code in cells]  # fmt: skip
        (repository / "look.ipynb").write_text(json.dumps({"nbformat": 4, "cells": rows}, indent=1))
        git(repository, "add", "-N", "look.ipynb")
        return side(tmp_path, git, repository, f"side{output['text']}")

    before = write("import torch", "s = raw - mean", output={"text": "1"})
    again = write("import torch", "s = raw - mean", output={"text": "2"})
    now = write("import torch", "mean = raw.mean()", "s = raw - mean", output={"text": "3"})

    assert diff_code(*before, *again, ["look.ipynb"]) == {"look.ipynb": ""}
    lines = [line for line in changed(diff_code(*before, *now, ["look.ipynb"])["look.ipynb"]) if line != "+"]
    assert lines == ["+mean = raw.mean()"]


def test_two_uncommitted_states_of_one_commit(tmp_path, git, repository):
    (repository / "train.py").write_text("# a remark\n" + OLD)
    before = side(tmp_path, git, repository, "a")
    (repository / "train.py").write_text("# a remark\n" + NEW)
    now = side(tmp_path, git, repository, "b")

    assert changed(diff_code(*before, *now, ["train.py"])["train.py"]) == WIDER


def test_files_that_came_and_went(tmp_path, git, repository):
    before = side(tmp_path, git, repository, "a")
    git(repository, "rm", "-q", "train.py")
    (repository / "net.py").write_text("x = 1\n")
    git(repository, "add", "-N", "net.py")
    now = side(tmp_path, git, repository, "b")
    seen = diff_code(*before, *now, ["train.py", "net.py"])

    assert changed(seen["net.py"]) == ["+x = 1"] and "--- /dev/null" in seen["net.py"]
    removed = [line for line in changed(seen["train.py"]) if line != "-"]
    assert removed == [f"-{line}" for line in OLD.split("\n") if line]


def test_code_outside_a_repository(tmp_path):
    sides = []
    for name, text in (("a", OLD), ("b", NEW)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "changes.patch").write_bytes(
            new_file_section("train.py", text.encode()) + new_file_section("x.py", b"same\n")
        )
        sides.append(({"repository": False, "top": "/gone", "commit": ""}, folder))

    seen = diff_code(*sides[0], *sides[1], ["train.py", "x.py", "never.py"])
    assert list(seen) == ["train.py"] and changed(seen["train.py"]) == WIDER


def test_what_is_not_known_is_left_out(tmp_path, git, repository):
    before = side(tmp_path, git, repository, "a")
    (repository / "train.py").write_text(NEW)
    now = side(tmp_path, git, repository, "b")
    gone = {**now[0], "top": str(tmp_path / "gone")}

    assert diff_code({**before[0], "top": ""}, before[1], gone, now[1], ["train.py"]) == {}
    withheld = ({**before[0], "too_large": ["train.py"]}, before[1])
    assert diff_code(*withheld, *now, ["train.py"]) == {}
    (now[1] / "changes.patch").write_bytes(b"diff --git a/train.py b/train.py\n--- a/train.py\n+++ b/train.py\n@@ x\n")
    assert diff_code(*before, *now, ["train.py"]) == {}


LINES = st.lists(st.sampled_from(["a", "b", "", "  c", "--d", "++e", "@@ f"]), max_size=12)


@given(LINES, LINES)
def test_a_patch_makes_the_new_content_of_the_old(old, new):
    diff = "\n".join(difflib.unified_diff(old, new, "a/x", "b/x", lineterm="", n=1))

    made = _apply_section("".join(f"{line}\n" for line in old), diff)
    assert made == "\n".join(new)


def test_entries_in_the_codes_own_repository_are_no_code(tmp_path, git):
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "user.name", "Wei")
    git(tmp_path, "config", "user.email", "wei@example.com")
    commits = []
    for path, subject in (("a.py", "first"), ("notes/runs/x.md", "an entry"), ("a.py", "second thoughts")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(subject)
        git(tmp_path, "add", path)
        git(tmp_path, "commit", "-qm", subject)
        commits.append(git(tmp_path, "rev-parse", "HEAD"))
    first, entry, second = ({"top": str(tmp_path), "commit": c, "own": ["notes"], "branch": "b"} for c in commits)

    assert compare_code(first, entry) == []
    commit, file = compare_code(first, second)
    assert (commit.what, file.what) == ("commit", "a.py")
    assert "second thoughts" in commit.detail and "an entry" not in commit.detail


@pytest.mark.parametrize(
    ("used", "found"), [(["train.py"], []), (["train.py", "out/a.json"], ["out/a.json"]), ([], None)]
)
def test_texts_that_neither_run_has_read_are_results_of_another_one(used, found):
    before = {"commit": "a", "branch": "b", "untracked": ["train.py"], "blobs": {"train.py": "1"}}
    names = ["train.py", "out/a.json", "out/b.yaml"]
    now = {**before, "untracked": names, "blobs": dict.fromkeys(names, "1")}
    changes = [change.what for change in compare_code(before, now, (), (["train.py"] if used else [], used))]
    assert changes == (["out/a.json", "out/b.yaml"] if found is None else found)
