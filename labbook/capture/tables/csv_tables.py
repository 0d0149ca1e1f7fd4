"""Opens tables in CSV as people and spreadsheets write them: encoding, separator, comments, header, numbers."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from labbook.frozen import dataclass

SUFFIXES = (".csv", ".tsv")
JSON_LINES = ".jsonl"
_HEAD_BYTES = 65_536
_HEAD_LINES = 50
_LINE = 100_000
_SEPARATORS = ",;\t|"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_TENSOR = re.compile(r"tensor\(([^,()]+)(,.*)?\)")
_NOT_CHINESE = re.compile(r"[^\x00-\x7f\u2010-\u2026\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")


@dataclass(frozen=True)
class CsvTable:
    """A table: names of its columns, and where its rows begin.

    Args:
        header: Names of the columns, stripped; empty if the file has no row of names.
        lines_before: Lines before the first row of values.
    """

    file: Path
    header: tuple[str, ...]
    encoding: str
    separator: str
    lines_before: int

    def rows(self) -> Iterator[list[str]]:
        """Yields the rows, cells stripped, without comments and repeated headers.

        Raises:
            csv.Error: A cell is too long.
        """
        with self.file.open(encoding=self.encoding, errors="replace", newline="") as stream:
            lines = (line.replace("\0", "") for line in islice(stream, self.lines_before, None))
            for row in _cells(lines, self.separator):
                cells = [cell.strip() for cell in row]
                if any(cells) and not cells[0].startswith("#") and tuple(cells) != self.header:
                    yield cells

    def number(self, cell: str) -> float | None:
        """Returns the number in a cell, `None` if it is none: "93.5 %", "1,000" and, beside ";", "0,5" are numbers."""
        try:
            return float(cell)
        except ValueError:
            pass
        text = cell.removesuffix("%").rstrip()
        tensor = _TENSOR.fullmatch(text)
        if tensor is not None:
            text = tensor[1]
        elif self.separator == ";":
            text = text.replace(".", "").replace(",", ".") if "," in text else text
        elif _THOUSANDS.fullmatch(text):
            text = text.replace(",", "")
        with suppress(ValueError):
            return float(text)
        return {"true": 1.0, "false": 0.0}.get(text.lower())


@dataclass(frozen=True)
class JsonTable(CsvTable):
    """A table with an object of JSON a line; its columns are the keys of the first lines."""

    def rows(self) -> Iterator[list[str]]:
        """Yields the rows; what is no number or word is an empty cell."""
        with self.file.open(encoding=self.encoding, errors="replace") as stream:
            for line in islice(stream, self.lines_before, None):
                values = _json_object(line)
                if values:
                    yield [_json_cell(values.get(name)) for name in self.header]


def _json_object(line: str) -> dict[str, object]:
    with suppress(ValueError):
        found = json.loads(line)
        if isinstance(found, dict):
            inner = {
                f"{name}/{key}": one
                for name, each in found.items()
                if isinstance(each, dict)
                for key, one in each.items()
            }
            return {**found, **inner}
    return {}


def _json_cell(value: object) -> str:
    return str(value) if isinstance(value, (str, int, float)) else ""


def open_table(file: Path) -> CsvTable:
    """Returns the table in a file; without a header if the file has none, or cannot be read."""
    if file.suffix.lower() == JSON_LINES:
        with suppress(OSError), file.open(encoding="utf-8", errors="replace") as stream:
            objects = map(_json_object, islice(stream, _HEAD_LINES))
            names = dict.fromkeys(name for one in objects for name, value in one.items() if _json_cell(value))
            return JsonTable(file, tuple(names), "utf-8", ",", 0)
    try:
        with file.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        head = b""
    encoding = _encoding(head)
    if b"\0" in head and not encoding.startswith("utf-16"):
        return CsvTable(file, (), encoding, ",", 0)
    with file.open(encoding=encoding, errors="replace", newline="") as stream:
        lines = list(islice(iter(lambda: stream.readline(_LINE), ""), _HEAD_LINES))
    named, comment = "", ""
    for count, line in enumerate(lines, 1):
        text = line.strip()
        if text.lower().startswith("sep=") and len(text) == 5:
            named = text[4]
        elif text.startswith("#"):
            comment = text.lstrip("# ")
        elif text:
            separator = named or _separator(text, next(iter(lines[count:]), ""))
            cells = _strip(text, separator)
            if not _are_values(cells):
                return CsvTable(file, cells, encoding, separator, count)
            titles = _strip(comment, separator)
            header = titles if len(titles) == len(cells) and not _are_values(titles) else ()
            return CsvTable(file, header, encoding, separator, count - 1)
    return CsvTable(file, (), encoding, ",", 0)


def _encoding(head: bytes) -> str:
    """Returns the encoding by the first bytes: spreadsheets in China write GB 18030, "Unicode text" is UTF-16."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for encoding in ("utf-8", "gb18030"):
        with suppress(UnicodeDecodeError):
            text = codecs.getincrementaldecoder(encoding)().decode(head)
            if encoding == "utf-8" or not _NOT_CHINESE.search(text):
                return "utf-8-sig" if encoding == "utf-8" else encoding
    return "utf-8-sig"


def _separator(line: str, after: str) -> str:
    """Returns the separator of a line; a space only if the next line has as many words."""
    plain = re.sub('"[^"]*"', "", line)
    found = max(_SEPARATORS, key=plain.count)
    return found if plain.count(found) or not 1 < len(line.split()) == len(after.split()) else " "


def _strip(line: str, separator: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in next(_cells([line], separator), []))


def _cells(lines: Iterator[str] | Sequence[str], separator: str) -> Iterator[list[str]]:
    if separator == " ":
        lines = (" ".join(line.split()) for line in lines)
    return csv.reader(chain(lines), delimiter=separator, skipinitialspace=separator != "\t")


def _are_values(cells: Sequence[str]) -> bool:
    return all(_NUMBER.fullmatch(cell.replace(",", ".")) for cell in cells if cell)
