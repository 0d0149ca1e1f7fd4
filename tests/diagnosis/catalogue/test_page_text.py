from __future__ import annotations

import re

import pytest

from labbook.diagnosis.catalogue.page_text import render_page_markdown
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue

SLOT = re.compile(r"\{[a-z_]+(?:\.\d+)?\|")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_page_of_the_catalogue_shows_an_unfilled_slot(language):
    shown = {
        symptom.id
        for symptom in load_catalogue().symptoms.values()
        if SLOT.search(render_page_markdown(symptom, language))
    }

    assert shown == set()
