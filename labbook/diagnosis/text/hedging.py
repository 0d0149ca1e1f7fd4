"""Sentences of people that report no failure: suppositions, questions, advice, requests, descriptions of changes.

The patterns are in `sentences.toml`.
"""

from __future__ import annotations

import re

from labbook.diagnosis.toml_data import compile_patterns, fits_any

_SENTENCES = re.compile(r"(?<=[.!?;])\s+|[。！？；\n]")
_RE = compile_patterns(__file__, "sentences.toml")


def is_change_description(text: str) -> bool:
    """Whether a text describes a change of code, or teaches: errors in it are former ones, or examples.

    A text whose first line is a question describes none, nor does what Paddle explains of an error code.
    """
    text = _RE["hint"].sub("", text)
    first = next((line for line in text.splitlines() if line.strip()), "")
    if _RE["change_title"].match(first):
        return True
    return any(_RE[name].search(text) is not None for name in ("change_description", "tutorial"))


def is_feature_request(text: str) -> bool:
    """Whether a text asks for a feature, by the headings of common forms."""
    return _RE["feature_request"].search(text) is not None


def without_speculation(text: str) -> str:
    """A line or block without what its sentences only suppose: "if the disk is full, ...", "to avoid ...".

    The supposition ends with its sentence; the words in front of it remain. A sentence that only mentions a failure
    and a line in which a program continues without what is missing are removed as a whole.
    """
    text = _RE["survived"].sub("", text)
    if not fits_any(_RE, text, "mentioned", "speculation"):
        return text
    parts = []
    for sentence in _SENTENCES.split(text):
        supposed = _RE["mentioned"].search(sentence) or _RE["speculation"].search(sentence)
        parts.append(sentence[: supposed.start()] if supposed else sentence)
    return "\n".join(part for part in parts if part.strip())


def is_prose(text: str, *, quoting: bool = False) -> bool:
    """Whether a person wrote a line of a text, by words that only connect others; or quotes, and has no failure."""
    quotes = not quoting or (fits_any(_RE, text, "quoted") and not fits_any(_RE, text, "complaint"))
    return quotes and fits_any(_RE, text, "prose")


def drop_questions(text: str) -> str:
    """A line or block without the sentences in which people ask, advise or say that nothing happened."""
    sentences = _SENTENCES.split(text)
    statements = [s for s in sentences if not (_RE["question"].match(s.strip()) or _RE["harmless"].search(s))]
    return text if len(statements) == len(sentences) else "\n".join(statements)
