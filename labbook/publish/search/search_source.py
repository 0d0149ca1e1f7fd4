"""Reads the search records of a notebook from its notes, with a cache for unchanged entries."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

from labbook.errors import EntryError
from labbook.index.query import list_notes
from labbook.model.entry import Entry
from labbook.publish.pages.build_record import content_key, file_state_or_gone
from labbook.publish.pages.page import SiteSource
from labbook.publish.pages.run_table_data import group_by_month
from labbook.publish.pages.symptom_view import SymptomView
from labbook.publish.search.search_records import SearchRecord, fix_records, note_record, run_record, symptom_records
from labbook.publish.search.search_shards import Shard, pagefind_version, split_into_shards
from labbook.report.run_row import RunRow
from labbook.store.journal import write_atomically
from labbook.store.json_files import read_json_object
from labbook.store.notebook import Notebook
from labbook.store.text import frontmatter

_FORMAT = 5
_OTHER = "other"
_FIELDS = {field.name for field in fields(SearchRecord)}


def notebook_shards(notebook: Notebook, view: SymptomView, cache: Path, *, directory_urls: bool = False) -> list[Shard]:
    """Returns the shards of the search index of a notebook. Entries of unchanged months are not read.

    Args:
        directory_urls: Whether pages are `runs/x/` instead of `runs/x.html`.

    Cost: some seconds for 10,000 entries in the first build, then 0.1 s.
    """
    months = _Months(notebook, view, cache)
    texts: dict[str, str] = {}
    others: list[SearchRecord] = []
    shards: list[Shard] = []
    for month in months.rows:
        if month == _OTHER:
            found = months.records(month)
            others += found.values()
            texts |= {path: record.text for path, record in found.items()}
            continue
        summary = months.summary(month, directory_urls=directory_urls)
        texts |= summary["texts"]
        shards += [
            Shard(month, part, key, count, facets, partial(months.read_shard, month, part))
            for part, key, count, facets in summary["parts"]
        ]
    first = [*_fixed_records(notebook, view, texts), *others]
    return [*shards, *split_into_shards(first, directory_urls=directory_urls)]


def _fixed_records(notebook: Notebook, view: SymptomView, texts: Mapping[str, str]) -> Iterator[SearchRecord]:
    """Returns the records that are not runs."""
    yield from fix_records(view, {fix.run: texts[fix.run] for fix in view.source.fixes if fix.run in texts})
    yield from symptom_records(view)
    yield from _note_records(notebook, view)


class _Months:
    """The runs of a notebook by month: records and shards, with a cache."""

    def __init__(self, notebook: Notebook, view: SymptomView, cache: Path) -> None:
        self._root = notebook.paths.root
        self._view = view
        self._cache = cache
        self._made: dict[str, dict[str, SearchRecord]] = {}
        self._shards: dict[str, list[Shard]] = {}
        self._fixed = {fix.run for fix in view.source.fixes}
        self.rows = group_by_month(view.source.rows)

    def records(self, month: str) -> dict[str, SearchRecord]:
        """Returns path of an entry -> its record; unreadable entries are left out."""
        if month not in self._made:
            kept = _CachedRecords(self._cache / f"records-{month}.json", self._view)
            found = {row.path: kept.run(self._root / row.path, row) for row in self.rows[month]}
            kept.write()
            self._made[month] = {path: record for path, record in found.items() if record is not None}
        return self._made[month]

    def read_shard(self, month: str, part: int) -> Sequence[SearchRecord]:
        """Returns the records of one shard."""
        shards = self._shards.get(month) or split_into_shards(list(self.records(month).values()))
        return next(shard.records() for shard in shards if (shard.month, shard.part) == (month, part))

    def summary(self, month: str, *, directory_urls: bool) -> Any:  # noqa: ANN401 - plain data
        """Returns `parts`: number, key, size, facets of each shard; `texts`: words of failed runs for their fixes."""

        def encode_summary() -> bytes:
            records = self.records(month)
            shards = split_into_shards(list(records.values()), directory_urls=directory_urls)
            self._shards[month] = shards
            parts = [[shard.part, shard.key, shard.count, shard.facets] for shard in shards if shard.month]
            texts = {path: record.text for path, record in records.items() if path in self._fixed}
            return json.dumps({"parts": parts, "texts": texts}).encode()

        rows = self.rows[month]
        now_ns = time.time_ns()
        states = [file_state_or_gone(f"{self._root}/{row.path}", now_ns) for row in rows]
        keys = self._view.source.months.get(month)
        if keys is None or not all(states):
            # A file that may change again with the same time stamp is not cached.
            return json.loads(encode_summary())
        fixed = [row.path for row in rows if row.path in self._fixed]
        with_these = [_cache_key(self._view.source.symptoms), pagefind_version(), directory_urls]
        return json.loads(
            self._view.source.cache.get_or_make(
                f"search-{month}", content_key(with_these, keys.rows, states, fixed), encode_summary
            )
        )


def _note_records(notebook: Notebook, view: SymptomView) -> Iterator[SearchRecord]:
    """Returns the records of notes of people."""
    source = view.source
    for kind, entries in (("experiment", source.experiments), ("report", source.reports)):
        for entry in entries:
            title = str(entry.meta.get("title") or entry.id)
            yield note_record(entry.path.removeprefix("notes/"), title, entry.body, kind)
    for entry in list_notes(notebook, kind="note").entries:
        path = entry.path.removeprefix("notes/")
        if path == "index.md" or any(part.startswith(".") for part in path.split("/")):
            continue
        body = _entry(notebook.paths.root / entry.path, entry.path)
        if body is not None:
            heading = next((line.strip("# ") for line in body.body.splitlines() if line.startswith("# ")), "")
            yield note_record(path, str(entry.meta.get("title") or heading or entry.id), body.body)


def _entry(path: Path, relative: str, source: SiteSource | None = None) -> Entry | None:
    """Returns the entry in a file; `None` if it is missing or its front matter is broken."""
    try:
        content = path.read_bytes()
        text = content.decode("utf-8", "replace").removeprefix("\ufeff")
        meta, body = frontmatter.parse(
            text, relative, source.front_of(relative, content) if source is not None else None
        )
    except (OSError, EntryError):
        return None
    return Entry(relative, meta, body)


class _CachedRecords:
    """Cached records of entries by path, with the state of their files."""

    def __init__(self, path: Path, view: SymptomView) -> None:
        self._path = path
        self._source = view.source
        self._symptoms = view.source.symptoms
        self._made_with = _cache_key(self._symptoms)
        self._known: dict[str, Any] = {}
        self._now: dict[str, Any] = {}
        self._now_ns = time.time_ns()
        read = read_json_object(path)
        if read.get("made_with") == self._made_with:
            self._known = read.get("records") or {}

    def run(self, path: Path, row: RunRow) -> SearchRecord | None:
        """Returns the record of a run; `None` without its entry."""
        mark = file_state_or_gone(str(path), self._now_ns)
        known = self._known.get(row.path)
        if known is not None and mark and known[0] == mark and dict(known[1]).keys() == _FIELDS:
            self._now[row.path] = known
            record = SearchRecord.__new__(SearchRecord)
            # Five times as fast as the constructor of a frozen class; a month has thousands.
            record.__dict__.update(known[1])
            return record
        entry = _entry(path, row.path, self._source)
        if entry is None:
            return None
        record = run_record(entry, row, self._symptoms)
        self._now[row.path] = [mark, asdict(record)]
        return record

    def write(self) -> None:
        """Writes the records for the next build; a read-only folder only costs time."""
        if self._now == self._known:
            return
        text = json.dumps({"made_with": self._made_with, "records": self._now}, ensure_ascii=False)
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, text.encode("utf-8", "replace"), durable=False)


def _cache_key(symptoms: Mapping[str, Any]) -> str:
    """Returns what records depend on besides their entry: the format and the names of symptoms."""
    titles = [
        [name, *(wording.title for wording in known.wording.values())] for name, known in sorted(symptoms.items())
    ]
    return hashlib.sha256(json.dumps([_FORMAT, titles]).encode()).hexdigest()
