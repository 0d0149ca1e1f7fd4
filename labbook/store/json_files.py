"""Reads JSON files that labbook wrote; one that is missing or damaged reads as empty."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labbook.store.paths import NotebookPaths


def read_json_object(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file; empty if the file is missing or damaged, or holds no object."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_run_facts(paths: NotebookPaths, run_id: str) -> dict[str, Any]:
    """Returns the `run.json` of a run as `read_json_object` does."""
    return read_json_object(paths.attachments(run_id) / "run.json")
