"""Finds the symptom pages nearest to a text without an error message: proposals, never findings."""

from __future__ import annotations

from collections.abc import Iterable

from labbook.index.page_scores import ENOUGH, page_scores
from labbook.model.symptom import Symptom

_MOST_LETTERS = 2000


def nearest_pages(text: str, symptoms: Iterable[Symptom], most: int = 3) -> list[Symptom]:
    """Returns the pages that share the rarest words with a text, the nearest first; none if the first is far-fetched.

    Args:
        text: Question or description in English or Chinese.
    """
    pages = {symptom.id: symptom for symptom in symptoms}
    ranked = page_scores(pages.values()).rank_pages(text[:_MOST_LETTERS])
    return [pages[one.symptom] for one in ranked[:most]] if ranked and ranked[0].score >= ENOUGH else []
