"""The records of a notebook's search, read from its notes; those of entries that did not change are kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labbook.index.query import listed
from labbook.model.entry import Entry
from labbook.publish.search_records import SearchRecord, fix_records, note_record, run_record, symptom_records
from labbook.publish.symptom_view import SymptomView
from labbook.report.run_row import RunRow
from labbook.store import frontmatter
from labbook.store.notebook import Notebook

_FORMAT = 2
_KEPT = "search-records.json"


def notebook_records(notebook: Notebook, view: SymptomView, cache: Path) -> list[SearchRecord]:
    """Everything that the search of a notebook's site finds.

    Args:
        notebook: Whose notes are read.
        view: The same notebook by symptom.
        cache: Folder in which records of entries are kept from one build to the next.

    Cost: 10,000 entries: some seconds at first; then a look at each file, half a second.
    """
    kept = _Kept(cache / _KEPT, view)
    runs = {}
    for row in view.source.rows:
        record = kept.run(notebook.paths.root / row.path, row)
        if record is not None:
            runs[row.path] = record
    kept.write()
    texts = {fix.run: runs[fix.run].text for fix in view.source.fixes if fix.run in runs}
    return [*fix_records(view, texts), *symptom_records(view), *_written(notebook, view), *runs.values()]


def _written(notebook: Notebook, view: SymptomView) -> Iterator[SearchRecord]:
    """Records of what people wrote."""
    source = view.source
    for kind, entries in (("experiment", source.experiments), ("report", source.reports)):
        for entry in entries:
            title = str(entry.meta.get("title") or entry.id)
            yield note_record(entry.path.removeprefix("notes/"), title, entry.body, kind)
    for entry in listed(notebook, kind="note").entries:
        path = entry.path.removeprefix("notes/")
        if path == "index.md" or any(part.startswith(".") for part in path.split("/")):
            continue
        body = _entry(notebook.paths.root / entry.path, entry.path)
        if body is not None:
            heading = next((line.strip("# ") for line in body.body.splitlines() if line.startswith("# ")), "")
            yield note_record(path, str(entry.meta.get("title") or heading or entry.id), body.body)


def _entry(path: Path, relative: str) -> Entry | None:
    """The entry in a file; `None` when it is gone, or its front matter cannot be read."""
    from labbook.errors import EntryError

    try:
        text = path.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff")
        meta, body = frontmatter.parse(text, relative)
    except (OSError, EntryError):
        return None
    return Entry(relative, meta, body)


class _Kept:
    """Records of entries, by path, with the size and time that their files had."""

    def __init__(self, path: Path, view: SymptomView) -> None:
        self._path = path
        self._symptoms = view.source.symptoms
        self._made_with = _made_with(self._symptoms)
        self._known: dict[str, Any] = {}
        self._now: dict[str, Any] = {}
        try:
            read = json.loads(path.read_bytes())
            if read["made_with"] == self._made_with:
                self._known = read["records"]
        except (OSError, ValueError, KeyError, TypeError):
            pass

    def run(self, path: Path, row: RunRow) -> SearchRecord | None:
        """The record of a run; `None` when its entry is gone."""
        try:
            seen = path.stat()
        except OSError:
            return None
        mark = [seen.st_mtime_ns, seen.st_size]
        held = self._known.get(row.path)
        if held is not None and held[0] == mark:
            self._now[row.path] = held
            return SearchRecord(**held[1])
        entry = _entry(path, row.path)
        if entry is None:
            return None
        record = run_record(entry, row, self._symptoms)
        self._now[row.path] = [mark, asdict(record)]
        return record

    def write(self) -> None:
        """Keeps the records for the next build; a folder that cannot be written costs time only."""
        if self._now == self._known:
            return
        told = json.dumps({"made_with": self._made_with, "records": self._now}, ensure_ascii=False)
        part = self._path.with_suffix(".part")
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(told.encode("utf-8", "replace"))
            part.replace(self._path)
        except OSError:
            part.unlink(missing_ok=True)


def _made_with(symptoms: Mapping[str, Any]) -> str:
    """What records depend on besides their entry: this code's format, and the names of symptoms."""
    titles = [[name, *(said.title for said in known.wording.values())] for name, known in sorted(symptoms.items())]
    return hashlib.sha256(json.dumps([_FORMAT, titles]).encode()).hexdigest()
