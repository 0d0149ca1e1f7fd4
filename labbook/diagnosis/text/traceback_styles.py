"""Rewrites tracebacks of IPython, rich and pytest, and exception groups, in the form of Python."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from labbook.diagnosis.text.log_lines import LogLine
from labbook.diagnosis.text.stack_frames import SHAPES, is_exception_class
from labbook.diagnosis.toml_data import compile_patterns

_RE = compile_patterns(Path(__file__).with_suffix(".toml"))


PLAIN_HEAD = "Traceback (most recent call last):"
GROUP_RULE = "\u0001 next of the group"
"""Separates the exceptions of a group in rewritten lines; control characters were removed from logs before."""


_LONGEST_FRAME = 600


def normalise_tracebacks(lines: list[LogLine]) -> list[LogLine]:
    """The same lines with each traceback in the form of Python."""
    lines = _unwrapped(lines)
    text = "\n".join(line.text for line in lines)
    if "Exception Group Traceback" in text:
        lines = list(_groups(lines))
    if "Traceback (most recent" in text and ("│" in text or "| " in text or "┃" in text):
        lines = list(_rich(lines))
    if "](http" in text or "](file:" in text or "](vscode" in text:
        lines = [_unlinked(line) for line in lines]
    if "In [" in text or "In[" in text or "--> " in text or "-> " in text or "\nFile " in f"\n{text}":
        lines = _ipython(lines)
    if "\nE  " in f"\n{text}":
        lines = _pytest(lines)
    return lines


def _unwrapped(lines: list[LogLine]) -> list[LogLine]:
    """The lines with frames that were broken at the width of a terminal or mail joined again."""
    made: list[LogLine] = []
    for line in lines:
        if made and _RE["half_frame"].match(made[-1].text) and not SHAPES["frame"].match(made[-1].text):
            for glue in ("", " "):
                joined = made[-1].text + glue + line.text.strip()
                if SHAPES["frame"].match(joined) or (
                    glue and _RE["half_frame"].match(joined) and len(joined) < _LONGEST_FRAME
                ):
                    made[-1] = made[-1]._replace(text=joined)
                    break
            else:
                made.append(line)
        else:
            made.append(line)
    return made


def _unlinked(line: LogLine) -> LogLine:
    found = _RE["linked"].match(line.text)
    if found is None:
        return line
    if found["line"]:
        return line._replace(text=f"File {found['file']}{found['line']}, in {found['function']}")
    return line._replace(text=f"{found['file']} in {found['function']}")


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
    inside = False
    pending: LogLine | None = None
    broken = ""
    for line in lines:
        if _RE["rich_head"].match(line.text):
            inside, pending, broken = True, None, ""
            yield line._replace(text=PLAIN_HEAD)
            continue
        if not inside:
            yield line
            continue
        if _RE["rich_end"].match(line.text) or (line.text.strip() and not _RE["rich_line"].match(line.text)):
            inside = False
            if pending is not None:
                yield pending
            if not _RE["rich_end"].match(line.text):
                yield line
            continue
        found = _RE["rich_line"].match(line.text)
        text = found["text"] if found else ""
        place = _RE["rich_file"].match(text) or _RE["rich_file"].match(broken + text.strip())
        arrow = _RE["rich_arrow"].match(text)
        if place:
            if pending is not None:
                yield pending
            pending = next(iter(_frame_lines(line, place["file"], place["line"], place["function"], "")))
            broken = ""
        elif arrow and pending is not None:
            yield pending
            source = arrow["source"].lstrip(" │|┃").rstrip(" │|┃")
            yield line._replace(text=f"    {source}")
            pending = None
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
        if place is None and (inside or _arrow_below(lines, at)):
            place = _RE["old"].match(line.text)
        if place is None:
            shown = SHAPES["exception"].match(line.text)
            if inside and shown and is_exception_class(shown["type"], in_traceback=True):
                inside = False
            if not (inside and (_RE["context"].match(line.text) or RULE_OF_IPYTHON.match(line.text))):
                made.append(line)
            at += 1
            continue
        groups = place.groupdict()
        file = groups.get("file") or f"<cell {groups.get('cell') or ''}>".replace(" >", ">")
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


RULE_OF_IPYTHON = _RE["rule_of_ipython"]


def _arrow_below(lines: list[LogLine], at: int) -> bool:
    return any(_RE["arrow"].match(line.text) for line in lines[at + 1 : at + 12])


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
        end = at
        while end < len(lines) and _RE["pytest_e"].match(lines[end].text):
            end += 1
        words = [(found["text"] or "") if (found := _RE["pytest_e"].match(one.text)) else "" for one in lines[at:end]]
        source = next((one.text for one in reversed(made[-4:]) if one.text.strip()), "")
        last = next((found for one in lines[end : end + 3] if (found := _RE["pytest_place"].match(one.text))), None)
        if last is not None:
            places.append((last["file"], last["line"], _function_above(lines, at)))
        first = SHAPES["exception"].match(words[0].strip())
        if first is None or not is_exception_class(first["type"]):
            words[0] = f"{(last['type'] if last else '') or 'AssertionError'}: {words[0].strip()}"
        made.append(line._replace(text=PLAIN_HEAD))
        for number, (file, row, function) in enumerate(places[-40:]):
            is_last = number == len(places[-40:]) - 1
            made.extend(
                _frame_lines(line, file, row, function, source if is_last and not SHAPES["frame"].match(source) else "")
            )
        made.append(line._replace(text=words[0].strip()))
        made.extend(
            one._replace(text=f"  {text.strip()}") for one, text in zip(lines[at + 1 :], words[1:], strict=False)
        )
        places, at = [], end
    return made
