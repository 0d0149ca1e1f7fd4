"""Scores the pages of the catalogue by the meanings that they share with a question."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from labbook.frozen import dataclass
from labbook.index.cjk import is_cjk
from labbook.index.vocabulary import correct_typing, read_meanings, vocabulary
from labbook.model.symptom import Symptom

Meaning = frozenset[str]
Phrase = tuple[Meaning, ...]

_PAIR_WEIGHT = 0.5
"""Two Chinese characters of an unknown word are about half a word."""
_PARTLY = 0.1
"""Loss of a word that only may mean the same: 显存不足 is less than 内存不足 about host memory. Source: as above."""
_WEAK_WEIGHT = 0.3
"""A word that nearly every question has ("training", "error"). Source: chosen by us on benchmarks/search."""
_TITLE_WEIGHT = 1.05
"""A title says more than a search phrase. Source: chosen by us on benchmarks/search."""
_OWN_TITLE = 0.02
"""Among pages with the same search phrase, the one with more of the question in its title comes first."""
_SAID = 0.1
"""A whole search phrase in the question counts more than words of it in several phrases. Source: as above."""

_EXACT = 1.99
_RARE = 0.6
"""Weight of a phrase that identifies a page, against that of an unknown word. Source: chosen by us, as above."""


@dataclass(frozen=True)
class PageScore:
    """How well a page fits a question.

    Args:
        share: Share of the question that the page explains, 0 to 1, weighted by the rarity of its words.
        score: Order of the pages; more is better.
        said: Whether the question has a whole title or search phrase of the page that is not a common word.
        exact: Whether a title or search phrase of the page says the same as the whole question.
        titled: How well a title of the page alone fits the question, 0 to 1.
    """

    share: float
    score: float
    symptom: str
    said: bool = False
    exact: bool = False
    titled: float = 0.0


@dataclass(frozen=True)
class PageTexts:
    """The texts of a page by which it is found.

    Args:
        titles: Titles and names of its check, in all languages.
        phrases: Search phrases, and the id.
    """

    symptom: str
    titles: tuple[str, ...]
    phrases: tuple[str, ...]


class PageScores:
    """The pages of a catalogue, ready for questions."""

    def __init__(self, catalogue: Iterable[PageTexts]) -> None:
        self._phrases: list[tuple[str, bool, Phrase]] = []
        self._places: dict[str, list[int]] = defaultdict(list)
        pages: dict[str, set[str]] = defaultdict(set)
        for page in catalogue:
            for text in dict.fromkeys((*page.titles, *page.phrases)):
                phrase = tuple(dict.fromkeys(read_meanings(text)))
                if not phrase:
                    continue
                for name in {name for meaning in phrase for name in meaning}:
                    self._places[name].append(len(self._phrases))
                    pages[name].add(page.symptom)
                self._phrases.append((page.symptom, text in page.titles, phrase))
        self._count = len({name for name, _, _ in self._phrases})
        self._counts = {name: len(found) for name, found in pages.items()}
        self._weights: dict[Meaning, float] = {}
        self._totals: dict[int, float] = {}

    def ranked(self, question: str) -> list[PageScore]:
        """Returns the pages that share a meaning with a question, the best first."""
        meanings = self._read(question)
        own = {one: self._weight(one) for one in meanings}
        total = sum(own.values())
        near = {at for one in meanings for name in one for at in self._places.get(name, ())}
        explained: dict[str, set[Meaning]] = defaultdict(set)
        best: dict[str, float] = defaultdict(float)
        titled: dict[str, float] = defaultdict(float)
        named: set[str] = set()
        for at in near:
            page, is_title, phrase = self._phrases[at]
            shared = [one for one in meanings if any(one & other for other in phrase)]
            covered = [one for one in phrase if any(one & other for other in meanings)]
            whole = self._totals.get(at)
            if whole is None:
                whole = self._totals[at] = sum(map(self._weight, phrase))
            gain = sum(own[one] if one in phrase else (1 - _PARTLY) * own[one] for one in shared)
            fit = (gain + sum(map(self._weight, covered))) / (total + whole)
            explained[page].update(shared)
            if len(covered) == len(phrase) and whole >= _RARE * self._weight(frozenset()):
                named.add(page)
            best[page] = max(best[page], fit * (_TITLE_WEIGHT if is_title else 1.0))
            if is_title:
                titled[page] = max(titled[page], fit)
        shares = {page: sum(map(self._weight, found)) / total for page, found in explained.items()}
        scores = []
        for page, share in shares.items():
            said = page in named
            score = share + best[page] + _OWN_TITLE * titled[page] + _SAID * said
            scores.append(PageScore(share, score, page, said, share + best[page] >= _EXACT, titled[page]))
        return sorted(scores, key=lambda one: (-one.score, one.symptom))

    def count_known(self, question: str) -> tuple[int, int]:
        """Returns how many meanings of a question some page has, and how many there are."""
        meanings = self._read(question)
        return sum(any(name in self._counts for name in one) for one in meanings), len(meanings)

    def _read(self, question: str) -> Phrase:
        return tuple(dict.fromkeys(read_meanings(correct_typing(question, self._counts))))

    def _weight(self, meaning: Meaning) -> float:
        """Returns the rarity of a meaning among the pages; an unknown one is as rare as can be."""
        known = self._weights.get(meaning)
        if known is None:
            count = min((self._counts[name] for name in meaning if name in self._counts), default=0)
            pair = any(is_cjk(name) and len(name) == 2 for name in meaning)
            known = math.log(1 + self._count / (1 + count)) * (_PAIR_WEIGHT if pair else 1.0)
            known *= _WEAK_WEIGHT if meaning & vocabulary().weak else 1.0
            self._weights[meaning] = known
        return known


def page_scores(symptoms: Iterable[Symptom]) -> PageScores:
    """Returns the pages ready for questions; the same object for the same catalogue."""
    return _scores_of(tuple(map(_texts_of, symptoms)))


@lru_cache(maxsize=4)
def _scores_of(pages: tuple[PageTexts, ...]) -> PageScores:
    return PageScores(pages)


def _texts_of(symptom: Symptom) -> PageTexts:
    titles = tuple(text for wording in symptom.wording.values() for text in (wording.title, wording.check) if text)
    return PageTexts(symptom.id, titles, (*symptom.words, symptom.id.replace("_", " ")))
