"""Lets the user's git talk to a remote: the only place where labbook's git may use a network.

Credentials are the business of git and its helpers: nothing is stored, and every text that leaves this module has its
addresses masked.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from labbook.errors import GitError
from labbook.frozen import dataclass
from labbook.store.commit.branch_checkout import notebook_prefix
from labbook.store.git.git_process import GitFolders, discover, git_program, run_git
from labbook.store.git.git_state import head_ref, is_partial_clone, read_commit
from labbook.store.git.remotes import credential_free
from labbook.store.notebook import Notebook
from labbook.store.paths import SETTINGS_FILE

DEFAULT_TIMEOUT_S = 60.0
"""Longest silence of a remote. Source: chosen by us; a slow server says something every few seconds (`--progress`)."""

_REDIRECTING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"]+", re.IGNORECASE)
_MAX_QUOTED = 400
_SLOWER = r"\[rejected\]|cannot lock ref|incorrect old value|failed to update ref|already exists|stale info"
"""What git says when the branch moved since it was fetched."""
_UNTELLING = (
    r"\d+% \(|^(remote: )?(Enumerating|Counting|Compressing|Writing|Total|Delta)|^(To|Done|Everything) ?|^(hint|=)"
    r"|^error: failed to push some refs|^remote:$"
)

_CAUSES = (
    ("sync.error.name_taken", r"' exists; cannot create '"),
    ("sync.error.full", r"no space left|disk quota exceeded|file too large"),
    (
        "sync.error.denied",
        r"permission denied|authentication failed|could not read (username|password)|access denied"
        r"|(?<![\w/.-])40[13](?![\w/.-])"
        r"|not authorized|terminal prompts disabled|permission to .* denied|invalid credentials"
        r"|insufficient permission|unable to create temporary object|read-?only",
    ),
    ("sync.error.other_owner", r"dubious ownership"),
    ("sync.error.host_key", r"host key verification failed"),
    (
        "sync.error.not_found",
        r"repository .*not found|does not appear to be a git repository|no such (file|repository)|\b404\b"
        r"|repository not exported|access denied or repository",
    ),
    (
        "sync.error.unreachable",
        r"could not resolve|connection (refused|timed out|reset|closed)|network is unreachable|no route"
        r"|unable to connect|failed to connect|couldn't connect|operation timed out|hung up|early eof"
        r"|returned error: (429|5\d\d)",
    ),
    ("sync.error.rejected", r"remote rejected|hook declined|protected branch"),
)
"""Cause of a failure, by what git or a server prints; the first that fits."""
_LASTING = ("sync.error.name_taken", "sync.error.full", "sync.error.denied")
"""Causes of a refused push that another attempt does not remove."""


@dataclass(frozen=True)
class PushAnswer:
    """The answer to a push: "ok", "retry" (somebody was faster) or "refused", and the message of the remote."""

    status: str
    text: str = ""


class SilentRemoteError(GitError):
    """A remote did not answer in time."""


class GitCall:
    """A call of git that talks to a remote, while this process does something else.

    Attributes:
        chunks: What it printed so far.
        last_output_s: When it last printed something, on the monotonic clock.
        reader: Thread that reads until the end of its output.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.chunks: list[bytes] = []
        self.last_output_s = time.monotonic()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            while chunk := os.read(stream.fileno(), 65536):
                self.chunks.append(chunk)
                self.last_output_s = time.monotonic()


@dataclass(frozen=True)
class Remote:
    """A remote of the notebook's repository.

    Args:
        timeout_s: Longest silence.
        quiet: Whether nobody can answer a question: git must not ask for a password.
    """

    notebook: Notebook
    folders: GitFolders
    name: str
    timeout_s: float = DEFAULT_TIMEOUT_S
    quiet: bool = False

    @property
    def address(self) -> str:
        """Its address without credentials."""
        return list_remotes(self.folders).get(self.name, "")

    def fetch(self, ref: str, *, unshallow: bool = False) -> str:
        """Fetch a branch into its remote-tracking branch and return the commit there, "" if the remote has no branch.

        Raises:
            GitError: The remote cannot be read.
        """
        return self.fetched(self.start_fetch(ref, unshallow=unshallow), ref)

    def start_fetch(self, ref: str, *, unshallow: bool = False) -> GitCall:
        """Start to fetch a branch; `fetched` waits for the end."""
        options = ["--progress", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--no-recurse-submodules"]
        if unshallow:
            options.append("--unshallow")
        if is_partial_clone(self.folders):
            options += ["--no-filter", *(["--refetch"] if self.lacks_contents(ref) else [])]
        return self._start("fetch", *options, self.name, f"+{ref}:{tracking_ref(self.name, ref)}")

    def lacks_contents(self, ref: str) -> bool:
        """Return whether a partial clone (`git clone --filter`) lacks notes of a branch."""
        if not is_partial_clone(self.folders):
            return False
        known = [each for each in (ref, tracking_ref(self.name, ref)) if read_commit(self.folders, each)]
        notes = f"{notebook_prefix(self.notebook, self.folders)}/notes".lstrip("/")
        listed = run_git(self.folders, "rev-list", "--objects", "--no-walk", "--missing=print", *known, "--", notes)
        return bool(known) and any(line.startswith(b"?") for line in listed.out.splitlines())

    def fetched(self, call: GitCall, ref: str) -> str:
        """Wait for the end of a fetch; the result is that of `fetch`.

        Raises:
            GitError: The remote cannot be read.
        """
        code, text = self._finish(call)
        if code and re.search(r"couldn't find remote ref|remote ref does not exist", text, re.IGNORECASE):
            return ""
        if code:
            raise self._failure(text)
        return read_commit(self.folders, tracking_ref(self.name, ref))

    def push(self, commit: str, ref: str) -> PushAnswer:
        """Push a commit to a branch of the remote that has not moved since it was fetched.

        Raises:
            GitError: The remote cannot be reached.
        """
        return self.wait_for_push(self.start_push(commit, ref))

    def start_push(self, commit: str, ref: str, *, only_from: str = "") -> GitCall:
        """Start to push a commit to a branch of the remote; `pushed` waits for the end.

        Args:
            only_from: An ancestor of the commit; the branch of the remote moves only if it is there. "": it moves from
                any ancestor.
        """
        options = [
            "--porcelain",
            "--progress",
            "--no-verify",
            "--no-follow-tags",
            "--recurse-submodules=no",
            "--no-signed",
        ]
        if only_from:
            options.append(f"--force-with-lease={ref}:{only_from}")
        return self._start("push", *options, self.name, f"{commit}:{ref}")

    def wait_for_push(self, call: GitCall) -> PushAnswer:
        """Wait for the end of a push.

        Raises:
            GitError: The remote cannot be reached.
        """
        code, text = self._finish(call)
        if not code:
            return PushAnswer("ok")
        row = next((line for line in text.splitlines() if line.startswith("!")), "")
        is_lasting = "hook declined" in row or _cause_of(text, "") in _LASTING
        if row and re.search(_SLOWER, row) and not is_lasting:
            return PushAnswer("retry", self._quote_server(text))
        if row:
            return PushAnswer("refused", self._quote_server(text))
        raise self._failure(text)

    def refusal(self, text: str) -> GitError:
        """Return the error for a push that the remote refused, with its message."""
        return self._failure(text, "sync.error.rejected")

    def _failure(self, text: str, default: str = "sync.error.other") -> GitError:
        cause = _cause_of(text, default)
        if default == "sync.error.rejected" and cause not in _LASTING:
            cause = default
        return GitError(cause, remote=self.name, address=self.address, reason=self._quote_server(text))

    def _quote_server(self, text: str) -> str:
        """Return the lines of git and the server that say something, without credentials and progress."""
        lines = [line.split("\r")[-1].strip() for line in text.splitlines()]
        reasons = [line for line in lines if line and not re.search(_UNTELLING, line)]
        masked = _ADDRESS.sub(lambda found: credential_free(found[0]), "; ".join(dict.fromkeys(reasons)))
        return masked[:_MAX_QUOTED]

    def _start(self, *arguments: str) -> GitCall:
        """Start git as the user would.

        Raises:
            GitError: It cannot be started.
        """
        program = git_program()
        if program is None:
            raise GitError("errors.git.none")
        settings = ["core.hooksPath=/dev/null", "core.quotePath=false", "gc.auto=0", "maintenance.auto=false"]
        options = [part for setting in settings for part in ("-c", setting)]
        command = [program, "--no-pager", *options, f"--git-dir={self.folders.git_dir}", *arguments]
        try:
            process = subprocess.Popen(
                command,
                cwd=self.folders.top,
                env=network_environment(os.environ, quiet=self.quiet),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # With a person at the terminal git may ask there, which it cannot in a session of its own.
                start_new_session=self.quiet,
            )
        except OSError as error:
            raise GitError("errors.git.not_called", folder=self.folders.top, reason=error) from error
        return GitCall(process)

    def _finish(self, call: GitCall) -> tuple[int, str]:
        """Return the status of git and what it printed.

        Raises:
            GitError: It was silent for too long.
        """
        while call.reader.is_alive():
            call.reader.join(0.02 if time.monotonic() - call.last_output_s < 1 else 0.2)
            if call.reader.is_alive() and time.monotonic() - call.last_output_s > self.timeout_s:
                self.stop(call)
                raise SilentRemoteError(
                    "sync.error.hangs",
                    remote=self.name,
                    address=self.address,
                    seconds=f"{self.timeout_s:g}",
                )
        call.process.wait()
        return call.process.returncode, b"".join(call.chunks).decode("utf-8", "replace")

    def stop(self, call: GitCall) -> None:
        """Stop git and its transport: ssh ends when git closes its input."""
        if call.process.poll() is not None:
            return
        with contextlib.suppress(OSError):
            if self.quiet:
                os.killpg(call.process.pid, signal.SIGTERM)
            else:
                call.process.terminate()
        try:
            call.process.wait(2.0)
        except subprocess.TimeoutExpired:
            call.process.kill()
            call.process.wait()


def _cause_of(text: str, default: str) -> str:
    return next((name for name, pattern in _CAUSES if re.search(pattern, text, re.IGNORECASE)), default)


def choose_remote(
    notebook: Notebook, name: str = "", *, timeout_s: float = DEFAULT_TIMEOUT_S, quiet: bool = False
) -> Remote:
    """Return the remote to share with: the named one, that of the settings, `origin`, or the only one.

    Raises:
        GitError: The notebook is in no repository, there is no remote, or several and none is chosen.
    """
    folders = notebook.git_folders()
    if notebook.config.commit == "off":
        raise GitError("sync.error.switched_off", root=str(notebook.paths.root))
    if folders is None:
        raise GitError("sync.error.no_repository", root=str(notebook.paths.root))
    wanted = name or notebook.config.remote
    if _is_configured(folders, wanted or "origin"):
        return Remote(notebook, folders, wanted or "origin", timeout_s, quiet)
    known = list_remotes(folders)
    if wanted and wanted not in known:
        raise GitError("sync.error.unknown_remote", remote=wanted, known=", ".join(known) or "-")
    if not known and notebook.personal:
        branch = _branch_with_settings(notebook.config.branch)
        key = "sync.error.other_branch" if branch else "sync.error.personal"
        raise GitError(key, root=str(notebook.paths.root), branch=branch)
    if not known:
        raise GitError("sync.error.no_remote", top=str(folders.top))
    if not wanted and "origin" not in known and len(known) > 1:
        raise GitError("sync.error.many_remotes", known=", ".join(known), first=next(iter(known)))
    chosen = wanted or ("origin" if "origin" in known else next(iter(known)))
    return Remote(notebook, folders, chosen, timeout_s, quiet)


def _branch_with_settings(entries: str) -> str:
    """Return the branch of a remote of the working folder's repository that has a notebook; "" without one.

    The checked-out branch does not count: `git pull` is enough there. Nor does `entries`, the branch without code.
    """
    folders = discover(Path.cwd())
    if folders is None or folders.bare:
        return ""
    listed = run_git(folders, "for-each-ref", "--format=%(refname)", "refs/remotes").out.split()
    wanted = b"".join(name + b":" + SETTINGS_FILE.encode() + b"\n" for name in listed)
    kinds = run_git(folders, "cat-file", "--batch-check=%(objecttype)", stdin=wanted).out.splitlines()
    names = [os.fsdecode(name).split("/", 3)[-1] for name, kind in zip(listed, kinds, strict=False) if kind == b"blob"]
    here = head_ref(folders).removeprefix("refs/heads/")
    found = (
        []
        if here in names
        else sorted({*names} - {"HEAD", entries}, key=lambda name: (name not in ("main", "master"), name))
    )
    return next(iter(found), "")


def _is_configured(folders: GitFolders, name: str) -> bool:
    """Whether the repository's own settings define a remote; read without starting git, which takes 5 ms."""
    try:
        lines = (folders.common_dir / "config").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return False
    return f'[remote "{name}"]' in lines


def list_remotes(folders: GitFolders) -> dict[str, str]:
    """Return name -> address without credentials of every remote."""
    answer = run_git(folders, "config", "-z", "--get-regexp", r"^remote\..*\.url$")
    found: dict[str, str] = {}
    for item in answer.out.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        key, _, address = item.partition("\n")
        found.setdefault(key[len("remote.") : -len(".url")], credential_free(address))
    return found


def tracking_ref(remote: str, ref: str) -> str:
    """Return the remote-tracking branch of a branch."""
    return f"refs/remotes/{remote}/{ref.removeprefix('refs/heads/')}"


def count_apart(folders: GitFolders, ref: str, other: str) -> tuple[int, int] | None:
    """Return how many commits only `ref` has and how many only `other` has, or `None` if one does not exist."""
    answer = run_git(folders, "rev-list", "--left-right", "--count", f"{ref}...{other}", "--")
    counts = answer.out.split()
    return (int(counts[0]), int(counts[1])) if answer.code == 0 and len(counts) == 2 else None


def network_environment(environ: Mapping[str, str], *, quiet: bool) -> dict[str, str]:
    """Return the user's environment for git, without variables that point it to another repository."""
    cleaned = {name: value for name, value in environ.items() if name not in _REDIRECTING}
    cleaned |= {"LC_ALL": "C", "LANGUAGE": "C", "GIT_OPTIONAL_LOCKS": "0"}
    if quiet:
        cleaned |= {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never"}
    return cleaned
