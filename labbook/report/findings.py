"""What the health checks found, in the few lines that stand on the terminal when a run has ended."""

from __future__ import annotations

from labbook.model.run import CheckResult, Run
from labbook.report.limits import cut
from labbook.report.phrases import Phrases
from labbook.store.templates import words

_MOST = 3
_WIDTH = 160


def found(run: Run) -> list[CheckResult]:
    """Checks that failed or warned, causes before what they explain."""
    wrong = [check for check in run.checks if check.verdict in ("fail", "warn")]
    return sorted(wrong, key=lambda check: bool(check.explained_by))


def finding_lines(run: Run, language: str = "en", but: str = "") -> list[str]:
    """A line for each finding that no other explains, with what was seen, and the advice below it; at most three.

    Args:
        run: The run.
        language: "en" or "zh".
        but: Id of a check that has been told of already.
    """
    said = words(language)
    phrase = Phrases(said.get("phrases", {}))
    causes = [check for check in found(run) if not check.explained_by and check.id != but]
    lines = []
    for check in causes[:_MOST]:
        verdict = str(said["verdicts"][check.verdict]).strip("*")
        name = str(said["checks"].get(check.id, check.title))
        lines.append(cut(f"{verdict}  {name}: {phrase(check.observed)}", _WIDTH))
        if check.detail:
            lines.append(cut(f"      {phrase(check.detail)}", _WIDTH))
    if len(causes) > _MOST:
        lines.append(str(said["health"]["more_findings"]).format(count=len(causes) - _MOST))
    return lines
