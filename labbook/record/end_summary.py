"""A run whose entry is written, and its summary for the terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.frozen import dataclass
from labbook.model.run import Run
from labbook.store.text.words_files import fill

if TYPE_CHECKING:
    from labbook.model.confirmed_fix import Proposal
    from labbook.store.commit.entry_commit import CommitOutcome
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences

_MAX_ROWS = 3


def path_from(path: Path, folder: Path) -> str:
    """Returns the path relative to the folder if it lies below it, else the absolute path."""
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()


@dataclass(frozen=True)
class FinishedRun:
    """A run whose entry is written.

    Args:
        shown_path: Path of the entry as the user would type it.
        language: Language of the summary, "en" or "zh".
        proposal: A failure that this run may have fixed, or `None`.
        living: Number of its processes that go on in the background.
    """

    run: Run
    entry: Path
    commit: CommitOutcome
    shown_path: str
    language: str = "en"
    proposal: Proposal | None = None
    living: int = 0

    def seen_from(self, folder: Path | None) -> FinishedRun:
        """Returns the same with `shorten_path` as from a folder; `None` changes nothing."""
        return replace(self, shown_path=path_from(self.entry, folder)) if folder else self

    def _first_line(self, result: str) -> str:
        """Returns status, duration, verdict and result."""
        from labbook.report.entry.title import verdict_reason
        from labbook.report.numbers import duration
        from labbook.store.text.sentences import Sentences
        from labbook.store.text.templates import words

        labels, run = words(self.language), self.run
        return Sentences(self.language).line(
            {
                # A failed run has its verdict in its status.
                "failed": "terminal.record.ended_plain",
                "unknown": "terminal.record.ended_unknown",
                "suspect": "terminal.record.ended_because",
            }.get(run.verdict, "terminal.record.ended"),
            status=labels["status"].get(run.status, run.status),
            duration=duration(run.duration_s),
            verdict=labels["run_verdict"].get(run.verdict, run.verdict),
            reason=verdict_reason(run, labels),
            result=result,
        )

    def _configuration_lines(self, sentences: Sentences) -> list[str]:
        """Returns what is certainly wrong in the configuration: at most three rows, those of the schema first."""
        from labbook.report.entry.configuration_section import configuration_rows
        from labbook.report.entry.section_limits import shorten_middle
        from labbook.store.text.templates import words

        labels = words(self.language)
        rows = [row for row in configuration_rows(self.run) if row.get("certainty") in ("schema", "certain")]
        lead = f"{labels['headings']['configuration']}{labels['health']['colon']}"
        lines = [shorten_middle(lead + sentences(row["message"]), 160) for row in rows[:_MAX_ROWS]]
        more = len(rows) - _MAX_ROWS
        return lines + ([fill(labels["health"]["more_findings"], count=more)] if more > 0 else [])

    def summary(self) -> list[str]:
        """Returns the lines for the terminal: verdict, place of the failure, path of the entry."""
        from labbook.capture.processes import PATH_REPLACED
        from labbook.diagnosis.run_evidence import is_standstill
        from labbook.report.commit_line import commit_line
        from labbook.report.ending_exception import crashed_programs
        from labbook.report.entry.diagnosis_section import diagnosis_lines
        from labbook.report.entry.ranks_section import ranks_line
        from labbook.report.entry.section_limits import shorten_middle
        from labbook.report.entry.title import verdict_line
        from labbook.report.terminal_findings import finding_lines
        from labbook.store.text.sentences import Sentences

        sentences = Sentences(self.language)
        failed = self.run.status in ("failed", "killed") or is_standstill(self.run)
        diagnosis = diagnosis_lines(self.run, self.language, str(Path.cwd())) if failed else []
        result = diagnosis.pop(0) if diagnosis and self.run.findings else verdict_line(self.run, self.language)
        lines = [self._first_line(result)]
        stopped = self.run.asked.get("stopped")
        if stopped:
            option = f"--{stopped['option']} {stopped['expression']}".strip()
            lines.append(f"         {sentences.line('record.stopped_by', option=option, step=str(stopped['step']))}")
        crashed = crashed_programs(self.run)
        if crashed:
            last = list(crashed.values())[-1]
            error = shorten_middle(f"{last.type}: {' '.join(last.message.split())}", 160)
            count = sum(process.role == "child" for process in self.run.processes)
            line = sentences.line("record.programs_failed", failed=len(crashed), count=count, error=error)
            lines.append(f"         {line}")
        if batch_end := self.run.facts("ending").get("batch_end"):
            lines.append(f"         {sentences(batch_end)}")
        ranks = ranks_line(self.run, sentences)
        lines += [f"         {line}" for line in ([ranks] if ranks else []) + diagnosis]
        primary = self.run.findings[0].symptom if failed and self.run.findings else ""
        lines += [f"         {line}" for line in finding_lines(self.run, self.language, but=primary)]
        lines += [f"         {line}" for line in self._configuration_lines(sentences)]
        if self.proposal is not None and not self.proposal.confirmed:
            from labbook.report.entry.fix_section import proposal_line

            lines.append(f"         {proposal_line(self.proposal, self.language)}")
        if self.run.probe.status == "absent" and any(why == PATH_REPLACED for _, why in self.run.probe.unobserved):
            lines.append(f"         {sentences.line('terminal.record.path_replaced')}")
        if self.living:
            lines.append(f"         {sentences.line('record.background', count=self.living)}")
        if self.commit.status == "off":
            commit = sentences(self.commit.cause) or sentences.line("record.commits_off")
        elif self.commit.status == "queued":
            commit = sentences.line("record.queued", reason=self.commit.cause)
        else:
            commit = commit_line(self.commit, sentences)
        lines.append(f"         {self.shown_path}  {commit}")
        return lines


def end_lines(
    finished: FinishedRun, sentences: Sentences, notebook: Notebook, *, quiet: bool, is_fallback: bool
) -> list[str]:
    """Returns a few lines on how the run ended and where its entry is.

    Args:
        quiet: Only a commit that failed.
        is_fallback: The requested notebook cannot be used: then there is one to mend, not to make.
    """
    if quiet:
        failed = finished.commit.status in ("withheld", "failed")
        return [sentences.line("record.not_committed", reason=finished.commit.cause)] if failed else []
    lines = list(finished.summary())
    if notebook.personal and not is_fallback:
        lines.append(f"         {sentences.line('record.personal', notebook=str(notebook.paths.root))}")
    return lines
