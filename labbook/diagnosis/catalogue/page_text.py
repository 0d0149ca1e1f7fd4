"""Renders the page of a symptom for readers, without its patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.diagnosis.catalogue.pattern import fill_slots
from labbook.diagnosis.catalogue.symptom_catalogue import HEADINGS
from labbook.model.message import message
from labbook.model.symptom import Symptom
from labbook.store.text.sentences import Sentences

_TIERS = {1: "diagnosis.page.certain", 2: "diagnosis.page.likely", 3: "diagnosis.page.hint"}


def render_page_markdown(symptom: Symptom, language: str, runs: Sequence[Mapping[str, Any]] = ()) -> str:
    """The page as Markdown: title, what you see, why, what to try, runs, each with `run`, `title` and `fix`."""
    wording = symptom.wording_in(language)
    say = Sentences(language)
    head = say.line("diagnosis.page.head", id=symptom.id, family=symptom.family, tier=message(_TIERS[symptom.tier]))
    sections = [
        [_fill_unknown(wording.see)],
        [f"- {_fill_unknown(cause)}" for cause in wording.why],
        [f"{number}. {_fill_unknown(fix)}" for number, fix in enumerate(wording.attempts, 1)],
    ]
    headings = [*HEADINGS.get(language, HEADINGS["en"])]
    if runs:
        headings.append(say.line("diagnosis.page.runs"))
        cured = [" " + say.line("diagnosis.page.cured", fix=run["fix"]) if run.get("fix") else "" for run in runs]
        sections.append([f"- {run['run']}: {run['title']}{fix}" for run, fix in zip(runs, cured, strict=True)])
    blocks = [f"# {wording.title}", " · ".join([head, *filter(None, [", ".join(symptom.frameworks)])])]
    for heading, lines in zip(headings, sections, strict=True):
        blocks += [f"## {heading}", "\n".join(lines)]
    return "\n\n".join(blocks) + "\n"


def _fill_unknown(text: str) -> str:
    """The text with the words for unknown values, or as it is."""
    return fill_slots(text, {}) or text
