"""Prepares an entry for reading on a terminal."""

from __future__ import annotations

import re

from labbook.errors import EntryError
from labbook.store.text.frontmatter import parse

_MARKUP = re.compile(r"<!--.{0,200}?-->|</?(?:details|summary|div|span|p)\b[^<>]{0,200}>")


def for_reading(text: str) -> str:
    """Returns the entry without front matter, markers and HTML."""
    try:
        _, body = parse(text, "")
    except EntryError:
        body = text
    lines = []
    inside = False
    for line in body.splitlines():
        inside = inside != line.lstrip().startswith(("```", "~~~"))
        bare = line if inside else _MARKUP.sub("", line)
        if bare.strip() or bare == line:
            lines.append(bare)
    return "\n".join(lines)
