from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest


@pytest.fixture
def thin_path(tmp_path):
    """A PATH with git and with a Python that has no frameworks to import."""
    folder = tmp_path / "bin"
    folder.mkdir()
    plain = Path(sys.base_prefix) / "bin" / "python3"
    (folder / "python").symlink_to(plain)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"}


def rows(done):
    return {row["name"]: row for row in json.loads(done.stdout)}


def test_everything_works(book, thin_path):
    found = rows(book("doctor", "--json", env=thin_path))
    assert all(row["verdict"] != "fail" for row in found.values())
    assert found["git"]["found"].startswith("git version")
    assert str(book.folder) in found["notebook"]["found"]
    assert found["commits"]["found"].startswith("on main")
    assert found["probe"]["verdict"] == "ok", found["probe"]
    assert "not installed" in found["torch"]["found"]
    said = book("doctor", env=thin_path).stdout
    assert "notebook" in said and "probe" in said


def test_broken_settings_fail(book, thin_path):
    (book.folder / "labbook.toml").write_text("title = 3\n")
    done = book("doctor", "--json", env=thin_path, check=False)
    assert done.returncode == 3
    row = rows(done)["notebook"]
    assert row["verdict"] == "fail" and "labbook.toml, line 1: title = 3" in row["found"]


def test_unknown_settings_are_a_warning(book, thin_path):
    (book.folder / "labbook.toml").write_text("titel = 'x'\n")
    row = rows(book("doctor", "--json", env=thin_path))["settings"]
    assert row["verdict"] == "warn" and row["found"].endswith("did you mean title?")


def test_warnings_are_no_failure(book, git, thin_path):
    from labbook.store.commit.commit_queue import enqueue
    from labbook.store.notebook_finder import find_notebook

    git(book.folder, "checkout", "-q", "--detach")
    enqueue(find_notebook(book.folder, environ={}).paths, ("notes/x.md",), "m", 1.0, "the branch kept moving")
    found = rows(book("doctor", "--json", env={**thin_path, "LABBOOK_LEVLE": "deep", "LABBOOK_TITLE": "x"}))
    assert found["environment"]["found"].startswith("LABBOOK_LEVLE")
    assert "LABBOOK_LEVEL" in found["environment"]["advice"]
    assert found["commits"]["verdict"] == "warn"
    assert "no branch is checked out" in found["commits"]["found"]
    assert "1 commit postponed" in found["queue"]["found"]


def test_without_git_python_and_notebook(tmp_path):
    from labbook.installation_check import check_installation

    os.environ["PATH"], kept = "/nonexistent", os.environ["PATH"]
    try:
        found = {row.name: row for row in check_installation(tmp_path, None, os.environ)}
    finally:
        os.environ["PATH"] = kept
    assert found["git"].verdict == found["python"].verdict == "warn"
    assert found["notebook"].found.key == "doctor.notebook.none"
    assert not any(row.verdict == "fail" for row in found.values())
