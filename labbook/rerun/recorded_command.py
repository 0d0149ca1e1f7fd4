"""The recorded command, for the folder and the environment of its rerun."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from labbook.capture.launchers import is_python
from labbook.compare.run_settings import captured_facts
from labbook.errors import UsageError
from labbook.rerun.recorded_code import RecordedCode

_MASK = "[REDACTED"


def rerun_command(
    run: Mapping[str, Any], code: RecordedCode, more: Sequence[str] = (), programs: Path | None = None
) -> list[str]:
    """Returns the recorded command for the folder of the code.

    A path of the recorded folder becomes one of the worktree. What the worktree lacks, such as a virtual environment
    or data that git ignores, is used where it was recorded.

    Args:
        run: The `run.json`.
        code: The folder, with its inputs.
        more: Words that are added to the command.
        programs: The `bin` folder of a rebuilt environment; its interpreter replaces the recorded one.

    Raises:
        UsageError: A part of the command was masked as a secret.
    """
    words = [str(word) for word in run.get("argv") or ()]
    masked = next((word for word in words if _MASK in word), "")
    if masked:
        raise UsageError("errors.rerun.masked", masked=masked)
    prefix = str(captured_facts(run, "python").get("prefix") or "")
    found = []
    for at, word in enumerate(words):
        rebuilt = _rebuilt_program(word, prefix, code, programs, is_first=at == 0) if programs else ""
        found.append(rebuilt or _move_path(word, code, is_program=at == 0))
    return [*found, *more]


def _rebuilt_program(word: str, prefix: str, code: RecordedCode, programs: Path, *, is_first: bool) -> str:
    """Returns the program of the rebuilt environment for a word that names one of the recorded environment."""
    path = PurePath(code.original, os.path.expanduser(word))  # noqa: PTH111 - a link of an environment must stay
    recorded = PurePath(os.path.expanduser(prefix), "bin")  # noqa: PTH111
    is_of_environment = "/" in word and os.path.normpath(path.parent) == str(recorded)
    if not (is_of_environment or (is_first and is_python(path.name) and "/" in word)):
        return ""
    for name in (path.name, "python" if is_python(path.name) else ""):
        if name and (programs / name).exists():
            return str(programs / name)
    return ""


def _move_path(word: str, code: RecordedCode, *, is_program: bool) -> str:
    """Returns a word with the path in it, if it has one, moved to the folder of the code."""
    if is_program and "/" in word and not word.startswith(("/", "~")):
        original = code.original / word
        return word if (code.cwd / word).exists() or not original.exists() else str(original)
    name, equals, value = word.partition("=")
    for before, path in (("", word), (name + equals, value)):
        if path.startswith(("/", "~/")) and Path(path).expanduser().is_relative_to(code.original_top):
            return f"{before}{code.move_path(Path(path).expanduser())}"
    return code.move_paths(word)
