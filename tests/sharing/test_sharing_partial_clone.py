"""`labbook sync` where it cannot simply start: a clone that lacks contents, a notebook without commits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sharing_clones import call_git, copy_clones, disk, make_template, open_clone, sync, write_entry, write_note

pytestmark = pytest.mark.process


@pytest.fixture
def pair(tmp_path):
    return copy_clones(make_template(tmp_path / "template"), tmp_path / "clones", 2)


def labbook(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labbook", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def run_id(number: int) -> str:
    return f"20261122-0101{number:02d}-{number:04d}"


def test_a_partial_clone_fetches_what_it_lacks_and_merges_pages_made_meanwhile(pair, tmp_path):
    write_entry(pair[0], run_id(0), "first")
    write_note(pair[0], "experiments/exp001_a.md", "---\nschema: 1\n---\n\n# a\n\nOurs.\n")
    sync(pair[0])
    remote = pair[0].paths.root.parent / "remote.git"
    call_git(remote, "config", "uploadpack.allowFilter", "true")
    fresh = tmp_path / "fresh"
    call_git(tmp_path, "clone", "-q", "--filter=blob:none", remote.as_uri(), str(fresh))
    call_git(fresh, "config", "user.name", "Li")
    call_git(fresh, "config", "user.email", "li@example.com")
    assert "partial clone" in labbook(fresh, "list").stderr
    assert "`labbook sync`" in labbook(fresh, "doctor").stdout
    book = open_clone(fresh)
    write_note(book, "experiments/exp001_a.md", "---\nschema: 1\n---\n\n# a\n\nTheirs.\n")
    write_entry(book, run_id(1), "second")
    labbook(fresh, "sync")
    assert {run_id(0), run_id(1)} <= {path.stem for path in (book.paths.notes / "runs").rglob("*.md")}
    page = disk(book)["experiments/exp001_a.md"]
    assert "Ours." in page and "Theirs." in page
    sync(pair[0])
    assert disk(pair[0])["experiments/exp001_a.md"] == page


def test_sync_says_that_commits_are_switched_off(pair):
    (pair[0].paths.root / "labbook.toml").write_text('commit = "off"\n')
    refused = labbook(pair[0].paths.root, "sync")
    assert refused.returncode == 4 and "switched off" in refused.stderr
