"""Draws the traces of `--profile` into the entry's folder, with small ones beside; larger ones stay in the journal."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from labbook.model.run import Run
from labbook.probe.redaction.redactor import Redactor
from labbook.store.journal import Journal, write_atomically
from labbook.store.notebook import Notebook
from labbook.store.text.templates import words
from labbook.store.text.words_files import fill

_MAX_BYTES = 512 * 1024
"""Largest trace that is committed, compressed. Source: the folder of an entry stays under 1 MiB."""

_MAX_DRAWN = 96 * 1024 * 1024
"""Longest trace that is drawn. Source: chosen by us, about 4 seconds and 1 GB of memory."""

_MAX_TEXT = 12 * 1024 * 1024
"""Longest trace that is searched for secrets. Source: chosen by us, 4 seconds."""


def add_traces(run: Run, notebook: Notebook, journal: Journal, redactor: Redactor) -> Run:
    """Returns the run with the files of its profiles.

    Each profile gets `file` (name in the entry's folder, or ""), `kept` (path in the journal) and `bytes`; and, if the
    trace could be read, `flame`, `memory` (pictures in that folder) and `speedscope` (name of a file there).

    Args:
        run: A run with the profiles of the probe's events.
        notebook: Its language is that of the pictures; the entry's folder gets them, and small traces, redacted.
    """
    profiles = run.asked.get("profiles")
    if not profiles:
        return run
    folder = notebook.paths.attachments(run.id)
    labels = words(notebook.config.language_in_use(), notebook.paths.templates)["profile"]
    stored = []
    for profile in profiles:
        facts = {**profile, **_store_trace(profile, journal, folder, redactor)}
        # The profiler of another version may write something else: the table of the entry does not depend on it.
        with suppress(OSError, EOFError, ValueError, LookupError, TypeError, RecursionError):
            facts |= _draw(facts, journal, folder, redactor, labels)
        stored.append(facts)
    return replace(run, asked={**run.asked, "profiles": stored})


def _find_trace(profile: Mapping[str, Any], journal: Journal) -> Path | None:
    """Returns the trace of a profile in the journal, `None` if there is none."""
    path = journal.paths.root / "profile" / Path(str(profile.get("trace") or "")).name
    return path if path.is_file() and not path.is_symlink() else None


def _draw(
    profile: Mapping[str, Any], journal: Journal, folder: Path, redactor: Redactor, labels: Mapping[str, Any]
) -> dict[str, str]:
    """Writes the flame graph, the speedscope file and the memory curve of a trace; returns their names."""
    from labbook.report.flame_svg import flame_svg, memory_svg
    from labbook.report.profile_trace import read_trace, speedscope

    path = _find_trace(profile, journal)
    if path is None:
        return {}
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
        content = stream.read(_MAX_DRAWN + 1)
    if len(content) > _MAX_DRAWN:
        return {}
    trace = read_trace(content.decode("utf-8", "replace"), redactor.text)
    threads = [
        fill(labels["gpu_stream" if root.kind == "gpu" else "thread"], number=number)
        for number, root in enumerate(trace.threads, start=1)
    ]
    steps = max(1, int(profile.get("end_step") or 0) - int(profile.get("begin_step") or 0) + 1)
    stem = path.name.partition(".")[0]
    made: dict[str, tuple[str, str]] = {}
    if trace.threads:
        made["flame"] = f"flame-{stem}.svg", flame_svg(trace, threads, labels, steps)
        made["speedscope"] = f"{stem}.speedscope.json", speedscope(trace, threads, f"{journal.run_id} {stem}")
    if trace.memory:
        made["memory"] = f"memory-{stem}.svg", memory_svg(trace.memory, labels)
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in made.values():
        write_atomically(folder / file, text.encode("utf-8"), durable=False)
    return {key: file for key, (file, _) in made.items()}


def _store_trace(profile: Mapping[str, Any], journal: Journal, folder: Path, redactor: Redactor) -> dict[str, Any]:
    path = _find_trace(profile, journal)
    if path is None:
        return {"file": "", "kept": "", "bytes": 0}
    facts = {"file": "", "kept": f".labbook/runs/{journal.run_id}/profile/{path.name}", "bytes": path.stat().st_size}
    with suppress(OSError, EOFError, ValueError):
        data = _redact_small_trace(path, redactor)
        if data is not None:
            folder.mkdir(parents=True, exist_ok=True)
            file = f"{path.name.removesuffix('.gz')}.gz"
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
