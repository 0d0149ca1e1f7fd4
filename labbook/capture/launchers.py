"""Launchers such as torchrun, and the command lines behind them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path, PurePath

from labbook.frozen import dataclass


@dataclass(frozen=True)
class Launcher:
    """The command line of one launcher.

    Args:
        flags: Options without a value; every other option has one unless it contains "=".
        words: Words that must follow the launcher's name ("run" of `uv run`).
        positionals: Number of arguments before the program (the duration of `timeout 10 python ...`).
        module: Options after which the program is a module.
        python: Whether the program is a Python script even without the ending `.py`.
    """

    flags: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    positionals: int = 0
    module: frozenset[str] = frozenset()
    python: bool = False


def _read_launchers() -> dict[str, Launcher]:
    rows = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    found = {}
    for names, row in rows.items():
        flags = frozenset(" ".join(row.pop("flags", ())).split())
        launcher = Launcher(flags, tuple(row.pop("words", ())), module=frozenset(row.pop("module", ())), **row)
        found.update(dict.fromkeys(names.split(), launcher))
    return found


LAUNCHERS = _read_launchers()
"""Launchers, and modules that act as one, by name. Source: their `--help`, 2026."""

_PROGRAM_ENDINGS = (".py", ".pyw", ".sh", ".bash", ".ipynb")


def _looks_like_program(word: str) -> bool:
    """Whether a word can only be the program: a script, an interpreter or another launcher."""
    name = PurePath(word).name
    return word.endswith(_PROGRAM_ENDINGS) or name in LAUNCHERS or is_python(name) or name in ("bash", "sh", "env")


def is_python(name: str) -> bool:
    """Whether this is the name of a Python interpreter ("python", "python3.11", "pypy3")."""
    for stem in ("python", "pypy"):
        if name.startswith(stem):
            rest = name.removeprefix(stem).removesuffix("-dbg").removeprefix("w").removesuffix("t")
            return all(part.isdigit() for part in rest.split(".") if part) and not rest.startswith(".")
    return False


def unwrap_launcher(launcher: Launcher, words: Sequence[str]) -> tuple[list[str], bool]:
    """Returns the command behind a launcher, and whether its first word is a module.

    Returns:
        The words from the program on, empty if there is none; and whether the program is a module.
    """
    rest = list(words)
    for word in launcher.words:
        if word not in rest:
            return [], False
        del rest[: rest.index(word) + 1]
    left = launcher.positionals
    at = 0
    while at < len(rest):
        word = rest[at]
        if word == "--":
            return rest[at + 1 :], False
        if word in launcher.module:
            return rest[at + 1 :], True
        if word.startswith("-") and len(word) > 1:
            at += 2 if _takes_value(word, rest[at + 1 :], launcher) else 1
        elif left:
            left -= 1
            at += 1
        else:
            return rest[at:], False
    return [], False


def _takes_value(option: str, rest: Sequence[str], launcher: Launcher) -> bool:
    if "=" in option or option in launcher.flags or not rest or rest[0].startswith("-"):
        return False
    if not option.startswith("--") and len(option) > 2 and (option[2:].isdigit() or option[1:].isdigit()):
        return False  # `-n4`, `-10`: the word contains the value
    return not _looks_like_program(rest[0])
