"""Reads the frames of one traceback, also with lines of other writers in between, or cut off."""

from __future__ import annotations

from collections.abc import Sequence

from labbook.diagnosis.text.exception_message import is_edge
from labbook.diagnosis.text.log_lines import LogLine
from labbook.diagnosis.text.stack_frames import SHAPES, is_exception_class, make_frame
from labbook.diagnosis.toml_data import fits_any
from labbook.model.run import Frame

_NO_SOURCE = ("frame", "header", "marker", "repeated", "summary", "rule")
_MOST_STRAY = 6
"""Unrelated lines inside a traceback before it counts as cut."""


def read_frames(lines: Sequence[LogLine], at: int, base: int, used: set[int]) -> tuple[list[Frame], int]:
    """The frames from a place on, and the place of the line that names the exception, or where it was cut.

    Args:
        lines: Of one writer.
        at: Place of the first frame.
        base: Indentation of the traceback's header.
        used: Gets the places that belong to the frames.
    """
    frames: list[Frame] = []
    stray, blank, known = 0, 0, at
    while at < len(lines):
        line = lines[at]
        found = SHAPES["frame"].match(line.text)
        if found:
            source = _source(lines, at + 1, line.indent, base)
            frames.append(make_frame(found["file"], int(found["line"]), found["function"] or "", source))
            used.update((at, at + 1) if source else (at,))
            at = known = at + 2 if source else at + 1
            blank = 0
            continue
        if not line.text.strip():
            blank += 1
            if blank > 3:
                return frames, known
        elif SHAPES["marker"].match(line.text) or SHAPES["repeated"].match(line.text):
            used.add(at)
            known = at + 1
        elif names_exception(line, base, frames):
            return frames, at
        elif is_edge(line.text, bool(frames)):
            return frames, known
        elif line.indent > base and frames:
            used.add(at)
            known = at + 1
        elif not SHAPES["header"].search(line.text):
            stray += 1
            if stray > _MOST_STRAY or (blank and frames):
                return frames, known
        at += 1
    return frames, known


def _source(lines: Sequence[LogLine], at: int, indent: int, base: int) -> str:
    line = lines[at] if at < len(lines) else None
    if line is None or not line.text.strip() or fits_any(SHAPES, line.text, *_NO_SOURCE):
        return ""
    if line.indent >= indent and line.indent > base:
        return line.text.strip()
    if indent > base:
        return ""
    # Pasted without indentation: a line that names no exception is the source of the frame.
    shown = SHAPES["exception"].match(line.text.strip())
    return "" if shown and is_exception_class(shown["type"]) else line.text.strip()


def names_exception(line: LogLine, base: int, frames: Sequence[Frame]) -> bool:
    """Whether a line behind the frames names the exception of a traceback whose header is indented by `base`."""
    if (shown := SHAPES["exception"].match(line.text.strip())) is None:
        return False
    flush = line.indent <= base
    near = flush or (bool(frames) and line.indent <= base + 4 and shown["message"] is not None)
    return near and is_exception_class(shown["type"], in_traceback=flush)
