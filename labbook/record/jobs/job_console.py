"""The stored output of a run, or of all tasks of a job."""

from __future__ import annotations

from contextlib import suppress

from labbook.model.run import Console
from labbook.probe.redaction.redactor import Redactor
from labbook.store.journal import Journal

_MOST_CONSOLES = 16
_LINES_OF_OTHERS = 40
"""Tasks of a job, and last lines of each but the first, whose output is in the entry. Source: chosen by us; the
journals have all."""


def read_consoles(journal: Journal, redactor: Redactor) -> Console:
    """Returns the stored output; of a job, that of the first task that failed, then the last lines of the others."""
    from labbook.capture.console.console_reader import join_consoles, read_console
    from labbook.record.jobs.job_journal import JobJournal

    def read(part: Journal) -> Console:
        with suppress(OSError):
            return read_console(part.paths.console, redactor)
        return Console()

    (_, first), *others = [(part, read(part)) for part in journal.parts()[:_MOST_CONSOLES]]
    names = {m.journal.run_id: m.rank for m in journal.members} if isinstance(journal, JobJournal) else {}
    for part, console in others:
        lines = console.text.splitlines()[-_LINES_OF_OTHERS:]
        prefix = f"[rank{names.get(part.run_id, 0)}]: "
        text = "".join(f"{'' if line.startswith('[rank') else prefix}{line}\n" for line in lines)
        last = Console(text, console.lines, console.lines - len(lines), console.redactions)
        first = join_consoles(first, last)
    return first
