"""Prepares an entry, or a section of it, for reading on a terminal."""

from __future__ import annotations

import re

from labbook.errors import EntryError
from labbook.store.text.frontmatter import parse

_MARKUP = re.compile(r"<!--.{0,200}?-->|</?(?:details|summary|div|span|p)\b[^<>]{0,200}>")


def strip_markup(text: str) -> str:
    """Returns the entry without front matter, markers and HTML."""
    lines = []
    inside = False
    for line in _body(text).splitlines():
        inside = inside != line.lstrip().startswith(("```", "~~~"))
        bare = line if inside else _MARKUP.sub("", line)
        if bare.strip() or bare == line:
            lines.append(bare)
    return "\n".join(lines)


def sections(text: str) -> list[tuple[str, str]]:
    """Returns the second-level headings of an entry with what is under them: `(heading, Markdown)`."""
    found: list[tuple[str, list[str]]] = []
    inside = False
    for line in _body(text).splitlines():
        if line.startswith("## ") and not inside:
            found.append((line[3:].strip(), []))
        inside = inside != line.lstrip().startswith(("```", "~~~"))
        if found:
            found[-1][1].append(line)
    return [(heading, "\n".join(lines) + "\n") for heading, lines in found]


def _body(text: str) -> str:
    try:
        return parse(text, "")[1]
    except EntryError:
        return text
