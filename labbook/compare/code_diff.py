"""Shows the changes of the code between two runs as a short unified diff.

Each file is rebuilt as it was in each run: the content of its commit with the uncommitted changes of the run's
`changes.patch`. Without the repository, only files in the patches are compared.
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
from labbook.diagnosis.text.ipynb import read_cells
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


def diff_code(
    before: Mapping[str, Any], before_folder: Path, now: Mapping[str, Any], now_folder: Path, paths: Sequence[str]
) -> dict[str, str]:
    """Returns the changes of some files between two runs, by path; unknown ones are left out.

    "" is the change of a notebook of which only the outputs differ.

    Args:
        before: Facts of the code at the earlier run.
        before_folder: Attachments of its entry.
        now: Facts of the code at the later run.
        now_folder: Attachments of its entry.
        paths: Paths of files below the top folder of the code; only the first eight are compared.
    """
    sides = [_Side(before, _sections(before_folder)), _Side(now, _sections(now_folder))]
    code = _repository(now) or _repository(before)
    diffs = {}
    for path in paths[:_MOST_FILES]:
        contents = [_content(side, path, code) for side in sides]
        if contents[0] is None or contents[1] is None:
            continue
        old, new = (written_code(path, content or "") for content in contents)
        lines = difflib.unified_diff(
            _lines(old), _lines(new), f"a/{path}" if old else "/dev/null", f"b/{path}", lineterm="", n=2
        )
        diff = "\n".join(line[:_MOST_LINE] for line in itertools.islice(lines, _MOST_LINES))
        if diff or (path.endswith(".ipynb") and contents[0] != contents[1]):
            diffs[path] = diff
    return diffs


def read_code(facts: Mapping[str, Any], folder: Path, files: Sequence[str]) -> dict[str, str]:
    """Returns the text of Python files as they were in a run, by their path below the top folder of the code.

    Args:
        facts: Facts of the code at the run.
        folder: Attachments of its entry.
        files: Paths of files, absolute or below the top folder; those elsewhere are left out.
    """
    side, code = _Side(facts, _sections(folder)), _repository(facts)
    top = str(facts.get("top") or "").rstrip("/\\").replace("\\", "/") + "/"
    paths = [name.replace("\\", "/").removeprefix(top) for name in files if name.endswith(".py")]
    texts = {path: _content(side, path, code) for path in paths if not path.startswith(("/", "~"))}
    return {path: text for path, text in texts.items() if text}


def written_code(path: str, content: str) -> str:
    """Returns the code of a file as its author wrote it: of a Jupyter notebook, that of its cells."""
    if not path.endswith(".ipynb"):
        return content
    cells = read_cells(content.encode("utf-8", "surrogateescape"))
    return "\n\n".join(cell.source.strip("\n") for cell in cells)


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
    """Returns the sections of an entry's patch, by path."""
    try:
        patch = (folder / PATCH_FILE).read_bytes()
    except OSError:
        return {}
    if not patch.startswith(b"diff --git "):
        return {}
    sections = {}
    for section in split_sections(patch):
        text = section.decode("utf-8", "surrogateescape")
        name = re.search(r'^\+\+\+ "?b/(.+?)"?\t?$', text, re.MULTILINE)
        name = name or re.search(r'^--- "?a/(.+?)"?\t?$', text, re.MULTILINE)
        name = name or re.match(r"diff --git a/(.+) b/\1$", text, re.MULTILINE)
        if name is not None:
            sections[name.group(1)] = text
    return sections


def _content(side: _Side, path: str, code: CodeRepository | None) -> str | None:
    """Returns the content of a file in a run, "" if it did not exist, `None` if unknown."""
    section = side.sections.get(path)
    commit = str(side.facts.get("commit") or "")
    if section is None:
        # A changed file without a section was left out of the patch.
        if any(path in (side.facts.get(key) or ()) for key in ("blobs", "too_large", "withheld", "binaries")):
            return None
        return _read_committed(code, f"{commit}:{path}") if side.facts.get("repository", True) and commit else ""
    if "\n+++ /dev/null" in section:
        return ""
    base: str | None = ""
    if "\nnew file mode " not in section:
        renamed = re.search(r"^rename from (.+)$", section, re.MULTILINE)
        base = _read_committed(code, f"{commit}:{renamed.group(1) if renamed else path}")
    return _apply_section(base, section) if base is not None else None


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _read_committed(code: CodeRepository | None, name: str) -> str | None:
    """Returns a file in a commit, "" if the commit has no such file, `None` if it cannot be read."""
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


def _apply_section(base: str, section: str) -> str | None:
    """Returns the base with a section of a patch applied; `None` if it does not apply."""
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
