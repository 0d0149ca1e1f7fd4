"""Reads offline folders of Weights & Biases: `run-*.wandb`, else `config.yaml` and `wandb-summary.json`.

Source: wandb/proto/wandb_internal.proto and wandb/sdk/internal/datastore.py of wandb 0.31; records are in the framing
of LevelDB logs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from labbook.imports.imported_files import read_object, read_yaml, root_of, walk
from labbook.imports.imported_run import ImportedRun, Reader
from labbook.imports.logged_content import MAX_DEPTH, LoggedContent, stored_table
from labbook.imports.wire_format import Message, RecordFile
from labbook.model.run_fields import flatten

_OWN = ("_step", "_runtime", "_timestamp", "_wandb")
_GROUPING = {"group": 6, "job_type": 7, "sweep": 12}
"""What runs have in common, and its field in the record of a run. Source: wandb/proto/wandb_internal.proto."""


def _runs(path: Path) -> Iterator[ImportedRun]:
    """Yields the runs at the path and below it; the folders of a run that was resumed are one run."""
    files = list(_run_files(path))
    parts: dict[tuple[Path, str], list[Path]] = {}
    for file in files:
        is_record = file.suffix == ".wandb"
        parts.setdefault((file.parent.parent, file.name) if is_record else (file, ""), []).append(file)
    for first, *later in parts.values():
        builder = _Builder(first, root_of(path))
        for file in later:
            if not builder.is_resumed_in(file):
                yield builder.run()
                builder = _Builder(file, root_of(path))
            else:
                builder.read(file)
        yield builder.run()


def _run_files(path: Path) -> Iterator[Path]:
    if path.is_file():
        if path.suffix == ".wandb":
            yield path
        return
    for folder, folders, files in walk(path):
        folders[:] = [name for name in folders if name != "latest-run" or not (folder / name).is_symlink()]
        records = [name for name in files if name.endswith(".wandb")]
        yield from (folder / name for name in records)
        if not records and "wandb-summary.json" in files and folder.name == "files":
            yield folder / "wandb-summary.json"


class _Builder(LoggedContent):
    """Collects what the folders of one run contain.

    Args:
        file: The records, or the summary, of its first folder.
    """

    def __init__(self, file: Path, root: Path) -> None:
        super().__init__("wandb")
        self._root = root
        self._file = self._part = file
        self._config: dict[str, Any] = {}
        self._summary: dict[str, Any] = {}
        self._run = Message(b"")
        self._exit: Message | None = None
        self._begun: set[str] = set()
        self._step = 0
        self._times: list[float] = []
        self._started = self._runtime = 0.0
        self.read(file)

    def is_resumed_in(self, file: Path) -> bool:
        """Whether a file goes on with this run: one that begins at step 0 again is a run of its own."""
        with suppress(ValueError):
            for record in map(Message, RecordFile(file).block_records()):
                if record.has_field(17) and record.message(17).text(3) != self._run.text(3):
                    return False
                if record.has_field(2):
                    return _history_row(record.message(2))[0] > 0
        return True

    def read(self, file: Path) -> None:
        """Adds a folder of the run; a later one takes the place of what was logged from its first step on."""
        self._part, self._exit, self._begun = file, None, set()
        if file.suffix == ".wandb":
            self.read_records(file, RecordFile.block_records, lambda record: self._add(Message(record)))
        self._read_files(_files_beside(file))

    def run(self) -> ImportedRun:
        """Returns the run."""
        files = _files_beside(self._file)
        numbers = {k: v for k, v in self._summary.items() if not (isinstance(v, Mapping) and "_type" in v)}
        for name, value in flatten(numbers, deepest=MAX_DEPTH):
            if not name.startswith(_OWN) and self.points.last_step(name) is None:
                self.points.add_number(name, self._step, value)
        folder = self._file.parent if self._file.suffix == ".wandb" else self._file.parent.parent
        run = self._run
        started = self._started or _folder_time(folder)
        exit_code = self._exit.integer(1) if self._exit is not None else None
        runtime = max(self._runtime, float(self._exit.integer(2)) if self._exit is not None else 0.0)
        metadata = read_object(files / "wandb-metadata.json", self._root)
        run_id = run.text(1) or self._file.stem.removeprefix("run-") if self._file.suffix == ".wandb" else folder.name
        unobserved = [*self.unobserved()]
        if self._file.suffix != ".wandb":
            unobserved.append(("history", "the folder has no .wandb file; only the last values are known"))
        program = str(metadata.get("program") or "")
        return ImportedRun(
            path=folder,
            identity=f"{run.text(2)}/{run.text(3)}/{run_id}",
            name=run.text(8) or run_id,
            experiment=run.text(3),
            params=self._config,
            tags=(
                *run.texts(10),
                *(f"{name}:{run.text(field)}" for name, field in _GROUPING.items() if run.text(field)),
            ),
            description=run.text(9),
            started=started,
            ended=max(self._times, default=started + runtime) or None,
            status="lost" if exit_code is None else "finished" if exit_code == 0 else "failed",
            exit_code=exit_code,
            argv=("python", program, *map(str, metadata.get("args") or ())) if program else (),
            script=Path(program).name,
            host=run.text(13) or str(metadata.get("host") or ""),
            unobserved=tuple(unobserved),
            **self.fields(),
        )

    def _add(self, record: Message) -> None:
        if record.has_field(17):
            self._run = record.message(17)  # written again where the program changes name, notes or tags
            self._started = self._started or self._run.time(17)
            self._update(self._config, self._run.message(4))
        elif record.has_field(5):
            self._update(self._config, record.message(5))
        elif record.has_field(3):
            self._update(self._summary, record.message(3))
        elif record.has_field(2):
            self._history(record.message(2))
        elif record.has_field(10):
            alert = record.message(10)
            self._add_text(f"alert: {alert.text(1)}", " ".join(filter(None, (alert.text(3), alert.text(2)))))
        elif record.has_field(18) and (record.has_field(16) or record.has_field(200)):
            # Without `control` and `_info`, W&B's own process wrote it when the program was gone.
            self._exit = record.message(18)

    def _update(self, target: dict[str, Any], record: Message) -> None:
        _set_items(target, record)
        for name in _OWN:
            target.pop(name, None)

    def _history(self, record: Message) -> None:
        self._step, row = _history_row(record)
        moment = row.get("_timestamp")
        if isinstance(moment, (int, float)) and moment > 0:
            self._times = (
                [min(self._times[0], moment), max(self._times[-1], moment)] if self._times else [moment, moment]
            )
        for name, value in row.items():
            if not name.startswith(_OWN):
                self._add_logged(name, value)

    def _add_logged(self, name: str, value: object) -> None:
        if isinstance(value, Mapping):
            self._add_object(name, value)
            return
        if self.points.add_number(name, self._step, value, self._begun):
            return
        if isinstance(value, str):
            self._add_text(name, value)
        elif isinstance(value, list):
            self.left_out.add("list")

    def _add_object(self, name: str, value: Mapping[str, Any]) -> None:
        """Adds a picture, a table or a group of values by its type."""
        kind = value.get("_type")
        if kind in ("image-file", "images/separated"):
            self._add_pictures(name, value)
        elif kind == "table-file":
            table = stored_table(read_object(_files_beside(self._part) / str(value.get("path")), self._root))
            self._add_text(name, table)
            if not table:
                self.left_out.add(kind)
        elif kind is None:
            for inner, leaf in flatten(value, f"{name}.", MAX_DEPTH):
                self._add_logged(inner, leaf)
        else:
            self.left_out.add(str(kind))

    def _add_pictures(self, name: str, value: Mapping[str, Any]) -> None:
        listed, captions = value.get("filenames"), value.get("captions")
        captions = captions if isinstance(captions, list) else [value.get("caption")]
        places = listed if isinstance(listed, list) else [value.get("path")]
        for place, caption in zip_longest(places, captions[: len(places)]):
            self.add_picture_file(name, self._step, _files_beside(self._part) / str(place), self._root, caption)

    def _add_text(self, name: str, text: str) -> None:
        if text:
            self.add_text(name, self._step, text)

    def _read_files(self, files: Path) -> None:
        """Adds configuration and summary from the files beside the records, where the records have none."""
        if not self._config:
            for name, value in read_yaml(files / "config.yaml", self._root).items():
                if name not in (*_OWN, "wandb_version"):
                    self._config[name] = value.get("value") if isinstance(value, Mapping) else value
        summary = read_object(files / "wandb-summary.json", self._root)
        if not self._summary:
            self._summary = {k: v for k, v in summary.items() if k not in _OWN}
        runtime = summary.get("_runtime")
        self._runtime = float(runtime) if isinstance(runtime, (int, float)) else 0.0


def _files_beside(file: Path) -> Path:
    """Returns the folder `files` of the records or of the summary of a run."""
    return file.parent if file.name == "wandb-summary.json" else file.parent / "files"


def _set_items(target: dict[str, Any], record: Message) -> None:
    """Sets the items of a record, of which some name a place in nested mappings."""
    for item in record.messages(1):
        path = item.texts(2) or [item.text(1)]
        place = target
        for part in path[:-1]:
            inner = place.setdefault(part, {})
            place = inner if isinstance(inner, dict) else place
        place[path[-1]] = _value(item.text(16))


def _history_row(record: Message) -> tuple[int, dict[str, Any]]:
    """Returns the step and the values of a row of the history."""
    row: dict[str, Any] = {}
    _set_items(row, record)
    step = row.get("_step")
    return step if isinstance(step, int) else record.message(2).integer(1), row


def _value(text: str) -> Any:  # noqa: ANN401 - JSON data
    try:
        return json.loads(text)
    except ValueError:
        return text


def _folder_time(folder: Path) -> float:
    """Returns the time in the name of a folder, `offline-run-20261125_215903-d389gair`, as UTC; 0 without one."""
    from datetime import datetime, timezone

    found = re.search(r"(\d{8})_(\d{6})", folder.name)
    try:
        stamp = datetime.strptime("".join(found.groups()), "%Y%m%d%H%M%S") if found else None
        return stamp.replace(tzinfo=timezone.utc).timestamp() if stamp else 0.0
    except ValueError:
        return 0.0


WANDB = Reader("wandb", "Weights & Biases", _run_files, _runs)
"""Reads folders of runs that W&B wrote, synchronized or offline."""
