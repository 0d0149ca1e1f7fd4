"""Stores the output of a run: bounded, without escapes, progress bars folded, redacted.

The steps: decode (invalid UTF-8 is replaced) -> fold text that a terminal would overwrite -> redact complete lines ->
number -> write. The folder contains `output.*` (the first and the last lines), `notable.*` (errors, warnings,
tracebacks, metrics from the middle), `current.txt` (lines that can still change, at most a second old), `counts.json`
and `files.json` (streams that the program wrote to its own files). All of it is redacted; raw text is in memory only.
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

from labbook.capture.console.console_silences import SilenceLog
from labbook.capture.console.console_store import LineStore, last_number, read_objects
from labbook.capture.console.notable_lines import NotableLines, notable_spans, open_key_line
from labbook.capture.console.terminal_folding import LONGEST_LINE, LineFolder
from labbook.probe.redaction.redactor import Redactor
from labbook.probe.redaction.stream import StreamRedactor
from labbook.store.json_files import read_json_object, read_text_or_nothing

HEAD_BYTES = 1024 * 1024
TAIL_BYTES = 4 * 1024 * 1024
_NOTABLE_BYTES = 256 * 1024
"""Maximum size of the first and of the last notable lines, each. Source: chosen by us, about 5,000 lines."""
_FLUSH_S = 1.0
_CHUNK = 256 * 1024


@dataclass
class _Stream:
    """The state between the bytes of one stream and its redacted lines."""

    redact: StreamRedactor
    decode: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    fold: LineFolder = field(default_factory=LineFolder)
    notable: NotableLines = field(default_factory=NotableLines)
    rest: str = ""  # redacted text of an unfinished line
    skipped: bytes = b""  # unfinished line at the end of a block that was only skimmed
    in_line: bool = False  # the last byte was no newline
    in_lost_line: bool = False  # the start of the line is lost: the line is dropped up to its end
    is_uncounted: bool = False  # that line is not counted yet


class ConsoleSink:
    """Stores the output of a run. No method raises; text that cannot be redacted is withheld.

    The disk is not touched before the first byte arrives, so that a copy of the object in a fork can continue from the
    state on disk.

    Args:
        head_bytes: Maximum size of the first lines.
        tail_bytes: Maximum size of the last lines.
    """

    def __init__(
        self, folder: Path, redactor: Redactor, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES
    ) -> None:
        self.head_bytes = head_bytes
        self.tail_bytes = tail_bytes
        self._folder = folder.absolute()
        self._redactor = redactor
        self._output = LineStore(self._folder, "output", head_bytes, tail_bytes)
        self._notable = LineStore(self._folder, "notable", _NOTABLE_BYTES, _NOTABLE_BYTES)
        self._silences = SilenceLog(self._folder)
        self._streams: dict[str, _Stream] = {}
        self._next = 0  # number of the next line; 0 before the state on disk is read
        self._counted = Counter(redactor.counts)
        self._counts: dict[str, Any] = {}
        self._flushed = 0.0
        self._written_text = ""
        self._changed = False

    def feed(self, stream: str, data: bytes) -> None:
        """Stores the next bytes of a stream."""
        try:
            self._silences.end_silence(self._find_next_line)
            self._feed(stream, data)
        except Exception as error:  # fails closed
            self._withhold(stream, data, error)
        if time.monotonic() - self._flushed > _FLUSH_S:
            self.flush()

    def skim(self, stream: str, data: bytes, hurried: bool = False) -> None:
        """Counts the lines in the next bytes of a stream and stores only the notable ones.

        Args:
            hurried: Search for errors only, which is five times as fast.
        """
        try:
            self._silences.end_silence(self._find_next_line)
            self._skim(stream, data, hurried)
        except Exception as error:  # fails closed
            self._withhold(stream, data, error)

    def gap(self, stream: str, lines: int, opening: bytes = b"", cut: bool = True) -> None:
        """Notes that bytes of a stream were lost.

        Args:
            lines: Number of newlines in the lost bytes.
            opening: First line of a private key that is still open after them, or nothing.
            cut: Whether they may end within a line; the rest of that line is dropped, as its start is unknown.
        """
        try:
            state = self._stream(stream)
            counted = not state.is_uncounted if state.in_lost_line else state.in_line
            self._finish_line(state)
            if lines:
                self._next += lines - counted
                state.in_lost_line, state.is_uncounted = cut, True
            elif cut:
                state.in_lost_line, state.is_uncounted = True, not counted
            state.in_line = False
            self._open_key(state, opening)
        except Exception as error:  # fails closed
            self._withhold(stream, b"", error)

    def rescue(self, stream: str, lines: bytes) -> None:
        """Stores complete lines from within a gap, whose rest follows as a gap of its own."""
        try:
            self._stream(stream).in_lost_line = False
            self._feed(stream, lines)
        except Exception as error:  # fails closed
            self._withhold(stream, lines, error)

    def flush(self) -> None:
        """Writes the lines that can still change, and the counts, if they are not on disk yet."""
        self._flushed = time.monotonic()
        try:
            self._resume()
            text = "".join(chain.from_iterable(map(self._changeable_text, self._streams.values())))
            if text != self._written_text:
                self._write_small("current.txt", text.encode("utf-8", "replace"))
                self._written_text = text
            if self._changed:
                self._write_small("counts.json", json.dumps(self._count_totals()).encode())
                self._changed = False
        except Exception:  # tried again a second later
            return

    def file_stream(self, stream: str, path: Path, offset: int, end: int = 0) -> None:
        """Notes that a stream goes to a file of the user, which is read at the end.

        Args:
            offset: Start of this run's output, bytes.
            end: End of it; 0 at the end of the file.
        """
        try:
            status = path.stat()
            listed = [*self._files(), {
                "stream": stream, "path": str(path.absolute()), "offset": offset,
                "inode": status.st_ino, "device": status.st_dev, "end": end, "read": False,
            }]  # fmt: skip
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write_small("files.json", json.dumps(listed).encode())
        except OSError as error:
            self._append_note(f"[the output went to a file that cannot be read: {error.strerror}]")

    def close(self) -> None:
        """Stores the rest, reads the files that streams went to, and writes the counts."""
        try:
            self._silences.end_silence(self._find_next_line)
            self._read_files()
        except Exception as error:  # only the text of a missing file is lost
            self._append_note(f"[cannot read the output from its file: {type(error).__name__}]")
        for name in list(self._streams):
            self._end(name)
        self._streams = {}
        self._changed = True
        self.flush()
        self._output.close()
        self._notable.close()

    def _end(self, name: str) -> None:
        try:
            self._finish_line(self._streams[name])
        except Exception as error:  # fails closed
            self._withhold(name, b"\n", error)

    def _stream(self, name: str) -> _Stream:
        self._resume()
        if name not in self._streams:
            self._streams[name] = _Stream(StreamRedactor(self._redactor))
        return self._streams[name]

    def _find_next_line(self) -> int | None:
        """Returns the number of the line that the next bytes begin, `None` if it is not known."""
        self._resume()
        states = self._streams.values()
        pending = [None if s.in_line or s.in_lost_line or s.rest else s.fold.count_pending() for s in states]
        is_known = None not in pending and (len(pending) < 2 or not any(pending))
        return self._next + sum(filter(None, pending)) if is_known else None

    def _resume(self) -> None:
        """Continues from the state on disk, once."""
        if self._next:
            return
        self._next = 1
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._counts = read_json_object(self._folder / "counts.json")
        known = int(self._counts.get("lines") or 0)
        self._next = max(known, last_number(self._folder, "output"), last_number(self._folder, "notable")) + 1
        left = read_text_or_nothing(self._folder / "current.txt")
        if left:
            self._append_lines(NotableLines(), left.rstrip("\n").split("\n"))
            self._write_small("current.txt", b"")

    def _feed(self, name: str, data: bytes) -> None:
        state = self._stream(name)
        if state.skipped:
            data, state.skipped = state.skipped + data, b""
        if state.in_lost_line:
            data = self._skip_lost_line(state, data)
        state.in_line = not data.endswith(b"\n") if data else state.in_line
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
            self._append_lines(state.notable, lines)

    def _append_lines(self, notable: NotableLines, lines: list[str]) -> None:
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
        if not state.in_lost_line:
            # The current line is finished first, so that none of it is judged without its start.
            begun = data.find(b"\n", 0, LONGEST_LINE) + 1
            if begun:
                self._feed(name, data[:begun])
                data = data[begun:]
        else:
            data = self._skip_lost_line(state, data)
        end = data.rfind(b"\n") + 1
        data, unfinished = data[:end], data[end:]
        at = 0
        for start, stop in notable_spans(data, hurried):
            self._next += data.count(b"\n", at, start)
            self._feed(name, data[start:stop])
            at = stop
        self._next += data.count(b"\n", at)
        self._open_key(state, open_key_line(data))
        state.in_line = state.in_line and not end
        if len(unfinished) > LONGEST_LINE:
            self._finish_line(state)
            self._drop_line_start(state)
        else:
            state.skipped = unfinished
            state.in_line = state.in_line or bool(unfinished)

    def _drop_line_start(self, state: _Stream) -> None:
        """Notes that the next bytes may be the rest of a line whose start is lost."""
        if not state.in_lost_line:
            # A line whose start is stored was counted with it.
            state.in_lost_line, state.is_uncounted, state.in_line = True, not state.in_line, False

    def _skip_lost_line(self, state: _Stream, data: bytes) -> bytes:
        """Returns the data after the line whose start is lost."""
        end = min((at for at in (data.find(b"\n"), data.find(b"\r")) if at >= 0), default=-1)
        if end < 0:
            return b""
        self._next += state.is_uncounted and data[end : end + 1] == b"\n"
        state.in_lost_line = False
        return data[end + 1 :]

    def _open_key(self, state: _Stream, opening: bytes) -> None:
        """Passes the first line of an open private key to the redactor, without storing it."""
        if opening:
            counted = dict(self._redactor.counts)
            state.redact.feed(opening.decode("utf-8", "replace") + "\n")
            self._redactor.counts.clear()
            self._redactor.counts.update(counted)

    def _finish_line(self, state: _Stream) -> None:
        """Finishes the current line of a stream, which will get no more text."""
        skipped, state.skipped = state.skipped, b""
        text = state.decode.decode(b"" if state.in_lost_line else skipped, True)
        final = state.fold.feed(text) + state.fold.finish()
        state.fold = LineFolder()
        # Not `finish`: the redactor must remember a private key that is open.
        self._store(state, state.redact.feed(final))
        if state.rest:
            self._store(state, state.redact.feed("\n"))

    def _withhold(self, name: str, data: bytes, error: Exception) -> None:
        """Stores a note in place of text that could not be redacted, up to the next newline."""
        lines = data.count(b"\n")
        self._streams.pop(name, None)
        count = max(1, lines)
        plural = "" if count == 1 else "s"
        self._append_note(f"[withheld: {count} line{plural}, the redaction failed ({type(error).__name__})]")
        try:
            if not data.endswith(b"\n"):
                self._drop_line_start(self._stream(name))
        except Exception:  # the next call tries again
            return

    def _append_note(self, text: str) -> None:
        try:
            self._resume()
            self._append_lines(NotableLines(), [text])
        except Exception:  # nothing can be written; `counts.json` will be missing too
            return

    def _changeable_text(self, state: _Stream) -> Iterator[str]:
        """Yields the lines that can still change, redacted by a copy of the redactor that counts nothing."""
        rows = state.fold.changeable_lines()
        if not rows:
            return
        silent_redactor = copy.copy(self._redactor)
        silent_redactor.counts = Counter()
        clone = copy.deepcopy(state.redact, {id(self._redactor): silent_redactor})
        yield clone.feed("".join(f"{row}\n" for row in rows)) + clone.finish()

    def _count_totals(self) -> dict[str, Any]:
        masked = Counter(self._counts.get("redactions") or {})
        masked.update(Counter(self._redactor.counts) - self._counted)
        trouble = self._output.trouble or self._notable.trouble or str(self._counts.get("trouble") or "")
        return {"lines": self._next - 1, "redactions": masked, "tail_bytes": self.tail_bytes, "trouble": trouble}

    def _write_small(self, name: str, content: bytes) -> None:
        # Not synced: it is written every second, and only a power loss could lose it.
        temporary = self._folder / f".{name}.new"
        temporary.write_bytes(content)
        temporary.replace(self._folder / name)

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
            size = int(one.get("end") or source.seek(0, 2))
            if size < offset:
                offset = 0  # the program truncated its file: everything in it is new
            head, tail = offset + self.head_bytes, size - self.tail_bytes - self.tail_bytes // 4
            source.seek(offset)
            while offset < size and (data := source.read(min(_CHUNK, size - offset))):
                store = self.skim if head < offset and offset + len(data) < tail else self.feed
                store(name, data)
                offset += len(data)
