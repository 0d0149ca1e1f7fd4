"""Finds the code of a run outside a repository: the script and the local files it uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_MAX_FILES = 50
_MAX_BYTES = 1024 * 1024
_SHELL_FILE = re.compile(r"[\w./-]+\.(?:py|sh)\b")


def find_sources(script: Path, top: Path) -> list[Path]:
    """Returns the script and the files that it uses, by reading it, not running it.

    Args:
        top: Only files below this folder are returned.

    Returns:
        At most 50 files, the script first. Imports computed at run time are not found.
    """
    sources = {script: None}
    queue = [script]
    while queue and len(sources) < _MAX_FILES:
        for used in _find_used(queue.pop(0), script.parent):
            if used not in sources and used.is_relative_to(top) and len(sources) < _MAX_FILES:
                sources[used] = None
                queue.append(used)
    return list(sources)


def _find_used(file: Path, folder: Path) -> Iterator[Path]:
    try:
        if file.stat().st_size > _MAX_BYTES:
            return
        text = file.read_text("utf-8", "replace")
    except OSError:
        return
    if file.suffix == ".py":
        for base, name in _imports(text, file, folder):
            yield from _module_files(base, name)
    elif file.suffix in (".sh", ".bash", ""):
        for word in dict.fromkeys(_SHELL_FILE.findall(text)):
            if (folder / word).is_file() and ".." not in Path(word).parts:
                yield folder / word


def _imports(text: str, file: Path, folder: Path) -> Iterator[tuple[Path, str]]:
    """Yields the folder to search and the dotted name of each import; an imported member may be a module."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield folder, name.name
        elif isinstance(node, ast.ImportFrom):
            base = folder
            if node.level:
                base = file.parent
                for _ in range(node.level - 1):
                    base = base.parent
            if node.module:
                yield base, node.module
            for name in node.names:
                yield base, f"{node.module}.{name.name}" if node.module else name.name


def _module_files(base: Path, name: str) -> Iterator[Path]:
    """Yields the files that an import of `name` runs: each parent package, then the module."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        place = base.joinpath(*parts[:count])
        for file in (place / "__init__.py", place.with_name(place.name + ".py")):
            if file.is_file():
                yield file
