"""The private folder of a notebook: journals, index and queue."""

from __future__ import annotations

from pathlib import Path


def make_private(folder: Path) -> None:
    """Makes the private folder, readable by its owner only and ignored by git wherever the notebook lies.

    Raises:
        OSError: The notebook cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        # It ignores itself too: no `.gitignore` of the user has to name it.
        ignore.write_text("*\n", "utf-8")
