"""What is kept of a run's output, read back from its journal for the entry."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from labbook.capture.console.console_sink import TAIL_BYTES, ConsoleSink
from labbook.capture.console.console_store import (
    read_head,
    read_object,
    read_objects,
    read_tail,
    read_text,
)
from labbook.model.run import Console
from labbook.probe.redaction.redactor import Redactor

__all__ = ["ConsoleSink", "console_from_file", "read_console"]


def read_console(folder: Path, redactor: Redactor | None = None) -> Console:
    """What is kept of a run's output: the first lines, the notable ones of what is left out, the last lines.

    Args:
        folder: The `console` folder of a journal; the recorder may be dead.
        redactor: Lets output that went to a file be read, when the recorder could not do it any more.
    """
    counts = read_object(folder / "counts.json")
    files = read_objects(folder / "files.json")
    if redactor is not None and any(not one.get("read") for one in files):
        sink = ConsoleSink(folder, redactor, tail_bytes=int(counts.get("tail_bytes") or TAIL_BYTES))
        sink.close()
        counts = read_object(folder / "counts.json")
    head = read_head(folder, "output")
    tail = read_tail(folder, "output", counts.get("tail_bytes"))
    whole = dict(chain(head, tail))
    notable = dict(chain(read_head(folder, "notable"), read_tail(folder, "notable")))
    current = [line for line in read_text(folder / "current.txt").split("\n") if line]
    last = max([int(counts.get("lines") or 0), *whole, *notable])
    kept = sorted((notable | whole).items())
    text = "".join(_joined(kept, whole.keys(), last)) + "".join(f"{line}\n" for line in current)
    masked = counts.get("redactions") or {}
    return Console(text, last + len(current), last - len(kept), masked if isinstance(masked, dict) else {})


def console_from_file(path: Path, offset: int, redactor: Redactor) -> Console:
    """The same for output that went to a regular file, from byte `offset` to its end."""
    with TemporaryDirectory() as folder:
        sink = ConsoleSink(Path(folder), redactor)
        sink.file_stream("output", path, offset)
        sink.close()
        return read_console(Path(folder))


def _joined(kept: list[tuple[int, str]], whole: Collection[int], last: int) -> Iterator[str]:
    """The kept lines, with a line wherever some are left out, which also tells how many notable ones follow it."""
    place, due = 0, 1
    while place < len(kept):
        number, line = kept[place]
        if number in whole and number == due:
            yield f"{line}\n"
            place, due = place + 1, number + 1
            continue
        end = place
        while end < len(kept) and kept[end][0] not in whole:
            end += 1
        following = kept[end][0] if end < len(kept) else last + 1
        yield from _left_out(
            following - due - (end - place), [line for _, line in kept[place:end]], following, end == len(kept)
        )
        place, due = end, following
    if due <= last:
        yield from _left_out(last + 1 - due, [], last + 1, True)


def _left_out(missing: int, notable: list[str], following: int, ended: bool = False) -> Iterator[str]:
    if missing:
        also = f" ({len(notable):,} notable one{'' if len(notable) == 1 else 's'} of them kept)" if notable else ""
        count = missing + len(notable)
        yield f"... {count:,} line{'' if count == 1 else 's'} left out{also} ...\n"
    yield from (f"{line}\n" for line in notable)
    if missing and notable and not ended:
        yield f"... every line again from line {following:,} ...\n"
