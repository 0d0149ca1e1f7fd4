"""Reads TensorBoard event files: scalars, text, images and hyperparameters.

A run is a folder with event files, as in TensorBoard. Folders that writers make for parts of one run belong to it:
`add_hparams` and `add_scalars` of PyTorch and tensorboardX write below the folder of the run, Keras writes `train` and
`validation`.

Source: tensorflow/core/util/event.proto, framework/summary.proto, framework/tensor.proto; tensorboard/plugins/hparams.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from labbook.frozen import dataclass
from labbook.imports.imported_files import folders_with
from labbook.imports.imported_run import NO_STATUS, ImportedRun, Reader, experiment_of, name_below
from labbook.imports.logged_content import LoggedContent
from labbook.imports.wire_format import Message, RecordFile

_EVENT_FILE = "tfevents"
_SPLITS = ("train", "training", "validation", "val", "valid", "eval", "test")
_TRAINING = ("train", "training")
_NUMBERS = {
    1: ("f", 4), 2: ("d", 8), 3: ("i", 4), 4: ("B", 1), 5: ("h", 2), 6: ("b", 1), 9: ("q", 8), 10: ("?", 1),
    19: ("e", 2),
}  # fmt: skip
"""`DataType` of TensorFlow -> `struct` format and size in `tensor_content`."""
_TYPED_FIELDS = {1: (5, "<f"), 2: (6, "<d"), 3: (7, ""), 9: (10, ""), 10: (11, "")}
"""`DataType` -> field of `TensorProto` with its values, and their format; "" for varints."""
_STRING = 7
_LEFT_OUT = {5: "histograms", 6: "audio"}
"""Fields of `Summary.Value` that are not read."""
_FAST = re.compile(rb"\x09(.{8})(?:\x10([\x80-\xff]{0,9}[\x00-\x7f]))?\x2a.\x0a.\x0a(.)", re.DOTALL)
"""The first bytes of an event with one scalar, as all writers of PyTorch make it."""


@dataclass(frozen=True)
class _Folder:
    """A folder with event files."""

    path: Path
    files: tuple[Path, ...]
    prefix: str = ""
    suffix: str = ""


def _runs(path: Path) -> Iterator[ImportedRun]:
    """Yields the runs at the path and below it."""
    for folder, parts in _group_folders(list(_folders(path))):
        yield _read_run(folder, parts, path)


def _folders(path: Path) -> Iterator[_Folder]:
    for folder, events in folders_with(path, _EVENT_FILE):
        yield _Folder(folder, tuple(sorted(events, key=_file_order)))


def _file_order(path: Path) -> tuple[int, str]:
    stamp = re.search(r"tfevents\.(\d+)", path.name)
    return (int(stamp[1]) if stamp else 0, path.name)


def _group_folders(folders: Sequence[_Folder]) -> Iterator[tuple[Path, list[_Folder]]]:
    """Yields the folder of each run with the folders that belong to it, itself first."""
    by_path = {folder.path: folder for folder in folders}
    used: set[Path] = set()
    for folder in folders:
        if folder.path in used:
            continue
        siblings = [f for f in folders if f.path.parent == folder.path.parent and f.path.name.lower() in _SPLITS]
        names = {sibling.path.name.lower() for sibling in siblings}
        if folder in siblings and len(siblings) > 1 and names & set(_TRAINING) and folder.path.parent not in by_path:
            used |= {sibling.path for sibling in siblings}
            yield (
                folder.path.parent,
                [_Folder(each.path, each.files, f"{each.path.name}/") for each in siblings],
            )
            continue
        parts = [folder]
        for other in folders:
            if folder.path in other.path.parents and other.path not in used:
                suffix = _part_suffix(other, folder.path)
                if suffix is not None:
                    parts.append(replace(other, suffix=suffix))
                    used.add(other.path)
        used.add(folder.path)
        yield folder.path, parts


def _part_suffix(folder: _Folder, run: Path) -> str | None:
    """Returns what a folder that a writer made for a part of a run adds to the names of its series, or `None`.

    `add_hparams` adds nothing. `add_scalars("speed/gpu", {"data": 1})` adds `/data`: the folder is `speed_gpu_data`
    with PyTorch, and `speed/gpu/data` with tensorboardX, as the tag of its first event shows.
    """
    below = folder.path.relative_to(run)
    seen = 0
    try:
        for event in map(Message, RecordFile(folder.files[0]).checked_records()):
            for value in event.message(5).messages(1):
                tag = value.text(1)
                if tag.startswith("_hparams_/"):
                    return ""
                if below.parent.as_posix() == tag:
                    return f"/{below.name}"
                main = tag.replace("/", "_") + "_"
                if below.name == below.as_posix() and below.name.startswith(main) and len(below.name) > len(main):
                    return f"/{below.name[len(main) :]}"
                seen += 1
            if seen > 4:
                break
    except (OSError, ValueError):
        pass
    return None


class _Logged(LoggedContent):
    """What the event files of one run contain."""

    def __init__(self, tool: str) -> None:
        super().__init__(tool)
        self.params: dict[str, object] = {}
        self.status = "finished"
        self.first = math.inf
        self.last = -math.inf
        self._plugins: dict[str, str] = {}
        self._begun: set[str] = set()

    def read(self, folder: _Folder) -> None:
        """Adds the events of a folder; a later file of a series restarts it at its first step."""

        def add_record(record: bytes) -> None:
            if not self._add_fast(record, folder):
                self._add(Message(record), folder)

        for path in folder.files:
            self._begun = set()
            self.read_records(path, RecordFile.checked_records, add_record)

    def _add_fast(self, record: bytes, folder: _Folder) -> bool:
        """Adds an event with one scalar of a short name; returns whether it was one."""
        head = _FAST.match(record)
        if head is None:
            return False
        start = head.end()
        stop = start + head[3][0]
        if head[3][0] > 0x7F or len(record) != stop + 5 or record[stop] != 0x15:
            return False
        step = shift = 0
        for byte in head[2] or b"\0":
            step |= (byte & 0x7F) << shift
            shift += 7
        step -= step >> 63 << 64  # negative steps have all 64 bits
        self._time(struct.unpack("<d", head[1])[0])
        value = struct.unpack_from("<f", record, stop + 1)[0]
        self._scalar(record[start:stop].decode("utf-8", "replace"), step, value, folder)
        return True

    def _time(self, moment: float) -> None:
        if moment > 0 and math.isfinite(moment):
            self.first = min(self.first, moment)
            self.last = max(self.last, moment)

    def _add(self, event: Message, folder: _Folder) -> None:
        self._time(event.float64(1))
        step = event.integer(2)
        self.left_out |= {"graphs"} if event.has_field(4) else set()
        for value in event.message(5).messages(1):
            tag = value.text(1)
            metadata = value.message(9)
            plugin = metadata.message(1)
            if plugin.text(1):
                self._plugins[tag] = plugin.text(1)
            kind = self._plugins.get(tag, "")
            if kind == "hparams":
                self._hparams(Message(plugin.data(2)))
            elif value.has_field(2):
                self._scalar(tag, step, value.float32(2), folder)
            elif value.has_field(4):
                self.add_picture(folder.prefix + tag, step, value.message(4).data(4))
            elif value.has_field(8):
                self._tensor(tag, step, value.message(8), kind, folder)
            else:
                self.left_out |= {name for field, name in _LEFT_OUT.items() if value.has_field(field)}

    def _scalar(self, tag: str, step: int, value: float, folder: _Folder) -> None:
        self.points.add(folder.prefix + tag + folder.suffix, step, value, self._begun)

    def _tensor(self, tag: str, step: int, tensor: Message, kind: str, folder: _Folder) -> None:
        kind_of_number = tensor.integer(1)
        if kind_of_number == _STRING:
            strings = tensor.all_data(8)
            if kind == "images":
                # Width and height come before the images of the batch.
                for content in strings[2:]:
                    self.add_picture(folder.prefix + tag, step, content)
            elif kind == "text":
                text = "\n".join(string.decode("utf-8", "replace") for string in strings)
                self.add_text(folder.prefix + tag.removesuffix("/text_summary"), step, text)
            elif kind != "custom_scalars":  # the layout of a page
                self.left_out.add(kind)
        elif kind not in ("", "scalars"):
            self.left_out.add(kind)
        else:
            number = _number(tensor, kind_of_number)
            if number is not None:
                self._scalar(tag, step, number, folder)

    def _hparams(self, data: Message) -> None:
        for entry in data.message(3).messages(1):
            value = entry.message(2)
            number = value.float64(2)
            if value.has_field(4):
                self.params[entry.text(1)] = bool(value.integer(4))
            elif value.has_field(2):
                self.params[entry.text(1)] = int(number) if number.is_integer() and abs(number) < 1e15 else number
            elif value.has_field(3):
                self.params[entry.text(1)] = value.text(3)
        if data.has_field(4) and data.message(4).integer(1) == 2:
            self.status = "failed"


def _number(tensor: Message, kind: int) -> float | None:
    """Returns the value of a tensor with one element, or `None`."""
    if any(size.integer(1) not in (0, 1) for size in tensor.message(2).messages(2)):
        return None
    content = tensor.data(4)
    form, size = _NUMBERS.get(kind, ("", 0))
    if form and len(content) == size:
        return float(struct.unpack(f"<{form}", content)[0])
    field, packed = _TYPED_FIELDS.get(kind, (0, ""))
    values = tensor.data(field) if field else b""
    if packed and len(values) == struct.calcsize(packed):
        return float(struct.unpack(packed, values)[0])
    if field and not packed:
        return float(tensor.integer(field) if not values else int.from_bytes(values[:1], "little"))
    return None


def _read_run(folder: Path, parts: Sequence[_Folder], root: Path) -> ImportedRun:
    logged = _Logged("tensorboard")
    for part in parts:
        logged.read(part)
    return ImportedRun(
        path=folder,
        # The name of an event file has the time, the host and the process that wrote it.
        identity=f"{folder.resolve().name}/{parts[0].files[0].name}",
        name=name_below(folder, root),
        experiment=experiment_of(folder, root),
        params=logged.params,
        started=logged.first if math.isfinite(logged.first) else 0.0,
        ended=logged.last if math.isfinite(logged.last) else None,
        status=logged.status,
        unobserved=(NO_STATUS, *logged.unobserved()),
        **logged.fields(),
    )


TENSORBOARD = Reader("tensorboard", "TensorBoard", _folders, _runs)
"""Reads folders of event files."""
