"""Prints a diagnosis on the terminal, for `labbook diagnose`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labbook import screen
from labbook.report.ending_exception import shorten_path
from labbook.report.entry.diagnosis_section import headline, seen_line, strip_markdown
from labbook.store.paths import is_run_id
from labbook.store.text.templates import words
from labbook.store.text.words_files import fill

if TYPE_CHECKING:
    from labbook.model.finding import Diagnosis, Finding
    from labbook.model.run import Run
    from labbook.model.symptom import Symptom

_MAX_SHOWN = 4


def print_diagnosis(diagnosis: Diagnosis, language: str, run: Run | None = None) -> None:
    """Prints the findings with their consequences; after the fourth, only headlines.

    Args:
        diagnosis: A diagnosis with at least one finding.
        run: The recorded run, whose files are shown relative to its folder.
    """
    labels = words(language)["diagnosis"]
    causes = [finding for finding in diagnosis.findings if not finding.follows_from]
    consequences = [finding for finding in diagnosis.findings if finding.follows_from]
    for number, finding in enumerate(causes[:_MAX_SHOWN]):
        if number:
            screen.print_line("")
        _print_finding(finding, labels, run)
        for other in consequences:
            if other.follows_from == (finding.symptom or finding.family):
                screen.print_line("  ", _lead(labels["follows"]), screen.Cell(headline(other, labels), "dim"))
    for finding in causes[_MAX_SHOWN:]:
        screen.print_line(_lead(labels["further"]), headline(finding, labels))


def describe_doubt(diagnosis: Diagnosis, pages: Sequence[Symptom], language: str) -> list[str]:
    """Returns why there is no finding, and pages that may be related.

    Args:
        pages: Pages of the catalogue, nearest first.
    """
    labels = words(language)["diagnosis"]
    lines = [fill(labels["unsure_line"], reason=diagnosis.unsure or "no failure")]
    if pages:
        lines.append(str(labels["nearest_line"]))
        lines += [f"  labbook explain {page.id}  {page.wording_in(language).title}" for page in pages]
    return lines


def print_own_fix(meta: Mapping[str, Any], language: str) -> None:
    """Prints the confirmed fix of the run itself, from the front matter of its entry."""
    labels = words(language)["diagnosis"]
    by, text = str(meta["fix"]), str(meta.get("fix_text") or meta["fix"])
    line = fill(labels["own_fix_in" if is_run_id(by) else "own_fix"], run=by, fix=text)
    screen.print_line("  ", screen.Cell(line, "green"))


def _lead(label: object) -> str:
    """Returns a label with the space before its text; a full-width colon has its own."""
    text = str(label).rstrip()
    return text if text.endswith("：") else f"{text} "


def _print_finding(finding: Finding, labels: Mapping[str, Any], run: Run | None) -> None:
    style = "bold red" if finding.severity == "error" else "bold yellow"
    screen.print_line(screen.Cell(headline(finding, labels), style))
    where = finding.where
    if where.get("file"):
        file = shorten_path(str(where["file"]), run) if run is not None else str(where["file"])
        place = f"{file}:{where['line']}" if where.get("line") else file
        screen.print_line("  ", screen.Cell(place, "cyan"), f"  {where.get('source') or ''}".rstrip())
    for sentence in finding.evidence:
        screen.print_line("  ", sentence)
    for number, cause in enumerate(finding.causes):
        first = "why" if len(finding.causes) == 1 else "why_one_of"
        lead = _lead(labels["else" if number else first])
        screen.print_line("  ", screen.Cell(lead, "bold"), strip_markdown(cause))
    for number, fix in enumerate(finding.fixes, 1):
        lead = _lead(labels["fixes"])
        lead = lead if number == 1 else " " * screen.display_width(lead)
        screen.print_line("  ", screen.Cell(lead, "bold"), f"{number}. {strip_markdown(fix)}")
    for seen in finding.seen_before:
        if seen.fits:
            screen.print_line("  ", screen.Cell(fill(labels["cured_line"], run=seen.run, fix=seen.fix), "green"))
            return
    if earlier := seen_line(finding, labels):
        screen.print_line("  ", earlier)
