"""Lists the net changes of the code between two runs, committed in between or not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from labbook.capture.code.git_reader import CodeRepository, open_repository
from labbook.errors import GitError
from labbook.model.message import Message, message
from labbook.model.run import Change
from labbook.store.text.sentences import Sentences

_TIMEOUT_S = 5.0
_MAX_SUBJECTS = 10
_MAX_PATHS = 200
_INERT_UNLESS_USED = (
    *(".py", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg"),
    *(".txt", ".md", ".rst", ".csv", ".tsv", ".log", ".ipynb"),
)
"""Ends of names of files that change nothing unless the program loads or reads them."""
_ENGLISH = Sentences("en")
_NO_BRANCH = message("capture.state.no_branch")
_ENTRIES_ONLY = message("capture.history.entries_only")


def compare_code(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    results: Collection[str] = (),
    used: Sequence[Collection[str]] = (),
) -> list[Change]:
    """Returns the changes of commit, branch and files between two runs.

    A change that was uncommitted before and is committed now is no change: contents are compared by git's hashes.

    Args:
        before: Facts of the code at the earlier run; empty if unknown.
        now: Facts of the code at the later run.
        results: Files that the runs wrote, by path below the top folder; new files among them are no code.
        used: The files that each of the runs loaded or read, by path below the top folder; new modules,
            settings and texts that neither did, as the results of another run, are left out where both are known.
    """
    if not before or not now:
        return []
    if not before.get("repository", True) or not now.get("repository", True):
        return _compare_without_repository(before, now)
    old, new = str(before.get("commit") or ""), str(now.get("commit") or "")
    changes = []
    if old != new:
        changed, counts, detail = _compare_commits(now, old, new)
        # In a notebook inside the code's repository, commits of entries alone change no code.
        if detail != _ENTRIES_ONLY:
            changes.append(make_change("commit", old[:9], new[:9], detail=detail))
    else:
        changed, counts = {}, {}
    if before.get("branch") != now.get("branch"):
        changes.append(make_change("branch", *(str(side.get("branch") or "") or _NO_BRANCH for side in (before, now))))
    changes += _compare_files(before, now, changed, counts)
    untracked = _untracked(before, now)
    inert = {path for path in untracked if path.endswith(_INERT_UNLESS_USED)} if used and all(used) else set()
    left_out = (untracked & set(results)) | inert.difference(*used)
    return [change for change in changes if change.what not in left_out]


def _untracked(*sides: Mapping[str, Any]) -> set[str]:
    """Returns the paths of new files, not in git, of any of the runs."""
    return {str(path) for side in sides for path in side.get("untracked") or ()}


def _compare_without_repository(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Returns the changes of code if at least one of the runs has no repository."""
    old, new = _blobs(before), _blobs(now)
    if before.get("repository", True) != now.get("repository", True):
        commits = (
            str(side.get("commit") or "")[:9] or message("capture.state.no_repository") for side in (before, now)
        )
        return [make_change("repository", *commits)]
    there, changed = message("capture.state.there"), message("capture.state.changed")
    added = message("capture.state.new")
    return [
        make_change(path, there if path in old else "", (changed if path in old else added) if path in new else "")
        for path in sorted({*old, *new})
        if old.get(path) != new.get(path)
    ]


def make_change(
    what: Message | str, before: Message | str, now: Message | str, *, kind: str = "code", detail: Message | str = ""
) -> Change:
    """Returns a change whose name, sides and detail are names, values or messages."""
    parts = {"what": what, "before": before, "now": now, "detail": detail}
    messages = {name: part for name, part in parts.items() if isinstance(part, Message)}
    return Change(kind, _ENGLISH(what), _ENGLISH(before), _ENGLISH(now), _ENGLISH(detail), messages)


def _compare_files(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    changed: Mapping[str, tuple[str, str]],
    counts: Mapping[str, Message],
) -> list[Change]:
    old, new = _blobs(before), _blobs(now)
    changes = []
    for path in sorted({*changed, *old, *new}):
        # A file without uncommitted content is as in the commit of its run.
        base_old, base_new = changed.get(path, ("same", "same"))
        content_old, content_new = old.get(path, base_old), new.get(path, base_new)
        if content_old == content_new:
            continue
        if path not in old and path not in new:
            changes.append(make_change(path, "", counts.get(path) or message("capture.state.changed")))
            continue
        states = _state(before, path, now), _state(now, path, before, counts.get(path))
        changes.append(
            make_change(
                path, *(states if states[0] != states[1] else ("", message("capture.state.changed_uncommitted")))
            )
        )
    return changes


def _blobs(facts: Mapping[str, Any]) -> dict[str, str]:
    blobs = facts.get("blobs")
    return {str(k): str(v) for k, v in blobs.items()} if isinstance(blobs, Mapping) else {}


def _state(
    facts: Mapping[str, Any], path: str, other: Mapping[str, Any], committed: Message | None = None
) -> Message | str:
    """Returns the state of a file in one run, with its uncommitted lines; "" if it did not exist."""
    for file in facts.get("files_changed") or ():
        if isinstance(file, Mapping) and file.get("path") == path:
            added, removed = file.get("added"), file.get("removed")
            if file.get("status") == "D":
                return message("capture.state.deleted")
            if isinstance(added, int):
                return message("capture.lines_uncommitted", added=added, removed=removed)
            return message("capture.state.changed_uncommitted")
    if path in (facts.get("untracked") or ()):
        return message("capture.state.new_uncommitted")
    if path in _untracked(other) and not committed and facts.get("commit") == other.get("commit"):
        return ""
    if committed is not None:
        return message("capture.committed", change=committed)
    return message("capture.state.as_committed")


def _compare_commits(
    now: Mapping[str, Any], old: str, new: str
) -> tuple[dict[str, tuple[str, str]], dict[str, Message], Message | str]:
    """Returns files with both hashes, their counts of lines, and a sentence on the history.

    Everything is empty if the repository or one of the commits is not on this machine.
    """
    nothing: tuple[dict[str, tuple[str, str]], dict[str, Message], Message | str] = ({}, {}, "")
    if not old or not new:
        return nothing
    try:
        code = open_repository(Path(str(now.get("top") or "")).expanduser())
        if code is None:
            return nothing
        out, _ = code.run(
            "diff", "--raw", "--numstat", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv",
            "--ignore-submodules=dirty", old, new, "--", timeout_s=_TIMEOUT_S, max_bytes=4 << 20,
        )  # fmt: skip
        changed, counts = _parse_diff(out.decode("utf-8", "surrogateescape"))
        code_only = {path: blobs for path, blobs in changed.items() if not _is_in_notebook(path, now)}
        if changed and not code_only:
            return code_only, counts, _ENTRIES_ONLY
        paths = list(code_only)[:_MAX_PATHS] if len(code_only) < len(changed) else []
        return code_only, counts, _describe_history(code, old, new, paths)
    except (GitError, OSError, IndexError):
        return nothing


def _is_in_notebook(path: str, facts: Mapping[str, Any]) -> bool:
    """Whether the file belongs to a notebook inside the code's repository."""
    return any(path == own or path.startswith(f"{own}/") for own in facts.get("own") or ())


def _parse_diff(text: str) -> tuple[dict[str, tuple[str, str]], dict[str, Message]]:
    changed: dict[str, tuple[str, str]] = {}
    counts: dict[str, Message] = {}
    items = iter(text.split("\0"))
    for item in items:
        if item.startswith(":"):
            old, now = item.split(" ")[2:4]
            # The blob of a file that is not there has only zeros.
            changed[next(items, "")] = (old if old.strip("0") else "", now if now.strip("0") else "")
        elif item.count("\t") >= 2:
            added, removed, path = item.split("\t", 2)
            lines = message("capture.lines", added=added, removed=removed)
            counts[path] = message("capture.state.binary") if added == "-" else lines
    return changed, counts


def _describe_history(code: CodeRepository, old: str, new: str, paths: list[str]) -> Message | str:
    """Returns the number of commits in between, their direction and their subjects."""
    out, _ = code.run(
        "log", "--format=%m%s", "--left-right", "--max-count=200", f"{old}...{new}", "--", *paths,
        timeout_s=_TIMEOUT_S, max_bytes=1 << 20,
    )  # fmt: skip
    lines = out.decode("utf-8", "replace").splitlines()
    ahead = [line[1:] for line in lines if line.startswith(">")]
    behind = len(lines) - len(ahead)
    summary = [message("capture.history.ahead", count=len(ahead))] if ahead else []
    summary += [message("capture.history.behind", count=behind)] if behind else []
    if not ahead:
        return summary[0] if summary else ""
    rows: list[Message | str] = [f"- {subject}" for subject in ahead[:_MAX_SUBJECTS]]
    if len(ahead) > _MAX_SUBJECTS:
        rows.append(message("capture.history.more", count=len(ahead) - _MAX_SUBJECTS))
    return message("capture.history.subjects", summary=summary, subjects=rows)
