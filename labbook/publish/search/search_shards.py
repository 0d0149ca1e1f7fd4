"""Builds the search index of a site with Pagefind, in shards that are rebuilt only after changes.

The first shard, in `search/`, has fixes, symptoms, notes and the program of Pagefind. The runs of a month are in
`search/2026-11/`, for a month with many runs in several shards. The browser loads the first shard when the search is
opened, and the months, newest first, until there are results.

Pagefind is WebAssembly, so the content security policy must permit `'wasm-unsafe-eval'`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from labbook.frozen import dataclass
from labbook.index.vocabulary import past_words, vocabulary, vocabulary_lines
from labbook.publish.search.search_records import SearchRecord
from labbook.publish.search.search_service import PagefindError, Service, program
from labbook.publish.search.search_words import search_words
from labbook.store.text.sentences import Sentences

FOLDER = "search"
MOST_RUNS = 1000
"""Most runs in a shard. Source: measured; building one takes about 1 s, and only the last one of a month changes."""

_FORMAT = 5
"""Increased with the format of shards, so that cached ones are rebuilt."""

_MOST_FACETS = 300
_MOST_TIMES = 2
_SAMPLES = 48
_PROGRAM = ("pagefind.js", "wasm.en.pagefind")
_PARTS = ("index/", "filter/", "fragment/")
_FIRST = "first"


@dataclass(frozen=True)
class Shard:
    """A part of the index.

    Args:
        month: `2026-11`, or "" for the first shard.
        part: Number within its month, from 0.
        key: Changes with any of its records.
        facets: Facet -> value -> number of records.
        records: Returns the records; called for shards that are built.
    """

    month: str
    part: int
    key: str
    count: int
    facets: Mapping[str, Mapping[str, int]]
    records: Callable[[], Sequence[SearchRecord]]

    @property
    def name(self) -> str:
        """Name of its folder: `first`, `2026-11`, `2026-11-2`."""
        if not self.month:
            return _FIRST
        return f"{self.month}-{self.part + 1}" if self.part else self.month


@dataclass(frozen=True)
class SearchReport:
    """Result of building the search.

    Args:
        built: Names of rebuilt shards; the others did not change.
        problem: Why the site has no search, or "".
    """

    built: tuple[str, ...] = ()
    shards: int = 0
    problem: str = ""


def search_problem(say: Sentences | None = None) -> str:
    """Returns why sites are built without search, or ""; by default in English."""
    if program() is None:
        return (say or Sentences("en")).line("terminal.site.no_pagefind")
    return ""


def write_shards(
    site: Path, parts: Sequence[Shard], cache: Path, *, directory_urls: bool = False, say: Sentences | None = None
) -> SearchReport:
    """Writes the search index of a built site into `site/search/`.

    Args:
        parts: All shards, including the first.
        cache: Folder with shards of earlier builds; may be deleted at any time.
        directory_urls: Whether pages are `runs/x/` instead of `runs/x.html`.
        say: Sentences for the problem; default: in English.

    Returns:
        The rebuilt shards. If Pagefind fails, `problem` is set and nothing is written.

    Cost: about 1 s for 1,000 runs, about 1 ms for unchanged shards.
    """
    address = _directory_url if directory_urls else _file_url
    shards = {part.name: part for part in sorted(parts, key=lambda part: (not part.month, part.month, part.part))[::-1]}
    keys = {name: shard.key for name, shard in shards.items()}
    cache = cache / FOLDER
    missing = [name for name in shards if not (cache / keys[name] / "pagefind-entry.json").is_file()]
    try:
        if missing:
            with Service() as service:
                for name in missing:
                    records = shards[name].records()
                    payloads = [_payload(record, address) for record in records]
                    phrases = {address(record.path): record.phrases for record in records if record.phrases}
                    _build(service, payloads, cache / keys[name], phrases, first=name == _FIRST)
        _place(site / FOLDER, cache, keys)
    except (PagefindError, OSError) as error:
        shutil.rmtree(site / FOLDER, ignore_errors=True)
        return SearchReport(problem=(say or Sentences("en")).line("terminal.site.no_search", reason=str(error)))
    manifest = _manifest(shards)
    _write(site / FOLDER / "manifest.json", json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode())
    for old in cache.iterdir():
        if old.name not in keys.values():
            shutil.rmtree(old, ignore_errors=True)
    return SearchReport(tuple(missing), len(shards))


def split_into_shards(records: Sequence[SearchRecord], *, directory_urls: bool = False) -> list[Shard]:
    """Returns the shards of records, including the first one, independent of their order."""
    months: dict[str, list[SearchRecord]] = {"": []}
    for record in sorted(records, key=lambda record: (record.path, record.kind, record.title)):
        months.setdefault(record.month, []).append(record)
    found = []
    for month, words in months.items():
        # Split from the oldest run on, so that new runs change only the last part.
        size = MOST_RUNS if month else max(1, len(words))
        for number in range(0, max(1, len(words)), size):
            part = words[number : number + size]
            key = _key(part, directory_urls=directory_urls)
            found.append(Shard(month, number // size, key, len(part), _facets(part), partial(_identity, part)))
    return found


def _identity(records: Sequence[SearchRecord]) -> Sequence[SearchRecord]:
    return records


def _facets(records: Sequence[SearchRecord]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        for key, values in record.facets.items():
            counts[key].update(dict.fromkeys(values, 1))
    return counts


def _payload(record: SearchRecord, address: Callable[[str], str]) -> dict[str, Any]:
    """Returns the request of a record for Pagefind. Its texts are shown as text, not as HTML."""
    meta = {"title": record.title, "line": record.line, "kind": record.kind, "when": record.when}
    meta |= {"status": record.status, "fixed": "yes" if record.fixed else ""}
    return {
        "type": "AddRecord",
        "url": address(record.path),
        "content": " ".join(_words(record)) or "q",
        "language": "en",
        "meta": {key: value for key, value in meta.items() if value},
        "filters": {"kind": [record.kind], **{key: sorted(values) for key, values in sorted(record.facets.items())}},
    }


def _words(record: SearchRecord) -> list[str]:
    """Returns the words of a record; those of the title count twice, and none more often."""
    words = [*search_words(record.title) * 2, *search_words(record.line), *search_words(record.text)]
    if record.kind == "run":
        # A run is also found by the last characters of its id.
        words += search_words(record.path.rsplit("/", 1)[-1].removesuffix(".md"))
    counted: Counter[str] = Counter()
    kept = []
    for word in words:
        counted[word] += 1
        if counted[word] <= _MOST_TIMES:
            kept.append(word)
    return kept


def _file_url(path: str) -> str:
    page, hash_, anchor = path.partition("#")
    return quote(page.removesuffix(".md")) + ".html" + hash_ + anchor


def _directory_url(path: str) -> str:
    page, hash_, anchor = path.partition("#")
    pure = PurePosixPath(page.removesuffix(".md"))
    folder = pure.parent if pure.name in ("index", "README") else pure
    return ("" if str(folder) == "." else f"{quote(str(folder))}/") + hash_ + anchor


def _key(records: Sequence[SearchRecord], *, directory_urls: bool) -> str:
    """Returns the key of a shard: equal records and the same Pagefind give equal files."""
    digest = hashlib.sha256(json.dumps([_FORMAT, pagefind_version(), directory_urls]).encode())
    names = [field.name for field in fields(SearchRecord)]
    for record in records:
        values = [getattr(record, name) for name in names]
        digest.update(json.dumps(values, ensure_ascii=False, sort_keys=True, default=list).encode("utf-8", "replace"))
    return digest.hexdigest()[:24]


@cache
def pagefind_version() -> str:
    """Returns the version of Pagefind."""
    try:
        return version("pagefind")
    except PackageNotFoundError:
        return "unknown"


def _build(
    service: Service,
    payloads: Sequence[Mapping[str, Any]],
    target: Path,
    phrases: Mapping[str, Sequence[str]],
    *,
    first: bool,
) -> None:
    """Builds a shard in a temporary folder and moves it into place; `phrases` are those of symptoms, by address."""
    files = service.index(payloads)
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="making-", dir=target.parent))
    try:
        cards = {PurePosixPath(path).stem: _card(files[path]) for path in sorted(files) if path.startswith("fragment/")}
        for path, content in sorted(files.items()):
            if first and path.startswith("fragment/"):
                continue
            if path.startswith(_PARTS) or path.endswith((".pf_meta", "-entry.json")) or (first and path in _PROGRAM):
                _write(made / path, content)
        if first:
            # First results are shown without a request for fragments. Words spread over the alphabet, requested
            # in advance, load every part of the index of this shard.
            words = sorted({word for payload in payloads for word in payload["content"].split()})
            data = {"samples": words[:: max(1, len(words) // _SAMPLES)], "cards": cards, "phrases": phrases}
            _write(made / "cards.json", json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode())
        else:
            # Which runs the results are, for questions with conditions.
            ids = {stem: PurePosixPath(card["url"]).name.removesuffix(".html") for stem, card in cards.items()}
            _write(made / "ids.json", json.dumps(ids, separators=(",", ":")).encode())
        made.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        made.replace(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _card(fragment: bytes) -> dict[str, Any]:
    import gzip

    data = json.loads(gzip.decompress(fragment).removeprefix(b"pagefind_dcd"))
    return {"url": data["url"], **data["meta"]}


def _place(folder: Path, cache: Path, keys: Mapping[str, str]) -> None:
    """Updates the folder of the site; unchanged shards are not touched."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {name for name in keys if name != _FIRST}
    for path in folder.iterdir():
        if path.is_dir() and path.name not in {*wanted, "index", "filter"}:
            shutil.rmtree(path)
    for name, key in keys.items():
        place = folder if name == _FIRST else folder / name
        mark = place / "key.txt"
        if mark.is_file() and mark.read_text("utf-8") == key and (place / "pagefind-entry.json").is_file():
            continue
        if name == _FIRST:
            for path in place.iterdir():
                if path.is_file():
                    path.unlink()
                elif path.name in ("index", "filter"):
                    shutil.rmtree(path)
        else:
            shutil.rmtree(place, ignore_errors=True)
        # Hard links, if possible: fast with ten thousand fragments.
        shutil.copytree(cache / key, place, copy_function=_link_or_copy, dirs_exist_ok=True)
        _write(mark, key.encode())


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _manifest(shards: Mapping[str, Shard]) -> dict[str, Any]:
    """Returns the manifest: shards, newest first, values of filters, most frequent first, and known words."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for shard in shards.values():
        for key, values in shard.facets.items():
            counts[key].update(values)
    first = shards[_FIRST]
    meanings, minor, requests = vocabulary_lines()
    failing = [form for forms in meanings if forms[0] in vocabulary().failing for form in forms]
    failing += past_words()
    return {
        "vocabulary": {"meanings": meanings, "minor": minor, "requests": requests, "failing": failing},
        "first": {"key": first.key, "count": first.count},
        "months": [
            {"name": name, "key": shard.key, "count": shard.count} for name, shard in shards.items() if shard.month
        ],
        "facets": {
            key: [value for value, _ in sorted(found.items(), key=lambda one: (-one[1], one[0]))[:_MOST_FACETS]]
            for key, found in sorted(counts.items())
        },
    }


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
