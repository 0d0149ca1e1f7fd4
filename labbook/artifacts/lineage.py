"""Finds the earlier runs that wrote what a run read, by fingerprints, and the run that a training goes on from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from labbook.model.run import Run
from labbook.model.run_files import FileUse, Parent, is_checkpoint, short_fingerprint
from labbook.store.commit.commit_queue import withheld_files
from labbook.store.json_files import read_json_object

if TYPE_CHECKING:
    import sqlite3

    from labbook.store.notebook import Notebook

_MOST_PARENTS = 16


def find_parents(notebook: Notebook, run: Run) -> list[Parent]:
    """Returns the runs that wrote what a run read, one for each file, checkpoints and large files first.

    Of several runs that wrote the same bytes, the last one before this run counts.

    Cost: one look-up in the index for each file that was read, at most 180.
    """
    read = sorted(_read_files(run), key=lambda pair: (not is_checkpoint(pair[0].path), -pair[0].size_bytes))
    if not read:
        return []
    writers = _writers(notebook, {short_fingerprint(text) for _, text in read}, run)
    parents = []
    for use, text in read:
        for run_id in writers.get(short_fingerprint(text), ()):
            parent = _parent(notebook, run_id, use, text)
            if parent is not None:
                parents.append(parent)
                break
    return parents[:_MOST_PARENTS]


def resumed_run(run: Run, parents: Sequence[Parent]) -> str:
    """Returns the run that wrote the checkpoint with which a training began, or "".

    Args:
        run: A run that loaded a state into its model or its optimizer before the second step.
        parents: From `find_parents`.
    """
    loaded = [
        event
        for signals in run.signals
        for event in signals.loaded
        if event.get("what") in ("model", "optimizer") and event.get("matched", 0) > 0 and event.get("step", 0) <= 1
    ]
    if not loaded or not any(signals.spans for signals in run.signals):
        return ""
    return next((parent.run for parent in parents if is_checkpoint(parent.path)), "")


def _read_files(run: Run) -> Iterator[tuple[FileUse, str]]:
    """Yields each file that the run read with the fingerprint of the bytes that it read."""
    for use in run.files:
        text = use.fingerprint if use.mode == "read" else use.before
        if use.members == 1 and use.mode != "written" and text and use.size_bytes > 0:
            yield use, text


def _writers(notebook: Notebook, keys: set[str], run: Run) -> dict[str, list[str]]:
    """Returns short fingerprint -> earlier runs that wrote such a file, newest first."""
    from labbook.index.build import query_without_refresh

    def look(connection: sqlite3.Connection) -> dict[str, list[str]]:
        sql = (
            "SELECT n.name FROM facets f JOIN notes n ON n.id = f.note "
            "WHERE f.key = 'output' AND f.value = ? AND n.started < ? AND n.name != ? ORDER BY n.started DESC LIMIT 5"
        )
        return {key: [row[0] for row in connection.execute(sql, (key, run.started, run.id))] for key in sorted(keys)}

    return query_without_refresh(notebook, look)


def _parent(notebook: Notebook, run_id: str, use: FileUse, fingerprint: str) -> Parent | None:
    """Returns a parent if its facts have the whole fingerprint, else `None`."""
    path = notebook.paths.attachments(run_id) / "run.json"
    if notebook.paths.relative(path) in withheld_files(notebook.paths):
        return None
    data = read_json_object(path)
    if data.get("id") != run_id:
        return None
    from labbook.model.run_json import run_from_json

    run = run_from_json(data)
    wrote = next((one.path for one in run.files if fingerprint in (one.fingerprint, one.samples)), None)
    wrote = wrote or next((one.path for one in run.artifacts if one.digest == fingerprint), None)
    if wrote is None:
        return None
    return Parent(run_id, use.path, wrote, fingerprint, _last_loss(run), run.title)


def _last_loss(run: Run) -> float | None:
    """Returns the last training loss that the probe measured in a run, or `None`."""
    losses = [series for series in run.series if series.name == "loss" and series.source == "probe"]
    return losses[0].last if len(losses) == 1 else None
