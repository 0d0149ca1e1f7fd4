"""Renders the page of a symptom for readers, without its patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.diagnosis.catalogue.pattern import fill_slots
from labbook.diagnosis.catalogue.symptom_catalogue import HEADINGS
from labbook.model.message import message
from labbook.model.symptom import Symptom
from labbook.store.sentences import Sentences

_TIERS = {1: "diagnosis.page.certain", 2: "diagnosis.page.likely", 3: "diagnosis.page.hint"}


def render_page_markdown(symptom: Symptom, language: str, runs: Sequence[Mapping[str, Any]] = ()) -> str:
    """The page as Markdown: title, what you see, why, what to try, runs, each with `run`, `title` and `fix`."""
    wording = symptom.said(language)
    say = Sentences(language)
    see, why, attempts = HEADINGS.get(language, HEADINGS["en"])
    head = say.line("diagnosis.page.head", id=symptom.id, family=symptom.family, tier=message(_TIERS[symptom.tier]))
    lines = [
        f"# {wording.title}",
        "",
        " · ".join([head, *([", ".join(symptom.frameworks)] if symptom.frameworks else [])]),
        "",
        f"## {see}",
        "",
        fill_slots(wording.see, {}) or wording.see,
        "",
        f"## {why}",
        "",
        *(f"- {fill_slots(cause, {}) or cause}" for cause in wording.why),
        "",
        f"## {attempts}",
        "",
        *(f"{number}. {fill_slots(fix, {}) or fix}" for number, fix in enumerate(wording.attempts, 1)),
        "",
    ]
    if runs:
        lines += [f"## {say.line('diagnosis.page.runs')}", ""]
        for run in runs:
            cured = " " + say.line("diagnosis.page.cured", fix=run["fix"]) if run.get("fix") else ""
            lines.append(f"- {run['run']}: {run['title']}{cured}")
        lines.append("")
    return "\n".join(lines)
