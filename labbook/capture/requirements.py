"""Names of Python packages as registries compare them, and lines of a requirements file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def normal_name(name: str) -> str:
    """A package's name as registries compare it: lower case, runs of "-", "_" and "." as one "-"."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


def requirement(name: str, version: str, origin: Mapping[str, Any] | None) -> str:
    """One line of a requirements file; a folder of this machine is a comment beside its version."""
    if origin is None:
        return f"{name}=={version}" if version else name
    url, commit = str(origin["url"]), str(origin["commit"])
    if "://" not in url:
        at = f", commit {commit}" if commit else ""
        kind = "editable" if origin["editable"] else "installed"
        return f"# {kind} from {url}{at}\n{name}=={version}" if version else f"# {kind} from {url}{at}: {name}"
    return f"{name} @ {url}@{commit}" if commit else f"{name} @ {url}"
