"""The experiment that `labbook new` started in a folder: runs from there belong to it until `labbook new --done`.

It is private to this machine: colleagues who work in their own checkout are not moved into another experiment.
"""

from __future__ import annotations

import json
from pathlib import Path

from labbook.errors import NotebookError
from labbook.store.json_files import read_json_object
from labbook.store.notebook import Notebook

_FILE = "started_experiments.json"


def start_experiment(notebook: Notebook, folder: Path, slug: str) -> None:
    """Makes an experiment the one of all runs from a folder and the folders below.

    Raises:
        NotebookError: The private folder cannot be written.
    """
    _write(notebook, {**_read(notebook), str(folder): slug})


def end_experiment(notebook: Notebook, folder: Path) -> str:
    """Ends the experiment that holds for a folder; returns its slug, "" if there is none.

    Raises:
        NotebookError: The private folder cannot be written.
    """
    started = _read(notebook)
    where = _find_started(started, folder)
    if where is None:
        return ""
    slug = started.pop(where)
    _write(notebook, started)
    return slug


def started_experiment(notebook: Notebook, folder: Path) -> str:
    """Returns the slug of the experiment that holds for a folder, "" for none."""
    started = _read(notebook)
    where = _find_started(started, folder) if started else None
    return started[where] if where is not None else ""


def _find_started(started: dict[str, str], folder: Path) -> str | None:
    """Returns the nearest folder above with a started experiment."""
    return next((str(each) for each in (folder, *folder.parents) if str(each) in started), None)


def _read(notebook: Notebook) -> dict[str, str]:
    return {key: str(value) for key, value in read_json_object(notebook.paths.private / _FILE).items()}


def _write(notebook: Notebook, started: dict[str, str]) -> None:
    from labbook.store.journal import write_atomically
    from labbook.store.notebook import prepare_private

    prepare_private(notebook)
    path = notebook.paths.private / _FILE
    try:
        write_atomically(path, json.dumps(started, ensure_ascii=False, indent=1).encode("utf-8", "replace"))
    except OSError as error:
        raise NotebookError("errors.file.not_written", path=path, reason=error) from error
