"""Finds the symptom pages nearest to a text without an error message: proposals, never findings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from labbook.index.query_parser import parse_query
from labbook.index.query_symptoms import _meaning, _pairs, _terms
from labbook.model.symptom import Symptom

_FILTER = re.compile(r"\S+:\S+")
_MOST_LETTERS = 2000
_LENGTH_POWER = 0.35
"""Discount for pages with many words. Source: chosen by us on tests/data/reports_without_message.txt."""
_PAIR_WEIGHT = 0.5
"""Two Chinese characters are about half a word."""


def nearest_pages(text: str, symptoms: Iterable[Symptom], most: int = 3) -> list[Symptom]:
    """Returns the pages that share the rarest words with a text, the nearest first.

    Args:
        text: Question or description in English or Chinese.
        symptoms: The catalogue.
        most: Maximum number of pages.
    """
    pages = {symptom.id: symptom for symptom in symptoms}
    known = {name: _words_of(symptom) for name, symptom in pages.items()}
    counts = Counter(word for words in known.values() for word in words)
    rarity = {word: math.log(len(pages) / count) for word, count in counts.items()}
    plain = _FILTER.sub(" ", text[:_MOST_LETTERS]).lower()
    asked = [_meaning(term) for term in parse_query(plain).terms if not term.minor]
    pairs = _pairs(plain)
    scored = [(_score(words, asked, pairs, rarity), name) for name, words in known.items()]
    best = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: (-pair[0], pair[1]))
    return [pages[name] for _, name in best[:most]]


def _score(
    words: frozenset[str], asked: list[frozenset[str]], pairs: frozenset[str], rarity: Mapping[str, float]
) -> float:
    shared = sum(max((rarity[form] for form in forms & words), default=0.0) for forms in asked)
    shared += _PAIR_WEIGHT * sum(rarity[pair] for pair in pairs & words)
    return float(shared / len(words) ** _LENGTH_POWER) if words else 0.0


def _words_of(symptom: Symptom) -> frozenset[str]:
    """Returns the words of titles, id and search phrases of a page, with their synonyms."""
    titles = (wording.title for wording in symptom.wording.values())
    phrases = [phrase.lower() for phrase in (*symptom.words, *titles, symptom.id.replace("_", " "))]
    forms = (form for phrase in phrases for term in _terms(phrase) for form in term)
    return frozenset(forms) | frozenset(pair for phrase in phrases for pair in _pairs(phrase))
