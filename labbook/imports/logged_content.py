"""What a run logged in another tool: numbers, texts and pictures, collected up to the limits of an entry."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from labbook.capture.tables.series_collector import SeriesCollector
from labbook.frozen import dataclass
from labbook.imports.imported_files import is_inside
from labbook.imports.wire_format import RecordFile

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
LEFT_OUT = "labbook does not import this kind of data"


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


def left_out(kinds: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Returns what a run has logged besides numbers, texts and images, as one row."""
    names = ", ".join(sorted(kinds))
    return ((names, LEFT_OUT),) if names else ()


class LoggedContent:
    """Collects what one run logged; texts and pictures beyond the limits are left out.

    Args:
        tool: Name of the tool, which is the source of the series.
    """

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.points = SeriesCollector(tool)
        self.texts: list[LoggedText] = []
        self.pictures: list[Picture] = []
        self.left_out: set[str] = set()
        """Kinds of data that are not read."""
        self._files: list[RecordFile] = []

    def read_records(
        self, path: Path, records_of: Callable[[RecordFile], Iterator[bytes]], add: Callable[[bytes], None]
    ) -> None:
        """Passes each record of a file to `add`; one that cannot be decoded ends the file, as if it were cut there."""
        file = RecordFile(path)
        self._files.append(file)
        try:
            for record in records_of(file):
                add(record)
        except (ValueError, struct.error):
            file.truncated = True

    def add_text(self, tag: str, step: int, text: str) -> None:
        """Adds the beginning of a text."""
        if len(self.texts) < MAX_TEXTS:
            self.texts.append(LoggedText(tag, step, text[:MAX_TEXT]))

    def add_picture(self, tag: str, step: int, content: bytes) -> None:
        """Adds an encoded image, unless it is too large or no image."""
        if len(self.pictures) < MAX_PICTURES and (picture := encoded_picture(content, tag, step)) is not None:
            self.pictures.append(picture)

    def add_picture_file(self, tag: str, step: int, path: Path, root: Path, caption: object = "") -> None:
        """Adds an image file, unless it is outside of the root, too large or no image."""
        if len(self.pictures) < MAX_PICTURES and (picture := read_picture(path, root, tag, step, caption)) is not None:
            self.pictures.append(picture)

    def fields(self) -> dict[str, Any]:
        """Returns the fields of an `ImportedRun` with this content."""
        texts, pictures = tuple(self.texts), tuple(self.pictures)
        return {"tool": self.tool, "series": self.points.series(), "texts": texts, "pictures": pictures}

    def unobserved(self) -> tuple[tuple[str, str], ...]:
        """Returns what is not known of the run because files are truncated or damaged, or its kind is not read."""
        truncated, damaged = any(file.truncated for file in self._files), any(file.damaged for file in self._files)
        lost = (*((TRUNCATED,) if truncated else ()), *((DAMAGED,) if damaged else ()))
        return (*lost, *left_out(self.left_out))


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
