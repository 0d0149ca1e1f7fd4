"""Rebuilds the start of a run whose `run.json` was lost or damaged by a power loss.

The console, the events, the resource samples and the end may still be on the disk.
"""

from __future__ import annotations

import calendar
import json
import time
from typing import Any

from labbook.errors import LabbookError
from labbook.store.journal import Journal
from labbook.store.json_files import read_text_or_nothing
from labbook.store.notebook import Notebook


def rebuild_start(notebook: Notebook, journal: Journal) -> dict[str, Any]:
    """Returns `run.json` rebuilt from the run's other files; empty if the run had not started.

    Args:
        notebook: Notebook of the run; its entry, if written, has the experiment, the tags and the host.
    """
    facts = _parse_truncated_json(read_text_or_nothing(journal.paths.start))
    if not facts and not _has_started(notebook, journal):
        return {}
    command = journal.read(journal.paths.before).get("command") or {}
    hello = next((process.hello for process in journal.processes() if process.hello), None) or {}
    entry = _read_entry_facts(notebook, journal.run_id)
    sources = (
        facts,
        {"script": command.get("script"), "argv": command.get("argv")},
        {"argv": hello.get("argv"), "cwd": hello.get("cwd"), "host": hello.get("host")},
        entry,
        {"schema": 1, "id": journal.run_id, "started": _start_time(journal.run_id)},
    )
    return {key: value for source in reversed(sources) for key, value in source.items() if value}


def _parse_truncated_json(text: str) -> dict[str, Any]:
    """Returns the complete fields of a truncated JSON object, written with an indentation of 1."""
    while text.startswith("{"):
        text = text.rpartition('\n "')[0]
        try:
            facts = json.loads(text.rstrip().rstrip(",") + "}")
        except ValueError:
            continue
        return facts if isinstance(facts, dict) else {}
    return {}


def _has_started(notebook: Notebook, journal: Journal) -> bool:
    """Whether a file exists that is written only once the command runs."""
    paths = journal.paths
    signs = [paths.before, paths.end, paths.resources, *paths.console.glob("*"), *paths.events.glob("*")]
    return notebook.paths.entry(journal.run_id).exists() or any(path.exists() for path in signs)


def _read_entry_facts(notebook: Notebook, run_id: str) -> dict[str, Any]:
    from labbook.store.text.entry_text import read_text
    from labbook.store.text.frontmatter import parse

    path = notebook.paths.entry(run_id)
    try:
        meta, _ = parse(read_text(path), str(path))
    except (OSError, ValueError, LabbookError):
        return {}
    return {key: meta.get(key) for key in ("experiment", "host", "author", "tags")}


def _start_time(run_id: str) -> float:
    return float(calendar.timegm(time.strptime(run_id[:15], "%Y%m%d-%H%M%S")))
