"""Which symptoms of the catalogue a question is about, by the words that people use for them in either language."""

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
"""Share of a question's words that a symptom has to account for. Source: chosen by us, tried on tests/index."""
_FEWEST_PAIRS = 3
_QUOTE_LETTERS = 8
"""A part of a message is longer than this. Source: chosen by us; "error in" is a part of most."""


@dataclass(frozen=True)
class QuerySymptoms:
    """What a question is about, as far as the catalogue knows.

    Args:
        fingerprints: Of a pasted error.
        symptoms: Ids, likeliest first.
        families: The same.
        whole: Whether the question says nothing besides.
        pages: Pages of the catalogue to be shown among the answers.
    """

    fingerprints: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    whole: bool = False
    pages: tuple[Hit, ...] = ()


def match_symptoms(words: str, symptoms: Iterable[Symptom]) -> QuerySymptoms:
    """The symptoms that words speak of; none where they say too little of any.

    Args:
        words: What was typed: words in English or Chinese, the id of a symptom, the name of a family; filters
            `symptom:` and `family:` name theirs.
        symptoms: Of the catalogue.

    Raises:
        UsageError: A date cannot be read.
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
    """Symptoms of whose messages the words are a part: "mat1 and mat2"."""
    if len(words) < _QUOTE_LETTERS or " " not in words:
        return
    for symptom in symptoms:
        said = (*(pattern.text for pattern in symptom.patterns), *(example.text for example in symptom.matches))
        if any(words in text.lower() for text in said):
            yield symptom


def _scored(
    asked: list[frozenset[str]], pairs: frozenset[str], symptoms: Iterable[Symptom]
) -> Iterable[tuple[float, float, str]]:
    """Share of the question that each symptom accounts for, share of its own words that are in the question, its id.

    Args:
        asked: The words of the question, each with all that mean the same.
        pairs: Neighbouring Chinese characters of the question.
        symptoms: Of the catalogue.
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
            # All of what people type for it, or several words of it, or of its title, and nothing besides.
            said = (len(covered) == len(terms) and phrase not in titles) or len(fitting) == len(asked) > 1
            if said and fitting:
                best = max(best, (len(fitting) / len(asked), len(covered) / len(terms)))
        if best[0] >= _ENOUGH:
            yield best[0], best[1], symptom.id


def _alike(pairs: frozenset[str], phrase: str) -> float:
    """The share of a question's Chinese pairs that a phrase has; 0 where that is too little to tell.

    Chinese has no spaces: 忘记清零梯度 and 没有清零梯度 have 清零, 零梯 and 梯度 in common.
    """
    if len(pairs) < _FEWEST_PAIRS:
        return 0.0
    shared = len(pairs & _pairs(phrase))
    return shared / len(pairs) if shared >= _FEWEST_PAIRS and shared >= 0.6 * len(pairs) else 0.0


@lru_cache(maxsize=16384)
def _pairs(text: str) -> frozenset[str]:
    """Neighbouring characters of the Chinese parts of a text."""
    parts = [part for part in split_scripts(text) if is_cjk(part)] if not text.isascii() else []
    return frozenset(part[at : at + 2] for part in parts for at in range(len(part) - 1))


@lru_cache(maxsize=16384)
def _terms(phrase: str) -> tuple[frozenset[str], ...]:
    """The words of a phrase that say something, each with all words of the same meaning."""
    # A colon in it is no filter.
    terms: tuple[Term, ...] = parse_query(phrase.replace(":", " ")).terms
    return tuple(_meaning(term) for term in terms if not term.minor)


def _meaning(term: Term) -> frozenset[str]:
    """All words that mean the same, in lower case and without a plural's ending."""
    return frozenset(_singular(form.lower()) for form in term.forms)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.isascii() and word.endswith("s") and not word.endswith("ss") else word
