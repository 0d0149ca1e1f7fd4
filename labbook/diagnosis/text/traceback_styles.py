"""Rewrites tracebacks of IPython, rich and pytest, and exception groups, in the form of Python."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile

from labbook.diagnosis.text.log_lines import LogLine
from labbook.diagnosis.text.stack_frames import SHAPES, is_exception_class
from labbook.diagnosis.toml_data import compile_patterns

_RE = compile_patterns(__file__)

PLAIN_HEAD = "Traceback (most recent call last):"
GROUP_RULE = "\u0001 next of the group"
"""Separates the exceptions of a group in rewritten lines; control characters were removed from logs before."""
_LONGEST_FRAME = 600
_NARROWEST, _SURE = 40, 3
"""Letters and number of lines from which on they are hardly of the same length by chance. Source: chosen by us."""


def normalise_tracebacks(lines: list[LogLine]) -> list[LogLine]:
    """The same lines with each traceback in the form of Python."""
    lines = list(_join_words(_unwrapped(lines)))
    text = "\n".join(line.text for line in lines)
    if "Exception Group Traceback" in text:
        lines = list(_groups(lines))
    if "│" in text or "┃" in text or ("Traceback (most recent" in text and "| " in text):
        lines = list(_rich(lines))
    if "](http" in text or "](file:" in text or "](vscode" in text:
        lines = [_remove_links(line) for line in lines]
    if "In [" in text or "In[" in text or "--> " in text or "-> " in text or "\nFile " in f"\n{text}":
        lines = _ipython(lines)
    if "\nE  " in f"\n{text}":
        lines = _pytest(lines)
    return lines


def _unwrapped(lines: list[LogLine]) -> list[LogLine]:
    """The lines with frames that were broken at the width of a terminal or mail joined again."""
    made: list[LogLine] = []
    for line in lines:
        last = made[-1].text if made else ""
        if _RE["half_frame"].match(last) and not SHAPES["frame"].match(last):
            joined = [last + glue + line.text.strip() for glue in ("", " ")]
            whole = next(filter(SHAPES["frame"].match, joined), "")
            if whole or (_RE["half_frame"].match(joined[1]) and len(joined[1]) < _LONGEST_FRAME):
                made[-1] = made[-1]._replace(text=whole or joined[1])
                continue
        made.append(line)
    return made


def _join_words(lines: list[LogLine]) -> Iterable[LogLine]:
    """The lines with messages that were broken inside of words joined again.

    At least three of their lines have one length; a shorter one may follow.
    """
    place = 0
    while place < len(lines):
        line, end = lines[place], place + 1
        width = len(line.text)
        if width >= _NARROWEST and _RE["message"].match(line.text):
            end += next((n for n, one in enumerate(lines[end:]) if len(one.text) != width), len(lines) - end)
            if end - place >= _SURE:
                end += end < len(lines) and 0 < len(lines[end].text) < width
                line = line._replace(text="".join(one.text for one in lines[place:end]))
            else:
                end = place + 1
        yield line
        place = end


def _remove_links(line: LogLine) -> LogLine:
    found = _RE["linked"].match(line.text)
    if found is None:
        return line
    file = f"File {found['file']}{found['line']}," if found["line"] else found["file"]
    return line._replace(text=f"{file} in {found['function']}")


def _frame_lines(at: LogLine, file: str, line: str, function: str, source: str) -> Iterable[LogLine]:
    name = function if function.startswith("<") else function.split("(")[0]
    yield at._replace(text=f'  File "{file}", line {line or 0}, in {name or "<module>"}')
    if source.strip():
        yield at._replace(text=f"    {source.strip()}")


def _groups(lines: list[LogLine]) -> Iterable[LogLine]:
    inside = False
    for line in lines:
        if _RE["group_head"].match(line.text):
            inside = True
            yield line._replace(text=PLAIN_HEAD)
        elif inside and _RE["group_rule"].match(line.text):
            yield line._replace(text=GROUP_RULE)
        elif inside and _RE["group_line"].match(line.text):
            text = re.sub(r"^\s*[|+] ?", "", line.text)
            yield line._replace(text=PLAIN_HEAD if SHAPES["header"].search(text) else text)
        else:
            inside = inside and not line.text.strip()
            yield line


def _rich(lines: list[LogLine]) -> Iterable[LogLine]:
    """The lines with boxes of rich as tracebacks, also one whose upper edge was cut off."""
    inside, has_frame, broken = False, False, ""
    for line in lines:
        if _RE["rich_head"].match(line.text):
            inside, has_frame, broken = True, False, ""
            yield line._replace(text=PLAIN_HEAD)
            continue
        if not inside and _RE["rich_frame"].match(line.text):
            inside = True
            yield line._replace(text=PLAIN_HEAD)
        if not inside:
            yield line
            continue
        if _RE["rich_end"].match(line.text) or (line.text.strip() and not _RE["rich_line"].match(line.text)):
            inside = False
            if not _RE["rich_end"].match(line.text):
                yield line
            continue
        found = _RE["rich_line"].match(line.text)
        text = found["text"] if found else ""
        place = _RE["rich_file"].match(text) or _RE["rich_file"].match(broken + text.strip())
        arrow = _RE["rich_arrow"].match(text)
        if place:
            yield from _frame_lines(line, place["file"], place["line"], place["function"], "")
            has_frame, broken = True, ""
        elif arrow and has_frame:
            yield line._replace(text=f"    {arrow['source'].strip(' │|┃')}")
            has_frame = False
        else:
            # A long path continues in the next line of the box.
            broken = text.strip() if re.match(r"^\s?(?:/|~|[A-Za-z]:[\\/])", text) else ""


def _ipython(lines: list[LogLine]) -> list[LogLine]:
    made: list[LogLine] = []
    inside = False
    at = 0
    while at < len(lines):
        line = lines[at]
        if head := _RE["ipython_head"].match(line.text):
            inside = True
            # The class comes first here: it is left where the end is cut off.
            made.append(line._replace(text=f"{PLAIN_HEAD} {head['type']}"))
            rest = SHAPES["header"].split(line.text, maxsplit=1)[-1].lstrip("): ")
            if rest and _RE["old"].match(rest):
                lines[at] = line._replace(text=rest)
            else:
                at += 1
            continue
        place = _RE["cell"].match(line.text) or _RE["file"].match(line.text)
        if place is None and (inside or any(_RE["arrow"].match(near.text) for near in lines[at + 1 : at + 12])):
            place = _RE["old"].match(line.text)
        if place is None:
            shown = SHAPES["exception"].match(line.text)
            if inside and shown and is_exception_class(shown["type"], in_traceback=True):
                inside = False
            if not (inside and (_RE["context"].match(line.text) or _RE["rule_of_ipython"].match(line.text))):
                made.append(line)
            at += 1
            continue
        groups = place.groupdict()
        file = groups.get("file") or (f"In[{groups['cell']}]" if groups.get("cell") else "<cell>")
        number, source, below = groups.get("line") or "", "", at + 1
        context: list[LogLine] = []
        while below < len(lines) and below - at < 40:
            arrow = _RE["arrow"].match(lines[below].text)
            if arrow:
                number, source = number or arrow["line"], arrow["source"]
            elif not _RE["context"].match(lines[below].text):
                break
            context.append(lines[below])
            below += 1
        made.extend(_frame_lines(line, file, number, groups.get("function") or "<module>", source))
        if not source and not inside:
            made.extend(context)
        at = below
    return made


def _function_above(lines: list[LogLine], at: int) -> str:
    """Name of the function whose source pytest prints above a place."""
    found = (re.match(r"\s*(?:async )?def (\w+)", line.text) for line in reversed(lines[max(0, at - 200) : at]))
    return next((name[1] for name in found if name), "<module>")


def _pytest(lines: list[LogLine]) -> list[LogLine]:
    made: list[LogLine] = []
    places: list[tuple[str, str, str]] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        place = _RE["pytest_place"].match(line.text)
        if place and not place["type"]:
            places.append((place["file"], place["line"], place["function"] or _function_above(lines, at)))
        shown = _RE["pytest_e"].match(line.text)
        if not shown or not shown["text"]:
            made.append(line)
            at += 1
            continue
        found = takewhile(bool, (_RE["pytest_e"].match(one.text) for one in lines[at:]))
        words = [(one and one["text"]) or "" for one in found]
        end = at + len(words)
        source = next((one.text for one in reversed(made[-4:]) if one.text.strip()), "")
        last = next(filter(None, (_RE["pytest_place"].match(one.text) for one in lines[end : end + 3])), None)
        if last is not None:
            places.append((last["file"], last["line"], _function_above(lines, at)))
        first = SHAPES["exception"].match(words[0].strip())
        if first is None or not is_exception_class(first["type"]):
            words[0] = f"{(last['type'] if last else '') or 'AssertionError'}: {words[0].strip()}"
        made.append(line._replace(text=PLAIN_HEAD))
        sources = [""] * (len(places[-40:]) - 1) + ["" if SHAPES["frame"].match(source) else source]
        for frame, code in zip(places[-40:], sources, strict=False):
            made += _frame_lines(line, *frame, code)
        made.append(line._replace(text=words[0].strip()))
        made += (one._replace(text=f"  {text.strip()}") for one, text in zip(lines[at + 1 :], words[1:], strict=False))
        places, at = [], end
    return made
