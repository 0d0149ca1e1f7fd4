"""Reads record files of VisualDL: scalars, text, images and hyperparameters.

Source: visualdl/proto/record.proto and visualdl/writer/record_writer.py of VisualDL 2.5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from labbook.imports.imported_files import folders_with
from labbook.imports.imported_run import NO_STATUS, ImportedRun, Reader, experiment_of, name_below
from labbook.imports.logged_content import LoggedContent
from labbook.imports.wire_format import Message, RecordFile

_RECORD_FILE = "vdlrecords"
_LEFT_OUT = {6: "audio", 7: "embeddings", 8: "histograms", 9: "pr_curves", 11: "roc_curves"}
"""Fields of `Record.Value` that are not read."""


def _runs(path: Path) -> Iterator[ImportedRun]:
    """Yields a run for each folder with record files."""
    for folder, files in folders_with(path, _RECORD_FILE):
        yield _read_run(folder, files, path)


def _read_run(folder: Path, files: list[Path], root: Path) -> ImportedRun:
    logged = _Logged("visualdl")
    for path in files:
        logged.read(path)
    return ImportedRun(
        path=folder,
        identity=f"{folder.resolve().name}/{files[0].name}",
        name=name_below(folder, root),
        experiment=experiment_of(folder, root),
        params=logged.params,
        started=min(logged.times, default=0.0),
        ended=max(logged.times, default=None),
        unobserved=(NO_STATUS, *logged.unobserved()),
        **logged.fields(),
    )


class _Logged(LoggedContent):
    """What a run logged, from its record files."""

    def __init__(self, tool: str) -> None:
        super().__init__(tool)
        self.params: dict[str, object] = {}
        self.times: list[float] = []

    def read(self, path: Path) -> None:
        """Adds the values of a file."""
        begun: set[str] = set()

        def add_record(record: bytes) -> None:
            for value in Message(record).messages(1):
                self._add(value, begun)

        self.read_records(path, RecordFile.iter_plain_records, add_record)

    def _add(self, value: Message, begun: set[str]) -> None:
        tag, step, moment = value.text(2), value.integer(1), value.integer(3) / 1000
        if moment > 0:
            self.times.append(moment)
        if value.has_field(14):
            pair = value.message(14)
            self.points.add(f"{tag}/{pair.text(1)}", step, pair.float32(2), begun)
        elif value.has_field(5):
            self.add_picture(tag, step, value.message(5).data(4))
        elif value.has_field(12):
            self.add_text(tag, step, value.message(12).text(1))
        elif value.has_field(13):
            self.params.update(_hparams(value.message(13)))
        elif kinds := {name for field, name in _LEFT_OUT.items() if value.has_field(field)}:
            self.left_out |= kinds
        elif not value.has_field(10):
            # A value of 0 is not written: it is the default of the field.
            self.points.add(tag, step, value.float32(4), begun)


def _hparams(data: Message) -> dict[str, object]:
    found: dict[str, object] = {}
    for each in data.messages(1):
        if each.has_field(3):
            found[each.text(4)] = each.text(3)
        elif each.has_field(2):
            wide = each.data(2)
            found[each.text(4)] = struct.unpack("<d", wide)[0] if len(wide) == 8 else each.float32(2)
        else:
            found[each.text(4)] = each.integer(1)
    return found


VISUALDL = Reader("visualdl", "VisualDL", lambda path: folders_with(path, _RECORD_FILE), _runs)
"""Reads folders of record files."""
