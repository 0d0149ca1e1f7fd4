"""Selects new source files of the user's code and adds them to the patch."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from labbook.capture.code.patch import Patch, is_withheld, new_file_section

_SOURCE = frozenset({
    ".py", ".pyi", ".pyx", ".pxd", ".sh", ".bash", ".zsh", ".fish", ".cu", ".cuh", ".cc", ".cpp", ".cxx", ".c", ".h",
    ".hh", ".hpp", ".hxx", ".inl", ".m", ".mm", ".f90", ".rs", ".go", ".java", ".js", ".jl", ".r", ".lua",
    ".pl", ".rb", ".scala", ".kt", ".swift", ".sql", ".proto", ".cmake", ".j2", ".jinja", ".jinja2", ".tmpl", ".mk",
    ".slurm", ".sbatch", ".pbs", ".gin", ".hcl", ".tf", ".dockerfile", ".triton", ".cl", ".metal",
})  # fmt: skip
_TEXT = frozenset({
    ".yaml", ".yml", ".json", ".jsonc", ".toml", ".cfg", ".ini", ".conf", ".md", ".rst", ".ipynb", ".xml",
    ".properties",
})  # fmt: skip
_NAMES = frozenset({
    "Makefile", "Dockerfile", "Containerfile", "Snakefile", "Jenkinsfile", "Justfile", "Pipfile", "CMakeLists.txt",
})  # fmt: skip
_TEXT_MAX_BYTES = 64 * 1024
_SOURCE_MAX_BYTES = 1024 * 1024


def is_source(path: str) -> bool:
    """Whether the name of a new file suggests source (code, settings, notes), not data."""
    pure = PurePosixPath(path)
    # Most plain text files are output of a run; lists of requirements are source.
    listed = pure.suffix in (".txt", ".in") and any(word in pure.name for word in ("require", "constraint"))
    named = pure.name in _NAMES or pure.name.startswith("Dockerfile")
    return pure.suffix.lower() in _SOURCE | _TEXT or named or listed


def separate_results(code: Mapping[str, Any], results: Collection[str], used: Collection[str] = ()) -> dict[str, Any]:
    """Returns the facts of the code in which files without effect are `results`, and no changes of the code.

    They are new text files, and files in git that the program writes. Files of code remain changes: they may be loaded.

    Args:
        results: Files that this run or the previous one wrote and this one did not read, by path below the top folder.
        used: Files and folders (with "/" at the end) that this run read; empty if not known. Others have no effect.
    """
    listed = [str(path) for path in code.get("untracked") or ()]
    folders = tuple(path for path in used if path.endswith("/"))

    def has_effect(path: str) -> bool:
        is_read = not used or path in used or path.startswith(folders)
        return PurePosixPath(path).suffix.lower() not in _TEXT or (is_read and path not in results)

    changed = code.get("files_changed") or []
    written = [path for each in changed if (path := str(each["path"])) in results and not _is_code(path)]
    found = [*(path for path in listed if not has_effect(path)), *written]
    if not found:
        return dict(code)
    untracked = [path for path in listed if path not in found]
    changed = [each for each in changed if each["path"] not in written]
    blobs = {path: blob for path, blob in (code.get("blobs") or {}).items() if path not in found}
    rest = {"untracked": untracked, "files_changed": changed, "results": found, "blobs": blobs}
    return {**code, **rest, "dirty": bool(changed or untracked)}


def _is_code(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in _SOURCE or PurePosixPath(path).name in _NAMES


def add_new_files(patch: Patch, top: Path, paths: Iterable[str], commit: str) -> None:
    """Adds new files, the smallest first, so that one large file does not displace the others."""
    sized: list[tuple[int, str, int]] = []
    for path in paths:
        try:
            status = (top / path).lstat()
        except OSError:
            continue
        if is_withheld(path):
            patch.withheld.append(path)
        elif not stat.S_ISREG(status.st_mode):
            patch.binaries.append(f"{path} (a link)" if stat.S_ISLNK(status.st_mode) else f"{path} (not a file)")
        elif status.st_size > _size_limit(path):
            patch.too_large.append(path)
        else:
            sized.append((status.st_size, path, status.st_mode))
    for _, path, mode in sorted(sized):
        content = _read_content(top / path, _size_limit(path))
        if content is None:
            patch.too_large.append(path)
            continue
        patch.add(path, new_file_section(path, content, bool(mode & stat.S_IXUSR), commit))


def _size_limit(path: str) -> int:
    return _TEXT_MAX_BYTES if PurePosixPath(path).suffix.lower() in _TEXT else _SOURCE_MAX_BYTES


def _read_content(file: Path, limit: int) -> bytes | None:
    """Returns the content of a file without following links; `None` if unreadable or over the limit."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as stream:
        content = stream.read(limit + 1)
    return content if len(content) <= limit else None
