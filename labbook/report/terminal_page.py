"""An entry as it is read on a terminal."""

from __future__ import annotations

import re

from labbook.errors import EntryError
from labbook.store.frontmatter import parse

_MARKUP = re.compile(r"<!--.{0,200}?-->|</?(?:details|summary|div|span|p)\b[^<>]{0,200}>")


def for_reading(text: str) -> str:
    """The entry without front matter, markers and folds, which mean nothing on a terminal."""
    try:
        _, body = parse(text, "")
    except EntryError:
        body = text
    kept = []
    inside = False
    for line in body.splitlines():
        inside = inside != line.lstrip().startswith(("```", "~~~"))
        bare = line if inside else _MARKUP.sub("", line)
        if bare.strip() or bare == line:
            kept.append(bare)
    return "\n".join(kept)
