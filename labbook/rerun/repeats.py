"""Repeats of a run in the notebook, which show how much its result varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.index.query import list_notes
from labbook.report.best_runs import counts_as_result
from labbook.report.run_row import run_row
from labbook.store.json_files import read_run_facts
from labbook.store.notebook import Notebook

_MAX_REPEATS = 50


def find_repeats(
    notebook: Notebook, run: Mapping[str, Any], reruns: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Returns runs of the same configuration: with other seeds from the notebook, and reruns if there are several."""
    rows = [run_row(entry) for entry in list_notes(notebook).entries]
    own = next((row for row in rows if row.id == run.get("id")), None)
    known = {str(one.get("id")) for one in reruns}
    found: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if (
            own is None
            or not own.configuration
            or row.configuration != own.configuration
            or not counts_as_result(row)
            or row.id in known
        ):
            continue
        # The same seed again measures nothing new; without a seed each run is a repeat.
        key = row.seed or row.id
        if key not in found and (data := read_run_facts(notebook.paths, row.id)):
            found[key] = data
        if len(found) >= _MAX_REPEATS:
            break
    return [*found.values(), *(reruns if len(reruns) > 1 else ())]
