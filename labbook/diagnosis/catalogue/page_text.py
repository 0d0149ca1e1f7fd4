"""Renders the page of a symptom for readers, without its patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.diagnosis.catalogue.pattern import fill_slots
from labbook.diagnosis.catalogue.symptom_catalogue import HEADINGS
from labbook.model.symptom import Symptom

_WORDS = {
    "en": {
        "family": "family",
        "tiers": {1: "certain", 2: "likely", 3: "a hint"},
        "runs": "Runs that had it",
        "fix": "cured by",
    },
    "zh": {
        "family": "类别",
        "tiers": {1: "确定", 2: "很可能", 3: "提示"},
        "runs": "出现过的运行",
        "fix": "解决办法：",
    },
}


def render_page_markdown(symptom: Symptom, language: str, runs: Sequence[Mapping[str, Any]] = ()) -> str:
    """The page as Markdown: title, what you see, why, what to try, runs."""
    wording = symptom.said(language)
    words: Mapping[str, Any] = _WORDS.get(language, _WORDS["en"])
    see, why, attempts = HEADINGS.get(language, HEADINGS["en"])
    frameworks = ", ".join(symptom.frameworks)
    lines = [
        f"# {wording.title}",
        "",
        f"`{symptom.id}` · {words['family']} `{symptom.family}` · {words['tiers'][symptom.tier]}"
        + (f" · {frameworks}" if frameworks else ""),
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
        lines += [f"## {words['runs']}", ""]
        for run in runs:
            fix = f" ({words['fix']} {run['fix']})" if run.get("fix") else ""
            lines.append(f"- {run['run']}: {run['title']}{fix}")
        lines.append("")
    return "\n".join(lines)
