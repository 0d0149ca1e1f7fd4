"""Splits Chinese, Japanese and Korean text into overlapping pairs for a word index.

`损失变成` is indexed as `损失 失变 变成 成`: every pair, and the last character alone. A query of two or more
characters becomes a phrase of pairs, which matches exactly where the characters are adjacent, without a dictionary; a
query of one character becomes a prefix.

Source: the bigram analyser that search engines use for these scripts.
"""

from __future__ import annotations

import re
import unicodedata

CJK_CHARACTERS = r"\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Ranges of the basic plane, for a character class."""
NAME_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")
"""A word inside an identifier: `Out`, `Of`, `Memory`, `Error`."""
_RUN = re.compile(rf"[{CJK_CHARACTERS}\U00020000-\U0003ffff]+")
_UNSAFE = re.compile("[\x00\ud800-\udfff]")


def normalize_text(text: str) -> str:
    """Returns `text` with ASCII for full-width letters and without characters that SQLite cannot store."""
    cleaned = _UNSAFE.sub(" ", text)
    return cleaned if cleaned.isascii() else unicodedata.normalize("NFKC", cleaned)


def segment(text: str) -> str:
    """Returns `text` for the index: runs of CJK characters become pairs and their last character."""
    plain = normalize_text(text)
    if plain.isascii():
        return plain
    return _RUN.sub(lambda match: f" {_pairs(match.group(), closed=True)} ", plain)


def segment_phrase(text: str) -> tuple[str, bool]:
    """Returns `text` as a phrase to search for, and whether its last word is a prefix.

    A run of CJK characters at the end may continue in the document, so its last character is not searched for alone. A
    run of one character is a prefix of the pairs that begin with it.
    """
    plain = normalize_text(text)
    runs = list(_RUN.finditer(plain))
    if not runs:
        return plain, False
    last = runs[-1]
    at_end = not any(c.isalnum() for c in plain[last.end() :])
    parts = []
    position = 0
    for run in runs:
        closed = run is not last or not at_end
        parts += [plain[position : run.start()], _pairs(run.group(), closed=closed)]
        position = run.end()
    parts.append(plain[position:])
    return " ".join(part for part in parts if part), at_end and len(last.group()) == 1


def split_scripts(text: str) -> list[str]:
    """Returns `text` split between CJK and other characters: `loss变成NaN` is `loss`, `变成`, `NaN`."""
    plain = normalize_text(text)
    parts = []
    position = 0
    for run in _RUN.finditer(plain):
        parts += [plain[position : run.start()], run.group()]
        position = run.end()
    parts.append(plain[position:])
    return [part for part in parts if any(c.isalnum() for c in part)]


def is_cjk(text: str) -> bool:
    """Whether `text` has only CJK characters."""
    return _RUN.fullmatch(text) is not None


def name_parts(name: str) -> list[str]:
    """Returns the words of an identifier: `Out`, `Of`, `Memory`, `Error` for `OutOfMemoryError`."""
    return NAME_PART.findall(name) if name[:1].isupper() else [name]


def _pairs(run: str, *, closed: bool) -> str:
    if len(run) == 1:
        return run
    pairs = [run[i : i + 2] for i in range(len(run) - 1)]
    return " ".join([*pairs, run[-1]] if closed else pairs)
