"""The runs of a notebook, newest first, and the project that a run belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from labbook.store.paths import NotebookPaths, is_run_id, is_trial_id

LOOK_BACK = 300
"""Maximum entries that are looked at, newest first. Source: chosen by us; 300 small JSON files take about 30 ms."""


def newest_run_ids(paths: NotebookPaths, until: str = "", *, trials: bool = False) -> Iterator[str]:
    """Yields at most `LOOK_BACK` ids of entries, newest first; trials inside of other runs only if `trials` is true.

    Args:
        until: Only entries of the same second as this run, or earlier; "" for all.
    """
    count = 0
    stamp = until.rpartition("-")[0]
    for month in _newest_first(paths.runs, depth=2):
        for day in _newest_first(month, depth=1):
            ids = (p.stem for p in day.glob("*.md") if is_run_id(p.stem) and (trials or not is_trial_id(p.stem)))
            for entry in sorted(ids, reverse=True):
                if not until or entry.rpartition("-")[0] <= stamp:
                    yield entry
                    count += 1
                    if count >= LOOK_BACK:
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


def is_of_project(facts: Mapping[str, Any], root: str, like: Mapping[str, Any] | None = None) -> bool:
    """Whether a run belongs to a project.

    Args:
        facts: The run's `run.json`. Runs of a version that did not separate projects name none.
        root: Identity of the project, "" for the notebook's own.
        like: Facts of another run of the project: then its folders decide for a run that names no project.
    """
    if "project" in facts:
        return bool(facts["project"] == root)
    if not root:
        return True
    folders = {_top_folder(facts), str(facts.get("cwd") or "")}
    known = {root} if like is None else {root, _top_folder(like), str(like.get("cwd") or "")}
    return bool((folders & known) - {""})


def _top_folder(facts: Mapping[str, Any]) -> str:
    captured = facts.get("captured")
    code = captured.get("code") if isinstance(captured, Mapping) else None
    if not isinstance(code, Mapping):
        return ""
    return str(code.get("top") or "")
