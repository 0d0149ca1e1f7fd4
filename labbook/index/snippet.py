"""Finds the line of a note that matches a search best."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from labbook.index.cjk import is_cjk, normalize_text
from labbook.index.documents import MAX_BYTES
from labbook.index.entry_evidence import evidence_lines

_WIDTH = 160
_MARKUP = re.compile(r"<!--.{0,200}?-->|</?[a-zA-Z][^<>]{0,200}>|\]\([^()\s]{0,300}\)|[`*|\[\]]+")
_SPACES = re.compile(r"\s+")


def find_snippet(path: Path, words: Sequence[str]) -> tuple[int, str]:
    """Returns number (from 1) and plain text of the line with most of the words, else of the first heading.

    Args:
        path: A note; for a deleted one the result is line 1 without text.
    """
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return 1, ""
    roots = {_root(word) for word in words}
    best = (0, 0.0)
    for number, line in _body(text):
        lowered = normalize_text(html.unescape(line)).lower()
        score = sum(root in lowered for root in roots) - (0.5 if _is_table_or_comment(line) else 0.0)
        if score > best[1]:
            best = (number, score)
    number = best[0] or next((n for n, line in _body(text) if line.startswith("#")), 1)
    lines = text.splitlines()
    return number, _shorten(_strip_markup(lines[number - 1]), roots) if lines else ""


def _body(text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines after the front matter with their numbers."""
    lines = list(evidence_lines(text.splitlines()))
    start = 0
    if lines and lines[0].strip() == "---":
        start = next((i + 1 for i in range(1, len(lines)) if lines[i].strip() in ("---", "...")), 0)
    for index in range(start, len(lines)):
        yield index + 1, lines[index]


def _root(word: str) -> str:
    """Returns a word roughly without the ending that the stemmer of the index removes."""
    lowered = normalize_text(word).lower().strip("* ")
    if is_cjk(lowered) or " " in lowered or len(lowered) < 5:
        return lowered
    for ending in ("ing", "ed", "es", "s", "e"):
        if lowered.endswith(ending) and len(lowered) - len(ending) >= 3:
            return lowered[: -len(ending)]
    return lowered


def _is_table_or_comment(line: str) -> bool:
    stripped = line.lstrip()
    return stripped.startswith(("|", "<!--", "<details"))


def _strip_markup(line: str) -> str:
    return _SPACES.sub(" ", html.unescape(_MARKUP.sub(" ", line))).strip("#>-! ").strip()


def _shorten(text: str, roots: set[str]) -> str:
    if len(text) <= _WIDTH:
        return text
    lowered = text.lower()
    found = [lowered.find(root) for root in roots if root and root in lowered]
    start = max(0, min(found, default=0) - _WIDTH // 3)
    cut = text[start : start + _WIDTH].strip()
    return f"{'…' if start else ''}{cut}{'…' if start + _WIDTH < len(text) else ''}"
