"""Reads YAML files of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def read_yaml(path: Path) -> dict[str, Any]:
    """Returns the mapping in a YAML file as PyYAML wrote it; empty if the file is missing or has another form."""
    from labbook.store.frontmatter import load_tagged

    try:
        found = load_tagged(path.read_text("utf-8", "replace"))
    except (OSError, ValueError):
        return {}
    return {str(name): value for name, value in found.items()} if isinstance(found, dict) else {}
