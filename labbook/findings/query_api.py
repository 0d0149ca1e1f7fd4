"""Queries of a notebook from Python: `labbook.list_runs()` and `labbook.search()`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from labbook.findings.search_question import interpret_search
from labbook.index.hit import Hit
from labbook.index.query import list_notes, search
from labbook.store.notebook import Notebook
from labbook.store.notebook_finder import find_notebook


def list_runs(query: str = "", *, limit: int | None = None, notebook: str | Path | None = None) -> list[dict[str, Any]]:
    """Returns the front matter of the runs that fit a query, newest first, each with `path` of its entry.

    Args:
        query: As of `labbook list`: `"lr<0.02 status:finished val_acc>0.9"`; "" for all runs.
        limit: Maximum number of runs; all by default.
        notebook: The notebook; by default the one above the working folder.

    Raises:
        UsageError: A name or a value in the query is not known; the message has the nearest and the known ones.
        NotebookError: There is no notebook.
    """
    entries = list_notes(_open_notebook(notebook), query, limit=limit).entries
    return [{**entry.meta, "path": entry.path} for entry in entries]


def search_notes(query: str, *, limit: int = 10, notebook: str | Path | None = None) -> list[Hit]:
    """Returns the answers of `labbook search`, best first: runs, notes and pages of the symptom catalogue.

    Args:
        query: Words in English or Chinese, conditions as of `labbook list`, or a pasted error message.
        notebook: The notebook; by default the one above the working folder.

    Raises:
        UsageError: The query is empty, or has an unknown name or value.
        NothingFoundError: Nothing matches; the hint says what may help.
        NotebookError: There is no notebook.
    """
    book = _open_notebook(notebook)
    words, subject = interpret_search(book, query)
    return list(search(book, words, limit, subject=subject).hits)


def _open_notebook(chosen: str | Path | None) -> Notebook:
    return find_notebook(Path.cwd(), chosen=Path(chosen) if chosen else None, environ=os.environ, create_personal=False)
