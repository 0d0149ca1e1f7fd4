"""What changed in the code from one run to another, as a short unified diff.

Each file is put together as it was in each run: the content of its commit, with the uncommitted changes that the run's
`changes.patch` holds. Where the repository is not at hand, only what the patches hold is compared.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labbook.capture.code.git_reader import CodeRepository, open_repository
from labbook.capture.code.patch import split_sections
from labbook.capture.code.working_tree import PATCH_FILE
from labbook.errors import GitError

_MOST_FILES = 8
_MOST_LINES = 200
_MOST_LINE = 400
_MOST_BYTES = 2 << 20
_TIMEOUT_S = 5.0
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


@dataclass
class _Side:
    """The code of one run: its commit, and the sections of its patch by path."""

    facts: Mapping[str, Any]
    sections: dict[str, str]


def code_between(
    before: Mapping[str, Any], before_folder: Path, now: Mapping[str, Any], now_folder: Path, paths: Sequence[str]
) -> dict[str, str]:
    """The changes of some files from one run to the other, by path; those that are not known are left out.

    Args:
        before: Facts of the code at the earlier run.
        before_folder: Folder beside its entry.
        now: Facts of the code at the later run.
        now_folder: Folder beside its entry.
        paths: Files, by path below the top folder of the code; the first eight count.
    """
    sides = [_Side(before, _sections(before_folder)), _Side(now, _sections(now_folder))]
    code = _repository(now) or _repository(before)
    told = {}
    for path in paths[:_MOST_FILES]:
        contents = [_content(side, path, code) for side in sides]
        old, new = contents
        if old is None or new is None:
            continue
        lines = difflib.unified_diff(
            _lines(old), _lines(new), f"a/{path}" if old else "/dev/null", f"b/{path}", lineterm="", n=2
        )
        diff = "\n".join(line[:_MOST_LINE] for line in itertools.islice(lines, _MOST_LINES))
        if diff:
            told[path] = diff
    return told


def _repository(facts: Mapping[str, Any]) -> CodeRepository | None:
    top = str(facts.get("top") or "")
    if not facts.get("repository", True) or not top:
        return None
    try:
        folder = Path(top).expanduser()
        return open_repository(folder) if folder.is_dir() else None
    except (GitError, OSError, RuntimeError):
        return None


def _sections(folder: Path) -> dict[str, str]:
    """Path -> its section of the patch beside an entry."""
    try:
        patch = (folder / PATCH_FILE).read_bytes()
    except OSError:
        return {}
    if not patch.startswith(b"diff --git "):
        return {}
    found = {}
    for section in split_sections(patch):
        text = section.decode("utf-8", "surrogateescape")
        named = re.search(r'^\+\+\+ "?b/(.+?)"?\t?$', text, re.MULTILINE)
        named = named or re.search(r'^--- "?a/(.+?)"?\t?$', text, re.MULTILINE)
        named = named or re.match(r"diff --git a/(.+) b/\1$", text, re.MULTILINE)
        if named is not None:
            found[named.group(1)] = text
    return found


def _content(side: _Side, path: str, code: CodeRepository | None) -> str | None:
    """A file as it was in a run, "" where it was not there, `None` where that is not known."""
    section = side.sections.get(path)
    commit = str(side.facts.get("commit") or "")
    if section is None:
        # What has changed and is not in the patch was left out of it.
        if any(path in (side.facts.get(key) or ()) for key in ("blobs", "too_large", "withheld", "binaries")):
            return None
        return _committed(code, f"{commit}:{path}") if side.facts.get("repository", True) and commit else ""
    if "\n+++ /dev/null" in section:
        return ""
    base: str | None = ""
    if "\nnew file mode " not in section:
        renamed = re.search(r"^rename from (.+)$", section, re.MULTILINE)
        base = _committed(code, f"{commit}:{renamed.group(1) if renamed else path}")
    return _applied(base, section) if base is not None else None


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _committed(code: CodeRepository | None, name: str) -> str | None:
    """A file in a commit, "" where that commit has none of this name, `None` where it cannot be asked."""
    if code is None:
        return None
    try:
        commit = name.partition(":")[0]
        code.run("cat-file", "-e", f"{commit}^{{commit}}", timeout_s=_TIMEOUT_S)
        out, cut = code.run("cat-file", "blob", name, timeout_s=_TIMEOUT_S, max_bytes=_MOST_BYTES, status=(0, 128))
    except (GitError, OSError):
        return None
    if cut or b"\0" in out[:8000]:
        return None
    return out.decode("utf-8", "surrogateescape")


def _applied(base: str, section: str) -> str | None:
    """The content that a section makes of its base; `None` where it does not fit."""
    old = _lines(base)
    new: list[str] = []
    at = 0
    for hunk in re.split(r"^(?=@@ -)", section, flags=re.MULTILINE)[1:]:
        first, _, body = hunk.partition("\n")
        matched = _HUNK.match(first)
        if matched is None:
            return None
        start = int(matched.group(1)) - (matched.group(2) != "0")
        start = max(start, 0)
        new += old[at:start]
        at = start
        for line in body.split("\n"):
            if line[:1] == "+":
                new.append(line[1:])
            elif line[:1] in ("-", " "):
                if at >= len(old) or old[at] != line[1:]:
                    return None
                if line[:1] == " ":
                    new.append(old[at])
                at += 1
    return "\n".join([*new, *old[at:]])
