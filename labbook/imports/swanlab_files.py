"""Reads local folders of SwanLab: `run-*/run-*.swanlab` with the configuration and media beside it.

Source: swanlab/proto/swanlab of SwanLab 0.8: records in the framing of LevelDB logs. Folders of older versions, with
`logs/<name>/*.log` only, are read by those logs.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from labbook.imports.imported_files import is_inside, parse_object, read_object, read_yaml, root_of, walk
from labbook.imports.imported_run import ImportedRun, Reader
from labbook.imports.logged_content import LoggedContent
from labbook.imports.wire_format import Message, RecordFile

_FINISH_STATES = {1: "finished", 2: "failed", 3: "killed"}


def _runs(path: Path) -> Iterator[ImportedRun]:
    """Yields the runs at the path and below it."""
    for folder in _run_folders(path):
        yield _Builder(folder, root_of(path)).run()


def _run_folders(path: Path) -> Iterator[Path]:
    if path.is_file():
        if path.suffix == ".swanlab":
            yield path.parent
        return
    for folder, folders, files in walk(path):
        with_logs = "logs" in folders and is_inside(folder / "files" / "swanlab-metadata.json", path)
        if any(name.endswith(".swanlab") for name in files) or with_logs:
            folders.clear()
            yield folder


class _Builder(LoggedContent):
    def __init__(self, folder: Path, root: Path) -> None:
        super().__init__("swanlab")
        self._folder = folder
        self._root = root
        self._start = Message(b"")
        self._finish: Message | None = None
        self._last = 0.0

    def run(self) -> ImportedRun:
        for file in self._list("*.swanlab"):
            self.read_records(file, RecordFile.block_records, lambda record: self._add(Message(record)))
        self._read_logs()
        start = self._start
        state = self._finish.integer(1) if self._finish is not None else 0
        metadata = read_object(self._folder / "files" / "swanlab-metadata.json", self._root)
        runtime = metadata.get("runtime")
        runtime = runtime if isinstance(runtime, Mapping) else {}
        started = start.time(12)
        return ImportedRun(
            path=self._folder,
            identity=start.text(10) or self._folder.name,
            name=start.text(4) or self._folder.name,
            experiment=start.text(1),
            params=_config(read_yaml(self._folder / "files" / "config.yaml", self._root)),
            tags=tuple(start.texts(6)),
            description=start.text(5),
            started=started,
            ended=(self._finish.time(3) if self._finish is not None else 0.0) or self._last or None,
            status=_FINISH_STATES.get(state, "lost"),
            host=str(runtime.get("hostname") or ""),
            unobserved=self.unobserved(),
            **self.fields(),
        )

    def _add(self, record: Message) -> None:
        self._last = max(self._last, record.time(2))
        if record.has_field(10):
            self._start = record.message(10)
        elif record.has_field(11):
            self._finish = record.message(11)
        elif record.has_field(13):
            scalar = record.message(13)
            self.points.add(scalar.text(1), scalar.integer(2), scalar.message(5).float64(1))
        elif record.has_field(14):
            media = record.message(14)
            for item in media.message(5).messages(1):
                self._media(media.text(1), media.integer(2), item.text(1))

    def _media(self, tag: str, step: int, name: str) -> None:
        if not name or "/" in name or name.startswith("."):
            return
        # Older versions link the same file from folders of other names.
        for file in self._list(f"media/*/{glob.escape(name)}")[-1:]:
            if file.suffix == ".txt":
                self.add_text(tag, step, file.read_text("utf-8", "replace"))
            elif file.suffix not in (".png", ".jpg", ".jpeg", ".gif", ".bmp"):
                self.left_out.add(file.suffix.lstrip(".") or "media")
            else:
                self.add_picture_file(tag, step, file, self._root)

    def _read_logs(self) -> None:
        """Adds the series of older versions, whose folders are named like the series."""
        if self.points.series():
            return
        for file in self._list("logs/*/*.log"):
            name = unquote(file.parent.name)
            for line in file.read_text("utf-8", "replace").splitlines():
                row = parse_object(line)
                if isinstance(row.get("index"), int):
                    self.points.add_number(name, row["index"], row.get("data"))
                self._last = max(self._last, _moment(row.get("create_time")))

    def _list(self, pattern: str) -> list[Path]:
        return sorted(file for file in self._folder.glob(pattern) if is_inside(file, self._root))


def _config(found: Mapping[str, Any]) -> dict[str, Any]:
    wrapped = {name: value for name, value in found.items() if isinstance(value, Mapping) and "value" in value}
    order = sorted(wrapped, key=lambda name: wrapped[name].get("sort") or 0)
    return {name: wrapped[name]["value"] for name in order} | {k: v for k, v in found.items() if k not in wrapped}


def _moment(text: object) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0


SWANLAB = Reader("swanlab", "SwanLab", _run_folders, _runs)
"""Reads folders of runs that SwanLab wrote in its local mode."""
