"""Normalized names of Python packages, and lines of a requirements file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def normalize_name(name: str) -> str:
    """Returns a package's name as registries compare it (PEP 503): "Foo_Bar" as "foo-bar"."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


def format_requirement(name: str, version: str, origin: Mapping[str, Any] | None) -> str:
    """Returns one line of a requirements file; a local folder is named in a comment before it."""
    if origin is None:
        return f"{name}=={version}" if version else name
    url, commit = str(origin["url"]), str(origin["commit"])
    if "://" not in url:
        at = f", commit {commit}" if commit else ""
        kind = "editable" if origin["editable"] else "installed"
        return f"# {kind} from {url}{at}\n{name}=={version}" if version else f"# {kind} from {url}{at}: {name}"
    return f"{name} @ {url}@{commit}" if commit else f"{name} @ {url}"
