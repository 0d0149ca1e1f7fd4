"""Finds the run of the same script of the same project before this one."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from labbook.model.run import Run
from labbook.store.commit.commit_queue import withheld_files
from labbook.store.journal import write_atomically
from labbook.store.json_files import read_json_object
from labbook.store.newest_runs import is_of_project, newest_run_ids
from labbook.store.paths import NotebookPaths, is_run_id


def previous_run(paths: NotebookPaths, run: Run) -> dict[str, Any] | None:
    """Returns the facts of the latest earlier run of the same script in the same project, or `None`."""
    latest = read_json_object(paths.private / "latest.json").get(_key(run))
    like = {"cwd": run.cwd, "captured": run.captured}
    # Content of a withheld entry must not get into the next one.
    withheld = withheld_files(paths)
    for run_id in (latest, *newest_run_ids(paths, run.id)):
        if not isinstance(run_id, str) or not is_run_id(run_id) or run_id == run.id:
            continue
        path = paths.attachments(run_id) / "run.json"
        if path.relative_to(paths.root).as_posix() in withheld:
            continue
        facts = read_json_object(path)
        # Ids of the same second are not ordered: the time decides.
        earlier = isinstance(facts.get("started"), (int, float)) and facts["started"] < run.started
        same = facts.get("id") == run_id and facts.get("script") == run.script
        if earlier and same and is_of_project(facts, run.project, like):
            return facts
    return None


def remember_run(paths: NotebookPaths, run: Run) -> None:
    """Notes the latest run of a script in `latest.json`, a cache that the entries can rebuild."""
    place = paths.private / "latest.json"
    latest = read_json_object(place)
    latest[_key(run)] = run.id
    with suppress(OSError):
        write_atomically(place, json.dumps(latest, ensure_ascii=False, indent=1).encode("utf-8"), durable=False)


def _key(run: Run) -> str:
    return f"{run.project}::{run.script}" if run.project else run.script
