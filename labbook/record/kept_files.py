"""Keeps files of a run that has ended, and links it to the runs that wrote what it read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from labbook.capture.context import CaptureContext
from labbook.errors import LabbookError
from labbook.model.events.process_kinds import FileItem, Files
from labbook.model.events.request_kinds import Keep
from labbook.model.run import Run
from labbook.model.run_files import Parent
from labbook.probe.redaction.redactor import Redactor
from labbook.store.journal import Journal, ProcessEvents, events_of_kind, write_atomically
from labbook.store.notebook import Notebook


def file_items(processes: Sequence[ProcessEvents]) -> list[FileItem]:
    """Returns the items of all `files` events."""
    return [item for event in events_of_kind(processes, Files) for item in event.get("items", [])]


def keep_files(
    notebook: Notebook, journal: Journal, context: CaptureContext, run: Run, processes: Sequence[ProcessEvents]
) -> list[Mapping[str, Any]]:
    """Copies the files of a run that are to be kept and returns them as JSON data.

    An error of the file system leaves the entry without them: that is better than no entry.
    """
    if not notebook.config.artifacts and not any(process.events_of_kind(Keep) for process in processes):
        return []
    from labbook.artifacts.keep_files import FileKeeper, artifact_facts

    keeper = FileKeeper(notebook, journal.paths, context.cwd, context.redactor)
    with suppress(OSError, ValueError):
        return artifact_facts(keeper.keep_outputs(file_items(processes), processes, run.started))
    return []


def add_lineage(notebook: Notebook, run: Run, redactor: Redactor) -> Run:
    """Adds the earlier runs that wrote what this run read; an index that cannot be used only loses these links."""
    if not any(use.mode != "written" for use in run.files):
        return run
    from labbook.artifacts.lineage import find_parents, resumed_run

    with suppress(LabbookError, OSError):
        # Titles and paths of an older entry have not passed this run's redactor.
        parents = tuple(Parent(**redactor.data(vars(parent))) for parent in find_parents(notebook, run))
        return replace(run, parents=parents, resumed_from=resumed_run(run, parents))
    return run


def draw_lineage(run: Run, folder: Path) -> None:
    """Writes `lineage.svg` to the attachments of a run."""
    from labbook.report.lineage_svg import lineage_svg

    write_atomically(folder / "lineage.svg", lineage_svg(run).encode("utf-8"), durable=False)
