"""Makes the data of a recorded run available to its rerun, and checks whether it has changed since."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from labbook.capture.fingerprints import Budget, fingerprint_file
from labbook.compare.run_settings import list_rows
from labbook.model.message import Message, message
from labbook.rerun.recorded_code import RecordedCode

_MOST_NOTES = 10
_MOST_COPIED = 4 << 30
"""Largest folder that is copied, in bytes. Source: chosen by us."""


def prepare_inputs(run: Mapping[str, Any], code: RecordedCode) -> list[Message]:
    """Links inputs that the recorded code lacks, from where the run was recorded, and compares their fingerprints.

    Where that folder is not on this machine, they are looked for in the checkout that is here.

    Returns:
        What is missing or has changed.
    """
    budget = Budget(seconds=20.0, full_bytes=8 << 30)
    notes: list[Message] = []
    for row in list_rows(run, "files"):
        mode, path = str(row.get("mode") or ""), str(row.get("path") or "")
        if not mode.startswith("read"):
            continue
        is_overwritten = mode != "read"
        if is_overwritten and not row.get("before") and not path.endswith("/"):
            continue  # the run made it: there was nothing to read when it began
        here = _provide_input(Path(path).expanduser(), code, _copy if is_overwritten else _link)
        if not here.exists():
            notes.append(message("rerun.input_missing", path=path))
        elif _has_changed(here, str(row.get("before") or row.get("fingerprint") or ""), budget):
            notes.append(message("rerun.input_changed", path=path))
    rest = len(notes) - _MOST_NOTES
    return notes if rest <= 0 else [*notes[:_MOST_NOTES], message("rerun.more_inputs", count=rest)]


def _provide_input(path: Path, code: RecordedCode, put: Callable[[Path, Path], None]) -> Path:
    """Returns where the recorded code reads an input; one that it lacks is put there.

    Args:
        path: Path of the input in the recorded run.
        put: Links or copies from one path to the other: what the program writes must not reach the original.
    """
    there = code.original / path
    for then, now in ((code.original_top, code.top), (code.original, code.cwd)):
        if there.is_relative_to(then):
            # The program may have read it by a relative path, however the entry shows it.
            here = now / there.relative_to(then)
            if code.checkout is not None and there.is_relative_to(code.original_top):
                there = code.checkout / there.relative_to(code.original_top)
            if not here.exists():
                put(there, here)
            return here
    return code.cwd / path


def _has_changed(file: Path, fingerprint: str, budget: Budget) -> bool:
    """Whether a file is known to differ from its fingerprint; a sampled and a whole one cannot be compared."""
    if not fingerprint or not file.is_file():
        return False
    found = fingerprint_file(file, budget).text
    return bool(found) and found.partition(":")[0] == fingerprint.partition(":")[0] and found != fingerprint


def input_paths(run: Mapping[str, Any]) -> list[Path]:
    """Returns the inputs of a run that were recorded with absolute paths."""
    rows = [row for row in list_rows(run, "files") if str(row.get("mode") or "").startswith("read")]
    return [path for row in rows if (path := Path(str(row.get("path") or "")).expanduser()).is_absolute()]


def _copy(there: Path, here: Path) -> None:
    """Copies a file, or a folder of up to `_MOST_COPIED` bytes."""
    with contextlib.suppress(OSError, shutil.Error):
        here.parent.mkdir(parents=True, exist_ok=True)
        if there.is_dir():
            if sum(file.stat().st_size for file in there.rglob("*") if file.is_file()) <= _MOST_COPIED:
                shutil.copytree(there, here, dirs_exist_ok=True)
        elif there.exists():
            shutil.copy2(there, here)


def _link(there: Path, here: Path) -> None:
    """Makes a link to a file or folder outside git.

    A folder is linked file by file at its top, so that files which the program adds stay in the rerun.
    """
    with contextlib.suppress(OSError):
        here.parent.mkdir(parents=True, exist_ok=True)
        if there.is_dir():
            here.mkdir()
            for child in there.iterdir():
                (here / child.name).symlink_to(child)
        elif there.exists():
            here.symlink_to(there)
