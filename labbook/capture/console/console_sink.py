"""Keeps the output of a run: bounded, without escapes, progress bars folded, redacted before it reaches the disk.

Bytes go through: decode (whatever is no UTF-8 is replaced) -> fold what a terminal would overwrite -> redact whole
lines -> number -> keep. In the folder stand `output.*` (the first and the last lines), `notable.*` (errors, warnings,
tracebacks, metrics from between), `current.txt` (lines that can still change, at most a second old), `counts.json` and
`files.json` (streams that the program wrote to files of its own). All of it is redacted; raw text is in memory only.
"""

from __future__ import annotations

import codecs
import copy
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from labbook.capture.console.console_store import (
    KeptLines,
    last_number,
    read_object,
    read_objects,
    read_text,
)
from labbook.capture.console.notable_lines import NotableLines, key_line, notable_spans
from labbook.capture.console.terminal_folding import LONGEST_LINE, LineFolder
from labbook.probe.redaction.redactor import Redactor
from labbook.probe.redaction.stream import StreamRedactor

HEAD_BYTES = 1024 * 1024
TAIL_BYTES = 4 * 1024 * 1024
_NOTABLE_BYTES = 256 * 1024
"""Room for the first and for the last notable lines, each. Source: chosen by us, some 5,000 lines."""
_FLUSH_S = 1.0
_CHUNK = 256 * 1024


@dataclass
class _Stream:
    """What stands between the bytes of one stream and its redacted lines."""

    redact: StreamRedactor
    decode: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    fold: LineFolder = field(default_factory=LineFolder)
    notable: NotableLines = field(default_factory=NotableLines)
    rest: str = ""  # redacted text whose newline has not come yet
    skipped: bytes = b""  # unfinished line at the end of a block that was only skimmed
    inside: bool = False  # the last byte was no newline
    lost: bool = False  # the start of the line is not known: it is dropped up to its end
    uncounted: bool = False  # that line has not been counted yet


class ConsoleSink:
    """Takes the output of a run as it comes. No method raises: what cannot be redacted is withheld, never passed on.

    Nothing is read or written before the first byte comes, so that a copy of the object made by a fork goes on from
    what the other one left on disk.

    Args:
        folder: Where the kept output goes.
        redactor: Masks secrets.
        head_bytes: Room for the first lines.
        tail_bytes: Room for the last lines.
    """

    def __init__(
        self, folder: Path, redactor: Redactor, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES
    ) -> None:
        self.head_bytes = head_bytes
        self.tail_bytes = tail_bytes
        self._folder = folder.absolute()
        self._redactor = redactor
        self._output = KeptLines(self._folder, "output", head_bytes, tail_bytes)
        self._notable = KeptLines(self._folder, "notable", _NOTABLE_BYTES, _NOTABLE_BYTES)
        self._streams: dict[str, _Stream] = {}
        self._next = 0  # number of the next line; 0: not known yet
        self._counted = Counter(redactor.counts)
        self._counts: dict[str, Any] = {}
        self._flushed = 0.0
        self._shown = ""
        self._changed = False

    def feed(self, stream: str, data: bytes) -> None:
        """Keeps the next bytes of a stream."""
        try:
            self._feed(stream, data)
        except Exception as error:  # fails closed
            self._withhold(stream, data, error)
        if time.monotonic() - self._flushed > _FLUSH_S:
            self.flush()

    def skim(self, stream: str, data: bytes, hurried: bool = False) -> None:
        """Counts the next bytes of a stream and keeps their notable lines only: for a flood in the middle of a run.

        Args:
            stream: Its name.
            data: The bytes.
            hurried: Look for errors only, which is five times as fast.
        """
        try:
            self._skim(stream, data, hurried)
        except Exception as error:  # fails closed
            self._withhold(stream, data, error)

    def gap(self, stream: str, lines: int, opening: bytes = b"", cut: bool = True) -> None:
        """Takes note that bytes of a stream were lost.

        Args:
            stream: Its name.
            lines: How many newlines were among them.
            opening: The line that began a block of key material whose end was not among them, or nothing.
            cut: Whether they may end within a line; what is left of that line is dropped, as its start is not known.
        """
        try:
            state = self._stream(stream)
            counted = not state.uncounted if state.lost else state.inside
            self._settle(state)
            if lines:
                self._next += lines - counted
                state.lost, state.uncounted = cut, True
            elif cut:
                state.lost, state.uncounted = True, not counted
            state.inside = False
            self._open_key(state, opening)
        except Exception as error:  # fails closed
            self._withhold(stream, b"", error)

    def rescue(self, stream: str, lines: bytes) -> None:
        """Keeps whole lines out of what is otherwise a gap."""
        try:
            state = self._stream(stream)
            lost, state.lost = state.lost, False
            self._feed(stream, lines)
            state.lost = lost
        except Exception as error:  # fails closed
            self._withhold(stream, lines, error)

    def flush(self) -> None:
        """Writes the lines that can still change, and the counts, when they are not on disk yet."""
        self._flushed = time.monotonic()
        try:
            self._load()
            shown = "".join(chain.from_iterable(map(self._settled, self._streams.values())))
            if shown != self._shown:
                self._write_small("current.txt", shown.encode("utf-8", "replace"))
                self._shown = shown
            if self._changed:
                self._write_small("counts.json", json.dumps(self._totals()).encode())
                self._changed = False
        except Exception:  # tried again a second later
            return

    def file_stream(self, stream: str, path: Path, offset: int) -> None:
        """Notes that a stream goes to a file of the user's; what is written there is kept at the end.

        Args:
            stream: Its name.
            path: The file.
            offset: Where this run's output begins, bytes.
        """
        try:
            found = path.stat()
            listed = [*self._files(), {
                "stream": stream, "path": str(path.absolute()), "offset": offset,
                "inode": found.st_ino, "device": found.st_dev, "read": False,
            }]  # fmt: skip
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write_small("files.json", json.dumps(listed).encode())
        except OSError as error:
            self._note(f"[the output went to a file that cannot be read again: {error.strerror}]")

    def close(self) -> None:
        """Keeps what is left, reads the files that took output, and writes the counts."""
        try:
            self._read_files()
        except Exception as error:  # a file that vanished costs its text, not the run
            self._note(f"[the output in a file could not be read: {type(error).__name__}]")
        for name in list(self._streams):
            self._end(name)
        self._streams = {}
        self._changed = True
        self.flush()
        self._output.close()
        self._notable.close()

    def _end(self, name: str) -> None:
        try:
            self._settle(self._streams[name])
        except Exception as error:  # fails closed
            self._withhold(name, b"\n", error)

    def _stream(self, name: str) -> _Stream:
        self._load()
        if name not in self._streams:
            self._streams[name] = _Stream(StreamRedactor(self._redactor))
        return self._streams[name]

    def _load(self) -> None:
        """Goes on from what is on disk, once."""
        if self._next:
            return
        self._next = 1
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._counts = read_object(self._folder / "counts.json")
        known = int(self._counts.get("lines") or 0)
        self._next = max(known, last_number(self._folder, "output"), last_number(self._folder, "notable")) + 1
        left = read_text(self._folder / "current.txt")
        if left:
            self._keep(NotableLines(), left.rstrip("\n").split("\n"))
            self._write_small("current.txt", b"")

    def _feed(self, name: str, data: bytes) -> None:
        state = self._stream(name)
        if state.skipped:
            data, state.skipped = state.skipped + data, b""
        if state.lost:
            data = self._after_lost_line(state, data)
        state.inside = not data.endswith(b"\n") if data else state.inside
        final = state.fold.feed(state.decode.decode(data))
        self._changed = True
        if final:
            self._store(state, state.redact.feed(final))

    def _store(self, state: _Stream, clean: str) -> None:
        done, newline, state.rest = (state.rest + clean).rpartition("\n")
        lines = done.split("\n") if newline else []
        if len(state.rest) > LONGEST_LINE:
            lines.append(state.rest)
            state.rest = ""
        if lines:
            self._keep(state.notable, lines)

    def _keep(self, notable: NotableLines, lines: list[str]) -> None:
        lines = [line.replace("\x00", "") for line in lines]
        first = self._next
        self._next += len(lines)
        self._changed = True
        in_head = self._output.append(first, lines)
        for number, line in notable.pick(first + in_head, lines[in_head:]):
            self._notable.append(number, [line])

    def _skim(self, name: str, data: bytes, hurried: bool) -> None:
        state = self._stream(name)
        data, state.skipped = state.skipped + data, b""
        if not state.lost:
            # The line that was begun is finished first, so that nothing of it is judged without its start.
            begun = data.find(b"\n", 0, LONGEST_LINE) + 1
            if begun:
                self._feed(name, data[:begun])
                data = data[begun:]
        else:
            data = self._after_lost_line(state, data)
        end = data.rfind(b"\n") + 1
        data, unfinished = data[:end], data[end:]
        at = 0
        for start, stop in notable_spans(data, hurried):
            self._next += data.count(b"\n", at, start)
            self._feed(name, data[start:stop])
            at = stop
        self._next += data.count(b"\n", at)
        self._open_key(state, key_line(data))
        state.inside = state.inside and not end
        if len(unfinished) > LONGEST_LINE:
            self._settle(state)
            self._lose(state)
        else:
            state.skipped = unfinished
            state.inside = state.inside or bool(unfinished)

    def _lose(self, state: _Stream) -> None:
        """What comes next may be the rest of a line whose start is not known."""
        if not state.lost:
            # A line whose start was kept has been counted with it.
            state.lost, state.uncounted, state.inside = True, not state.inside, False

    def _after_lost_line(self, state: _Stream, data: bytes) -> bytes:
        """What follows the line whose start is not known."""
        end = min((at for at in (data.find(b"\n"), data.find(b"\r")) if at >= 0), default=-1)
        if end < 0:
            return b""
        self._next += state.uncounted and data[end : end + 1] == b"\n"
        state.lost = False
        return data[end + 1 :]

    def _open_key(self, state: _Stream, opening: bytes) -> None:
        """Lets the redactor know that key material goes on, whose first line is not kept."""
        if opening:
            counted = dict(self._redactor.counts)
            state.redact.feed(opening.decode("utf-8", "replace") + "\n")
            self._redactor.counts.clear()
            self._redactor.counts.update(counted)

    def _settle(self, state: _Stream) -> None:
        """Finishes the line that a stream has begun, as nothing more of it will come."""
        skipped, state.skipped = state.skipped, b""
        text = state.decode.decode(b"" if state.lost else skipped, True)
        final = state.fold.feed(text) + state.fold.finish()
        # Not `finish`: the redactor must remember a private key that is open.
        self._store(state, state.redact.feed(final))
        if state.rest:
            self._store(state, state.redact.feed("\n"))

    def _withhold(self, name: str, data: bytes, error: Exception) -> None:
        """Puts a note in place of what could not be redacted; the stream goes on after the next newline."""
        lines = data.count(b"\n")
        self._streams.pop(name, None)
        self._note(f"[withheld: {max(1, lines)} lines, the redaction failed ({type(error).__name__})]")
        try:
            if not data.endswith(b"\n"):
                self._lose(self._stream(name))
        except Exception:  # the next call tries again
            return

    def _note(self, text: str) -> None:
        try:
            self._load()
            self._keep(NotableLines(), [text])
        except Exception:  # nothing can be written; `counts.json` will be missing too
            return

    def _settled(self, state: _Stream) -> Iterator[str]:
        """The lines that can still change, redacted by a copy, which knows what came before and counts nothing."""
        rows = state.fold.settled()
        if not rows:
            return
        aside = copy.copy(self._redactor)
        aside.counts = Counter()
        clone = copy.deepcopy(state.redact, {id(self._redactor): aside})
        yield clone.feed("".join(f"{row}\n" for row in rows)) + clone.finish()

    def _totals(self) -> dict[str, Any]:
        masked = Counter(self._counts.get("redactions") or {})
        masked.update(Counter(self._redactor.counts) - self._counted)
        trouble = self._output.trouble or self._notable.trouble or str(self._counts.get("trouble") or "")
        return {"lines": self._next - 1, "redactions": masked, "tail_bytes": self.tail_bytes, "trouble": trouble}

    def _write_small(self, name: str, content: bytes) -> None:
        # Not synchronised: this is written every second, and only a power cut would be too fast for it.
        beside = self._folder / f".{name}.new"
        beside.write_bytes(content)
        beside.replace(self._folder / name)

    def _files(self) -> list[dict[str, Any]]:
        return read_objects(self._folder / "files.json")

    def _read_files(self) -> None:
        listed = self._files()
        for one in listed:
            if not one.get("read"):
                one["read"] = True
                self._read_file(one)
        if listed:
            self._write_small("files.json", json.dumps(listed).encode())

    def _read_file(self, one: Mapping[str, Any]) -> None:
        name, offset = str(one["stream"]), int(one["offset"])
        with Path(one["path"]).open("rb") as source:
            if os.fstat(source.fileno()).st_ino != one["inode"]:
                raise FileNotFoundError(one["path"])
            found = source.seek(0, 2)
            if found < offset:
                offset = 0  # the program truncated its file: everything in it is new
            head, tail = offset + self.head_bytes, found - self.tail_bytes - self.tail_bytes // 4
            source.seek(offset)
            while offset < found and (data := source.read(min(_CHUNK, found - offset))):
                take = self.skim if head < offset and offset + len(data) < tail else self.feed
                take(name, data)
                offset += len(data)
