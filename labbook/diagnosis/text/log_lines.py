"""Decodes the lines of any log and removes escapes and prefixes; the prefix gives rank, time and level."""

from __future__ import annotations

import codecs
import contextlib
import html
import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from labbook.diagnosis.toml_data import compile_patterns

_RE = compile_patterns(__file__)

LONGEST_LINE = 8_000
"""Longer lines lose their middle. Source: chosen by us; messages are shorter."""


class LogLine(NamedTuple):
    """One line as its program printed it.

    Args:
        number: From 1, counted by newlines.
        text: Without escapes and prefixes, with its indentation.
        rank: As the prefix says, or `None`.
        source: The writer, where the prefix names one, or "".
        time: Seconds, comparable within one text, or `None`.
        level: "ERROR", "WARNING", "INFO", ... of a logging prefix, or "".
        is_edge: Whether it reports nothing and separates what does, as `log_reader` finds.
    """

    number: int
    text: str
    rank: int | None = None
    source: str = ""
    time: float | None = None
    level: str = ""
    is_edge: bool = False

    @property
    def indent(self) -> int:
        """Width of the leading white space."""
        return len(self.text) - len(self.text.lstrip())


_GLOG_LEVELS = {"V": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "FATAL"}


def clean_line(text: str) -> str:
    """A line without escapes, control characters and a leading progress bar."""
    if len(text) > LONGEST_LINE:
        text = text[: LONGEST_LINE // 2] + " ... " + text[-LONGEST_LINE // 2 :]
    if "\x1b" in text or "[" in text:
        text = _RE["escapes"].sub("", text)
    if not text.isascii() or not text.isprintable():
        text = _RE["control"].sub("", text)
        text = _RE["space"].sub(" ", text)
    if "%|" in text:
        text = rest if (rest := _RE["bar"].sub("", text, count=1)).strip() else text
    if ": : " in text:
        text = _RE["doubled"].sub(r"\g<type>: \g<message>", text)
    return text.rstrip()


def split_line(number: int, raw: str) -> Iterator[LogLine]:
    """The line, or its parts where it holds carriage returns or a traceback written as one string."""
    if "\\n" in raw and _RE["escaped_lines"].search(raw):
        raw = raw.replace("\\r", "").replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t").replace("\\'", "'")
    raw = _restore_breaks(_unpack(raw.rstrip("\r")))
    if "\r" in raw and (found := _RE["of_shell"].match(raw)):
        raw = f"{found[1]}^M{raw[found.end() :]}"  # of a script with Windows line ends; no terminal shows it
    if "\r" not in raw and "\n" not in raw:
        yield strip_prefix(number, clean_line(raw))
        return
    parts = [part for part in re.split(r"[\r\n]+", raw[-200_000:]) if part.strip()]
    for part in parts[:20] + parts[20:][-400:]:
        yield strip_prefix(number, clean_line(part))


def _unpack(raw: str) -> str:
    """The text of a line that a container or logger wrote as a JSON object, or a web page with entities."""
    if raw.startswith("{") and raw.endswith("}"):
        found = _RE["json_text"].search(raw)
        with contextlib.suppress(ValueError):
            return str(json.loads(f'"{found[1]}"')).rstrip("\n") if found else raw
    if "&" in raw and _RE["entity"].search(raw):
        raw = _RE["tag"].sub("", html.unescape(_RE["tag"].sub("", raw)))
    return raw


def _restore_breaks(raw: str) -> str:
    """A line that holds a whole traceback, as one-line forms leave it, with its line breaks restored."""
    if 'ile "' not in raw[:LONGEST_LINE] or ", line " not in raw:
        return raw
    text = raw[: 4 * LONGEST_LINE]
    if _RE["run_on"].search(text) is None or not (_RE["run_on_class"].search(text) or text.count(", line ") > 1):
        return raw
    text = _RE["header_in_line"].sub("\n", text)
    text = _RE["run_on"].sub(lambda found: f"\n  {found.group().rstrip(' ,')}\n    ", text)
    return _RE["run_on_class"].sub("\n", text)


def strip_prefix(number: int, text: str) -> LogLine:
    """Removes the prefixes of launchers, schedulers, containers, loggers and quoting from a cleaned line."""
    rank: int | None = None
    source, level = "", ""
    time: float | None = None
    for _ in range(6):
        found = _RE["prefix"].match(text)
        if found is None or not found.end():
            break
        groups = found.groupdict()
        text = text[found.end() :]
        for name in ("rank_a", "rank_b", "rank_c", "rank_d"):
            if groups[name] is not None:
                rank = int(groups[name])
        source += groups["host"] or groups["worker"] or groups["container"] or groups["pipe"] or ""
        level = groups["level_b"] or groups["level_c"] or groups["level_d"] or level
        level = _GLOG_LEVELS.get(groups["glog"] or groups["lite"] or "", level)
        when = groups["time"] or groups["kube"]
        time = _seconds(when) if when and time is None else time
        behind = _RE["level_behind"].match(text) if groups["time"] else None
        if behind and _RE["names"].fullmatch(behind["names"]):
            level, text = behind["level"], text[behind.end() :]
            named = _RE["rank_inside"].search(behind["names"])
            rank = int(named[1]) if named and rank is None else rank
    text = _RE["of_nccl"].sub("NCCL ", _unmarked(text))
    if rank is not None:
        source = f"{source}#{rank}"
    elif "ank" in text and (inside := _RE["rank_inside"].search(text[:160])):
        rank = int(inside[1])
    return LogLine(number, text, rank, source, time, level)


def _unmarked(text: str) -> str:
    """A line without Markdown marks around it: bold text, or one end of code over several lines."""
    if not text or (text[-1] not in "`*_" and text.lstrip()[:1] not in ("`", "*")):
        return text
    names = (
        ("fenced",)
        if "```" in text
        else ("quoting_code", "bold", "bold_begins", "bold_ends", "code_ends", "code_begins")
    )
    found = next(filter(None, (_RE[name].match(text) for name in names)), None)
    return found["indent"] + found["text"] if found else text


def _seconds(when: str) -> float | None:
    text = re.sub(r"[T ,_]{1,2}", " ", when.replace("/", "-"), count=1)
    found = re.match(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?", text)
    with contextlib.suppress(ValueError):
        if found:
            since = datetime.fromisoformat(found[1]) - datetime(1970, 1, 1)
            return since.total_seconds() + float(f"0.{found[2] or 0}")
    return None


_HEADS = tuple(_RE[name] for name in ("before_header", "before_frame", "before_class"))
"""Lines of a traceback by which a prefix before them is recognised."""


def strip_learned_prefix(lines: list[LogLine]) -> list[LogLine]:
    """Removes a prefix of unknown form that a line of a traceback shares with the line above or below it.

    Numbers in it may differ. So comment signs and the prefixes of `srun -l`, `pdsh`, pasted line numbers or a custom
    logger need no rule of their own.
    """
    marks = {found.group(1) if (found := _RE["mark"].match(line.text)) else "" for line in lines if line.text.strip()}
    if len(marks) == 1 and "" not in marks and len(lines) > 1:
        return [strip_prefix(line.number, _RE["mark"].sub("", line.text, count=1)) for line in lines]
    learned: list[re.Pattern[str]] = []
    bars = any(_RE["boxed"].search(line.text) for line in lines)
    for place, line in enumerate(lines):
        found = next((head for pattern in _HEADS if (head := pattern.match(line.text))), None)
        lead = found["lead"].strip() if found else ""
        if found and found.re is _RE["before_class"] and _RE["comment"].match(lead):
            continue
        if not lead.strip(" |+│┃❱" if bars else " ") or any(pattern.match(line.text) for pattern in learned):
            continue
        parts = [re.escape(part) for part in _RE["general"].split(lead)]
        behind = r"\b" if lead[-1].isalnum() else ""
        prefix = re.compile(r"\s{0,6}(" + r"(\d+)".join(parts) + rf"){behind}[ ]?")
        if any(prefix.match(near.text) for near in (*lines[max(0, place - 1) : place], *lines[place + 1 : place + 2])):
            learned.append(prefix)
        if len(learned) >= 8:
            break
    if not learned:
        return lines
    numbered = all(_counts_up(pattern, lines) for pattern in learned)
    return [_strip_prefix(line, learned, numbered) for line in lines]


def _counts_up(pattern: re.Pattern[str], lines: list[LogLine]) -> bool:
    """Whether the only number of the prefix grows from line to line: a line number, not a rank."""
    found = (pattern.match(line.text) for line in lines if pattern.groups == 2)
    numbers = [int(one[2]) for one in found if one and one[2] and len(one[2]) < 10]
    return len(numbers) > 2 and all(b > a for a, b in pairwise(numbers))


def _strip_prefix(line: LogLine, learned: list[re.Pattern[str]], numbered: bool) -> LogLine:
    for pattern in learned:
        found = pattern.match(line.text)
        if found is None:
            continue
        rest, literal = line.text[found.end() :], found.group(1)
        clocked = re.search(r"\d\d:\d\d", literal)
        only = re.fullmatch(r"[\[(]?(\d{1,5})[\])]?[:|>]*", literal.strip())
        rank = int(only.group(1)) if only and not numbered else line.rank
        source = line.source if clocked or numbered else line.source + literal
        return line._replace(text=rest, rank=rank, source=source)
    return line


def decode_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes; UTF-16 and UTF-32 become UTF-8, other encodings are decoded by `decode_line`."""
    source = iter(chunks)
    first = b""
    for chunk in source:
        first += chunk
        if len(first) >= 4096:
            break
    encoding = _wide_encoding(first[:4096])
    if not encoding:
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from source
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(first).lstrip("\ufeff").encode("utf-8", "replace")
    for chunk in source:
        yield decoder.decode(chunk).encode("utf-8", "replace")


def _wide_encoding(start: bytes) -> str:
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = start[0::2].count(0), start[1::2].count(0)
    if len(start) >= 8 and max(even, odd) > len(start) // 5 and min(even, odd) < len(start) // 50:
        return "utf-16-be" if even > odd else "utf-16-le"
    return ""


def decode_line(line: bytes) -> str:
    """Text of one line: UTF-8, else GB18030 where that gives common Chinese characters, else Latin-1."""
    if len(line) > 4 * LONGEST_LINE:
        line = line[: 2 * LONGEST_LINE] + b" ... " + line[-2 * LONGEST_LINE :]
        return line.decode("utf-8", "ignore")
    with contextlib.suppress(UnicodeDecodeError):
        return line.decode("utf-8")
    try:
        text = line.decode("gb18030")
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace") if line.count(b"\xef") > 2 else line.decode("latin-1")
    wide = [sign for sign in text if sign > "\x7f"]
    common = sum("\u4e00" <= sign <= "\u9fa5" or "\u3000" <= sign <= "\u303f" or sign >= "\uff00" for sign in wide)
    return text if wide and common >= 0.7 * len(wide) else line.decode("latin-1")
