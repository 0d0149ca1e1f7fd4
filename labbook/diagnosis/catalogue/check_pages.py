"""What the symptom pages say of health checks: name of the row, expectation, advice and consequences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from labbook.diagnosis.catalogue.pattern import fill_slots
from labbook.diagnosis.catalogue.run_conditions import observed_cases
from labbook.diagnosis.catalogue.symptom_catalogue import HEADINGS, load_catalogue
from labbook.model.check import CheckPages, CheckWording
from labbook.model.symptom import Symptom
from labbook.store.text.sentences import Sentences

_CONFIRMATION = {
    "en": re.compile(r"\s+(?:It worked|Fixed) (?:when|if)\b.*", re.DOTALL),
    "zh": re.compile(r"[^。；]*(?:即|则|就)[^。；]{0,4}(?:成功|有效|修好|修复|解决|确认|正常)。?\s*\Z"),
}
"""The sentence at the end of a fix that says how to see that it helped."""
_MOST_WORDINGS = 2000
_wordings: dict[tuple[int, str], tuple[Symptom, dict[str, CheckWording]]] = {}
"""Identity of a page and framework -> the page, which keeps the identity in use, and its wording."""


def load_check_pages(folder: Path, framework: str = "") -> CheckPages:
    """Returns what the pages of labbook say of checks, with those of a notebook on top.

    Args:
        folder: `notes/symptoms` of the notebook.
        framework: "torch" or "paddle" for the advice of that framework, "" for both.
    """
    return check_pages(load_catalogue(folder).symptoms, framework)


def prepare() -> None:
    """Loads the pages of labbook and the sentences of checks in advance, so that the end of a run comes quickly."""
    load_catalogue()
    Sentences("en").prepare("health")


def check_pages(symptoms: Mapping[str, Symptom], framework: str = "") -> CheckPages:
    """Returns what pages say of checks in each language, and what follows from each symptom; see `load_check_pages`."""
    wording = {symptom.id: _wording(symptom, framework) for symptom in symptoms.values()}
    return CheckPages(
        {id_: words for id_, words in wording.items() if words},
        {symptom.id: symptom.causes_of for symptom in symptoms.values() if symptom.causes_of},
    )


def _wording(symptom: Symptom, framework: str) -> dict[str, CheckWording]:
    """Returns what a page says of its check in each language; read once for each page in memory."""
    key = (id(symptom), framework)
    if key not in _wordings:
        if len(_wordings) >= _MOST_WORDINGS:
            _wordings.clear()
        fixes = {case: fixes[0] for case, (_, fixes) in observed_cases(symptom.when).items() if fixes}
        found = {
            language: CheckWording(
                said.check,
                said.expected,
                _advice(said.attempts[:1], language, framework),
                {case: _advice(said.attempts[fix - 1 : fix], language, framework) for case, fix in fixes.items()},
            )
            for language, said in symptom.wording.items()
            if said.check and language in HEADINGS
        }
        _wordings[key] = (symptom, found)
    return _wordings[key][1]


def _advice(attempts: tuple[str, ...], language: str, framework: str) -> str:
    first = attempts[0] if attempts else ""
    return _CONFIRMATION[language].sub("", fill_slots(first, {}, framework) or first).strip()
