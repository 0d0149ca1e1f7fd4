"""Writes a small project that trains: `templates/projects/common` with the files of one framework.

Existing files are never overwritten; `.gitignore` is added to.
"""

from __future__ import annotations

from pathlib import Path

from labbook.errors import NotebookError
from labbook.store.scaffold import ScaffoldFiles, append_lines
from labbook.store.text.words_files import builtin_folder

PROJECTS = ("torch", "paddle", "lightning")
"""Folders in `templates/projects/`."""

_IGNORED = ["__pycache__/", ".pytest_cache/", ".venv/", "/checkpoints/"]


def write_project(root: Path, name: str, language: str) -> ScaffoldFiles:
    """Writes the missing files of a project and returns them.

    Args:
        root: Folder of the project; it exists.
        name: One of `PROJECTS`.
        language: "en" or "zh", of the README.

    Raises:
        NotebookError: The folder cannot be written.
    """
    folder = builtin_folder() / "projects"
    sources = {path.name: path for part in ("common", name) for path in sorted((folder / part).iterdir())}
    texts = {file: path for file, path in sources.items() if path.is_file() and not file.startswith("README.")}
    texts["README.md"] = sources[f"README.{language}.md"]
    files, kept = [], []
    try:
        for file, path in texts.items():
            target = root / file
            try:
                with target.open("x", encoding="utf-8") as stream:
                    stream.write(path.read_text("utf-8"))
                files.append(target)
            except FileExistsError:
                kept.append(target)
        append_lines(root / ".gitignore", _IGNORED)
    except OSError as error:
        raise NotebookError("errors.file.not_written", path=root, reason=error) from error
    return ScaffoldFiles(tuple(files), tuple(kept))
