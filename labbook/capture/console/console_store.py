"""Stores numbered lines: the first ones permanently, the last ones in rotated segments.

The files are plain text. A line that starts with a NUL gives the number of the line after it; it is at the start of
each file and in each gap, so that a reader knows what is missing. Every write is one `write` of complete lines, so that
the files are readable after any death of the recorder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_SEGMENTS = 4
_SMALLEST_SEGMENT = 1024


class LineStore:
    """Appends lines to the files `<name>.head` and `<name>.tail-<n>` of a folder.

    Args:
        folder: The folder; created if missing. Existing files are continued.
        name: First part of the file names.
        head_bytes: Maximum size of the first lines.
        tail_bytes: Maximum size of the last lines.
    """

    def __init__(self, folder: Path, name: str, head_bytes: int, tail_bytes: int) -> None:
        self.trouble = ""
        self._folder = folder
        self._name = name
        self._head_left = head_bytes
        self._tail_bytes = tail_bytes
        self._segment_bytes = max(_SMALLEST_SEGMENT, tail_bytes // _SEGMENTS)
        self._segments: list[Path] = []
        self._written = 0  # bytes in the newest segment
        self._next = -1  # number of a line that needs no mark
        self._is_cut = False
        self._file = -1
        self._opened = False

    def append(self, first: int, lines: Sequence[str]) -> int:
        """Writes lines and returns how many of them are in the head; never raises, see `trouble`.

        Args:
            lines: Lines without newlines and control characters.
        """
        self._open()
        in_head = 0
        block: list[bytes] = []
        free_bytes = self._remaining_bytes()
        for number, line in enumerate(lines, first):
            encoded = line.encode("utf-8", "replace") + b"\n"
            mark = b"" if number == self._next else b"\x00%d\n" % number
            if len(encoded) + len(mark) > free_bytes:
                self._write(block)
                block = []
                self._next_file()
                free_bytes, mark = self._remaining_bytes(), b"\x00%d\n" % number
            free_bytes -= len(encoded) + len(mark)
            in_head += not self._segments and self._head_left > 0
            block += (mark, encoded)
            self._next = number + 1
        self._write(block)
        return in_head

    def _remaining_bytes(self) -> int:
        return self._head_left if not self._segments and self._head_left > 0 else self._segment_bytes - self._written

    def _write(self, block: list[bytes]) -> None:
        data = (b"\n" if self._is_cut else b"") + b"".join(block)
        if not block:
            return
        if self._head_left <= 0 and not self._tail_bytes:
            return
        try:
            if self._file < 0:
                self._file = os.open(self._path(), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            written = os.write(self._file, data)
        except OSError as error:
            self.trouble = error.strerror or str(error)
            self._next = -1
            return
        self._is_cut = written < len(data)
        if self._is_cut:
            self._next = -1
        if self._segments:
            self._written += written
        else:
            self._head_left -= written

    def _path(self) -> Path:
        if self._segments:
            return self._segments[-1]
        if self._head_left > 0:
            return self._folder / f"{self._name}.head"
        return self._add_segment()

    def _next_file(self) -> None:
        """Starts the next segment and removes the oldest one."""
        self.close()
        self._is_cut = False
        self._head_left = 0
        self._add_segment()
        while len(self._segments) > _SEGMENTS + 1:
            oldest = self._segments.pop(0)
            try:
                oldest.unlink(missing_ok=True)
            except OSError as error:
                self.trouble = error.strerror or str(error)

    def _add_segment(self) -> Path:
        last = int(self._segments[-1].suffix.rpartition("-")[2]) if self._segments else 0
        self._segments.append(self._folder / f"{self._name}.tail-{last + 1:06d}")
        self._written = 0
        return self._segments[-1]

    def _open(self) -> None:
        """Reads the state on disk at the first use; another process may have written before."""
        if self._opened:
            return
        self._opened = True
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            head = self._folder / f"{self._name}.head"
            self._segments = _segments(self._folder, self._name)
            if self._segments:
                self._head_left = 0
                self._written = self._segments[-1].stat().st_size
            elif head.exists():
                self._head_left -= head.stat().st_size
            newest = self._segments[-1] if self._segments else head
            if newest.exists() and newest.stat().st_size:
                with newest.open("rb") as stream:
                    stream.seek(-1, os.SEEK_END)
                    self._is_cut = stream.read(1) != b"\n"
        except OSError as error:
            self.trouble = error.strerror or str(error)

    def close(self) -> None:
        """Closes the file; a later `append` opens it again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def read_head(folder: Path, name: str) -> list[tuple[int, str]]:
    """Returns the first lines with their numbers."""
    return list(_read_numbered(folder / f"{name}.head"))


def read_tail(folder: Path, name: str, at_most: int | None = None) -> list[tuple[int, str]]:
    """Returns the last lines with their numbers, at most `at_most` bytes of them."""
    lines = [line for path in _segments(folder, name) for line in _read_numbered(path)]
    if at_most is None:
        return lines
    left, start = at_most, len(lines)
    while start and (left := left - len(lines[start - 1][1].encode("utf-8", "replace")) - 1) >= 0:
        start -= 1
    return lines[start:]


def last_number(folder: Path, name: str) -> int:
    """Returns the number of the last line on disk, 0 if there is none."""
    for path in reversed([folder / f"{name}.head", *_segments(folder, name)]):
        number = max((number for number, _ in _read_numbered(path)), default=0)
        if number:
            return number
    return 0


def _segments(folder: Path, name: str) -> list[Path]:
    return sorted(folder.glob(f"{name}.tail-*"))


def _read_numbered(path: Path) -> Iterator[tuple[int, str]]:
    try:
        content = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return
    number = 0
    lines = content.split("\n")
    for place, line in enumerate(lines):
        if line.startswith("\x00"):
            # A mark that a crash truncated is the last line of the file and is ignored.
            number = int(line[1:]) if line[1:].isdigit() else number
        elif line or place < len(lines) - 1:
            yield number, line
            number += 1


def read_objects(path: Path) -> list[dict[str, Any]]:
    """Returns the objects of the JSON list in a small file; empty if it is missing or damaged."""
    try:
        loaded = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return []
    return [one for one in loaded if isinstance(one, dict)] if isinstance(loaded, list) else []
