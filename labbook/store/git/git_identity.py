"""Who signs commits: git's own name and e-mail address of the person, read from its settings.

Reading the files takes less than a millisecond and starts no process. Settings that need more than that (an included
file, quotes, escapes) are left to `git config`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from labbook.errors import GitError
from labbook.frozen import dataclass
from labbook.store.git.git_process import GitFolders, discover, git_command, git_environment, read_output

_KEYS = ("user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email")
_SECTION = re.compile(r"\[\s*([\w.-]+)\s*(\"[^\"]*\")?\s*\](.*)")
_SIMPLE = re.compile(r"(\w+)\s*=\s*([^\"\\#;]*)")


@dataclass(frozen=True)
class Signers:
    """Author and committer of a commit; "" is replaced by labbook."""

    author: str = ""
    author_email: str = ""
    committer: str = ""
    committer_email: str = ""


def read_signers(folders: GitFolders | None, author: str = "") -> Signers:
    """Return who signs a commit in a repository, as git itself would choose by its settings.

    Variables such as `GIT_AUTHOR_NAME` do not count: inside a hook they are those of another commit.

    Args:
        folders: The repository, `None` for the settings of the user alone.
        author: Name of the author, "" for git's.
    """
    known = _read_files(_files(folders, os.environ))
    if known is None:
        known = _ask_git(folders)
    name, email = known.get("user.name", ""), known.get("user.email", "")
    return Signers(
        author=author or known.get("author.name") or name,
        author_email=known.get("author.email") or email,
        committer=known.get("committer.name") or name,
        committer_email=known.get("committer.email") or email,
    )


def run_author(folder: Path, chosen: str) -> str:
    """Return the author of a run in `folder`: the chosen one, git's user name or the login name, or ""."""
    name = chosen or read_signers(discover(folder)).author
    if name:
        return name
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _files(folders: GitFolders | None, environ: Mapping[str, str]) -> Iterator[Path]:
    """Return git's settings files, those that win last."""
    home = environ.get("HOME", "")
    if "GIT_CONFIG_NOSYSTEM" not in environ:
        yield Path(environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig")
    if "GIT_CONFIG_GLOBAL" in environ:
        yield Path(environ["GIT_CONFIG_GLOBAL"] or os.devnull)
    elif home:
        yield Path(environ.get("XDG_CONFIG_HOME") or Path(home, ".config")) / "git" / "config"
        yield Path(home, ".gitconfig")
    if folders is not None:
        yield folders.common_dir / "config"
        yield folders.git_dir / "config.worktree"


def _read_files(files: Iterator[Path]) -> dict[str, str] | None:
    """Return the values of the settings, or `None` if a file says more than this reader understands."""
    found: dict[str, str] = {}
    for file in files:
        try:
            text = file.read_text("utf-8-sig")
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            return None
        # The first is read only with `extensions.worktreeConfig`; the second is a line that goes on in the next one.
        values = None if file.name == "config.worktree" or "\\\n" in text else _values(text)
        if values is None:
            return None
        found |= values
    return found


def _values(text: str) -> dict[str, str] | None:
    """Return the settings of one file, or `None` if it includes others or quotes a value."""
    found, section = {}, ""
    for line in text.splitlines():
        rest = line.strip()
        if header := _SECTION.match(rest):
            if header[1].lower() in ("include", "includeif"):
                return None
            section, rest = "" if header[2] else header[1].lower(), header[3].strip()
        if section not in ("user", "author", "committer") or not rest or rest[0] in "#;":
            continue
        if simple := _SIMPLE.fullmatch(rest):
            found[f"{section}.{simple[1].lower()}"] = simple[2].strip()
        elif rest.lower().startswith(("name", "email")):
            return None
    return found


def _ask_git(folders: GitFolders | None) -> dict[str, str]:
    pattern = "^(" + "|".join(key.replace(".", r"\.") for key in _KEYS) + ")$"
    try:
        command = git_command(folders, "config", "-z", "--includes", "--get-regexp", pattern)
        output = read_output(command, folders.top if folders else Path("/"), git_environment())
    except GitError:
        return {}
    pairs = (item.partition("\n") for item in output.decode("utf-8", "replace").split("\0") if item)
    return {key.lower(): value.strip() for key, _, value in pairs}
