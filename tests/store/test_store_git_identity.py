"""Commits are signed as git itself would sign them, without a process of git for plain settings."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from labbook.store.commit.entry_commit import commit_files
from labbook.store.git import git_identity
from labbook.store.git.git_identity import Signers, read_signers
from labbook.store.git.git_process import discover
from labbook.store.notebook_finder import create_notebook

pytestmark = pytest.mark.process

PLAIN = "[user]\n\tname = 魏 Li\n\temail = wei@example.com\n"
CASES = {
    "plain": (PLAIN, "", True),
    "repository wins": ("[user]\n name = Home\n email = h@x\n", PLAIN, True),
    "one line, other case": ("[USER] Name=Wei\n[user]\nEMAIL = w@x\n", "", True),
    "author and committer": (PLAIN + "[author]\n\tname = A\n[committer]\n\temail = c@x\n", "", True),
    "subsection": ('[user "x"]\n\tname = No\n' + PLAIN, "", True),
    "comment": ("[user]\n\tname = Wei Li # me\n\temail = w@x ; too\n# name = No\n", "", False),
    "quotes and escapes": ('[user]\n\tname = "Wei  \\"W\\" Li"\n\temail = w@x\n', "", False),
    "continued": ("[alias]\n\tx = a \\\n[user]\n\tname = Wei\n" + PLAIN, "", False),
    "include": ("[include]\n\tpath = more\n", "", False),
}


@pytest.mark.parametrize("name", CASES)
def test_signers_are_those_of_git(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_user, of_repository, is_read_here = CASES[name]
    home = tmp_path / "home"
    home.mkdir()
    (home / "gitconfig").write_text(of_user, "utf-8")
    (home / "more").write_text(PLAIN, "utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "gitconfig"))
    folder = tmp_path / "code"
    subprocess.run(["git", "init", "-q", folder], check=True)
    with (folder / ".git" / "config").open("a", encoding="utf-8") as stream:
        stream.write(of_repository)
    asked = []
    real = git_identity._ask_git
    monkeypatch.setattr(git_identity, "_ask_git", lambda folders: asked.append(folders) or real(folders))
    found = read_signers(discover(folder))
    assert bool(asked) is not is_read_here
    signatures = [
        subprocess.run(["git", "var", var], cwd=folder, capture_output=True, text=True, check=True).stdout
        for var in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT")
    ]
    assert signatures[0].startswith(f"{found.author} <{found.author_email}> ")
    assert signatures[1].startswith(f"{found.committer} <{found.committer_email}> ")


def test_commits_carry_the_name_and_address_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gitconfig").write_text("", "utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    notebook, _ = create_notebook(tmp_path / "own")
    note = notebook.paths.notes / "a.md"

    def signed(author: str = "") -> str:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(note.read_text() + "more\n" if note.exists() else "first\n")
        named = replace(notebook, config=replace(notebook.config, author=author))
        commit = commit_files(named, [note], "note\n").commit
        command = ["git", "log", "-1", "--format=%an <%ae>|%cn <%ce>", commit]
        return subprocess.run(
            command, cwd=notebook.paths.root, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert read_signers(notebook.git_folders()) == Signers()
    assert signed() == "labbook <labbook@localhost>|labbook <labbook@localhost>"
    (tmp_path / "gitconfig").write_text(PLAIN, "utf-8")
    assert signed() == "魏 Li <wei@example.com>|魏 Li <wei@example.com>"
    assert signed("Mei") == "Mei <wei@example.com>|魏 Li <wei@example.com>"
