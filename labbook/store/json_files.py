"""Reads small files of text and JSON; one that is missing or damaged reads as empty."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from labbook.store.paths import NotebookPaths


def read_text_or_nothing(path: Path) -> str:
    """Returns the text of a file, "" if it is not readable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the objects in a file with one in each line; lines that a crash truncated are skipped."""
    with suppress(OSError), path.open("rb") as stream:
        for line in stream:
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found


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
