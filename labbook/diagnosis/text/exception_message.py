"""Reads the lines of an exception's message: where it continues, where something else begins."""

from __future__ import annotations

from labbook.diagnosis.text.exit_lines import is_exit_line, is_progress_bar
from labbook.diagnosis.text.log_lines import LogLine
from labbook.diagnosis.text.stack_frames import SHAPES, is_exception_class
from labbook.diagnosis.text.survived_errors import is_training_step
from labbook.diagnosis.text.traceback_styles import GROUP_RULE
from labbook.diagnosis.toml_data import compile_patterns, fits_any

_RE = compile_patterns(__file__)

_MOST_LINES = 300
_MOST_LETTERS = 20_000


def read_native_message(line: LogLine) -> str:
    """The fatal message of native code in a line, or ""."""
    text = line.text.strip()
    fatal = line.level == "FATAL" and " " in text and not is_exit_line(text)
    return text if fatal or _RE["native"].match(text) else ""


def find_stack_end(lines: list[LogLine], start: int) -> int:
    """The place after a stack of C++ functions."""
    at = start + 1
    while at < len(lines) and at - start < 600 and _RE["numbered"].match(lines[at].text):
        at += 1
    return at


def is_edge(text: str, begun: bool) -> bool:
    """Whether something else begins here."""
    return (
        (begun and bool(SHAPES["header"].search(text)))
        or text == GROUP_RULE
        or fits_any(SHAPES, text, "chained", "summary", "cpp_section", "ignored", "thread")
        or text.startswith("```")
    )


def read_message(lines: list[LogLine], at: int, first: str, most_flush: int) -> tuple[list[str], int, list[int]]:
    """The lines of the message that begins at a place, the place after it, and the places that belong to it.

    Args:
        lines: All lines of the writer.
        at: Place of the first one.
        first: The part of the first line that is message.
        most_flush: How many further lines may begin without white space.
    """
    own = lines[at]
    if _RE["quoted"].match(first.strip()):
        most_flush = 0
    words, used, flush, letters = [first], [at], 0, len(first)
    at += 1
    while at < len(lines) and len(words) < _MOST_LINES and letters < _MOST_LETTERS:
        line = lines[at]
        if not line.text.strip():
            below = next((n for n in range(at + 1, min(at + 4, len(lines))) if lines[n].text.strip()), 0)
            if not below or _closes(lines[below], own, words) or not _continues(lines[below].text, own.text, words):
                break
            words.append("")
            at = below
            continue
        if _closes(line, own, words):
            break
        flush += not line.text[:1].isspace()
        if flush > most_flush:
            break
        words.append(line.text)
        letters += len(line.text)
        used.append(at)
        at += 1
    return words, at, used


def _continues(text: str, first: str, words: list[str]) -> bool:
    """Whether the message continues after an empty line."""
    if _RE["goes_on"].match(text):
        return True
    if not any(word.strip() for word in words):
        return first.rstrip().endswith((":", "：")) and not SHAPES["rule"].match(text)
    if _RE["named"].match(words[-1]):
        return not SHAPES["rule"].match(text)
    return text[:1].isspace() and (words[-1][:1].isspace() or words[-1].rstrip().endswith((":", "：")))


def _closes(line: LogLine, own: LogLine, words: list[str]) -> bool:
    """Whether a line is no longer part of the message."""
    text = line.text
    if is_training_step(text) and not text[:1].isspace():
        return True
    if is_edge(text, True) or fits_any(SHAPES, text, "frame", "python_section") or _RE["closes"].match(text):
        return True
    if fits_any(SHAPES, text, "user_code", "thrown", "thread_stack") or is_exit_line(text) or is_progress_bar(text):
        # The table of a launcher contains exit codes itself.
        return not any(map(_RE["of_launcher"].search, words))
    if (line.level and not own.level) or (line.time is not None and own.time is None):
        return True
    if SHAPES["rule"].match(text):
        so_far = "".join(words).strip()
        if not so_far:
            return text.lstrip().startswith("-")
        return not any(map(_RE["of_launcher"].search, words)) and not set(so_far) <= set("=-*")
    shown = SHAPES["exception"].match(text)
    return bool(shown and shown["message"] is not None and is_exception_class(shown["type"]))
