"""Reads the stored output of a run from its journal."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from labbook.capture.console.console_silences import lines_of_spans, read_silences
from labbook.capture.console.console_sink import TAIL_BYTES, ConsoleSink
from labbook.capture.console.console_store import read_head, read_objects, read_tail
from labbook.model.run import Console
from labbook.probe.redaction.redactor import Redactor
from labbook.store.json_files import read_json_object, read_text_or_nothing


def read_console(folder: Path, redactor: Redactor | None = None) -> Console:
    """Returns the stored output: the first lines, notable lines of the middle, the last lines.

    Args:
        folder: The `console` folder of a journal; the recorder may be dead.
        redactor: Also reads output that went to a file, if the recorder died before it could.
    """
    counts = read_json_object(folder / "counts.json")
    files = read_objects(folder / "files.json")
    if redactor is not None and any(not one.get("read") for one in files):
        sink = ConsoleSink(folder, redactor, tail_bytes=int(counts.get("tail_bytes") or TAIL_BYTES))
        sink.close()
        counts = read_json_object(folder / "counts.json")
    head = read_head(folder, "output")
    tail = read_tail(folder, "output", counts.get("tail_bytes"))
    complete = dict(chain(head, tail))
    notable = dict(chain(read_head(folder, "notable"), read_tail(folder, "notable")))
    current = [line for line in read_text_or_nothing(folder / "current.txt").split("\n") if line]
    last = max([int(counts.get("lines") or 0), *complete, *notable])
    lines = sorted((notable | complete).items())
    text = "".join(_join_lines(lines, complete.keys(), last)) + "".join(f"{line}\n" for line in current)
    masked = counts.get("redactions") or {}
    return Console(text, last + len(current), last - len(lines), masked if isinstance(masked, dict) else {})


def read_growing_files(folder: Path, redactor: Redactor) -> Console:
    """Returns the output so far of streams that go to files, which are stored only when the run has ended.

    Nothing is written to the journal.
    """
    found = Console()
    for one in read_objects(folder / "files.json"):
        with suppress(KeyError, TypeError, ValueError):
            place = Path(str(one["path"])), int(one["inode"]), int(one["offset"]), int(one.get("end") or 0)
            part = None if one.get("read") else read_file_part(*place, redactor)
            if part is not None:
                found = join_consoles(found, part)
    return found


def read_file_part(path: Path, inode: int, begin: int, end: int, redactor: Redactor) -> Console | None:
    """Returns the output in a part of a file, as it would be stored; `None` if the file is gone or was replaced.

    Args:
        end: Place of the first byte after it; 0 at the end of the file.
    """
    with suppress(OSError), tempfile.TemporaryDirectory() as folder:
        status = path.stat()
        if status.st_ino != inode or status.st_size < max(begin, end):
            return None
        sink = ConsoleSink(Path(folder), redactor)
        sink.file_stream("output", path, begin, end)
        sink.close()
        return read_console(Path(folder))
    return None


def join_consoles(one: Console, other: Console) -> Console:
    """Returns an output with another one behind it."""
    masked = dict(Counter(one.redactions) + Counter(other.redactions))
    return Console(one.text + other.text, one.lines + other.lines, one.left_out + other.left_out, masked)


def split_console(folder: Path, console: Console, starts: Sequence[float]) -> list[Console]:
    """Returns the output from each start until the next one; none if it is not known exactly or lines are left out.

    Args:
        folder: The `console` folder of a journal.
        starts: Unix seconds at which processes began, in order.
    """
    lines = console.text.removesuffix("\n").split("\n") if console.text else []
    if not lines:
        return [Console()] * len(starts)
    first = lines_of_spans(starts, read_silences(folder))
    if not first or console.left_out or len(lines) != console.lines:
        return []
    parts = [lines[begin - 1 : end - 1] for begin, end in zip(first, [*first[1:], len(lines) + 1], strict=True)]
    return [Console("".join(f"{line}\n" for line in part), len(part)) for part in parts]


def _join_lines(lines: list[tuple[int, str]], complete: Collection[int], last: int) -> Iterator[str]:
    """Yields the stored lines, with a line in each gap that counts the lines left out."""
    place, due = 0, 1
    while place < len(lines):
        number, line = lines[place]
        if number in complete and number == due:
            yield f"{line}\n"
            place, due = place + 1, number + 1
            continue
        end = place
        while end < len(lines) and lines[end][0] not in complete:
            end += 1
        following = lines[end][0] if end < len(lines) else last + 1
        yield from _mark_gap(
            following - due - (end - place), [line for _, line in lines[place:end]], following, end == len(lines)
        )
        place, due = end, following
    if due <= last:
        yield from _mark_gap(last + 1 - due, [], last + 1, True)


def _mark_gap(missing: int, notable: list[str], following: int, ended: bool = False) -> Iterator[str]:
    if missing:
        also = f", except for {len(notable):,} notable one{'' if len(notable) == 1 else 's'}" if notable else ""
        count = missing + len(notable)
        yield f"... {count:,} line{'' if count == 1 else 's'} left out{also} ...\n"
    yield from (f"{line}\n" for line in notable)
    if missing and notable and not ended:
        yield f"... all lines from line {following:,} on ...\n"
