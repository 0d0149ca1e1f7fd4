"""`labbook doctor` on the notebook's remote: which one, ahead and behind without a network, and the last sync."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sharing_clones import call_git, copy_clones, make_template, sync, write_entry

from labbook.errors import GitError
from labbook.installation_check import _remote
from labbook.store.notebook import Notebook
from labbook.store.text.sentences import Sentences

pytestmark = pytest.mark.process


def rows(notebook: Notebook, language: str = "en") -> dict[str, tuple[str, str]]:
    say = Sentences(language)
    return {row.name: (row.verdict, say(row.found)) for row in _remote(notebook)}


def test_rows_follow_the_remote_without_a_network(tmp_path: Path) -> None:
    first, second = copy_clones(make_template(tmp_path / "template"), tmp_path / "clones", 2)
    assert rows(first) == {"remote": ("ok", "origin (../remote.git); nothing was shared yet")}
    write_entry(first, "20261122-035531-ab2c", "One.")
    sync(first)
    assert rows(first)["remote"][1] == "origin (../remote.git); in step, as of the last fetch"
    assert rows(first)["sync"][1].startswith("last sync with origin: 20")
    sync(second)
    write_entry(second, "20261122-035532-ab2d", "Two.")
    write_entry(first, "20261122-035533-ab2e", "Three.")
    sync(first)
    call_git(second.paths.root, "fetch", "-q", "origin")
    assert "1 commit to send, 1 to merge" in rows(second)["remote"][1]
    assert "1 个提交待发送，1 个待合并" in rows(second, "zh")["remote"][1]
    shutil.rmtree(tmp_path / "clones" / "remote.git")
    with pytest.raises(GitError):
        sync(second)
    verdict, failed = rows(second)["sync"]
    assert verdict == "warn" and "no repository at" in failed
    call_git(second.paths.root, "remote", "rename", "origin", "one")
    call_git(second.paths.root, "remote", "add", "two", "../other.git")
    assert rows(second)["remote"] == ("warn", "the repository has several remotes: one, two")
    call_git(first.paths.root, "remote", "remove", "origin")
    assert rows(first)["remote"] == ("ok", "no remote: the entries stay on this machine")
