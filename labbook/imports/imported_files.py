"""Finds and reads the files of another tool; none outside of the imported folder is read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labbook.store.json_files import read_text_or_nothing


def folders_with(path: Path, part: str) -> Iterator[tuple[Path, list[Path]]]:
    """Yields the folders, at the path and below it, that have files with `part` in their names, with these files."""
    if path.is_file():
        if part in path.name:
            yield path.parent, [path]
        return
    for folder, _, files in walk(path):
        found = [folder / name for name in files if part in name]
        if found:
            yield folder, found


def walk(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yields what `os.walk` does, sorted, without files whose links leave the folder."""
    for name, folders, files in os.walk(root):
        folders.sort()
        folder = Path(name)
        yield folder, folders, sorted(file for file in files if is_inside(folder / file, root))


def root_of(path: Path) -> Path:
    """Returns the folder that is imported: the path itself, or the folder of the file that it names."""
    return path if path.is_dir() else path.parent


def is_inside(path: Path, root: Path) -> bool:
    """Whether a path is a regular file or a folder, and lies in the root when all links are followed.

    Paths that the data of another tool names, and links among its files, can lead to any file of this machine.
    """
    try:
        found = path.resolve()
        return found.is_relative_to(root.resolve()) and (found.is_file() or found.is_dir())
    except (OSError, ValueError, RuntimeError):  # a circle of links, a NUL in a name
        return False


def read_object(path: Path, root: Path) -> dict[str, Any]:
    """Returns the object in a JSON file; empty if there is none, or if it is outside of the root."""
    return parse_object(read_text_or_nothing(path)) if is_inside(path, root) else {}


def parse_object(text: str) -> dict[str, Any]:
    """Returns an object of JSON; empty if the text is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


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
