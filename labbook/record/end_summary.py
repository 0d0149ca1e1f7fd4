"""A run whose entry is written, and the lines that the terminal shows at its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from labbook.frozen import dataclass
from labbook.model.run import Run

if TYPE_CHECKING:
    from labbook.model.fix import Proposal
    from labbook.store.commit import CommitOutcome


@dataclass(frozen=True)
class Finished:
    """A run whose entry is written.

    Args:
        entry: Path of the entry.
        commit: What became of the commit.
        shown: Path of the entry as the user would type it.
        language: Of the lines on the terminal, "en" or "zh".
        proposal: A failure that this run may have cured, or `None`.
    """

    run: Run
    entry: Path
    commit: CommitOutcome
    shown: str
    language: str = "en"
    proposal: Proposal | None = None

    def summary(self) -> list[str]:
        """What the terminal shows at the end: verdict, where it happened, where the entry is."""
        from labbook.diagnosis.run_evidence import is_standstill
        from labbook.report.entry.diagnosis_section import diagnosis_lines
        from labbook.report.entry.title import verdict_line
        from labbook.report.numbers import duration
        from labbook.report.terminal_findings import finding_lines

        failed = self.run.status in ("failed", "killed") or is_standstill(self.run)
        told = diagnosis_lines(self.run, self.language, str(Path.cwd())) if failed else []
        verdict = told.pop(0) if told and self.run.findings else verdict_line(self.run)
        lines = [f"{self.run.status} after {duration(self.run.duration_s)}: {verdict}"]
        stopped = self.run.asked.get("stopped")
        if stopped:
            asked = f"--{stopped['option']} {stopped['expression']}".strip()
            lines.append(f"         ended by {asked} after step {stopped['step']}")
        lines += [f"         {line}" for line in told]
        primary = self.run.findings[0].symptom if failed and self.run.findings else ""
        lines += [f"         {line}" for line in finding_lines(self.run, self.language, but=primary)]
        if self.proposal is not None and not self.proposal.confirmed:
            from labbook.report.entry.fix_section import proposal_line

            lines.append(f"         {proposal_line(self.proposal, self.language)}")
        how = {
            "committed": f"committed as {self.commit.commit[:9]}",
            "unchanged": "already committed",
            "off": self.commit.reason or "commits are switched off",
        }.get(self.commit.status, f"not committed: {self.commit.reason}")
        if self.commit.status == "queued":
            how = f"will be committed later: {self.commit.reason}"
        lines.append(f"         {self.shown}  {how}")
        return lines
