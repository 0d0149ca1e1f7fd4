"""What became of a commit, as the terminal shows it after a run, a fix or a report."""

from __future__ import annotations

from labbook.store.commit.entry_commit import CommitOutcome
from labbook.store.text.sentences import Sentences


def commit_line(outcome: CommitOutcome, say: Sentences) -> str:
    """Returns what became of a commit, in a few words."""
    if outcome.status == "committed":
        return say.line("commit.committed", commit=outcome.commit[:9])
    if outcome.status == "unchanged":
        return say.line("commit.unchanged")
    if outcome.status == "queued":
        return say.line("commit.queued", reason=outcome.cause)
    if outcome.status == "withheld":
        return say.line("commit.withheld", reason=outcome.cause)
    if outcome.status == "off":
        return say.line("commit.off", reason=outcome.cause)
    return say.line("commit.failed", reason=outcome.cause)
