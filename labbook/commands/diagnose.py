"""`labbook diagnose`: what went wrong in a run, a log or a pasted message."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook.commands.options import json_option, language_option, print_json, warn_of_pages, with_notebook
from labbook.errors import NothingFoundError, UsageError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.diagnosis.service import Diagnoser
    from labbook.model.entry import Entry
    from labbook.model.evidence import Evidence
    from labbook.model.symptom import Symptom
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences


@click.command(cls=HelpCommand)
@json_option
@language_option
@with_notebook
@click.argument("source", default="last", metavar="[RUN|FILE|-]")
def command(as_json: bool, language: str | None, book: Notebook, say: Sentences, source: str) -> None:
    """Diagnose a failed run, a log or an error message.

    Prints the failure, the evidence with its numbers, the likely causes, fixes to try, and what fixed the same failure
    in this notebook. Reads a recorded RUN, a FILE, or standard input (-). For a text without an error message, lists
    the three nearest symptom pages.

    Exits with status 1 if nothing is found.
    """
    from labbook.diagnosis.service import Diagnoser
    from labbook.findings.run_findings import add_earlier_runs
    from labbook.report.diagnosis_json import diagnosis_data
    from labbook.report.run_data import load_run
    from labbook.report.terminal_diagnosis import describe_doubt, print_diagnosis, print_own_fix

    diagnoser = Diagnoser(book, language or "")
    evidence, entry = _read_evidence(book, source)
    run_id = entry.id if entry is not None else ""
    diagnosis = add_earlier_runs(book, diagnoser.diagnose(evidence), but=run_id)
    warn_of_pages(diagnoser.catalogue.problems, say)
    pages = _propose_pages(diagnoser, evidence) if diagnosis.primary is None and not run_id else []
    if as_json:
        print_json({**diagnosis_data(diagnosis), "nearest_pages": [page.id for page in pages]})
    elif diagnosis.primary is None:
        for line in describe_doubt(diagnosis, pages, diagnoser.language):
            click.echo(line, err=True)
    else:
        print_diagnosis(diagnosis, diagnoser.language, load_run(book.paths, run_id) if run_id else None)
        if entry is not None and entry.meta.get("fix"):
            print_own_fix(entry.meta, diagnoser.language)
    if diagnosis.primary is None:
        sys.exit(1)


def _propose_pages(diagnoser: Diagnoser, evidence: Evidence) -> list[Symptom]:
    """Returns the nearest pages for a text without an exception, such as a question."""
    if any(one.type or one.message for one in evidence.exceptions):
        return []
    from labbook.index.page_scores import nearest_pages

    text = " ".join(line.text for line in evidence.lines if line.kind == "output" and "\n" not in line.text)
    return nearest_pages(text, diagnoser.catalogue.symptoms.values())


def _read_evidence(book: Notebook, source: str) -> tuple[Evidence, Entry | None]:
    """Returns the evidence of a run, a file or standard input, with the entry of the run.

    Raises:
        LabbookError: There is no such file or run, or it cannot be read.
    """
    if source == "-":
        from labbook.diagnosis.service import read_log

        return read_log(sys.stdin.buffer), None
    path = Path(source)
    if path.is_file() and not (path.suffix == ".md" and path.resolve().is_relative_to(book.paths.root)):
        return _read_file(path), None
    from labbook.diagnosis.run_evidence import collect_run_evidence
    from labbook.index.query import find_run
    from labbook.report.run_data import load_run

    try:
        entry = find_run(book, source)
    except NothingFoundError as error:
        if path.name != source or path.suffix:
            raise UsageError("errors.diagnose.no_file", source=source) from error
        raise
    run = load_run(book.paths, entry.id)
    if run is not None:
        return collect_run_evidence(run), entry
    return _read_file(book.paths.root / entry.path), entry


def _read_file(path: Path) -> Evidence:
    from labbook.diagnosis.service import read_file

    try:
        return read_file(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError("errors.diagnose.not_readable", path=path, reason=reason) from error
