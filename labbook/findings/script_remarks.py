"""Adds lines of the reviewed script to the evidence of a run's findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.model.finding import Diagnosis, Finding
from labbook.model.run import Run
from labbook.report.entry.diagnosis_section import strip_markdown

if TYPE_CHECKING:
    from labbook.diagnosis.catalogue.symptom_catalogue import Catalogue
    from labbook.review.violation import Violation

_SECONDS = 0.3
_MOST_FILES = 30
_MOST_BYTES = 200_000
"""Larger files would use up the time limit alone. Source: chosen by us, 0.1 s for 4,000 lines here."""
_MOST_VIOLATIONS = 3
_LEADS = {"en": ("in the code: ", ": ", "."), "zh": ("代码中 ", "：", "。")}


def add_violations(diagnosis: Diagnosis, run: Run, catalogue: Catalogue, language: str) -> Diagnosis:
    """Returns the diagnosis with violations in the run's code added to related findings.

    The diagnosis is unchanged if the code cannot be read.
    """
    if not diagnosis.findings:
        return diagnosis
    script, files = _find_code(run)
    if script is None:
        return diagnosis
    from labbook.review.reviewer import review_files

    violations = [one for one in review_files(files, language, _SECONDS).violations if one.severity != "note"]
    lead, colon, stop = _LEADS.get(language, _LEADS["en"])
    findings = []
    for finding in diagnosis.findings:
        # What a row of the checklist has from the review is not said twice.
        others = [one for one in violations if strip_markdown(one.what) != strip_markdown(finding.message)]
        related = _rank_related(finding, others, catalogue)[:_MOST_VIOLATIONS]
        found = [one for one in related if one.symptom == finding.symptom and one.tier == 1]
        if found:
            # The text of the program has the cause that the page can only guess.
            finding = replace(finding, causes=_describe(found, script, colon), fixes=_advice(found, stop))
        rest = [one for one in related if one not in found]
        lines = [f"{lead}{line}" for line in _describe(rest, script, colon)]
        placed = _add_place(replace(finding, evidence=(*finding.evidence, *lines)), related)
        findings.append(_add_culprit(placed, catalogue, files))
    return replace(diagnosis, findings=tuple(findings))


def _describe(violations: Sequence[Violation], script: Path, colon: str) -> tuple[str, ...]:
    """Returns one sentence for what is wrong, with all its places."""
    places: dict[str, list[str]] = {}
    for one in violations:
        places.setdefault(strip_markdown(one.what), []).append(_format_place(one, script))
    return tuple(f"{', '.join(where)}{colon}{what}" for what, where in places.items())


def _advice(violations: Sequence[Violation], stop: str) -> tuple[str, ...]:
    """Returns what to do about them, each once, as whole sentences."""
    sentences = dict.fromkeys(one.advice for one in violations)
    return tuple(f"{text[:1].upper()}{text[1:]}{stop}" for text in sentences)


def _add_place(finding: Finding, violations: Sequence[Violation]) -> Finding:
    """Adds the place of the only violation of the same symptom, if the finding has no place yet."""
    same = {(one.file, one.line): one for one in violations if one.symptom == finding.symptom and not one.cell}
    if finding.where.get("file") or len(same) != 1:
        return finding
    (file, line) = next(iter(same))
    return replace(finding, where={**finding.where, "file": file, "line": line})


def _add_culprit(finding: Finding, catalogue: Catalogue, files: Sequence[Path]) -> Finding:
    """Adds the line that the page of a finding names by its kind, if the finding has no place yet."""
    page = catalogue.symptoms.get(finding.symptom)
    if page is None or not page.line_of or finding.where.get("file"):
        return finding
    from labbook.findings.culprit_lines import find_culprit

    found = find_culprit(page.line_of, files)
    return finding if found is None else replace(finding, where={**finding.where, "file": found[0], "line": found[1]})


def _find_code(run: Run) -> tuple[Path | None, list[Path]]:
    from labbook.capture.code.code_without_git import find_sources
    from labbook.capture.command import find_program_file

    script = find_program_file(run.argv, Path(run.cwd)).path
    if script is None or script.suffix not in (".py", ".ipynb") or not script.is_file():
        return None, []
    files = find_sources(script, script.parent)[:_MOST_FILES] if script.suffix == ".py" else [script]
    return script, [one for one in files if one.suffix in (".py", ".ipynb") and one.stat().st_size <= _MOST_BYTES]


def _rank_related(finding: Finding, violations: Sequence[Violation], catalogue: Catalogue) -> list[Violation]:
    """Returns violations of the same symptom, then of its causes and consequences, then of its family."""
    grades: list[tuple[int, int, Violation]] = []
    page = catalogue.symptoms.get(finding.symptom)
    for number, remark in enumerate(violations):
        other = catalogue.symptoms.get(remark.symptom)
        near = page is not None and remark.symptom in (*page.caused_by, *page.causes_of)
        near = near or (other is not None and finding.symptom in (*other.caused_by, *other.causes_of))
        if remark.symptom and remark.symptom == finding.symptom:
            grades.append((0, number, remark))
        elif near:
            grades.append((1, number, remark))
        elif other is not None and other.family == finding.family and remark.severity == "error":
            grades.append((2, number, remark))
    return [remark for _, _, remark in sorted(grades, key=lambda one: one[:2])]


def _format_place(remark: Violation, script: Path) -> str:
    path = Path(remark.file)
    shown = path.relative_to(script.parent).as_posix() if path.is_relative_to(script.parent) else path.name
    return f"{shown}[{remark.cell}]:{remark.line}" if remark.cell else f"{shown}:{remark.line}"
