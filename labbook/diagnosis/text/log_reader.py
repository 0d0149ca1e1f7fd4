"""Evidence from text: a pasted report, or a log of any length.

A short text is parsed line by line. Of a long one only windows around lines that may belong to a failure are parsed;
they are found by searching blocks of bytes, so that a healthy log costs little more than reading it.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches

from labbook.diagnosis.text import survived_errors
from labbook.diagnosis.text.error_windows import ErrorWindow, find_windows
from labbook.diagnosis.text.evidence_collector import LAST_STEP, PRINTS_STEPS, EvidenceCollector, guess_framework
from labbook.diagnosis.text.exit_lines import is_progress_bar, line_kind, parse_ending, strip_warning_place
from labbook.diagnosis.text.hedging import is_prose, without_speculation
from labbook.diagnosis.text.log_lines import LogLine, decode_chunks, decode_line, split_line, strip_learned_prefix
from labbook.diagnosis.text.parsed_exception import ParsedException
from labbook.diagnosis.text.stack_frames import is_exception_class, split_class
from labbook.diagnosis.text.traceback_parser import TracebackReader
from labbook.diagnosis.text.traceback_styles import normalise_tracebacks
from labbook.diagnosis.toml_data import compile_patterns
from labbook.model.evidence import Evidence, ObservedException, OutputLine

_RE = compile_patterns(__file__)

SHORT = 200
"""Up to so many lines a text is parsed as a report: every line counts."""
_PIECE = 1 << 20
_HEAD = 1 << 16
_TAIL = 1 << 14
_MOST_IN_A_BLOCK = 12
_LEAST_SPACED = 6
_OF_PYTHON = [name for name in dir(builtins) if name.endswith("Error")]
_ALMOST = 0.93
"""Similarity from which on a class that people typed is one of Python's: a letter too many. Source: chosen by us."""


def read_text(text: str) -> Evidence:
    """The evidence in a text, however it was cut or decorated; may be empty. Never raises."""
    raw = text.encode("utf-8", "surrogatepass" if text.isascii() else "replace")
    return read_stream(raw[at : at + _PIECE] for at in range(0, len(raw), _PIECE))


def read_stream(chunks: Iterable[bytes]) -> Evidence:
    """The evidence in the bytes of a log, with bounded memory. Never raises for their content.

    Cost: see `benchmarks/reading_logs.py`.
    """
    collected = EvidenceCollector()
    whole = False
    for region in find_windows(decode_chunks(_note_steps(chunks, collected)), SHORT):
        whole = region.whole
        if region.alone:
            _read_alone(region, collected)
        else:
            _read_region(region, collected)
    if not whole:
        # Of a long log only windows were parsed.
        lines = collected.tail.decode("utf-8", "replace").splitlines()
        for number, text in enumerate(lines, collected.newlines - len(lines) + 1):
            if survived_errors.is_training_step(text):
                collected.add_step(number)
        collected.going = sorted(set(collected.going))
    return _evidence(collected)


def _note_steps(chunks: Iterable[bytes], collected: EvidenceCollector) -> Iterator[bytes]:
    """Passes the chunks through; notes whether the first one prints training steps, which windows leave out."""
    for place, chunk in enumerate(chunks):
        if place == 0:
            collected.steps = survived_errors.has_training_steps(chunk[:_HEAD].decode("utf-8", "replace"))
            collected.proposed = chunk.startswith((b"diff --git ", b"commit "))
        collected.newlines += chunk.count(b"\n")
        collected.tail = (collected.tail + chunk[-_TAIL:])[-_TAIL:]
        yield chunk


def _lines_of(region: ErrorWindow) -> list[LogLine]:
    read = (line for number, raw in region.lines for line in split_line(number, decode_line(raw) if raw else ""))
    # Before a prefix is removed that only the neighbouring lines show: that of `grep`.
    lines = [line._replace(is_edge=True) if _RE["edges"].match(line.text) else line for line in read]
    # Copied from a web page, a text may have an empty line behind each line.
    spaced = len(lines) > _LEAST_SPACED and not any(line.text.strip() for line in lines[1::2])
    return lines[::2] if spaced else lines


def _read_alone(region: ErrorWindow, collected: EvidenceCollector) -> None:
    """Adds lines that are read one by one."""
    for line in _lines_of(region):
        kind = line_kind(line)
        if kind and not line.is_edge:
            collected.add_line(line, kind, strip_warning_place(line.text) if kind == "warning" else line.text.strip())


def _read_region(region: ErrorWindow, collected: EvidenceCollector) -> None:
    lines = strip_learned_prefix(_lines_of(region))
    by_source: dict[str, list[LogLine]] = {}
    for line in lines:
        if survived_errors.is_training_step(line.text):
            collected.add_step(line.number)
        by_source.setdefault(line.source, []).append(line)
    for own in by_source.values():
        shaped = normalise_tracebacks(own)
        reader = TracebackReader(shaped)
        found = [
            one for one in reader.read() if one.frames or not (one.at.is_edge or _RE["retried"].search(one.at.text))
        ]
        rest = [line for place, line in enumerate(shaped) if place not in reader.used]
        if region.whole and not any(one.type for one in found):
            # A title often has the last line of a traceback whose end was cut off.
            found = [*found, *_inline(rest)]
        collected.add_exceptions(found)
        collected.stacks.extend(reader.stacks[: 100 - len(collected.stacks)])
        _collect_lines(rest, collected, whole=region.whole, blocks=region.whole and not found)
    collected.note_wording("\n".join(line.text for line in lines), whole=region.whole)


def _collect_lines(rest: list[LogLine], collected: EvidenceCollector, *, whole: bool, blocks: bool) -> None:
    """Adds the lines outside of exceptions: of a short text all, of a long one those of a `line_kind`."""
    block: list[LogLine] = []
    warned = 0
    for at, line in enumerate(rest):
        text = line.text.strip()
        kind = line_kind(line)
        place = warned == line.number - 1 and line.indent and "warn" in text
        retried = _RE["retried"].search(text) or (at + 1 < len(rest) and _RE["retries"].match(rest[at + 1].text))
        if place or retried or (not kind and "NCCL INFO" in text):  # NCCL logs what it tries in turn
            continue
        warned = line.number if kind == "warning" else 0
        edge = line.is_edge or _RE["edges"].match(line.text)
        if not edge and (kind or (whole and _RE["words"].search(text) and not is_progress_bar(text))):
            collected.add_line(line, kind or "output", strip_warning_place(text) if kind == "warning" else text)
        if not blocks:
            continue
        if edge or (block and line.number > block[-1].number + 1):
            _say_block(block, collected)
            block = []
        if not edge and kind != "warning":
            block.append(line)
    _say_block(block, collected)


def _say_block(block: list[LogLine], collected: EvidenceCollector) -> None:
    """Adds neighbouring lines as one block, as a message may be broken anywhere."""
    for first in range(0, len(block), _MOST_IN_A_BLOCK):
        part = block[first : first + _MOST_IN_A_BLOCK]
        if len(part) > 1:
            collected.add_line(part[0], "output", "\n".join(line.text.strip() for line in part))


def _inline(lines: list[LogLine]) -> Iterator[ParsedException]:
    """Exceptions that a sentence quotes: "报错 RuntimeError: ... 请问怎么解决"."""
    for line in (one for one in lines if not one.is_edge):
        text = _RE["retyped"].sub(lambda found: f"{found['word'].capitalize()}Error", line.text)
        shown = _RE["inline"].search(text)
        if shown is not None and shown["type"] not in without_speculation(text):
            continue
        if shown is None or line.level in ("INFO", "DEBUG", "WARNING") or not is_exception_class(shown["type"]):
            continue
        if _RE["handled"].search(line.text) or _RE["retried"].search(line.text):
            continue
        module, name = split_class(shown["type"])
        message = next(filter(None, shown.group("written", "message", "key", "errno", "number"))).strip('`*"”」 ')
        if message.endswith("'") and message.count("'") % 2:
            message = message[:-1].rstrip()  # the end of a quotation
        if not module and name not in _OF_PYTHON:
            name = next(iter(get_close_matches(name, _OF_PYTHON, 1, _ALMOST)), name)
        yield ParsedException(line, type=name, module=module, message=message, bare=True)


def _exit_reports(raised: ObservedException) -> list[str]:
    """Lines of a message that report how a process ended."""
    if raised.type == "ChildFailedError":
        return raised.message.split("Root Cause", 1)[-1].splitlines()
    if raised.type == "CalledProcessError":
        return [" ".join(raised.message.split())]
    if raised.type in ("", "FatalError", "ProcessExitedException"):
        return raised.message.replace("Fatal Python error: ", "").splitlines()
    return []


def _evidence(collected: EvidenceCollector) -> Evidence:
    raised: list[ObservedException] = collected.exceptions()
    outputs: list[OutputLine] = collected.lines()
    if any(one.order == one.line for one in raised) or any(one.order == one.line for one in outputs):
        raised = [replace(one, order=float(one.line)) for one in raised]
        outputs = [replace(one, order=float(one.line)) for one in outputs]
    raised.sort(key=lambda one: (one.order, one.line))
    outputs.sort(key=lambda one: (one.order, one.line))
    end = collected.tail.decode("utf-8", "replace")
    passed = survived_errors.only_reports(end)
    if passed or (collected.proposed and not any(e.frames or (e.inner and e.inner.frames) for e in raised)):
        # Tests expect their errors; those that a description of a change quotes are those that the change fixes.
        raised = []
    reports = [text for one in raised if not survived_errors.was_caught(one) for text in _exit_reports(one)]
    if collected.steps and not reports:
        good_end = survived_errors.find_good_end(end.splitlines(), collected.newlines)
        raised, outputs = survived_errors.drop_survived(raised, outputs, collected.going, good_end)
    said = (one.text for one in outputs if one.kind == "output" and "\n" not in one.text and not is_prose(one.text))
    ending = parse_ending([*reports, *map(without_speculation, said)])
    if collected.stacks:
        ending = replace(ending, facts={**ending.facts, "stacks": tuple(collected.stacks)})
    return Evidence(
        tuple(raised),
        tuple(outputs),
        ending,
        conditions=frozenset({PRINTS_STEPS} if collected.steps else ()),
        facts={LAST_STEP: str(collected.going[-1])} if collected.going else {},
        framework=guess_framework(collected.clues),
        clean_end=(ending.exit_code == 0 or collected.wished or collected.proposed or passed)
        and not any(one.ended_process for one in raised),
    )
