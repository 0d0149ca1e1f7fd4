"""Scores the pages of the catalogue by the meanings that they share with a question."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import repeat

from labbook.frozen import dataclass
from labbook.index.cjk import is_cjk
from labbook.index.vocabulary import correct_typing, read_meanings, vocabulary
from labbook.model.symptom import Symptom

Meaning = frozenset[str]
Phrase = tuple[Meaning, ...]

ENOUGH = 1.05
"""Smallest score of a page that is an answer. Source: chosen by us, tried on benchmarks/search."""
_PAIR_WEIGHT = 0.4
"""Two Chinese characters of an unknown word are about half a word."""
_PARTLY = 0.1
"""Loss of a word that only may mean the same: 显存不足 is less than 内存不足 about host memory. Source: as above."""
_WEAK_WEIGHT = 0.3
"""A number, or a word that nearly every question has ("error"). Source: chosen by us on benchmarks/search."""
_ASKED_WEIGHT = 0.9
"""A description that fits less exactly than a search phrase. Source: as above, and by finding each without itself."""
_SELDOM = 0.2
"""Number of phrases of a page whose words are half as typical of it as those of all. Source: as above."""
_TYPICAL = 1.4
"""Weight of the words that are typical of a page, against that of its best phrase. Source: as above."""
_NEXT = 0.3
"""Weight of the next best phrase of a page, against that of the one before. Source: as above."""
_MOST_FITS = 4
_MOST_LETTERS = 2000
_TITLE_WEIGHT = 1.05
"""A title says more than a search phrase. Source: chosen by us on benchmarks/search."""
_OWN_TITLE = 0.02
"""Among pages with the same search phrase, the one with more of the question in its title comes first."""
_PHRASE = 0.2
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
        has_phrase: Whether the question has a whole title or search phrase of the page that is not a common word.
        exact: Whether a title or search phrase of the page says the same as the whole question.
        titled: How well a title of the page alone fits the question, 0 to 1.
        fit: How well the best phrase of the page fits the question, 0 to 1.
    """

    share: float
    score: float
    symptom: str
    has_phrase: bool = False
    exact: bool = False
    titled: float = 0.0
    fit: float = 0.0


@dataclasses.dataclass
class _Fits:
    """How well the phrases of a page fit a question.

    Args:
        all: Of each phrase, weighted by its kind.
        own_words: The best of titles and search phrases.
        title: That of titles.
        has_phrase: Whether the question has a whole title or search phrase.
    """

    all: list[float] = dataclasses.field(default_factory=list)
    own_words: float = 0.0
    title: float = 0.0
    has_phrase: bool = False


@dataclass(frozen=True)
class PageTexts:
    """The texts of a page by which it is found.

    Args:
        titles: Titles and names of its check, in all languages.
        phrases: Search phrases, and the id.
        asked: Words of people who ask.
    """

    symptom: str
    titles: tuple[str, ...]
    phrases: tuple[str, ...]
    asked: tuple[str, ...] = ()


class PageScores:
    """The pages of a catalogue, ready for questions."""

    def __init__(self, catalogue: Iterable[PageTexts]) -> None:
        self._phrases: list[tuple[str, float, Phrase]] = []
        self._places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        pages: dict[str, set[str]] = defaultdict(set)
        texts: list[str] = []
        for page in catalogue:
            texts += [*page.titles, *page.phrases, *page.asked]
            kinds = [*zip(page.asked, repeat(_ASKED_WEIGHT)), *zip(page.phrases, repeat(1.0))]
            kinds += zip(page.titles, repeat(_TITLE_WEIGHT))
            for text, kind in dict(kinds).items():
                phrase = tuple(dict.fromkeys(read_meanings(text)))
                if not phrase:
                    continue
                for slot, meaning in enumerate(phrase):
                    for name in meaning:
                        self._places[name].append((len(self._phrases), slot))
                        pages[name].add(page.symptom)
                self._phrases.append((page.symptom, kind, phrase))
        self._count = len({name for name, _, _ in self._phrases})
        self._counts = {name: len(found) for name, found in pages.items()}
        self._texts = "\n".join(texts).lower()
        self._weights: dict[Meaning, float] = {}
        self._totals: dict[int, float] = {}

    def rank_pages(self, question: str) -> list[PageScore]:
        """Returns the pages that share a meaning with a question, the best first."""
        meanings = self._read(question)
        gains: dict[int, float] = defaultdict(float)
        covered: dict[int, set[int]] = defaultdict(set)
        total = sum(map(self._weight, meanings))
        shares: dict[str, float] = defaultdict(float)
        typical: dict[str, float] = defaultdict(float)
        for one in meanings:
            own = self._weight(one)
            exact: dict[int, bool] = {}
            often: dict[str, float] = defaultdict(float)
            for at, slot in {place for name in one for place in self._places.get(name, ())}:
                page, kind, phrase = self._phrases[at]
                if at not in exact:
                    often[page] += kind
                exact[at] = exact.get(at, False) or phrase[slot] == one
                covered[at].add(slot)
            for at, is_exact in exact.items():
                gains[at] += own if is_exact else (1 - _PARTLY) * own
            for page, times in often.items():
                shares[page] += own / total
                typical[page] += own / total * times / (times + _SELDOM)
        fits = self._fits(gains, covered, total)
        scores = []
        for page, share in shares.items():
            found = fits[page]
            best = sorted(found.all, reverse=True)
            fit = sum(one * _NEXT**at for at, one in enumerate(best[:_MOST_FITS]))
            score = _TYPICAL * typical[page] + fit + _OWN_TITLE * found.title + _PHRASE * found.has_phrase
            is_exact = share + found.own_words >= _EXACT
            scores.append(
                PageScore(share, score, page, found.has_phrase, is_exact, found.title, max(best, default=0.0))
            )
        return sorted(scores, key=lambda one: (-one.score, one.symptom))

    def _fits(self, gains: Mapping[int, float], covered: Mapping[int, set[int]], total: float) -> dict[str, _Fits]:
        """Returns how well the phrases of each page fit a question.

        Args:
            gains: Number of a phrase -> weight of the meanings of the question that it has.
            covered: Number of a phrase -> its meanings that the question has.
            total: Weight of all meanings of the question.
        """
        found: dict[str, _Fits] = defaultdict(_Fits)
        rare = _RARE * self._weight(frozenset())
        for at, gain in gains.items():
            page, kind, phrase = self._phrases[at]
            if (whole := self._totals.get(at)) is None:
                whole = self._totals[at] = sum(map(self._weight, phrase))
            if kind < 1 and whole < rare:
                continue  # of "needs no ddp" only "ddp" is known
            fit = (gain + sum(self._weight(phrase[slot]) for slot in covered[at])) / (total + whole)
            fits = found[page]
            fits.all.append(fit * kind)
            if kind >= 1:
                fits.own_words = max(fits.own_words, fit)
                fits.has_phrase = fits.has_phrase or (len(covered[at]) == len(phrase) and whole >= rare)
            if kind == _TITLE_WEIGHT:
                fits.title = max(fits.title, fit)
        return found

    def is_about_something_else(self, question: str) -> bool:
        """Whether a question has only numbers and weak words, or everyday words beside those that no page has."""
        meanings = self._read(question)
        known = [one for one in meanings if any(name in self._counts for name in one)]
        if all(one & vocabulary().weak or all(map(_is_number, one)) for one in known):
            return True
        return len(known) < len(meanings) and all(one & vocabulary().everyday for one in known)

    def count_known(self, question: str) -> tuple[int, int]:
        """Returns how many meanings of a question some page has, and how many there are."""
        meanings = self._read(question)
        return sum(any(name in self._counts for name in one) for one in meanings), len(meanings)

    def list_names(self, question: str) -> tuple[str, ...]:
        """Returns the names in a question that are of a program, not of the field: modules, variables, files."""
        words = dict.fromkeys(word.rstrip(".-/") for word in _PROGRAM_NAME.findall(question))
        return tuple(word for word in words if not word.endswith(("Error", "Exception")) and self._is_name(word))

    def _is_name(self, word: str) -> bool:
        if word.lower() in self._texts:
            return False
        meanings = read_meanings(word)
        if not set("_./-").isdisjoint(word[1:]) and len(meanings) > 1:
            return True
        return any(not any(name in self._counts for name in one) for one in meanings)

    def _read(self, question: str) -> Phrase:
        """Returns the meanings of a question without shapes and numbers that no page has."""
        meanings = dict.fromkeys(read_meanings(correct_typing(_SHAPE.sub(" ", question), self._counts)))
        return tuple(one for one in meanings if not all(_is_number(name) and name not in self._counts for name in one))

    def _weight(self, meaning: Meaning) -> float:
        """Returns the rarity of a meaning among the pages; an unknown one is as rare as can be."""
        known = self._weights.get(meaning)
        if known is None:
            count = min((self._counts[name] for name in meaning if name in self._counts), default=0)
            pair = any(is_cjk(name) and len(name) == 2 for name in meaning)
            known = math.log(1 + self._count / (1 + count)) * (_PAIR_WEIGHT if pair else 1.0)
            is_number = bool(meaning) and all(map(_is_number, meaning))
            known *= _WEAK_WEIGHT if is_number or meaning & vocabulary().weak else 1.0
            self._weights[meaning] = known
        return known


_PROGRAM_NAME = re.compile(r"(?<![\w./-])(?!(?:torch|nn|F|np|numpy|paddle|tf|pd|cv2)\.)[A-Za-z_][A-Za-z0-9_./-]{3,60}")
"""A name that may be of a program: `data_loader.py`; `torch.Size` is of the library. Source: its usual import names."""
_SHAPE = re.compile(r"\[\d+(?:, ?\d+)*\]|\b\d+(?:x\d+)+\b")
_scores_of = lru_cache(maxsize=4)(PageScores)


def page_scores(symptoms: Iterable[Symptom]) -> PageScores:
    """Returns the pages ready for questions; the same object for the same catalogue."""
    return _scores_of(tuple(map(_texts_of, symptoms)))


def nearest_pages(text: str, symptoms: Iterable[Symptom], most: int = 3) -> list[Symptom]:
    """Returns the pages that share the rarest words with a text, the nearest first; none if the first is far-fetched.

    They are proposals for a text without an error message, never findings.

    Args:
        text: Question or description in English or Chinese.
    """
    pages = {symptom.id: symptom for symptom in symptoms}
    ranked = page_scores(pages.values()).rank_pages(text[:_MOST_LETTERS])
    return [pages[one.symptom] for one in ranked[:most]] if ranked and ranked[0].score >= ENOUGH else []


def _is_number(name: str) -> bool:
    return name[:1].isdigit() and name.replace(".", "").isdigit()


def _texts_of(symptom: Symptom) -> PageTexts:
    titles = tuple(text for wording in symptom.wording.values() for text in (wording.title, wording.check) if text)
    return PageTexts(symptom.id, titles, (*symptom.words, symptom.id.replace("_", " ")), symptom.asked)
