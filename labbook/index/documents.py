"""Turns a file of `notes/` into a note of the index: kind, title, words and facets to filter by."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from labbook.errors import EntryError
from labbook.frozen import dataclass
from labbook.index.cjk import name_parts
from labbook.index.entry_evidence import evidence_text
from labbook.model.entry import Entry
from labbook.model.run_fields import as_number, field_names, option_values
from labbook.model.verdict import judge_entry
from labbook.store.moments import first_moment
from labbook.store.text.frontmatter import parse

KINDS = {"runs": "run", "experiments": "experiment", "symptoms": "symptom", "reports": "report"}
"""First folder below `notes/` -> kind of note; anything else is a "note"."""

MAX_BYTES = 2 * 1024 * 1024
"""Part of a file that is indexed. Source: chosen by us; an entry stays under 64 KiB."""

_LISTED = {"frameworks": "framework", "symptoms": "symptom", "families": "family", "fingerprints": "fingerprint",
           "tags": "tag", "outputs": "output", "parents": "parent"}  # fmt: skip
_PLURAL = {facet: key for key, facet in _LISTED.items()}
_MOST_FAILURES = 50

_NAME = re.compile(r"\b[A-Z]\w{3,80}\b")


@dataclass(frozen=True)
class Note:
    """A note of the index.

    Args:
        entry: Path, front matter and text.
        kind: "run", "experiment", "symptom", "report" or "note".
        title: Title of the front matter, else the first heading, else the name of the file.
        started: Unix seconds of the start of the run, else of the date in the front matter, else of the file.
        problem: Why the front matter could not be read, with its line; "" when it could.
    """

    entry: Entry
    kind: str
    title: str
    started: float
    problem: str = ""


def content_digest(size: int, content: bytes) -> str:
    """Returns a digest by which the index recognises the content of a file.

    Args:
        size: Size of the whole file in bytes.
        content: The first `MAX_BYTES` of the file.
    """
    return f"{size}:{hashlib.blake2b(content, digest_size=16).hexdigest()}"


def read_note(relative: str, content: bytes, mtime: float) -> Note:
    """Returns the note in a file; with a broken front matter, it has a `problem` and its text is indexed."""
    text = content[:MAX_BYTES].decode("utf-8", "replace").removeprefix("\ufeff")
    problem = ""
    try:
        meta, body = parse(text, relative)
    except EntryError as error:
        meta, body, problem = {}, text, error.message
    entry = Entry(relative, meta, body)
    if note_kind(relative) == "run" and "verdict" not in meta and not problem:
        entry = _add_verdict(entry)
    times = [entry.meta.get(key) for key in ("started", "date", "created")]
    started = first_moment(times, entry.id)
    return Note(entry, note_kind(relative), _title(entry), mtime if started is None else started, problem)


def _add_verdict(entry: Entry) -> Entry:
    """Returns an older entry with its verdict, read from its health table."""
    verdict = judge_entry(entry.meta, entry.body)
    return replace(entry, meta={**entry.meta, "verdict": verdict.name, "verdict_reason": verdict.reason})


def note_kind(relative: str) -> str:
    """Returns the kind of a file of `notes/`, by its folder."""
    parts = relative.split("/")
    return KINDS.get(parts[1], "note") if len(parts) > 2 else "note"


def indexed_text(note: Note) -> tuple[str, str, str, str, str]:
    """Returns the text of the indexed columns: title, tags, text of people, words of identifiers, generated text."""
    meta = note.entry.meta
    own, generated = evidence_text(note.entry.body) if note.kind == "run" else (note.entry.body, "")
    own, generated = (html.unescape(_without_comments(text)) for text in (own, generated))
    listed = ("tags", "symptoms", "families", "frameworks")
    tags = [note.entry.id, *(value for key in listed for value in _as_list(meta.get(key)))]
    tags += [
        str(meta[key])
        for key in ("project", "experiment", "script", "command", "author", "host", "fix_text")
        if meta.get(key)
    ]
    # A number says nothing by itself: numbers are found by `lr<0.02`.
    tags += [value for value in option_values(meta).values() if isinstance(value, str) and as_number(value) is None]
    return note.title, " ".join(tags), own, " ".join(_name_parts(f"{own} {generated}")), generated


def note_facets(note: Note) -> Iterator[tuple[str, str]]:
    """Returns the facets to filter by, as (key, value in lower case)."""
    meta = note.entry.meta
    yield "kind", note.kind
    yield "id", note.entry.id.lower()
    yield "path", note.entry.path.lower()
    if note.kind == "run" and note.entry.script:
        yield "script", note.entry.script.lower()
    for key in ("status", "verdict", "experiment", "project", "author", "host", "mode"):
        if meta.get(key):
            yield key, str(meta[key]).lower()
    for key, facet in _LISTED.items():
        for value in _as_list(meta.get(key)):
            yield facet, value.lower()
            if facet == "framework":
                yield facet, value.lower().partition(" ")[0]
    if note.kind == "symptom":
        yield "symptom", note.entry.id.lower()
    if note.problem:
        yield "has", "problem"
    for key in ("fix", "symptoms", "metrics", "previous", "tags", "artifacts"):
        if meta.get(key):
            yield "has", key.removesuffix("s") if key != "metrics" else key


def stored_names(note: Note) -> list[tuple[str, str]]:
    """Returns what a run can be filtered by, as ("field", "param" or "metric", name)."""
    return [(kind, _storable_text(name)) for kind, name in dict.fromkeys(field_names(note.entry.meta))]


def failure_facets(note: Note) -> Iterator[tuple[str, str]]:
    """Returns the failures of a run as (key, value): "fingerprint", "symptom" and "family"."""
    if note.kind == "run":
        for key in ("fingerprint", "symptom", "family"):
            values = _as_list(note.entry.meta.get(_PLURAL[key]))
            yield from dict.fromkeys((key, _storable_text(value.lower())) for value in values[:_MOST_FAILURES])


def comparison_key(note: Note) -> str:
    """Returns project and script of a run, else its experiment, else ""; runs with the same key are compared."""
    script = note.entry.script or str(note.entry.meta.get("experiment") or "")
    return script_key(str(note.entry.meta.get("project") or ""), script)


def script_key(project: str, script: str) -> str:
    """Returns the key of the runs of a script: those of another project have another one."""
    return _storable_text(f"{project}::{script}" if project and script else script)


def _storable_text(text: str) -> str:
    """Returns text without characters that SQLite cannot store."""
    return text.encode("utf-8", "replace").decode()


def _title(entry: Entry) -> str:
    title = entry.meta.get("title")
    if isinstance(title, str) and title.strip():
        return " ".join(title.split())
    heading = next((line for line in entry.body.splitlines() if line.startswith("# ")), "")
    if heading.strip("# "):
        return " ".join(html.unescape(heading.strip("# ")).split())
    return entry.path.rsplit("/", 1)[-1].removesuffix(".md")


def _as_list(value: Any) -> list[str]:  # noqa: ANN401 - whatever people wrote in a front matter
    if isinstance(value, (list, tuple)):
        return [str(item) for item in value if isinstance(item, (str, int, float))]
    return [str(value)] if isinstance(value, (str, int, float)) and value != "" else []


def _without_comments(text: str) -> str:
    kept: list[str] = []
    for part in text.split("<!--"):
        _, closed, rest = part.partition("-->")
        kept.append(rest if kept and closed else part)
    return " ".join(kept)


def _name_parts(text: str) -> list[str]:
    """Returns `Out Of Memory Error` for `OutOfMemoryError`, so that an error is found by its words."""
    names = dict.fromkeys(_NAME.findall(text))
    parted = (name_parts(name) for name in list(names)[:500])
    return [" ".join(parts) for parts in parted if len(parts) > 1]
