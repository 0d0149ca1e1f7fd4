"""Splits texts and queries into the words of the index of the site.

`templates/site/assets/search_words.js` does the same in the browser; a browser test compares both on the same texts.
Chinese, Japanese and Korean text becomes overlapping pairs, each written in ASCII letters, so that an index for English
words needs no dictionary: a pair is found exactly where the two characters are adjacent.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from labbook.index.cjk import CJK_CHARACTERS, NAME_PART

STOPPED = frozenset([
    "a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did", "do", "does", "file",
    "for", "from", "had", "has", "have", "if", "in", "into", "is", "it", "its", "line", "most", "of", "on",
    "or", "out", "py", "recent", "so", "such", "than", "that", "the", "their", "then", "there", "these", "this",
    "those", "to", "traceback", "was", "were", "when", "where", "which", "while", "will", "with", "you", "your"
])  # fmt: skip
"""Words without meaning for a search, including those of every traceback."""

MOST_CHARACTERS = 40
"""Longest word; a longer one is data, such as a hash or a line of dashes. Source: chosen by us."""

_WORD = re.compile(rf"[A-Za-z0-9]+|[{CJK_CHARACTERS}]+")
_DATA = re.compile(r"[0-9]+|0x[0-9a-f]+|(?=[a-f]*[0-9])[0-9a-f]{8,}|[0-9]+e[0-9]+|[0-9]+[a-z]")
"""Numbers, addresses and hashes, different in every run."""

_MIN_NAME = 8
"""Shortest identifier that is also found by its parts: `OutOfMemoryError`. Source: chosen by us."""


def search_words(text: str) -> list[str]:
    """Returns the words of a text for the index, in order; each identifier is followed by its parts."""
    words: list[str] = []
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text)):
        word = match.group()
        if not word.isascii():
            words += [_encode_letters(word[at : at + 2]) for at in range(max(1, len(word) - 1))]
            continue
        parts = NAME_PART.findall(word) if len(word) >= _MIN_NAME and not word.islower() else []
        words += [
            low for part in (word, *(parts if len(parts) > 1 else ())) if (low := part.lower()) and _is_indexed(low)
        ]
    return words


def _is_indexed(word: str) -> bool:
    return 1 < len(word) <= MOST_CHARACTERS and word not in STOPPED and not _DATA.fullmatch(word)


@lru_cache(maxsize=1 << 16)
def _encode_letters(characters: str) -> str:
    """Returns characters as four letters from a to p each between two q: the index would split digits and stem words.

    In a query, a single character has no q at its end, so it matches every pair that begins with it.
    """
    codes = "".join(f"{ord(each) & 0xFFFF:04x}" for each in characters)
    return "q" + "".join(chr(ord("a") + int(digit, 16)) for digit in codes) + "q"
