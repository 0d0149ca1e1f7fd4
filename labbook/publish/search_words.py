"""The words by which the site's search finds something: the same for what is indexed and for what is asked.

`templates/site/assets/search_words.js` does the same in the browser; a browser test compares both on the same texts.
Chinese, Japanese and Korean text becomes overlapping pairs, each spelt in letters, so that an index made for English
words needs no dictionary and no segmentation: a pair is found exactly where the two characters stand side by side.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

STOPPED = frozenset([
    "a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did", "do", "does", "file",
    "for", "from", "had", "has", "have", "if", "in", "into", "is", "it", "its", "line", "most", "of", "on",
    "or", "out", "py", "recent", "so", "such", "than", "that", "the", "their", "then", "there", "these", "this",
    "those", "to", "traceback", "was", "were", "when", "where", "which", "while", "will", "with", "you", "your"
])  # fmt: skip
"""Words that say nothing, those around every traceback among them."""

MOST_CHARACTERS = 40
"""A longer word is no word but data: a path, a hash, a line of dashes. Source: chosen by us."""

_WORD = re.compile(
    r"[A-Za-z0-9]+|[\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")
_DATA = re.compile(r"[0-9]+|0x[0-9a-f]+|(?=[a-f]*[0-9])[0-9a-f]{8,}|[0-9]+e[0-9]+|[0-9]+[a-z]")
"""Numbers, addresses and hashes, which differ in every run."""

_NAME = 8
"""Names of at least so many letters are also found by the words that they are made of: `OutOfMemoryError`."""


def search_words(text: str) -> list[str]:
    """The words of a text in order, as the index holds them; each name with the words that it is made of."""
    found: list[str] = []
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text)):
        word = match.group()
        if not word.isascii():
            found += [_spelt(word[at : at + 2]) for at in range(max(1, len(word) - 1))]
            continue
        parts = _PART.findall(word) if len(word) >= _NAME and not word.islower() else []
        found += [low for part in (word, *(parts if len(parts) > 1 else ())) if (low := part.lower()) and _says(low)]
    return found


def _says(word: str) -> bool:
    return 1 < len(word) <= MOST_CHARACTERS and word not in STOPPED and not _DATA.fullmatch(word)


@lru_cache(maxsize=1 << 16)
def _spelt(characters: str) -> str:
    """Characters in letters from a to p, four for each, between two q: digits would be cut apart, endings taken away.

    A character alone has no q at its end in a question, and so is found at the beginning of each of its pairs.
    """
    codes = "".join(f"{ord(each) & 0xFFFF:04x}" for each in characters)
    return "q" + "".join(chr(ord("a") + int(digit, 16)) for digit in codes) + "q"
