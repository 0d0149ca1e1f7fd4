"""Finds the run of the same script before this one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from labbook.model.run import Run
from labbook.store.commit_queue import withheld_files
from labbook.store.journal import write_atomically
from labbook.store.paths import NotebookPaths, is_run_id

_LOOK_BACK = 300
"""Maximum entries that are read, newest first, if `latest.json` is missing. Source: chosen by us; 300 small JSON files
take about 30 ms."""


def previous_run(paths: NotebookPaths, run: Run, *, by_folder: bool) -> dict[str, Any] | None:
    """Returns the facts of the latest earlier run of the same script, or `None`.

    Args:
        paths: The notebook.
        run: The run that has just ended.
        by_folder: Whether the working folder must be the same too: in a personal notebook `train.py` of two projects
            are two scripts, while a team runs one script in many folders.
    """
    key = _key(run, by_folder)
    latest = _read(paths.private / "latest.json").get(key)
    # Content of a withheld entry must not get into the next one.
    withheld = withheld_files(paths)
    for run_id in (latest, *_earlier_ids(paths, run.id)):
        if not isinstance(run_id, str) or not is_run_id(run_id) or run_id == run.id:
            continue
        path = paths.attachments(run_id) / "run.json"
        if path.relative_to(paths.root).as_posix() in withheld:
            continue
        facts = _read(path)
        same_folder = facts.get("cwd") == run.cwd or not by_folder
        # Ids of the same second are not ordered: the time decides.
        earlier = isinstance(facts.get("started"), (int, float)) and facts["started"] < run.started
        if earlier and facts.get("id") == run_id and facts.get("script") == run.script and same_folder:
            return facts
    return None


def remember_run(paths: NotebookPaths, run: Run, *, by_folder: bool) -> None:
    """Notes the latest run of a script in `latest.json`, a cache that the entries can rebuild."""
    place = paths.private / "latest.json"
    latest = _read(place)
    latest[_key(run, by_folder)] = run.id
    with suppress(OSError):
        write_atomically(place, json.dumps(latest, ensure_ascii=False, indent=1).encode("utf-8"), durable=False)


def _key(run: Run, by_folder: bool) -> str:
    return f"{run.cwd}::{run.script}" if by_folder else run.script


def _earlier_ids(paths: NotebookPaths, run_id: str) -> Iterator[str]:
    """Yields at most `_LOOK_BACK` ids of entries of the same second or earlier, newest first."""
    count = 0
    stamp = run_id.rpartition("-")[0]
    for month in _newest_first(paths.runs, depth=2):
        for day in _newest_first(month, depth=1):
            for entry in sorted((p.stem for p in day.glob("*.md") if is_run_id(p.stem)), reverse=True):
                if entry.rpartition("-")[0] <= stamp:
                    yield entry
                    count += 1
                    if count >= _LOOK_BACK:
                        return


def _newest_first(folder: Path, depth: int) -> Iterator[Path]:
    try:
        children = sorted((p for p in folder.iterdir() if p.is_dir() and p.name.isdigit()), reverse=True)
    except OSError:
        return
    for child in children:
        if depth == 1:
            yield child
        else:
            yield from _newest_first(child, depth - 1)


def _read(path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}
