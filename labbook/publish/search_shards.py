"""The search index of a site, in shards that are built only when what they hold changed. Pagefind builds them.

One shard holds fixes, symptoms and notes, and lies with Pagefind's program in `search/`; the runs of a month lie in
`search/2026-11/`, and of a month with very many in further shards beside it. The browser loads the first one when the
search is opened, and the months one after the other while nothing was found in newer ones.

Pagefind is WebAssembly: a content security policy has to allow `'wasm-unsafe-eval'` to scripts.
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
from labbook.publish.search_records import SearchRecord
from labbook.publish.search_service import PagefindFailed, Service, program
from labbook.publish.search_words import search_words

FOLDER = "search"
MOST_RUNS = 1000
"""Runs in a shard. Source: measured; one is built in about a second, and only the last one of a month changes."""

_FORMAT = 3
"""Raised when records become shards in another way, so that what is cached is built again."""

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
        month: `2026-11`, or "" of the first one.
        part: Which one of its month, from 0.
        key: Changes with anything in it.
        count: How many records it holds.
        facets: Facet -> value -> how many of them have it.
        records: Makes them: those that are built are asked for.
    """

    month: str
    part: int
    key: str
    count: int
    facets: Mapping[str, Mapping[str, int]]
    records: Callable[[], Sequence[SearchRecord]]

    @property
    def name(self) -> str:
        """Of its folder: `first`, `2026-11`, `2026-11-2`."""
        if not self.month:
            return _FIRST
        return f"{self.month}-{self.part + 1}" if self.part else self.month


@dataclass(frozen=True)
class SearchReport:
    """What was done for the search.

    Args:
        built: Names of the shards that were built, "first" or of a month; the others were as they had been.
        shards: How many there are.
        problem: Why the site has no search, "" when it has.
    """

    built: tuple[str, ...] = ()
    shards: int = 0
    problem: str = ""


def search_problem() -> str:
    """Why sites are built without search, "" when they are built with it."""
    if program() is None:
        return "the search needs a library that is not installed: pagefind; python -m pip install 'pagefind[bin]'"
    return ""


def write_shards(site: Path, parts: Sequence[Shard], cache: Path, *, directory_urls: bool = False) -> SearchReport:
    """Writes the search index of a built site, below `site/search/`.

    Args:
        site: The site's folder.
        parts: What is found; one of them is the first.
        cache: Folder for shards of earlier builds; it may be deleted at any time.
        directory_urls: Whether pages are `runs/x/` in place of `runs/x.html`.

    Returns:
        Which shards were built anew. When Pagefind fails, `problem` says so and nothing is written.

    Cost: 1,000 runs take about a second, shards that did not change about a millisecond.
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
                    payloads = [_payload(record, address) for record in shards[name].records()]
                    _build(service, payloads, cache / keys[name], first=name == _FIRST)
        _place(site / FOLDER, cache, keys)
    except (PagefindFailed, OSError) as error:
        shutil.rmtree(site / FOLDER, ignore_errors=True)
        return SearchReport(problem=f"the site was built without search: {error}")
    manifest = _manifest(shards)
    _write(site / FOLDER / "manifest.json", json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode())
    for old in cache.iterdir():
        if old.name not in keys.values():
            shutil.rmtree(old, ignore_errors=True)
    return SearchReport(tuple(missing), len(shards))


def split_into_shards(records: Sequence[SearchRecord], *, directory_urls: bool = False) -> list[Shard]:
    """The shards of some records, the first one among them; the same for any order of the records."""
    months: dict[str, list[SearchRecord]] = {"": []}
    for record in sorted(records, key=lambda record: (record.path, record.kind, record.title)):
        months.setdefault(record.month, []).append(record)
    found = []
    for month, held in months.items():
        # Cut from the oldest run on: those that come later change the last part alone.
        size = MOST_RUNS if month else max(1, len(held))
        for number in range(0, max(1, len(held)), size):
            part = held[number : number + size]
            key = _key(part, directory_urls=directory_urls)
            found.append(Shard(month, number // size, key, len(part), _facets(part), partial(_same, part)))
    return found


def _same(records: Sequence[SearchRecord]) -> Sequence[SearchRecord]:
    return records


def _facets(records: Sequence[SearchRecord]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        for key, values in record.facets.items():
            counts[key].update(dict.fromkeys(values, 1))
    return counts


def _payload(record: SearchRecord, address: Callable[[str], str]) -> dict[str, Any]:
    """What Pagefind is told of a record. Its texts are shown as text; nothing here is HTML."""
    shown = {"title": record.title, "line": record.line, "kind": record.kind, "when": record.when}
    shown |= {"status": record.status, "fixed": "yes" if record.fixed else ""}
    return {
        "type": "AddRecord",
        "url": address(record.path),
        "content": " ".join(_words(record)) or "q",
        "language": "en",
        "meta": {key: value for key, value in shown.items() if value},
        "filters": {"kind": [record.kind], **{key: sorted(values) for key, values in sorted(record.facets.items())}},
    }


def _words(record: SearchRecord) -> list[str]:
    """The words that a record is found by; those of the title count twice, and none more often."""
    words = [*search_words(record.title) * 2, *search_words(record.line), *search_words(record.text)]
    if record.kind == "run":
        # A run is also found by the end of its id.
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
    """What a shard is known by: the same records and the same Pagefind give the same files."""
    told = hashlib.sha256(json.dumps([_FORMAT, pagefind_version(), directory_urls]).encode())
    names = [field.name for field in fields(SearchRecord)]
    for record in records:
        values = [getattr(record, name) for name in names]
        told.update(json.dumps(values, ensure_ascii=False, sort_keys=True, default=list).encode("utf-8", "replace"))
    return told.hexdigest()[:24]


@cache
def pagefind_version() -> str:
    """The version of Pagefind."""
    try:
        return version("pagefind")
    except PackageNotFoundError:
        return "unknown"


def _build(service: Service, payloads: Sequence[Mapping[str, Any]], target: Path, *, first: bool) -> None:
    """Builds a shard beside its place and moves it there whole, so that an end in between leaves no half of one."""
    files = service.index(payloads)
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="making-", dir=target.parent))
    try:
        cards = {}
        for path, content in sorted(files.items()):
            if first and path.startswith("fragment/"):
                cards[PurePosixPath(path).stem] = _card(content)
            elif path.startswith(_PARTS) or path.endswith((".pf_meta", "-entry.json")) or (first and path in _PROGRAM):
                _write(made / path, content)
        if first:
            # What is found first is shown at once: no fragment has to be asked for. And words spread over the alphabet:
            # asked for beforehand they bring every part of this shard's index.
            held = sorted({word for payload in payloads for word in payload["content"].split()})
            shown = {"samples": held[:: max(1, len(held) // _SAMPLES)], "cards": cards}
            _write(made / "cards.json", json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode())
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
    """Brings the site's folder to what the shards are; those that lie there already are left alone."""
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
        # Links where the file system has them: ten thousand fragments are placed in a moment.
        shutil.copytree(cache / key, place, copy_function=_link_or_copy, dirs_exist_ok=True)
        _write(mark, key.encode())


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _manifest(shards: Mapping[str, Shard]) -> dict[str, Any]:
    """What the browser asks for first: the shards, newest first, and the values to filter by, most frequent first."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for shard in shards.values():
        for key, values in shard.facets.items():
            counts[key].update(values)
    first = shards[_FIRST]
    return {
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
