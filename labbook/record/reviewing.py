"""What the review of the script says to the findings of its run."""

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
"""Larger files would take the whole time by themselves. Source: chosen by us, 0.1 s for 4,000 lines here."""
_MOST_REMARKS = 3
_SAID = {"en": "in the code: ", "zh": "代码中："}


def with_remarks(diagnosis: Diagnosis, run: Run, catalogue: Catalogue, language: str) -> Diagnosis:
    """The diagnosis with what stands in the run's code and bears on its findings, in their evidence.

    Code that cannot be read says nothing: the diagnosis stands without it.
    """
    if not diagnosis.findings:
        return diagnosis
    script, files = _code_of(run)
    if script is None:
        return diagnosis
    from labbook.review.reviewer import review_files

    remarks = [one for one in review_files(files, language, _SECONDS).remarks if one.severity != "note"]
    if not remarks:
        return diagnosis
    lead = _SAID.get(language, _SAID["en"])
    findings = []
    for finding in diagnosis.findings:
        near = _bearing(finding, remarks, catalogue)[:_MOST_REMARKS]
        lines = [f"{lead}{_place(one, script)}: {strip_markdown(one.what)}" for one in near]
        findings.append(_with_place(replace(finding, evidence=(*finding.evidence, *lines)), near) if near else finding)
    return replace(diagnosis, findings=tuple(findings))


def _with_place(finding: Finding, remarks: Sequence[Violation]) -> Finding:
    """The finding with the place of the one line of code that has its very symptom, where no other place is known."""
    same = {(one.file, one.line): one for one in remarks if one.symptom == finding.symptom and not one.cell}
    if finding.where.get("file") or len(same) != 1:
        return finding
    (file, line) = next(iter(same))
    return replace(finding, where={**finding.where, "file": file, "line": line})


def _code_of(run: Run) -> tuple[Path | None, list[Path]]:
    from labbook.capture.code.code_without_git import find_sources
    from labbook.capture.command import find_program_file

    script = find_program_file(run.argv, Path(run.cwd)).path
    if script is None or script.suffix not in (".py", ".ipynb") or not script.is_file():
        return None, []
    files = find_sources(script, script.parent)[:_MOST_FILES] if script.suffix == ".py" else [script]
    return script, [one for one in files if one.suffix in (".py", ".ipynb") and one.stat().st_size <= _MOST_BYTES]


def _bearing(finding: Finding, remarks: Sequence[Violation], catalogue: Catalogue) -> list[Violation]:
    """The remarks on the same symptom first, then those on what causes it or follows from it, then on its family."""
    grades: list[tuple[int, int, Violation]] = []
    page = catalogue.symptoms.get(finding.symptom)
    for number, remark in enumerate(remarks):
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


def _place(remark: Violation, script: Path) -> str:
    path = Path(remark.file)
    shown = path.relative_to(script.parent).as_posix() if path.is_relative_to(script.parent) else path.name
    return f"{shown}[{remark.cell}]:{remark.line}" if remark.cell else f"{shown}:{remark.line}"
