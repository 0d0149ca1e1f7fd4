"""The code of a run."""

from __future__ import annotations

from pathlib import Path

from labbook.model.run import Run


def source_path(run: Run, name: str) -> Path:
    """Returns where a source file can be read as it was when the run began."""
    return Path(run.copies.get(name, name)).expanduser()
