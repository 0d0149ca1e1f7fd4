"""Asks git about the user's code: few calls, bounded answers, nothing of the repository's own configuration is run."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from labbook.errors import GitError
from labbook.frozen import dataclass
from labbook.store.git_process import GitFolders, discover, git_command, git_environment, kill_group, quiet_filters
from labbook.store.remotes import credential_free

STATUS_TIMEOUT_S = 15.0
"""Longest time for a look at the work tree. Source: chosen by us; a cold repository of 100,000 files took 4 s."""

_CHUNK = 1 << 16
_MAX_ASKED = 500


@dataclass(frozen=True)
class CodeGit:
    """A repository of the user's code, ready to be asked.

    Args:
        folders: Where it lies.
        settings: Its configuration, names in lower case except for the middle part.
    """

    folders: GitFolders
    settings: Mapping[str, str] = field(default_factory=dict)

    def ask(
        self,
        *arguments: str,
        max_bytes: int = 64 << 20,
        timeout_s: float = STATUS_TIMEOUT_S,
        status: tuple[int, ...] = (0,),
    ) -> tuple[bytes, bool]:
        """Answer of git, and whether it was cut at `max_bytes`.

        Args:
            arguments: Subcommand and its arguments.
            max_bytes: What is longer is cut; git is ended.
            timeout_s: After this time git is killed.
            status: Exit statuses that are an answer.

        Raises:
            GitError: No git, another status, or the time is up.
        """
        return _run(self.folders, arguments, quiet_filters(self.settings), max_bytes, timeout_s, status)

    def filtered(self, paths: Sequence[str]) -> set[str]:
        """Those of `paths` that a configured filter rewrites on their way into git."""
        if not paths or not any(name.startswith("filter.") for name in self.settings):
            return set()
        out, _ = self.ask("check-attr", "-z", "filter", "--", *list(paths)[:_MAX_ASKED])
        fields = out.decode("utf-8", "surrogateescape").split("\0")[:-1]
        rows = zip(fields[0::3], fields[2::3], strict=True)
        return {path for path, value in rows if value not in ("unspecified", "unset")}

    def remote(self, branch: str) -> str:
        """Address of the remote that `branch` follows, else of `origin`, else of the first; without credentials."""
        urls = {
            key[len("remote.") : -len(".url")]: value
            for key, value in self.settings.items()
            if key.startswith("remote.") and key.endswith(".url")
        }
        followed = self.settings.get(f"branch.{branch}.remote", "")
        chosen = urls.get(followed) or urls.get("origin") or next(iter(urls.values()), "")
        return credential_free(chosen) if chosen else ""


def open_code(folder: Path) -> CodeGit | None:
    """The repository that holds `folder`, `None` outside one.

    Raises:
        GitError: There is no git, or it cannot read the repository's configuration.
    """
    folders = discover(folder)
    if folders is None or folders.bare:
        return None
    out, _ = _run(folders, ("config", "--list", "-z"), (), 4 << 20, STATUS_TIMEOUT_S, (0,))
    settings: dict[str, str] = {}
    for item in out.decode("utf-8", "surrogateescape").split("\0"):
        key, _, value = item.partition("\n")
        if key.startswith(("filter.", "branch.", "remote.")):
            settings.setdefault(key, value) if key.endswith(".url") else settings.update({key: value})
    return CodeGit(folders, settings)


def head_commit(folders: GitFolders) -> str:
    """Full hash of the commit that is checked out, read from git's own files without calling git; "" when not found.

    It serves where there is no git and for the many repositories of editable packages.
    """
    said = _first_line(folders.git_dir / "HEAD")
    for _ in range(5):
        if not said.startswith("ref:"):
            return said if len(said) in (40, 64) else ""
        ref = said.removeprefix("ref:").strip()
        if ".." in ref or ref.startswith("/"):
            return ""
        said = _first_line(folders.git_dir / ref) or _first_line(folders.common_dir / ref)
        if not said:
            return _packed(folders.common_dir / "packed-refs", ref)
    return ""


def _packed(file: Path, ref: str) -> str:
    with contextlib.suppress(OSError):
        for line in file.read_text("utf-8", "replace").splitlines():
            commit, _, name = line.partition(" ")
            if name == ref and len(commit) in (40, 64):
                return commit
    return ""


def _first_line(file: Path) -> str:
    try:
        return file.read_bytes()[:4096].decode("utf-8", "replace").partition("\n")[0].strip()
    except OSError:
        return ""


def _run(
    folders: GitFolders,
    arguments: tuple[str, ...],
    settings: list[str] | tuple[str, ...],
    max_bytes: int,
    timeout_s: float,
    status: tuple[int, ...],
) -> tuple[bytes, bool]:
    try:
        process = subprocess.Popen(
            git_command(folders, *arguments, settings=settings),
            cwd=folders.top,
            env=git_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise GitError(f"cannot call git in {folders.top}: {error.strerror or error}") from error
    assert process.stdout is not None
    with process:
        out, state = _collect(process.stdout.fileno(), max_bytes, time.monotonic() + timeout_s)
        if state != "end":
            kill_group(process.pid)
        if state == "late":
            raise GitError(f"`git {arguments[0]}` in {folders.top} took more than {timeout_s:g} s")
    if state == "end" and process.returncode not in status:
        raise GitError(f"`git {arguments[0]}` in {folders.top} failed with status {process.returncode}")
    return out, state == "cut"


def _collect(handle: int, max_bytes: int, deadline: float) -> tuple[bytes, str]:
    """What is read until the end, the size limit ("cut") or the deadline ("late")."""
    chunks: list[bytes] = []
    size = 0
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                return b"".join(chunks), "late"
            chunk = os.read(handle, _CHUNK)
            if not chunk:
                return b"".join(chunks), "end"
            chunks.append(chunk)
            size += len(chunk)
            if size > max_bytes:
                return b"".join(chunks)[:max_bytes], "cut"
