"""Writes the findings of the health checks in a few lines, for the end of a run on the terminal."""

from __future__ import annotations

import re

from labbook.model.finding import Finding
from labbook.model.run import CheckResult, Run
from labbook.report.entry.diagnosis_section import strip_markdown, user_location
from labbook.report.entry.section_limits import shorten_middle
from labbook.screen import display_width
from labbook.store.text.sentences import Sentences, translate_check
from labbook.store.text.templates import words
from labbook.store.text.words_files import fill

_MOST = 3
_WIDTH = 160
_SENTENCE_END = re.compile(r"(?<=[.!?] )(?=[A-Z])|(?<=[。！？])")


def visible_findings(run: Run) -> list[CheckResult]:
    """Returns checks that failed or warned, causes before their consequences."""
    findings = [check for check in run.checks if check.verdict in ("fail", "warn")]
    return sorted(findings, key=lambda check: bool(check.explained_by))


def finding_lines(run: Run, language: str = "en", but: str = "") -> list[str]:
    """Returns up to three findings with value, location, worst consequence, earlier fix and advice.

    Args:
        but: Id of a check to leave out.
    """
    labels, say = words(language), Sentences(language)
    causes = [check for check in visible_findings(run) if not check.explained_by and check.id != but]
    known = {finding.symptom: finding for finding in run.findings}
    lines = []
    verdicts = {name: str(label).strip("*") + "  " for name, label in labels["verdicts"].items()}
    indent = " " * max(display_width(verdicts[name]) for name in ("fail", "warn"))

    def add_check(check: CheckResult) -> None:
        row = translate_check(check, say)
        verdict = verdicts[row.verdict] + indent[display_width(verdicts[row.verdict]) :]
        lines.append(shorten_middle(f"{verdict}{row.title}{labels['health']['colon']}{row.observed}", _WIDTH))
        place = user_location(known[check.id], run) if check.id in known else ""
        if place:
            lines.append(
                shorten_middle(f"{indent}{place}  {known[check.id].where.get('source') or ''}".rstrip(), _WIDTH)
            )

    for check in causes[:_MOST]:
        add_check(check)
        worse = [c for c in visible_findings(run) if c.explained_by == check.id and c.verdict == "fail"]
        if check.verdict == "warn" and worse:
            add_check(worse[0])
        # What fixed a consequence of this finding may fix the finding, too.
        rows = [check.id, *(one.id for one in run.checks if one.explained_by == check.id)]
        fixed = next((seen for row in rows if row in known for seen in known[row].seen_before if seen.fits), None)
        if fixed is not None:
            line = fill(labels["diagnosis"]["cured_line"], run=fixed.run, fix=strip_markdown(fixed.fix))
            lines.append(shorten_middle(f"{indent}{line}", _WIDTH))
        if advice := _first_advice(check, known.get(check.id), say):
            lines.append(indent + _whole_sentences(strip_markdown(advice)))
    if len(causes) > _MOST:
        lines.append(fill(labels["health"]["more_findings"], count=len(causes) - _MOST))
    return lines


def _first_advice(check: CheckResult, finding: Finding | None, say: Sentences) -> str:
    """Returns the advice for this run if the check has one, else the first of the entry, else that of the page."""
    if finding is not None and finding.fixes and "detail" not in check.run_messages:
        return finding.fixes[0]
    return translate_check(check, say).detail


def _whole_sentences(text: str) -> str:
    """Returns the first sentences of a text that fit into a line; one that is too long is shortened."""
    kept = ""
    for sentence in _SENTENCE_END.split(text):
        if kept and len(kept) + len(sentence) > _WIDTH:
            break
        kept += sentence
    return shorten_middle(kept.strip(), _WIDTH)
