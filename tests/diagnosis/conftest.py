"""What every test of a pasted text asks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.text.log_reader import read_text


@pytest.fixture(scope="session")
def family_of() -> Callable[[str], str]:
    """A function: the family that is found first in a text, "" where nothing is."""
    matcher = Matcher(load_catalogue())

    def family(text: str) -> str:
        primary = diagnose(read_text(text), matcher).primary
        return primary.family if primary else ""

    return family


@pytest.fixture(scope="session")
def tier_of() -> Callable[[str], int]:
    """A function: how certain the first finding of a text is; 1 is certain, 0 nothing found."""
    matcher = Matcher(load_catalogue())

    def tier(text: str) -> int:
        primary = diagnose(read_text(text), matcher).primary
        return primary.tier if primary else 0

    return tier
