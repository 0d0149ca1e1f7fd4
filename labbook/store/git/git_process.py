"""Runs git with a clean environment, fixed arguments and a time limit.

No call runs a program that the configuration of a repository names: no fsmonitor, hook, external diff, text conversion,
filter, transport, credential helper or signature check. This module does not import GitPython, so that committing an
entry starts fast.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from labbook.errors import GitError
from labbook.frozen import dataclass

READ_TIMEOUT_S = 20.0
"""Time limit of a read-only call. Source: chosen by us; `git status` in a cold repository
of 100,000 files took 4 s here."""

_PASSED_ON = frozenset({"GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})
"""The only GIT_ variables that are passed on: the locations of the user's git and settings. All others could
point git to another repository, index or program, for instance when labbook is called from inside a hook."""

_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.sshCommand=false",
    "core.askPass=",
    "core.quotePath=false",
    "credential.helper=",
    "diff.external=",
    "log.showSignature=false",
    "protocol.allow=never",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
)


@dataclass(frozen=True)
class GitFolders:
    """Location of a repository.

    Args:
        top: Top folder of the work tree; of a bare repository, the folder that contains `.git`, or itself.
        git_dir: The git folder; of a linked work tree, the one of this work tree.
        common_dir: Git folder shared by all work trees; equal to `git_dir` in the main one.
        bare: Whether there is no work tree.
    """

    top: Path
    git_dir: Path
    common_dir: Path
    bare: bool = False


@dataclass(frozen=True)
class GitAnswer:
    """Result of a call of git."""

    code: int
    out: bytes
    error: str


def git_program() -> str | None:
    """Return the path of git, or `None` if it is not on the PATH."""
    for folder in os.get_exec_path():
        program = os.path.join(folder, "git")  # noqa: PTH118 - not `shutil`, which imports for 5 ms
        if os.path.isfile(program) and os.access(program, os.X_OK):  # noqa: PTH113
            return program
    return None


def git_environment() -> dict[str, str]:
    """Return the environment for git: the user's, without variables that redirect it or name programs."""
    cleaned = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _PASSED_ON}
    cleaned.pop("SSH_ASKPASS", None)
    return cleaned | {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "LC_ALL": "C",
        "LANGUAGE": "C",
    }


def git_command(folders: GitFolders | None, *arguments: str, settings: Sequence[str] = ()) -> list[str]:
    """Return the command line of one call of git with the fixed settings.

    Args:
        folders: The repository, passed explicitly: git neither searches for it nor reads `core.worktree`.
        settings: More settings for this call, each `key=value`.

    Raises:
        GitError: git is not on the PATH.
    """
    program = git_program()
    if program is None:
        raise GitError("errors.git.none")
    command = [program, "--no-pager"]
    for setting in (*_SETTINGS, *settings):
        command += ["-c", setting]
    if folders is not None:
        command.append(f"--git-dir={folders.git_dir}")
        if not folders.bare:
            command.append(f"--work-tree={folders.top}")
    return [*command, *arguments]


def quiet_filters(settings: Iterable[str]) -> list[str]:
    """Return settings that disable each configured filter, because even `git status` runs clean filters.

    This includes large-file filters: recording a run in a cloned repository must not run a program of that repository.
    Filtered files are listed as changed if their time stamps changed.

    Args:
        settings: Names of all settings of the repository, as printed by `git config --list --name-only`.

    Raises:
        GitError: A filter cannot be disabled from the command line because of its (malicious) name.
    """
    names = {name[len("filter.") :].rpartition(".")[0] for name in settings if name.lower().startswith("filter.")}
    quiet: list[str] = []
    for name in sorted(names - {""}):
        if "=" in name or "\n" in name:
            raise GitError("errors.git.filter", name=name)
        quiet += [f"filter.{name}.{what}=" for what in ("clean", "smudge", "process")]
        quiet.append(f"filter.{name}.required=false")
    return quiet


def run_git(
    folders: GitFolders,
    *arguments: str,
    stdin: bytes = b"",
    timeout_s: float = READ_TIMEOUT_S,
    settings: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    keep_open: Sequence[int] = (),
) -> GitAnswer:
    """Run git once; a non-zero status is no error.

    Args:
        timeout_s: Time limit, after which git and its child processes are killed.
        settings: More settings for this call, each `key=value`.
        environment: Added to the cleaned environment.
        keep_open: File descriptors that git inherits.

    Raises:
        GitError: git or the folder is missing, or the time limit is exceeded.
    """
    command = git_command(folders, *arguments, settings=settings)
    try:
        process = subprocess.Popen(
            command,
            cwd=folders.top,
            env=git_environment() | dict(environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(keep_open),
            start_new_session=True,  # Ctrl-C for the training must not interrupt a commit
        )
    except OSError as error:
        raise GitError("errors.git.not_called", folder=folders.top, reason=error) from error
    with process:
        try:
            out, errors = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            kill_group(process.pid)
            process.communicate()
            raise GitError("errors.git.too_slow", verb=arguments[0], folder=folders.top, seconds=timeout_s) from error
    return GitAnswer(process.returncode, out, errors.decode("utf-8", "replace").strip())


def read_blobs(folders: GitFolders, hashes: Iterable[str]) -> dict[str, bytes]:
    """Return hash -> content.

    Raises:
        GitError: A content is not in the repository.
    """
    wanted = sorted(set(hashes))
    if not wanted:
        return {}
    answer = run_git(folders, "cat-file", "--batch", stdin="\n".join([*wanted, ""]).encode(), timeout_s=600)
    found = {}
    at = 0
    for blob in wanted:
        stop = answer.out.find(b"\n", at)
        fields = answer.out[at:stop].split()
        if answer.code or len(fields) != 3:
            raise GitError("errors.git.no_content", blob=blob, folder=folders.top)
        at = stop + int(fields[2]) + 2
        found[blob] = answer.out[stop + 1 : at - 1]
    return found


def kill_group(pid: int) -> None:
    """Kill a process that leads its own group, with its child processes."""
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def discover(path: Path) -> GitFolders | None:
    """Return the repository that contains `path`, found without calling git, or `None`.

    A bare repository counts only if `path` itself is one: nested ones are data.
    """
    start = path.resolve()
    if _is_git_dir(start) and start.name != ".git":
        return GitFolders(start, start, _common_dir(start), bare=True)
    for folder in (start, *start.parents):
        git_dir = _git_dir_of(folder)
        if git_dir is not None:
            common = _common_dir(git_dir)
            return GitFolders(folder, git_dir, common, bare=git_dir == common and _is_configured_bare(git_dir))
    return None


def create_repository(folder: Path) -> GitFolders:
    """Create a repository in `folder` on the branch `main`, without the user's template, and return its location.

    Raises:
        GitError: git could not.
    """
    import tempfile  # with shutil and random, 8 ms

    git_dir = folder.resolve() / ".git"
    with tempfile.TemporaryDirectory(prefix="labbook-") as empty:
        command = git_command(None, "init", "--quiet", f"--template={empty}", "--", str(folder.resolve()))
        try:
            done = subprocess.run(
                command, env=git_environment(), capture_output=True, timeout=READ_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitError("errors.git.not_created", folder=folder, reason=error) from error
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip()
        raise GitError("errors.git.not_created", folder=folder, reason=message)
    folders = GitFolders(folder.resolve(), git_dir, git_dir)
    # `git init -b` needs git 2.28.
    run_git(folders, "symbolic-ref", "HEAD", "refs/heads/main")
    return folders


def _is_git_dir(folder: Path) -> bool:
    try:
        return (folder / "HEAD").exists() and (folder / "objects").is_dir() and (folder / "refs").is_dir()
    except OSError:
        return False


def _git_dir_of(folder: Path) -> Path | None:
    entry = folder / ".git"
    try:
        if entry.is_dir():
            # A linked work tree's own git folder has no objects; the `.git` of a main one always has.
            return entry if (entry / "HEAD").exists() else None
        if not entry.is_file():
            return None
        content = entry.read_bytes()[:4096].decode("utf-8", "surrogateescape")
    except OSError:
        return None
    if not content.startswith("gitdir:"):
        return None
    target = (folder / content.removeprefix("gitdir:").strip()).resolve()
    return target if (target / "HEAD").exists() else None


def _common_dir(git_dir: Path) -> Path:
    try:
        content = (git_dir / "commondir").read_text("utf-8").strip()
    except OSError:
        return git_dir
    return (git_dir / content).resolve()


def _is_configured_bare(git_dir: Path) -> bool:
    try:
        text = (git_dir / "config").read_text("utf-8", "replace")
    except OSError:
        return False
    section = ""
    for line in text.splitlines():
        stripped = line.strip().lower()
        if stripped.startswith("["):
            section = stripped
        key, _, value = stripped.partition("=")
        if section == "[core]" and key.strip() == "bare":
            return value.strip() in ("true", "yes", "on", "1")
    return False


def read_output(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bytes:
    """Return the output of a read-only call of git, whatever its status.

    Raises:
        GitError: It cannot be started or does not end in time.
    """
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=READ_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitError("errors.git.not_called", folder=folder, reason=error) from error
    return done.stdout
