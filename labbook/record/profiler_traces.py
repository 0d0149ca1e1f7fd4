"""Moves small traces of `--profile` into the entry's folder; larger ones stay in place."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.model.run import Run
from labbook.store.journal import Journal, write_atomically

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor

_MAX_BYTES = 512 * 1024
"""Largest trace that is committed, compressed. Source: the folder of an entry stays under 1 MiB."""

_MAX_TEXT = 12 * 1024 * 1024
"""Longest trace that is searched for secrets. Source: chosen by us, 4 seconds."""


def add_traces(run: Run, journal: Journal, folder: Path, redactor: Redactor) -> Run:
    """Returns the run with the files of its profiles.

    Each profile gets `file` (name in the entry's folder, or ""), `kept` (path in the journal) and `bytes`.

    Args:
        run: A run with the profiles of the probe's events.
        journal: Journal with the traces.
        folder: The entry's folder; small traces are written there, redacted.
        redactor: Masks secrets.
    """
    profiles = run.asked.get("profiles")
    if not profiles:
        return run
    stored = [{**profile, **_store_trace(profile, journal, folder, redactor)} for profile in profiles]
    return replace(run, asked={**run.asked, "profiles": stored})


def _store_trace(profile: Mapping[str, Any], journal: Journal, folder: Path, redactor: Redactor) -> dict[str, Any]:
    name = Path(str(profile.get("trace") or "")).name
    path = journal.paths.root / "profile" / name
    if not name or path.is_symlink() or not path.is_file():
        return {"file": "", "kept": "", "bytes": 0}
    facts = {"file": "", "kept": f".labbook/runs/{journal.run_id}/profile/{name}", "bytes": path.stat().st_size}
    with suppress(OSError, EOFError, ValueError):
        data = _redact_small_trace(path, redactor)
        if data is not None:
            folder.mkdir(parents=True, exist_ok=True)
            file = name if name.endswith(".gz") else f"{name}.gz"
            write_atomically(folder / file, data)
            facts["file"] = file
    return facts


def _redact_small_trace(path: Path, redactor: Redactor) -> bytes | None:
    """Returns the trace redacted and compressed, or `None` if it is too large."""
    if path.stat().st_size > _MAX_TEXT:
        return None
    with path.open("rb") as raw:
        text = gzip.GzipFile(fileobj=raw).read(_MAX_TEXT + 1) if path.suffix == ".gz" else raw.read()
    if len(text) > _MAX_TEXT:
        return None
    data = gzip.compress(redactor.text(text.decode("utf-8", "replace")).encode("utf-8"), mtime=0)
    return data if len(data) <= _MAX_BYTES else None
