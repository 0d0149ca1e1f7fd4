"""The private folder of a notebook: journals, index and queue."""

from __future__ import annotations

from pathlib import Path


def make_private(folder: Path) -> None:
    """Create the private folder, readable by its owner only and ignored by git in every notebook.

    Raises:
        OSError: The notebook cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        # It ignores itself, so that no `.gitignore` of the user needs to list it.
        ignore.write_text("*\n", "utf-8")
