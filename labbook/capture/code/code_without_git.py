"""Code that lies in no repository: the script and the files beside it that it uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_MAX_FILES = 50
_MAX_BYTES = 1024 * 1024
_SHELL_FILE = re.compile(r"[\w./-]+\.(?:py|sh)\b")


def find_sources(script: Path, top: Path) -> list[Path]:
    """The script first, then the modules and scripts that it uses, found by reading it, not by running it.

    Args:
        script: The program's file.
        top: Only files below it are taken.

    Returns:
        At most 50 files. An import that is computed at run time is not found.
    """
    found = {script: None}
    waiting = [script]
    while waiting and len(found) < _MAX_FILES:
        for used in _used_by(waiting.pop(0), script.parent):
            if used not in found and used.is_relative_to(top) and len(found) < _MAX_FILES:
                found[used] = None
                waiting.append(used)
    return list(found)


def _used_by(file: Path, folder: Path) -> Iterator[Path]:
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
    """Folder to search and dotted name of each import; that of a package's member is tried as a module too."""
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
    """The files that an import of `name` runs: each package on the way, then the module."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        place = base.joinpath(*parts[:count])
        for file in (place / "__init__.py", place.with_name(place.name + ".py")):
            if file.is_file():
                yield file
