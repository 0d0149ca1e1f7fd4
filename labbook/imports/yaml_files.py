"""Reads YAML files of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labbook.imports.imported_run import is_inside


def read_yaml(path: Path, root: Path) -> dict[str, Any]:
    """Returns the mapping in a YAML file as PyYAML wrote it.

    Empty if the file is missing, outside of the root, or has another form.
    """
    from labbook.store.text.frontmatter import load_tagged

    if not is_inside(path, root):
        return {}
    try:
        found = load_tagged(path.read_text("utf-8", "replace"))
    except (OSError, ValueError):
        return {}
    return {str(name): value for name, value in found.items()} if isinstance(found, dict) else {}
