"""Reads history and differences of a git repository. The only module that imports GitPython.

GitPython starts git with the command line and environment of `git_process`, so that no program of the repository's
configuration is run. Its objects, which keep git processes alive, are not used. Importing it takes longer than a call
of git; code that must be fast uses `git_process` alone.
"""

from __future__ import annotations

import os
import re
import threading
from functools import cached_property
from pathlib import Path
from typing import Any

from labbook.errors import GitError
from labbook.frozen import dataclass
from labbook.store.git.git_process import (
    READ_TIMEOUT_S,
    GitFolders,
    discover,
    git_command,
    git_environment,
    git_program,
    kill_group,
    quiet_filters,
)

_ANSWER_MAX_BYTES = 64 * 1024 * 1024
_CHUNK = 1 << 16
_REVISION = re.compile(r"[0-9a-f]{4,64}|HEAD|refs/[^\s~^:?*\[\\-][^\s~^:?*\[\\]*")
_DIFF = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--no-relative", "--full-index"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=dirty"),
)


@dataclass(frozen=True)
class HistoryCommit:
    """One commit of the history; `when` is Unix time (s)."""

    commit: str
    when: float
    author: str
    subject: str


@dataclass(frozen=True)
class CodeRepository:
    """Read-only access to a repository."""

    folders: GitFolders
    timeout_s: float = READ_TIMEOUT_S

    @classmethod
    def open(cls, path: Path, *, timeout_s: float = READ_TIMEOUT_S) -> CodeRepository | None:
        """Return the repository that contains `path`; `None` outside one, or without git on the PATH."""
        folders = discover(path)
        return cls(folders, timeout_s) if folders is not None and git_program() is not None else None

    @property
    def top(self) -> Path:
        """Top folder of the work tree."""
        return self.folders.top

    def diff_between(self, before: str, after: str, max_bytes: int = _ANSWER_MAX_BYTES) -> bytes:
        """Return changes of text files between two commits as a patch.

        Raises:
            GitError: A commit is missing, or the patch is longer than `max_bytes`.
        """
        patch = self._run("diff", *_DIFF, _revision(before), _revision(after), "--", max_bytes=max_bytes)
        files = re.split(rb"(?m)^(?=diff --git )", patch)
        return b"".join(file for file in files if not re.search(rb"(?m)^Binary files ", file))

    def commits_between(self, before: str, after: str, limit: int = 100) -> list[HistoryCommit]:
        """Return commits that are in `after` but not in `before`, newest first.

        Raises:
            GitError: A commit is missing.
        """
        output = self._run(
            "log",
            "-z",
            "--no-color",
            "--no-show-signature",
            f"--max-count={limit}",
            "--format=%H%x00%ct%x00%an%x00%s",
            "--end-of-options",
            _revision(after),
            f"^{_revision(before)}",
            "--",
        )
        fields = _items(output)
        rows = [fields[at : at + 4] for at in range(0, len(fields), 4)]
        return [HistoryCommit(commit, float(when), author, subject) for commit, when, author, subject in rows]

    @cached_property
    def _quiet(self) -> list[str]:
        """Return settings that disable the repository's filters."""
        names = self._run_command(git_command(self.folders, "config", "--list", "--name-only", "-z"), _ANSWER_MAX_BYTES)
        return quiet_filters(_items(names))

    def _run(self, *arguments: str, max_bytes: int = _ANSWER_MAX_BYTES) -> bytes:
        return self._run_command(git_command(self.folders, *arguments, settings=self._quiet), max_bytes)

    def _run_command(self, command: list[str], max_bytes: int) -> bytes:
        """Run git and return its standard output.

        Raises:
            GitError: Git failed, the output is too long, or the time limit is exceeded.
        """
        from git import Git
        from git.exc import CommandError

        environment = git_environment()
        # GitPython can add to the environment, but not remove from it.
        unwanted = sorted(set(os.environ) - set(environment))
        without = [part for name in unwanted for part in ("-u", name)]
        call = " ".join(command[command.index(f"--git-dir={self.folders.git_dir}") + 1 :][:3])
        try:
            started = Git(str(self.top)).execute(
                ["env", *without, *command] if without else command,
                as_process=True,
                env=environment,
                start_new_session=True,
            )
        except (CommandError, OSError) as error:
            raise GitError("errors.git.not_called", folder=self.top, reason=type(error).__name__) from error
        process: Any = started.proc
        late = threading.Event()
        # GitPython's own time limit kills git, but not its children, and needs the whole output in memory.

        def stop() -> None:
            late.set()
            kill_group(process.pid)

        timer = threading.Timer(self.timeout_s, stop)
        timer.start()
        try:
            out = _read_up_to(process.stdout, max_bytes + 1)
            if len(out) > max_bytes:
                kill_group(process.pid)
                raise GitError("errors.git.answer_too_long", folder=self.top, size=max_bytes, call=call)
            problem = process.stderr.read(_CHUNK).decode("utf-8", "replace").strip()
            code = process.wait()
        finally:
            timer.cancel()
            process.stdout.close()
            process.stderr.close()
            process.wait()
        if late.is_set():
            raise GitError("errors.git.call_too_slow", folder=self.top, seconds=self.timeout_s, call=call)
        if code:
            raise GitError("errors.git.failed", folder=self.top, call=call, reason=problem or f"status {code}")
        return out


def _read_up_to(stream: Any, limit: int) -> bytes:  # noqa: ANN401 - a binary stream of GitPython
    chunks: list[bytes] = []
    left = limit
    while left > 0 and (chunk := stream.read(min(_CHUNK, left))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _revision(name: str) -> str:
    """Return `name` if it is a hash, HEAD or a full ref name, not an option, range or path.

    Raises:
        GitError: It is not a valid name.
    """
    if not _REVISION.fullmatch(name) or ".." in name:
        raise GitError("errors.git.not_a_commit", name=name)
    return name


def _items(answer: bytes) -> list[str]:
    return answer.decode("utf-8", "surrogateescape").split("\0")[:-1]
