"""Calls git on the user's code: few calls, bounded output, no configured programs."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from labbook.errors import GitError
from labbook.frozen import dataclass
from labbook.store.git.git_process import GitFolders, discover, git_command, git_environment, kill_group, quiet_filters
from labbook.store.git.remotes import credential_free

STATUS_TIMEOUT_S = 15.0
"""Time limit for reading the work tree. Source: chosen by us; a cold repository of 100,000 files took 4 s."""

_CHUNK = 1 << 16
_MAX_PATHS = 500


@dataclass(frozen=True)
class CodeRepository:
    """A git repository of the user's code.

    Args:
        settings: Its configuration; names are in lower case except for the middle part.
    """

    folders: GitFolders
    settings: Mapping[str, str] = field(default_factory=dict)

    def run(
        self,
        *arguments: str,
        max_bytes: int = 64 << 20,
        timeout_s: float = STATUS_TIMEOUT_S,
        status: tuple[int, ...] = (0,),
    ) -> tuple[bytes, bool]:
        """Returns the output of a git command, and whether it was cut at `max_bytes`.

        Args:
            max_bytes: Maximum output; then git is killed.
            timeout_s: After this time git is killed.
            status: Exit statuses that mean success.

        Raises:
            GitError: Git is missing, failed or timed out.
        """
        return _run_git(self.folders, arguments, quiet_filters(self.settings), max_bytes, timeout_s, status)

    def find_filtered(self, paths: Sequence[str]) -> set[str]:
        """Returns the paths that a configured git filter rewrites."""
        if not paths or not any(name.startswith("filter.") for name in self.settings):
            return set()
        out, _ = self.run("check-attr", "-z", "filter", "--", *list(paths)[:_MAX_PATHS])
        fields = out.decode("utf-8", "surrogateescape").split("\0")[:-1]
        rows = zip(fields[0::3], fields[2::3], strict=True)
        return {path for path, value in rows if value not in ("unspecified", "unset")}

    def remote_url(self, branch: str) -> str:
        """Returns the URL of the branch's remote, of `origin` or of the first, without credentials."""
        urls = {
            key[len("remote.") : -len(".url")]: value
            for key, value in self.settings.items()
            if key.startswith("remote.") and key.endswith(".url")
        }
        tracked = self.settings.get(f"branch.{branch}.remote", "")
        url = urls.get(tracked) or urls.get("origin") or next(iter(urls.values()), "")
        return credential_free(url) if url else ""


def open_repository(folder: Path) -> CodeRepository | None:
    """Returns the repository around `folder`, `None` if there is none.

    Raises:
        GitError: Git is missing, or cannot read the repository's configuration.
    """
    folders = discover(folder)
    if folders is None or folders.bare:
        return None
    out, _ = _run_git(folders, ("config", "--list", "-z"), (), 4 << 20, STATUS_TIMEOUT_S, (0,))
    settings: dict[str, str] = {}
    for item in out.decode("utf-8", "surrogateescape").split("\0"):
        key, _, value = item.partition("\n")
        if key.startswith(("filter.", "branch.", "remote.")):
            settings.setdefault(key, value) if key.endswith(".url") else settings.update({key: value})
    return CodeRepository(folders, settings)


def _run_git(
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
        raise GitError("errors.git.not_called", folder=folders.top, reason=error) from error
    assert process.stdout is not None
    with process:
        out, state = _read_output(process.stdout.fileno(), max_bytes, time.monotonic() + timeout_s)
        if state != "end":
            kill_group(process.pid)
        if state == "late":
            raise GitError("errors.git.too_slow", verb=arguments[0], folder=folders.top, seconds=timeout_s)
    if state == "end" and process.returncode not in status:
        raise GitError("errors.git.failed_status", verb=arguments[0], folder=folders.top, status=process.returncode)
    return out, state == "cut"


def _read_output(handle: int, max_bytes: int, deadline: float) -> tuple[bytes, str]:
    """Returns the output until its end, the size limit ("cut") or the deadline ("late")."""
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
