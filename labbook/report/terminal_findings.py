"""What the health checks found, in the few lines that stand on the terminal when a run has ended."""

from __future__ import annotations

from labbook.model.run import CheckResult, Run
from labbook.report.entry.diagnosis_section import fill, strip_markdown, user_location
from labbook.report.entry.section_limits import shorten_middle
from labbook.store.sentences import Sentences, translate_check
from labbook.store.templates import words

_MOST = 3
_WIDTH = 160


def visible_findings(run: Run) -> list[CheckResult]:
    """Checks that failed or warned, causes before what they explain."""
    wrong = [check for check in run.checks if check.verdict in ("fail", "warn")]
    return sorted(wrong, key=lambda check: bool(check.explained_by))


def finding_lines(run: Run, language: str = "en", but: str = "") -> list[str]:
    """A line for each finding that no other explains, with what was seen and where; at most three.

    Below it stand what is worse and follows from it, what cured it before, and the advice.

    Args:
        run: The run.
        language: "en" or "zh".
        but: Id of a check that has been told of already.
    """
    said, say = words(language), Sentences(language)
    causes = [check for check in visible_findings(run) if not check.explained_by and check.id != but]
    known = {finding.symptom: finding for finding in run.findings}
    lines = []

    def tell(check: CheckResult) -> None:
        row = translate_check(check, say)
        verdict = str(said["verdicts"][row.verdict]).strip("*")
        lines.append(shorten_middle(f"{verdict}  {row.title}{said['health']['colon']}{row.observed}", _WIDTH))
        place = user_location(known[check.id], run) if check.id in known else ""
        if place:
            lines.append(shorten_middle(f"      {place}  {known[check.id].where.get('source') or ''}".rstrip(), _WIDTH))

    for check in causes[:_MOST]:
        tell(check)
        worse = [c for c in visible_findings(run) if c.explained_by == check.id and c.verdict == "fail"]
        if check.verdict == "warn" and worse:
            tell(worse[0])
        cured = next((seen for seen in known[check.id].seen_before if seen.fix), None) if check.id in known else None
        if cured is not None:
            line = fill(said["diagnosis"]["cured_line"], run=cured.run, fix=strip_markdown(cured.fix))
            lines.append(shorten_middle(f"      {line}", _WIDTH))
        if check.detail:
            lines.append(shorten_middle(f"      {strip_markdown(translate_check(check, say).detail)}", _WIDTH))
    if len(causes) > _MOST:
        lines.append(str(said["health"]["more_findings"]).format(count=len(causes) - _MOST))
    return lines
