"""The differences of two runs that can be made one by one: options, environment variables, and hunks of code."""

from __future__ import annotations

import ast
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from labbook.compare.run_settings import environment_variables
from labbook.errors import GitError, UsageError
from labbook.frozen import dataclass
from labbook.model.run_fields import field_key
from labbook.store.git.git_process import GitFolders, discover, run_git

_GIT_S = 300.0
_MOST_LINES = 8
"""Most lines of a hunk that are tried one by one. Source: chosen by us; they take at most four runs."""

_NUMBER = re.compile(r"-?(\d|\.\d)")
_KEY_VALUE = re.compile(r"\+{0,2}([A-Za-z_][\w./-]*)=")
_HUNK = re.compile(r"^@@ -(?P<old>\d+)(?:,(?P<old_lines>\d+))? \+(?P<new>\d+)(?:,(?P<new_lines>\d+))? @@", re.MULTILINE)
_DEFINED = re.compile(
    r"^\s*(?:(?:async\s+)?def|class)\s+(\w+)|^\s*((?:(?:self\.)?\w+\s*,\s*)*(?:self\.)?\w+)\s*(?::[^=]+)?=[^=]"
    r"|\bimport\s+(?:\w+\s+as\s+)?(\w+)"
)
"""A function or class, variables that are assigned, or an imported name."""

_SIGNATURE = re.compile(r"^\s*(?:async\s+)?def\s+(\w+)\s*(\(.*)")
_PARAMETER = re.compile(r"[(,]\s*\*{0,2}(\w+)")

_WORD = re.compile(r"(?:\bself\.)?[A-Za-z_]\w*")


@dataclass(frozen=True)
class Difference:
    """One difference that can be made alone.

    Args:
        kind: "argument", "environment" or "code".
        name: "--lr", "OMP_NUM_THREADS" or "model.py:12".
        before: In the good run, "" if absent.
        now: In the bad run, "" if absent.
        patch: Of code: head of the file and the hunk.
    """

    kind: str
    name: str
    before: str = ""
    now: str = ""
    patch: tuple[str, str] = ("", "")


def setting_differences(good: Mapping[str, Any], bad: Mapping[str, Any]) -> list[Difference]:
    """Returns the differences of two runs in options and environment variables."""
    one, other = (dict(_options(run.get("argv") or ())) for run in (good, bad))
    found = [
        Difference("argument", name, " ".join(one.get(name, ())), " ".join(other.get(name, ())))
        for name in dict.fromkeys((*one, *other))
        if name and one.get(name) != other.get(name)
    ]
    mine, theirs = (environment_variables(run) or {} for run in (good, bad))
    variables = [
        Difference("environment", name, str(mine.get(name, "")), str(theirs.get(name, "")))
        for name in dict.fromkeys((*mine, *theirs))
        if mine.get(name) != theirs.get(name) and isinstance(theirs.get(name, ""), str)
    ]
    return [*found, *variables]


def command_with(good: Sequence[str], bad: Sequence[str], chosen: Sequence[Difference]) -> list[str]:
    """Returns the command of the good run with some options of the bad one."""
    one, other = dict(_options(good)), dict(_options(bad))
    names = {difference.name for difference in chosen if difference.kind == "argument"}
    words: list[str] = []
    for name in dict.fromkeys((*one, *other)):
        words += (other if name in names else one).get(name, ())
    return words


def _options(argv: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields name of an option -> its words; "" for the words before the first one."""
    groups: list[tuple[str, list[str]]] = [("", [])]
    for word in map(str, argv):
        pair = _KEY_VALUE.match(word)
        if word.startswith("-") and len(word) > 1 and not _NUMBER.match(word):
            groups.append((field_key(word.partition("=")[0]), [word]))
        elif pair and "/" not in word.partition("=")[0]:
            groups.append((pair[1], [word]))
        else:
            groups[-1][1].append(word)
    joined: dict[str, tuple[str, ...]] = {}
    for name, words in groups:
        joined[name] = joined.get(name, ()) + tuple(words)
    yield from joined.items()


def code_differences(good: Path, bad: Path) -> list[Difference]:
    """Returns the hunks that make the code of one folder that of another one.

    Args:
        good: Worktree with the code of the good run.
        bad: Worktree of the same repository with the code of the bad run.

    Raises:
        UsageError: The folders cannot be compared.
    """
    trees = [_tree(folder) for folder in (good, bad)]
    folders = _repository(good)
    options = ("--unified=0", "--no-color", "--no-ext-diff", "--no-renames", "--full-index", "--binary")
    done = run_git(folders, "diff", *options, *trees, timeout_s=_GIT_S)
    if done.code:
        raise UsageError("errors.rerun.two_repositories")
    found = []
    for section in re.split(r"(?m)^(?=diff --git )", done.out.decode("utf-8", "surrogateescape")):
        if not section.strip():
            continue
        path = re.search(r"(?m)^\+\+\+ b/(.*)$|^--- a/(.*)$|^diff --git a/\S+ b/(\S+)$", section)
        name = next((part for part in path.groups() if part), "?") if path else "?"
        starts = [match.start() for match in _HUNK.finditer(section)]
        if not starts or re.search(r"(?m)^(new|deleted) file mode|^GIT binary patch", section):
            found.append(Difference("code", name, patch=(section, "")))
            continue
        head = section[: starts[0]]
        for begin, end in zip(starts, [*starts[1:], len(section)], strict=True):
            hunk = section[begin:end]
            line = _HUNK.match(hunk)
            removed, added = _lines(hunk, "-"), _lines(hunk, "+")
            place = f"{name}:{line['new'] if line else '?'}"
            found.append(Difference("code", place, removed, added, (head, hunk)))
    return found


def split_lines(hunk: Difference, good: str) -> list[Difference]:
    """Returns the changed lines of a hunk as differences of their own; empty if they cannot be made one by one.

    The first removed line is replaced by the first added one, and so on; the rest is removed or added. Each alone must
    leave a Python file that compiles.

    Args:
        hunk: A difference of code.
        good: The file in the code of the good run.
    """
    head, text = hunk.patch
    match = _HUNK.match(text)
    removed, added = _signed_lines(text, "-"), _signed_lines(text, "+")
    count = max(len(removed), len(added))
    if match is None or not 1 < count <= _MOST_LINES or re.search(r"(?m)^\\", text):
        return []
    name, lines = hunk.name.rpartition(":")[0], good.splitlines()
    first = int(match["old"]) - bool(removed)
    found = []
    for place in range(count):
        old, new = removed[place : place + 1], added[place : place + 1]
        at = first + min(place, len(removed))
        if name.endswith(".py") and not _compiles("\n".join([*lines[:at], *new, *lines[at + len(old) :]])):
            return []
        if old != new:
            line = int(match["new"]) + min(place, max(0, len(added) - 1))
            patch = f"@@ -{at + len(old)},{len(old)} +{line},{len(new)} @@\n"
            patch += "".join([*(f"-{one}\n" for one in old), *(f"+{one}\n" for one in new)])
            before, now = ("".join(side).strip()[:120] for side in (old, new))
            found.append(Difference("code", f"{name}:{line}", before, now, (head, patch)))
    return found if len(found) > 1 else []


def _compiles(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def apply_code(folder: Path, chosen: Sequence[Difference]) -> None:
    """Applies hunks to the worktree with the code of the good run.

    Raises:
        UsageError: They do not apply.
    """
    heads: dict[str, list[str]] = {}
    for difference in chosen:
        if difference.kind == "code":
            heads.setdefault(difference.patch[0], []).append(difference.patch[1])
    if not heads:
        return
    patch = "".join(head + "".join(_renumbered(hunks)) for head, hunks in heads.items())
    options = ("--unidiff-zero", "--recount", "--whitespace=nowarn", "-")
    done = run_git(
        _repository(folder), "apply", *options, stdin=patch.encode("utf-8", "surrogateescape"), timeout_s=_GIT_S
    )
    if done.code:
        raise UsageError("errors.rerun.change_fails", reason=done.error[:200])


def _renumbered(hunks: Sequence[str]) -> Iterator[str]:
    """Yields hunks of one file with the lines that they have if only these are applied.

    git finds the place of a hunk without context by its line in the new file, which has all hunks.
    """
    shift = 0
    for hunk in sorted(hunks, key=lambda text: int(match["old"]) if (match := _HUNK.match(text)) else 0):
        match = _HUNK.match(hunk)
        if match is None:
            yield hunk
            continue
        old, old_lines, new_lines = (
            int(match["old"]),
            int(match["old_lines"] or 1),
            int(match["new_lines"] or 1),
        )
        # An empty side is counted from the line before it.
        new = old + shift + (not old_lines) - (not new_lines)
        shift += new_lines - old_lines
        yield f"@@ -{old},{old_lines} +{new},{new_lines} @@{hunk[match.end() :]}"


def required_hunks(differences: Sequence[Difference]) -> dict[Difference, set[Difference]]:
    """Returns hunk -> hunks that it does not run without.

    A hunk that adds the use of a new name requires the one that adds its definition; a hunk that removes a definition
    requires those that remove its uses.
    """
    hunks = [one for one in differences if one.kind == "code" and one.patch[1]]
    lines = {one: (_signed_lines(one.patch[1], "-"), _signed_lines(one.patch[1], "+")) for one in hunks}
    required: dict[Difference, set[Difference]] = {}
    for one in hunks:
        for side, other_side in ((1, 0), (0, 1)):
            defined = _defined(lines[one][side]) | _parameters(lines[one][side], lines[one][other_side])
            defined -= _words(lines[one][other_side])
            for other in hunks:
                words = _words(lines[other][side])
                # A name that the hunk itself defines on the other side needs no other definition there.
                kept = _words(lines[other][other_side]) - _defined(lines[other][other_side])
                if other is not one and defined & (words - kept):
                    user, definition = (other, one) if side else (one, other)
                    required.setdefault(user, set()).add(definition)
    return required


def _defined(lines: Sequence[str]) -> set[str]:
    """Returns the names that lines of code define: functions, classes, variables, imports."""
    found = (match for text in lines if (match := _DEFINED.match(text)))
    return {name for match in found for name in _WORD.findall(next(filter(None, match.groups())))}


def _words(lines: Sequence[str]) -> set[str]:
    """Returns the names in lines of code; that of an attribute or method of `self` with it and alone."""
    found = set(_WORD.findall(" ".join(lines)))
    return found | {name.removeprefix("self.") for name in found}


def _parameters(lines: Sequence[str], other: Sequence[str]) -> set[str]:
    """Returns the parameters of the functions of lines that other lines have, too, with another signature."""
    found = [[match for text in side if (match := _SIGNATURE.match(text))] for side in (lines, other)]
    changed = [match for match in found[0] if match[1] in {known[1] for known in found[1]}]
    return {name for match in changed for name in _PARAMETER.findall(match[2])}


def _signed_lines(hunk: str, sign: str) -> list[str]:
    return [line[1:] for line in hunk.splitlines()[1:] if line.startswith(sign)]


def _lines(hunk: str, sign: str) -> str:
    return "; ".join(line.strip() for line in _signed_lines(hunk, sign))[:120]


def _repository(folder: Path) -> GitFolders:
    folders = discover(folder)
    if folders is None:
        raise UsageError("errors.rerun.no_repository", folder=folder)
    return folders


def _tree(folder: Path) -> str:
    """Returns git's tree of all files of a worktree that are not ignored, without touching its index."""
    folders = _repository(folder)
    with tempfile.TemporaryDirectory(prefix="labbook-index-") as place:
        index = {"GIT_INDEX_FILE": os.path.join(place, "index")}  # noqa: PTH118 - a string for git
        for arguments in (("read-tree", "HEAD"), ("add", "--all", ".")):
            done = run_git(folders, *arguments, environment=index, timeout_s=_GIT_S)
            if done.code and arguments[0] == "add":
                raise GitError("errors.git.not_read", folder=folder, reason=done.error[:200])
        return run_git(folders, "write-tree", environment=index, timeout_s=_GIT_S).out.decode().strip()
