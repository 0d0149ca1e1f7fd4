"""Reads YAML files of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def read_yaml(path: Path) -> dict[str, Any]:
    """Returns the mapping in a YAML file; empty if the file is missing or has another form."""
    from labbook.errors import EntryError
    from labbook.store import frontmatter

    try:
        text = path.read_text("utf-8", "replace")
        return dict(frontmatter.parse(f"---\n{text.rstrip()}\n---\n", str(path))[0])
    except (OSError, EntryError):
        return {}
