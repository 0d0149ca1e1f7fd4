"""Rebuilds the start of a run whose `run.json` a power loss left empty, cut off or missing.

The console, the events and the samples of resources may be on the disk all the same, and so may the end.
"""

from __future__ import annotations

import calendar
import json
import time
from typing import TYPE_CHECKING, Any

from labbook.errors import LabbookError

if TYPE_CHECKING:
    from labbook.store.journal import Journal
    from labbook.store.notebook import Notebook


def rebuild_start(notebook: Notebook, journal: Journal) -> dict[str, Any]:
    """The content of `run.json` as far as other files tell it; empty when nothing of the run had started.

    Args:
        notebook: Its entry of the run, if one was written, tells the experiment, the tags and the host.
        journal: What is left of the run.
    """
    try:
        left = journal.paths.start.read_text(encoding="utf-8", errors="replace")
    except OSError:
        left = ""
    facts = _from_cut_json(left)
    if not facts and not _has_started(notebook, journal):
        return {}
    command = journal.read(journal.paths.before).get("command") or {}
    hello = next((process.hello for process in journal.processes() if process.hello), {})
    entry = _from_entry(notebook, journal.run_id)
    known = (
        facts,
        {"script": command.get("script"), "argv": command.get("argv")},
        {"argv": hello.get("argv"), "cwd": hello.get("cwd"), "host": hello.get("host")},
        entry,
        {"schema": 1, "id": journal.run_id, "started": _started(journal.run_id)},
    )
    return {key: value for source in reversed(known) for key, value in source.items() if value}


def _from_cut_json(text: str) -> dict[str, Any]:
    """The whole fields at the beginning of a JSON object that was written with an indentation of 1 and cut off."""
    while text.startswith("{"):
        text = text.rpartition('\n "')[0]
        try:
            found = json.loads(text.rstrip().rstrip(",") + "}")
        except ValueError:
            continue
        return found if isinstance(found, dict) else {}
    return {}


def _has_started(notebook: Notebook, journal: Journal) -> bool:
    """Whether anything was written that only a running command brings about."""
    paths = journal.paths
    signs = [paths.before, paths.end, paths.resources, *paths.console.glob("*"), *paths.events.glob("*")]
    return notebook.paths.entry(journal.run_id).exists() or any(path.exists() for path in signs)


def _from_entry(notebook: Notebook, run_id: str) -> dict[str, Any]:
    from labbook.store.entry_text import read_text
    from labbook.store.frontmatter import parse

    path = notebook.paths.entry(run_id)
    try:
        meta, _ = parse(read_text(path), str(path))
    except (OSError, ValueError, LabbookError):
        return {}
    return {key: meta.get(key) for key in ("experiment", "host", "author", "tags")}


def _started(run_id: str) -> float:
    return float(calendar.timegm(time.strptime(run_id[:15], "%Y%m%d-%H%M%S")))
