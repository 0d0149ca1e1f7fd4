"""Finds the symptoms that a query is about, by their search words in English and Chinese."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from labbook.frozen import dataclass
from labbook.index.page_scores import ENOUGH, PageScore, page_scores
from labbook.index.query_parser import Question, parse_query
from labbook.index.vocabulary import is_about_past, is_request, names_failure
from labbook.model.symptom import CRASH_FAMILIES, Symptom

if TYPE_CHECKING:
    from labbook.index.hit import Hit
    from labbook.index.query_fields import FieldNames

_MOST = 3
_ENOUGH_WITH_PHRASE = 0.9
"""The same if the query has a whole search phrase of the page."""
_MOSTLY = 0.35
"""Smallest share of a query that a page must explain if only one word of it is known. Source: as above."""
_REQUESTED = 0.5
"""The same of a question that asks for a way or a fact, or has no word of a failure. Source: chosen by us."""
_FITTING = 0.55
"""Smallest fit of the best phrase of a page that explains less than that of a question without a word of a failure:
"weight loss plan" is about none. Source: chosen by us on benchmarks/search."""
_ASKED = 0.88
"""The same, of the fit of its best phrase: of a question that the page itself has."""
_NAMED = 0.037
_MOST_NAMED = 15
"""Largest share and number of pages that a single word may name by their titles: "nan" does, "loss" and "failed" do
not. Source: chosen by us."""
_NEAR = 0.75
"""A symptom is shown too if its score has this share of the best one. Source: as above."""
_EQUAL = 0.98
"""Two symptoms are as likely if their scores differ by less. Source: as above."""
_WHOLE = 0.999
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
        equal: Number of symptoms that are as likely as the first one.
        has_phrase: Whether a title or search phrase of the first symptom is part of the query.
        related: Symptoms with the only word of the query in their titles, where that is too common to name a failure.
        pages: Pages of the catalogue to show among the results.
        names: What a message is about: the module, key or option that it names.
    """

    fingerprints: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    whole: bool = False
    equal: int = 1
    has_phrase: bool = False
    related: tuple[str, ...] = ()
    pages: tuple[Hit, ...] = ()
    names: tuple[str, ...] = ()


def match_symptoms(words: str, symptoms: Iterable[Symptom], names: FieldNames | None = None) -> QuerySymptoms:
    """Returns the symptoms that a query is about; none if it matches no symptom well.

    Args:
        words: Words in English or Chinese, the id of a symptom, the name of a family, or the filters `symptom:` and
            `family:`.
        names: Names of the notebook by which runs can be filtered.

    Raises:
        QueryError: A name or a value is not known, or a date cannot be read.
    """
    known = {one.id: one for one in symptoms}
    question = parse_query(words, names)
    if not question.terms:
        return _symptoms_of_filters(question, known)
    return (
        _symptoms_of_name(question.text.strip().lower(), known)
        or _symptoms_of_quote(question, known)
        or _likely_symptoms(question, known)
    )


def _symptoms_of_filters(question: Question, known: Mapping[str, Symptom]) -> QuerySymptoms:
    """Returns the symptoms and families of the filters of a query that has nothing else."""
    chosen = {
        key: tuple(value for one in question.filters if one.key == key and not one.negated for value in one.values)
        for key in ("symptom", "family")
    }
    ids = tuple(name for name in chosen["symptom"] if name in known)
    return QuerySymptoms(symptoms=ids, families=chosen["family"], whole=True)


def _symptoms_of_name(name: str, known: Mapping[str, Symptom]) -> QuerySymptoms | None:
    """Returns a symptom by its id, or those of a family by its name."""
    if name in known:
        return QuerySymptoms(symptoms=(name,), families=(known[name].family,), whole=True)
    ids = [one.id for one in known.values() if one.family == name]
    if ids or name in CRASH_FAMILIES:
        return QuerySymptoms(symptoms=tuple(ids[:_MOST]), families=(name,), whole=True)
    return None


def _symptoms_of_quote(question: Question, known: Mapping[str, Symptom]) -> QuerySymptoms | None:
    """Returns the few symptoms with a message that has the words of the query: "mat1 and mat2"."""
    quoting = [one.id for one in _symptoms_with_quote(question.text.strip().lower(), known.values())]
    if not 0 < len(quoting) <= _MOST:
        return None
    exact = [one.symptom for one in page_scores(known.values()).rank_pages(question.text) if one.exact]
    quoted = tuple(dict.fromkeys([*exact, *quoting]))[:_MOST]
    families = _families(known[name] for name in quoted)
    return QuerySymptoms(symptoms=quoted, families=families, whole=True, equal=max(len(exact), 1))


def _likely_symptoms(question: Question, known: Mapping[str, Symptom]) -> QuerySymptoms:
    """Returns the symptoms with the best pages for a query, none if no page fits well."""
    scores = page_scores(known.values())
    if not is_about_past(question.text) and scores.is_about_something_else(question.text):
        return QuerySymptoms()
    pages = scores.rank_pages(question.text)
    known_words, count = scores.count_known(question.text)
    ranked = [one for one in pages if _has_evidence(one, known_words, count)]
    if not names_failure(question.text):
        ranked = [one for one in ranked if one.share >= _REQUESTED or one.fit >= _FITTING]
    if is_request(question.text):
        ranked = [one for one in ranked if (one.has_phrase and one.share >= _REQUESTED) or one.fit >= _ASKED]
    is_word = sum(not term.minor for term in question.terms) < 2
    if not ranked and is_word and count < 2:
        titled = sorted((one for one in pages if one.titled), key=lambda one: -one.titled)
        if len(titled) > min(_NAMED * len(known), _MOST_NAMED):
            return QuerySymptoms(related=tuple(one.symptom for one in pages if one.titled)[:_MOST])
        ranked = [replace(one, score=one.titled) for one in titled]
    if not ranked:
        return QuerySymptoms()
    ranked.sort(key=lambda one: not one.exact)  # what says the same as the query comes first, all as likely
    best = ranked[0]
    near = [one for one in ranked[:_MOST] if one.score >= _NEAR * best.score]
    # What helped earlier comes before all pages.
    lowest = best.score * (_NEAR if is_about_past(question.text) else _EQUAL)
    return QuerySymptoms(
        symptoms=tuple(one.symptom for one in near),
        families=_families([known[best.symptom]]),
        whole=best.share >= _WHOLE and (best.has_phrase or best.exact or is_word),
        equal=sum(one.exact or one.score >= lowest for one in near),
        has_phrase=best.has_phrase,
    )


def _has_evidence(page: PageScore, known: int, count: int) -> bool:
    """Whether a query has enough words of a page.

    Args:
        known: Number of meanings of the query that some page has.
        count: Number of meanings of the query.
    """
    if page.score < (_ENOUGH_WITH_PHRASE if page.has_phrase else ENOUGH):
        return False
    if count < 2:
        return page.has_phrase  # one common word, such as "loss", is about no failure
    return known >= 2 or count == 2 or page.share >= _MOSTLY  # "flat tire on the highway"


def _families(symptoms: Iterable[Symptom]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.family for one in symptoms if one.family != "other"))


def _symptoms_with_quote(words: str, symptoms: Iterable[Symptom]) -> Iterable[Symptom]:
    """Returns symptoms with the words in one of their messages: "mat1 and mat2"."""
    if len(words) < _QUOTE_LETTERS or " " not in words:
        return
    for symptom in symptoms:
        texts = (*(pattern.text for pattern in symptom.patterns), *(example.text for example in symptom.matches))
        if any(words in text.lower() for text in texts):
            yield symptom
