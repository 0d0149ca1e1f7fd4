"""`labbook diagnose`: what went wrong in a run, a log or a pasted message."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from labbook.commands.options import json_option, notebook_option, open_notebook, print_json

if TYPE_CHECKING:
    from labbook.model.evidence import Evidence
    from labbook.model.finding import Diagnosis, Finding
    from labbook.store.notebook import Notebook

_EPILOG = """\b
Examples:
  labbook diagnose                       # the last run
  labbook diagnose k3f9                  # a run
  labbook diagnose train.log             # any log of any torch or paddle program
  labbook diagnose notebook.ipynb        # the outputs of its cells
  pbpaste | labbook diagnose -           # a message that somebody sent
  labbook diagnose job.out --json | jq -r .primary

\b
Ends with status 1 when nothing is found.
"""
_CHUNK = 1 << 20
_MOST_SHOWN = 4
_LARGEST_NOTEBOOK = 64 << 20


@click.command(epilog=_EPILOG)
@json_option
@click.option("--language", type=click.Choice(["en", "zh"]), help="Of titles, causes and fixes; default: the settings.")
@notebook_option
@click.argument("what", default="last", metavar="[RUN|FILE|-]")
def command(as_json: bool, language: str | None, notebook: str | None, what: str) -> None:
    """Say what went wrong in a run, a log or a pasted message, why, and what to try.

    The symptom, the evidence with its numbers, the likeliest cause first, fixes with how to tell that they worked, and
    what cured the same failure in this notebook.
    """
    from labbook.record.diagnosing import remembered
    from labbook.report.diagnosis_json import diagnosis_data

    book = open_notebook(notebook)
    language = language or book.config.language_in_use()
    evidence, run_id = _evidence(book, what)
    diagnosis = remembered(book, _diagnosed(book, evidence, language), but=run_id)
    if as_json:
        print_json(diagnosis_data(diagnosis))
    else:
        _print(diagnosis, language)
    if diagnosis.primary is None:
        sys.exit(1)


def _evidence(book: Notebook, what: str) -> tuple[Evidence, str]:
    """The evidence of what is meant, and the id of the run if it is one.

    Raises:
        LabbookError: There is no such file or run, or it cannot be read.
    """
    from labbook.diagnosis.text.log_reader import read_stream

    if what == "-":
        return read_stream(_chunks(sys.stdin.buffer)), ""
    path = Path(what)
    if path.is_file() and not (path.suffix == ".md" and path.resolve().is_relative_to(book.paths.root)):
        return _of_file(path), ""
    from labbook.diagnosis.run_evidence import collect_run_evidence
    from labbook.errors import NothingFoundError, UsageError
    from labbook.index.query import find_run
    from labbook.report.run_data import load_run

    try:
        entry = find_run(book, what)
    except NothingFoundError as error:
        if path.name != what or path.suffix:
            raise UsageError(f"there is no file {what}", hint="give a run, a file or -") from error
        raise
    run = load_run(book.paths, entry.id)
    if run is not None:
        return collect_run_evidence(run), entry.id
    return _of_file(book.paths.root / entry.path), entry.id


def _of_file(path: Path) -> Evidence:
    from labbook.diagnosis.text.log_reader import read_stream, read_text
    from labbook.errors import UsageError

    try:
        if path.suffix == ".ipynb" and path.stat().st_size <= _LARGEST_NOTEBOOK:
            from labbook.diagnosis.text.ipynb import read_cell_outputs

            return read_text(read_cell_outputs(path.read_bytes()))
        with path.open("rb") as stream:
            return read_stream(_chunks(stream))
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot read {path}: {reason}", hint="give a file that you may read") from error


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def _diagnosed(book: Notebook, evidence: Evidence, language: str) -> Diagnosis:
    from labbook.commands.options import warn_of_pages
    from labbook.diagnosis.catalogue.matcher import Matcher
    from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
    from labbook.diagnosis.cause_ranking import diagnose

    catalogue = load_catalogue(book.paths.symptoms)
    warn_of_pages(catalogue.problems)
    return diagnose(evidence, Matcher(catalogue), language)


def _print(diagnosis: Diagnosis, language: str) -> None:
    from labbook import screen
    from labbook.report.entry.diagnosis_section import headline, spoken
    from labbook.store.templates import words

    said = words(language)["diagnosis"]
    if diagnosis.primary is None:
        click.echo(spoken(said["unsure_line"], reason=diagnosis.unsure or "no failure"), err=True)
        return
    told = [finding for finding in diagnosis.findings if not finding.follows_from]
    follow = [finding for finding in diagnosis.findings if finding.follows_from]
    for number, finding in enumerate(told[:_MOST_SHOWN]):
        if number:
            screen.print_line("")
        _print_finding(finding, said)
        for other in follow:
            if other.follows_from == finding.symptom:
                screen.print_line("  ", f"{said['follows']} ", screen.Cell(headline(other, said), "dim"))
    for finding in told[_MOST_SHOWN:]:
        screen.print_line(f"{said['further']} ", headline(finding, said))


def _print_finding(finding: Finding, said: dict[str, str]) -> None:
    from labbook import screen
    from labbook.report.entry.diagnosis_section import headline, seen_line, spoken, unmarked

    style = "bold red" if finding.severity == "error" else "bold yellow"
    screen.print_line(screen.Cell(headline(finding, said), style))
    where = finding.where
    if where.get("file"):
        place = f"{where['file']}:{where['line']}" if where.get("line") else str(where["file"])
        screen.print_line("  ", screen.Cell(place, "cyan"), f"  {where.get('source') or ''}".rstrip())
    for sentence in finding.evidence:
        screen.print_line("  ", sentence)
    for number, cause in enumerate(finding.causes):
        screen.print_line("  ", screen.Cell(str(said["why" if number == 0 else "else"]), "bold"), " ", unmarked(cause))
    for number, fix in enumerate(finding.fixes, 1):
        lead = str(said["fixes"]) if number == 1 else " " * len(said["fixes"])
        screen.print_line("  ", screen.Cell(lead, "bold"), f" {number}. {unmarked(fix)}")
    for seen in finding.seen_before:
        if seen.fix:
            screen.print_line("  ", screen.Cell(spoken(said["cured_line"], run=seen.run, fix=seen.fix), "green"))
            return
    if finding.seen_before:
        screen.print_line("  ", seen_line(finding, said))
