"""Merges two versions of a Markdown note: front matter by key, generated blocks whole, people's text by line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from labbook.errors import EntryError
from labbook.frozen import dataclass
from labbook.sharing.line_merge import ConflictMarks, merge_lines
from labbook.store.text import frontmatter
from labbook.store.text.entry_text import common_line_end, split_parts
from labbook.store.text.sentences import Sentences

_TOKEN = "\0block:"  # a line in place of a generated block while lines are merged
_UNFINISHED = "running"
_EARLIEST = ("created",)
_OF_PEOPLE = ("name", "fix", "fix_text", "experiment", "metric", "direction")
"""Keys of an entry that people set; all others are computed: of two values one is chosen, the other is not kept."""
_FIX = ("fix", "fix_text")
"""What fixed a run, and the sentence on it: both from the same person, as is the generated block `fix`."""


@dataclass(frozen=True)
class MergedNote:
    """A merged note, and whether two versions of the same lines or of one key stay in it."""

    text: str
    conflict: bool = False


@dataclass(frozen=True)
class _Note:
    """A note in parts: front matter as text and as data, and its body."""

    head: str
    meta: Mapping[str, Any]
    body: str


def conflict_marks() -> ConflictMarks:
    """Return the heading above two versions; in both languages, so that every clone writes the same bytes."""
    heading, second, end = (
        " / ".join(Sentences(language).line(key) for language in ("en", "zh"))
        for key in ("sync.note.heading", "sync.note.second", "sync.note.end")
    )
    return ConflictMarks(("", f"### {heading}", ""), ("", f"**{second}**", ""), ("", f"*{end}*", ""))


def merge_notes(base: str | None, one: str, other: str) -> MergedNote:
    """Return the merge of two versions of a note; exchanging the versions gives the same text.

    Args:
        base: The common ancestor, or `None`.
    """
    if one == other or other == base:
        return MergedNote(one)
    if one == base:
        return MergedNote(other)
    newline = _newline(base, one, other)
    first, second = sorted((_unix(one), _unix(other)))
    common = None if base is None else _unix(base)
    try:
        merged = _merge_parts(None if common is None else _read(common), _read(first), _read(second))
    except EntryError:
        # An unreadable front matter is text.
        lines = merge_lines(
            None if common is None else common.split("\n"), first.split("\n"), second.split("\n"), conflict_marks()
        )
        merged = MergedNote("\n".join(lines.lines), lines.conflicts > 0)
    return MergedNote(merged.text.replace("\n", newline), merged.conflict)


def completeness(text: str) -> tuple[bool, bool, int, str]:
    """Return a rank of a version of an entry: the greatest is the most complete, the same on all machines."""
    try:
        meta = frontmatter.parse(text, "")[0]
    except EntryError:
        meta = {}
    return str(meta.get("status")) != _UNFINISHED, bool(meta.get("fix")), len(text), text


def merge_meta(
    base: Mapping[str, Any], first: Mapping[str, Any], second: Mapping[str, Any]
) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Return front matter merged by key, and (key, value) of each value of people that another replaced.

    Lists are sets: what one side added is added, what one side removed is removed.

    Args:
        first: One version; its order of keys is used.
        second: The other version.
    """
    merged: dict[str, Any] = {}
    replaced = []
    fix = _choose_fix(*(_fix_of(meta) for meta in (base, first, second)))
    for key in dict.fromkeys([*first, *second]):
        old, one, other = base.get(key), first.get(key), second.get(key)
        if (key in base and one == old and key not in second) or (key in base and other == old and key not in first):
            continue
        value = fix[_FIX.index(key)] if fix and key in _FIX else _merge_value(key, old, one, other)
        merged[key] = value
        both_changed = one != other and old not in (one, other)
        of_people = key in _OF_PEOPLE if "status" in first else key not in _EARLIEST
        if both_changed and of_people and key in first and key in second:
            lost = other if value == one else one
            if not isinstance(value, (list, dict)) and lost not in (None, "", value):
                replaced.append((key, lost))
    return merged, replaced


def _fix_of(meta: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(meta.get(key) for key in _FIX)


def _choose_fix(base: tuple[Any, ...], one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return one of two different fixes, rather one by another run; `None` where only one side has changed it."""
    if one == other or base in (one, other) or not (one[0] and other[0]):
        return None
    return max((one, other), key=lambda fix: (fix[0] != base[0], *map(str, fix)))


def _merge_value(key: str, old: Any, one: Any, other: Any) -> Any:  # noqa: ANN401 - any YAML value
    if one == other or other == old:
        return one
    if one == old:
        return other
    if isinstance(one, list) and isinstance(other, list):
        before = old if isinstance(old, list) else []
        both = [*one, *(item for item in other if item not in one)]
        return [item for item in both if item not in before or (item in one and item in other)]
    if isinstance(one, dict) and isinstance(other, dict):
        return merge_meta(old if isinstance(old, dict) else {}, one, other)[0]
    if one in (None, "", _UNFINISHED) or other in (None, "", _UNFINISHED):
        return other if one in (None, "", _UNFINISHED) else one
    return (min if key in _EARLIEST else max)((one, other), key=lambda value: (str(type(value)), str(value)))


def _read(text: str) -> _Note:
    meta, body = frontmatter.parse(text, "note")
    return _Note(text[: len(text) - len(body)], meta, body)


def _merge_parts(base: _Note | None, first: _Note, second: _Note) -> MergedNote:
    meta, replaced = merge_meta(base.meta if base else {}, first.meta, second.meta)
    head = _merge_head(base, first, second, meta)
    blocks = _merge_blocks(base, first, second, _fix_of(meta))
    marks = conflict_marks()
    merged = merge_lines(
        _replace_blocks(base) if base else None, _replace_blocks(first), _replace_blocks(second), marks
    )
    body = _expand_blocks(merged.lines, blocks)
    lines = [f"- `{key}`: {value}" for key, value in replaced]
    missing = [line for line in lines if line not in body.split("\n")]
    if missing:
        body = "\n".join([body.rstrip("\n"), *marks.before, *missing, ""])
    return MergedNote(head + body, merged.conflicts > 0 or bool(missing))


def _merge_head(base: _Note | None, first: _Note, second: _Note, meta: Mapping[str, Any]) -> str:
    """Return the front matter as text: merged by line where that gives `meta`, else that of one side with changes."""
    merged = merge_lines(
        base.head.split("\n") if base else None, first.head.split("\n"), second.head.split("\n"), conflict_marks()
    )
    text = "\n".join(merged.lines)
    if not merged.conflicts and len(re.findall(r"^(?:---|\.\.\.)[ \t]*$", text, re.MULTILINE)) == 2:
        try:
            if frontmatter.parse(text, "note") == (dict(meta), "") and _has_each_key_once(text, meta):
                return text
        except EntryError:
            pass
    if not meta:
        return ""
    comments = [
        line
        for line in dict.fromkeys([*first.head.split("\n"), *second.head.split("\n")])
        if line.lstrip().startswith("#")
    ]
    start = first if len(first.meta) >= len(second.meta) else second
    text = frontmatter.emit(meta) if set(start.meta) - set(meta) else frontmatter.update(start.head, meta, "note")
    missing = [line for line in comments if line not in text.split("\n")]
    if not missing:
        return text
    lines = text.rstrip("\n").split("\n")
    return "\n".join([*lines[:-1], *missing, lines[-1], ""])


def _has_each_key_once(text: str, meta: Mapping[str, Any]) -> bool:
    return all(len(re.findall(rf"^{re.escape(str(key))}[ \t]*:", text, re.MULTILINE)) <= 1 for key in meta)


def _replace_blocks(note: _Note) -> Sequence[str]:
    """Return the lines of a body, each generated block as one line."""
    parts = split_parts(note.body)
    return "".join(f"{_TOKEN}{part.name}\n" if part.name else part.text for part in parts).split("\n")


def _blocks(note: _Note | None) -> dict[str, str]:
    parts = split_parts(note.body) if note else []
    return {part.name: part.text if part.text.endswith("\n") else f"{part.text}\n" for part in parts if part.name}


def _merge_blocks(base: _Note | None, first: _Note, second: _Note, fix: tuple[Any, ...]) -> dict[str, str]:
    """Return the generated blocks of both; one that both sides generated again is that of the more complete version.

    That of the fix is from the side whose fix was chosen.

    In a page that is no entry, such blocks are lists and tables (the fixes of a symptom): both sides' lines stay.
    """
    old, one, other = _blocks(base), _blocks(first), _blocks(second)
    is_entry = "id" in first.meta and "status" in first.meta
    preferred = max((first, second), key=lambda note: completeness(note.head + note.body))
    merged = {}
    for name in [*one, *(name for name in other if name not in one)]:
        left, right = one.get(name), other.get(name)
        if left is None or right is None or left == right:
            merged[name] = left or right or ""
        elif old.get(name) in (left, right):
            merged[name] = right if old.get(name) == left else left
        elif is_entry:
            by_fix = {_fix_of(note.meta): note for note in (first, second)} if name == _FIX[0] else {}
            merged[name] = left if by_fix.get(fix, preferred) is first else right
        else:
            common = old[name].split("\n") if name in old else None
            merged[name] = "\n".join(merge_lines(common, left.split("\n"), right.split("\n"), None).lines)
    return merged


def _expand_blocks(lines: Sequence[str], blocks: Mapping[str, str]) -> str:
    """Return the body with each block in place of the first line with its token."""
    out: list[str] = []
    seen: set[str] = set()
    for line in lines:
        if not line.startswith(_TOKEN):
            out.append(line)
            continue
        name = line.removeprefix(_TOKEN)
        if name not in seen:
            seen.add(name)
            out += blocks[name].removesuffix("\n").split("\n")
    return "\n".join(out)


def _newline(base: str | None, one: str, other: str) -> str:
    """Return the line end of the merge: the one that a version changed to, else the common one."""
    styles = common_line_end(one), common_line_end(other)
    if base is None or styles[0] == styles[1]:
        return min(styles, key=len)
    return styles[1] if styles[0] == common_line_end(base) else styles[0]


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")
