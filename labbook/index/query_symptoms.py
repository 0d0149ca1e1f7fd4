"""Finds the symptoms that a query is about, by their search words in English and Chinese."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from labbook.frozen import dataclass
from labbook.index.cjk import is_cjk, split_scripts
from labbook.index.query_parser import Term, parse_query
from labbook.model.symptom import CRASH_FAMILIES, Symptom

if TYPE_CHECKING:
    from labbook.index.hit import Hit

_MOST = 3
_ENOUGH = 1 / 3
"""Smallest share of the words of a query that a symptom must explain. Source: chosen by us, tried on tests/index."""
_FEWEST_PAIRS = 3
_QUOTE_LETTERS = 8
"""Shortest part of a message that identifies a symptom. Source: chosen by us; "error in" is a part of most."""


@dataclass(frozen=True)
class QuerySymptoms:
    """Failures that a query is about.

    Args:
        fingerprints: Fingerprints of a pasted error.
        symptoms: Symptom ids, likeliest first.
        families: Families, likeliest first.
        whole: Whether the query says nothing else.
        pages: Pages of the catalogue to show among the results.
    """

    fingerprints: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    whole: bool = False
    pages: tuple[Hit, ...] = ()


def match_symptoms(words: str, symptoms: Iterable[Symptom]) -> QuerySymptoms:
    """Returns the symptoms that a query is about; none if it matches no symptom well.

    Args:
        words: Words in English or Chinese, the id of a symptom, the name of a family, or the filters `symptom:` and
            `family:`.
        symptoms: The catalogue.

    Raises:
        UsageError: A date is invalid.
    """
    known = {one.id: one for one in symptoms}
    question = parse_query(words)
    by_filter = [v for f in question.filters if f.key == "symptom" and not f.negated for v in f.values]
    if not question.terms:
        families = tuple(v for f in question.filters if f.key == "family" and not f.negated for v in f.values)
        return QuerySymptoms((), tuple(name for name in by_filter if name in known), families, whole=True)
    bare = " ".join(word for word in words.split() if ":" not in word).strip().lower()
    if bare in known:
        return QuerySymptoms((), (bare,), (known[bare].family,), whole=True)
    if bare in CRASH_FAMILIES or any(one.family == bare for one in known.values()):
        ids = tuple(one.id for one in known.values() if one.family == bare)
        return QuerySymptoms((), ids[:_MOST], (bare,), whole=True)
    asked = [_meaning(term) for term in question.terms if not term.minor]
    if not asked:
        return QuerySymptoms()
    quoting = tuple(_quoting(bare, known.values()))
    if 0 < len(quoting) <= _MOST:
        return QuerySymptoms((), tuple(one.id for one in quoting), _families(quoting), whole=True)
    scored = sorted(_scored(asked, _pairs(bare), known.values()), key=lambda found: (-found[0], -found[1], found[2]))
    if not scored:
        return QuerySymptoms()
    share, own, _ = scored[0]
    chosen = tuple(name for one, other, name in scored[:_MOST] if (one, other) == (share, own))
    return QuerySymptoms((), chosen, _families(known[name] for name in chosen), whole=share == 1.0)


def _families(symptoms: Iterable[Symptom]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.family for one in symptoms if one.family != "other"))


def _quoting(words: str, symptoms: Iterable[Symptom]) -> Iterable[Symptom]:
    """Returns symptoms with the words in one of their messages: "mat1 and mat2"."""
    if len(words) < _QUOTE_LETTERS or " " not in words:
        return
    for symptom in symptoms:
        said = (*(pattern.text for pattern in symptom.patterns), *(example.text for example in symptom.matches))
        if any(words in text.lower() for text in said):
            yield symptom


def _scored(
    asked: list[frozenset[str]], pairs: frozenset[str], symptoms: Iterable[Symptom]
) -> Iterable[tuple[float, float, str]]:
    """Returns (explained share of the query, share of the words of the symptom in the query, id) of each symptom.

    Args:
        asked: The words of the query with their synonyms.
        pairs: Adjacent Chinese characters of the query.
        symptoms: The catalogue.
    """
    atoms = {form for forms in asked for form in forms}
    for symptom in symptoms:
        best = (0.0, 0.0)
        titles = [wording.title for wording in symptom.wording.values()]
        for phrase in (*symptom.words, *titles, symptom.id.replace("_", " ")):
            low = phrase.lower()
            alike = _alike(pairs, low)
            if alike:
                best = max(best, (0.9 * alike, 0.0))
            if not any(atom in low for atom in atoms):
                continue
            terms = _terms(low)
            fitting = [forms for forms in asked if any(forms & term for term in terms)]
            covered = [term for term in terms if any(forms & term for forms in asked)]
            # A whole search phrase, or several words of one or of the title, and nothing else.
            said = (len(covered) == len(terms) and phrase not in titles) or len(fitting) == len(asked) > 1
            if said and fitting:
                best = max(best, (len(fitting) / len(asked), len(covered) / len(terms)))
        if best[0] >= _ENOUGH:
            yield best[0], best[1], symptom.id


def _alike(pairs: frozenset[str], phrase: str) -> float:
    """Returns the share of Chinese pairs of a query that a phrase has, 0 if it is too small.

    Chinese has no spaces: 忘记清零梯度 and 没有清零梯度 have 清零, 零梯 and 梯度 in common.
    """
    if len(pairs) < _FEWEST_PAIRS:
        return 0.0
    shared = len(pairs & _pairs(phrase))
    return shared / len(pairs) if shared >= _FEWEST_PAIRS and shared >= 0.6 * len(pairs) else 0.0


@lru_cache(maxsize=16384)
def _pairs(text: str) -> frozenset[str]:
    """Returns the adjacent characters of the Chinese parts of a text."""
    parts = [part for part in split_scripts(text) if is_cjk(part)] if not text.isascii() else []
    return frozenset(part[at : at + 2] for part in parts for at in range(len(part) - 1))


@lru_cache(maxsize=16384)
def _terms(phrase: str) -> tuple[frozenset[str], ...]:
    """Yields the words of a phrase, without filler words, with their synonyms."""
    # A colon in it does not make a filter.
    terms: tuple[Term, ...] = parse_query(phrase.replace(":", " ")).terms
    return tuple(_meaning(term) for term in terms if not term.minor)


def _meaning(term: Term) -> frozenset[str]:
    """Returns the synonyms of a term, in lower case and without the ending of the plural."""
    return frozenset(_singular(form.lower()) for form in term.forms)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.isascii() and word.endswith("s") and not word.endswith("ss") else word
