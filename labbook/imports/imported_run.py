"""A run as another tool stored it, before it becomes an entry."""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, field
from pathlib import Path
from typing import Any

from labbook.frozen import dataclass
from labbook.imports.imported_files import root_of
from labbook.imports.logged_content import LoggedText, Picture
from labbook.model.series import Series

NO_STATUS = ("exit status", "the tool does not record how a run ended")
NO_TIMES = ("time", "the file has no times; the time is that of the file")
OUTSIDE = ("artifacts", "their folder is not in the imported one")
UNREADABLE = "it is damaged and cannot be read"


@dataclass(frozen=True)
class ImportedRun:
    """One run of another tool.

    Args:
        tool: Name of the format: "tensorboard", "mlflow" ...
        path: Folder, file or database that it was read from.
        identity: Text that no other run of the tool has, and that does not change when the run grows or is moved.
        name: Name that people see; need not be unique.
        experiment: Experiment or project of the tool, or "".
        started: Unix seconds; 0 if unknown.
        ended: Unix seconds of the end or of the last value; `None` if unknown.
        status: "finished", "failed", "killed", or "lost" where no end was recorded by a tool that records it.
        argv: The command, empty if unknown.
        script: The program, or "".
        unobserved: What the format lacks or could not be read, as (what, reason).
    """

    tool: str
    path: Path
    identity: str
    name: str
    experiment: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    series: tuple[Series, ...] = ()
    texts: tuple[LoggedText, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tags: tuple[str, ...] = ()
    description: str = ""
    started: float = 0.0
    ended: float | None = None
    status: str = "finished"
    exit_code: int | None = None
    argv: tuple[str, ...] = ()
    script: str = ""
    host: str = ""
    author: str = ""
    unobserved: tuple[tuple[str, str], ...] = ()

    def digest(self) -> str:
        """Returns a digest of everything that goes into the entry; another one means that the run has grown."""
        total = hashlib.sha256()
        facts: list[Any] = [self.name, self.experiment, self.params, self.tags, self.description]
        facts += [self.status, self.exit_code]
        facts += [self.started, self.ended, self.argv, self.unobserved, list(map(astuple, self.texts))]
        total.update(json.dumps(facts, default=str, sort_keys=True).encode("utf-8", "replace"))
        for series in self.series:
            total.update(series.name.encode("utf-8", "replace"))
            total.update(array("q", series.steps).tobytes() + array("d", series.values).tobytes())
        for picture in self.pictures:
            shown = f"{picture.tag}{picture.step}{picture.caption}"
            total.update(shown.encode("utf-8", "replace") + picture.content)
        return total.hexdigest()[:16]


@dataclass(frozen=True)
class Reader:
    """Reads one format.

    Args:
        name: Name of the format on the command line.
        title: Name of the tool in sentences.
        find: Yields what looks like this format at a path and below it, judged by names and first bytes.
        runs: Yields the runs in a file, or in a folder and the folders below it. Raises `OSError` if a file cannot be
            read, `ValueError` if it has another format.
    """

    name: str
    title: str
    find: Callable[[Path], Iterator[object]]
    runs: Callable[[Path], Iterator[ImportedRun]]

    def recognizes(self, path: Path) -> bool:
        """Whether a file or folder looks like this format."""
        return next(self.find(path), None) is not None


def name_below(folder: Path, root: Path) -> str:
    """Returns the name of a run by its folder: the path below the imported one, or the name of the imported one."""
    below = os.path.relpath(folder, root_of(root))
    return folder.resolve().name if folder == root or below == "." else Path(below).as_posix()


def experiment_of(folder: Path, root: Path) -> str:
    """Returns the experiment of a run by its folder: the imported folder, or the one above it."""
    return root.resolve().name if root.is_dir() and folder != root else folder.resolve().parent.name


def parse_typed(text: str) -> Any:  # noqa: ANN401 - a scalar
    """Returns a parameter that a tool stored as text as what it was: a number, a truth value, `None`, or the text.

    A text is a number if Python writes that number so: `0.0001` and `1e-05` are numbers; `1e-4`, `3.10` and `007` were
    texts in the program, as YAML reads `1e-4`.
    """
    named = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
    if text in named:
        return named[text]
    for kind in (int, float):
        with suppress(ValueError):
            number = kind(text)
            if str(number) == text:
                return number
    return text
