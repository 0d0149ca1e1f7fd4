"""Keeps a site and the record of its build in one folder, which a CI job archives and restores.

The folder has the site in `site/` and the record and cached data in `state/`. Archives round the times of files, by
which the record knows what it wrote. So `state/files.json` has the exact time and a digest of each file of the site: a
file with that digest gets its time back, and every other one is built again. The search index of the notebook, which
knows its notes by their digests, is there, too.
"""

from __future__ import annotations

import json
import os
from contextlib import closing, suppress
from pathlib import Path

from labbook.publish.pages.build_record import content_key, files_below
from labbook.publish.site.post_build import POST_BUILD_FOLDERS
from labbook.store.journal import write_atomically

_FILES = "files.json"


def state_in(cache: Path) -> Path:
    """Returns the folder of the record and the cached data in a cache."""
    return cache / "state"


def restore_times(cache: Path, site: Path) -> None:
    """Gives unchanged files of a restored site their exact times; a damaged list is ignored."""
    known = _read(cache)
    for path, (size, at_ns) in files_below(site, POST_BUILD_FOLDERS).items():
        known_size, known_ns, digest = known.get(path, (-1, -1, ""))
        if size != known_size or at_ns == known_ns:
            continue
        with suppress(OSError):
            if _digest(site / path) == digest:
                os.utime(site / path, ns=(known_ns, known_ns), follow_symlinks=False)


def note_times(cache: Path, site: Path) -> None:
    """Writes times and digests of the files of a built site.

    Raises:
        OSError: They cannot be written.
    """
    before = _read(cache)
    files: dict[str, tuple[int, int, str]] = {}
    for path, (size, at_ns) in files_below(site, POST_BUILD_FOLDERS).items():
        known = before.get(path)
        digest = known[2] if known is not None and known[:2] == (size, at_ns) else _digest(site / path)
        files[path] = (size, at_ns, digest)
    state = state_in(cache)
    state.mkdir(parents=True, exist_ok=True)
    write_atomically(state / _FILES, json.dumps(files, separators=(",", ":")).encode(), durable=False)


def restore_index(cache: Path, index: Path) -> None:
    """Copies the search index to a notebook that has none, as a new clone; failures only cost time."""
    kept = state_in(cache) / index.name
    with suppress(OSError):
        if kept.is_file() and not index.exists():
            index.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(index, kept.read_bytes(), durable=False)


def keep_index(cache: Path, index: Path) -> None:
    """Copies the search index of the notebook to the cache; failures only cost time."""
    import sqlite3

    target = state_in(cache) / index.name
    draft = target.with_suffix(".tmp")
    with suppress(OSError, sqlite3.Error):
        draft.unlink(missing_ok=True)
        source, copy = sqlite3.connect(f"{index.as_uri()}?mode=ro", uri=True), sqlite3.connect(draft)
        with closing(source), closing(copy):
            # Unlike a copy of the file, a backup has what other connections have just written.
            source.backup(copy)
        draft.replace(target)


def _read(cache: Path) -> dict[str, tuple[int, int, str]]:
    """Returns path -> size, time (ns) and digest; empty if the list is missing or damaged."""
    try:
        data = json.loads((state_in(cache) / _FILES).read_bytes())
        return {str(path): (int(size), int(at_ns), str(digest)) for path, (size, at_ns, digest) in data.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _digest(path: Path) -> str:
    return content_key(path.read_bytes())
