"""A run as another tool stored it, before it becomes an entry."""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from labbook.frozen import dataclass
from labbook.imports.wire_format import RecordFile
from labbook.model.series import Series
from labbook.store.json_files import read_text_or_nothing

MAX_PICTURES = 24
MAX_PICTURE_BYTES = 512 * 1024
MAX_TEXTS = 40
MAX_TEXT = 4000
MAX_ROWS = 20
MAX_CELL = 80
MAX_DEPTH = 8
"""Limits of one run. Source: chosen by us; the folder of an entry stays under some MiB."""

TRUNCATED = ("record file", "it ends in the middle of a record; everything before that was read")
DAMAGED = ("record file", "records were left out because their checksums do not match")
NO_STATUS = ("exit status", "the tool does not record how a run ended")
NO_TIMES = ("time", "the file has no times; the time is that of the file")
OUTSIDE = ("artifacts", "their folder is not in the imported one")
LEFT_OUT = "labbook does not import this kind of data"
UNREADABLE = "it is damaged and cannot be read"


def lost_records(files: Sequence[RecordFile]) -> tuple[tuple[str, str], ...]:
    """Returns what is not known of a run because its record files are truncated or damaged."""
    truncated, damaged = any(file.truncated for file in files), any(file.damaged for file in files)
    return (*((TRUNCATED,) if truncated else ()), *((DAMAGED,) if damaged else ()))


def left_out(kinds: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Returns what a run has logged besides numbers, texts and images, as one row."""
    names = ", ".join(sorted(kinds))
    return ((names, LEFT_OUT),) if names else ()


@dataclass(frozen=True)
class LoggedText:
    """A text that the run logged."""

    tag: str
    step: int
    text: str


@dataclass(frozen=True)
class Picture:
    """An encoded image that the run logged.

    Args:
        suffix: ".png", ".jpg", ".gif" or ".svg".
        caption: What the program wrote below it.
    """

    tag: str
    step: int
    suffix: str
    content: bytes
    caption: str = ""


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
        facts: list[Any] = [
            self.name,
            self.experiment,
            self.params,
            self.tags,
            self.description,
            self.status,
            self.exit_code,
        ]
        facts += [self.started, self.ended, self.argv, self.unobserved, [vars_of(text) for text in self.texts]]
        total.update(json.dumps(facts, default=str, sort_keys=True).encode("utf-8", "replace"))
        for series in self.series:
            total.update(series.name.encode("utf-8", "replace"))
            total.update(array("q", series.steps).tobytes() + array("d", series.values).tobytes())
        for picture in self.pictures:
            shown = f"{picture.tag}{picture.step}{picture.caption}"
            total.update(shown.encode("utf-8", "replace") + picture.content)
        return total.hexdigest()[:16]


def vars_of(text: LoggedText) -> list[Any]:
    """Returns the fields of a text as plain data."""
    return [text.tag, text.step, text.text]


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


def picture_suffix(content: bytes) -> str:
    """Returns the suffix of an encoded image by its first bytes, "" if it is none that a page can show."""
    if content[:8] == b"\x89PNG\r\n\x1a\n":
        return ".png"
    if content[:3] == b"\xff\xd8\xff":
        return ".jpg"
    return ".gif" if content[:4] == b"GIF8" else ""


def read_picture(path: Path, root: Path, tag: str, step: int, caption: object = "") -> Picture | None:
    """Returns an image file as a picture; `None` if it is missing, outside of the root, too large or no image."""
    try:
        if not is_inside(path, root) or path.stat().st_size > MAX_PICTURE_BYTES:
            return None
        content = path.read_bytes()
    except OSError:
        return None
    found = encoded_picture(content, tag, step)
    return replace(found, caption=caption[:MAX_TEXT]) if found is not None and isinstance(caption, str) else found


def encoded_picture(content: bytes, tag: str, step: int) -> Picture | None:
    """Returns an encoded image as a picture; `None` if it is too large or no image."""
    suffix = picture_suffix(content)
    return Picture(tag, step, suffix, content) if suffix and len(content) <= MAX_PICTURE_BYTES else None


def table_text(columns: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """Returns the begin of a table as text, its cells in one line each."""
    shown = [columns, ["---"] * len(columns), *rows[:MAX_ROWS]]
    lines = [f"| {' | '.join(' '.join(str(cell).split())[:MAX_CELL] for cell in row)} |" for row in shown]
    return "\n".join([*lines, *(["..."] if len(rows) > MAX_ROWS else [])])[:MAX_TEXT]


def stored_table(data: Mapping[str, Any]) -> str:
    """Returns a table that W&B or MLflow stored as an object with `columns` and `data`; "" if it is none."""
    columns, rows = data.get("columns"), data.get("data")
    if not isinstance(columns, list) or not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        return ""
    return table_text(columns, rows)


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
