"""`labbook export`: the notebook as a Parquet data set, a note as a document, the curves of a run as a log."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook import screen
from labbook.commands.options import executor_option, json_option, print_json, with_notebook
from labbook.errors import NotebookError, NothingFoundError, UsageError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences


_LOGS = ("tensorboard", "csv")


@click.command(cls=HelpCommand)
@click.option(
    "--to",
    "form",
    type=click.Choice(["parquet", "html", "pdf", "md", "ipynb", "docx", *_LOGS]),
    help="Format: parquet for the data set, tensorboard or csv for the curves of a run, else a document. Default: the"
    " ending of FILE, or parquet.",
)
@click.option(
    "--output", "-o", metavar="FILE", help="The document, or the file or folder of the curves. Default: its name, here."
)
@executor_option
@json_option
@with_notebook
@click.argument("target")
def command(
    form: str | None, output: str | None, executor: str, as_json: bool, book: Notebook, say: Sentences, target: str
) -> None:
    """Write all runs as Parquet, a note as a document, or curves as a log.

    For a data set, TARGET is a folder or an address such as s3://bucket/runs. The tables are partitioned by month. Runs
    that have not changed since the last export are not read again; edited ones are replaced, deleted ones removed.

    For a document, TARGET is a run ("last", an id or a part of one), a report (2026-W48) or an experiment (exp003). The
    file has its figures inside.

    For TensorBoard or CSV, TARGET is a run; its curves and options are written.
    """
    from labbook.dataset.dataset_export import export
    from labbook.store.paths import is_run_id
    from labbook.store.remote_files import display_address

    if form == "parquet" and output is not None:
        raise UsageError("dataset.output_of_document")
    if form in _LOGS or (form is None and output is not None and output.endswith(".csv")):
        _write_log(book, target, form or "csv", output, as_json)
        return
    if form not in (None, "parquet") or output is not None:
        _write_document(book, target, form, output, as_json)
        return
    if (target == "last" or is_run_id(target)) and not Path(target).exists():
        raise UsageError("dataset.one_run", name=target)
    with screen.progress(say.line("dataset.reading")) as notify:
        try:
            done = export(book, target, executor=executor, notify=notify)
        except ImportError as error:
            raise UsageError("dataset.not_installed", reason=error) from error
    address = display_address(target)
    facts = {"runs": done.runs, "read": done.read, "removed": done.removed, "months": list(done.months)}
    if as_json:
        print_json({"target": address, **facts})
        return
    key = "dataset.exported" if done.months else "dataset.unchanged"
    click.echo(say.line(key, address=address, **{**facts, "months": len(done.months)}))


def _write_document(book: Notebook, target: str, form: str | None, output: str | None, as_json: bool) -> None:
    from labbook.publish.document import write_copy
    from labbook.publish.reports import add_current_runs

    note = _find_note(book, target)
    fill = partial(add_current_runs, book, note.stem) if note.parent == book.paths.experiments else str
    document = write_copy(note, book.paths.root, form, output, fill)
    if as_json:
        print_json({"target": target, "document": document})
    else:
        screen.print_line(screen.Cell(document, "cyan"))


def _write_log(book: Notebook, target: str, form: str, output: str | None, as_json: bool) -> None:
    from labbook.imports.series_export import write_csv, write_tensorboard
    from labbook.index.query import find_run
    from labbook.report.run_data import load_run

    run_id = find_run(book, target).id
    run = load_run(book.paths, run_id)
    if run is None:
        raise NothingFoundError("dataset.no_curves", run=run_id)
    place = Path(output or (f"{run_id}.csv" if form == "csv" else run_id))
    try:
        written = (write_csv if form == "csv" else write_tensorboard)(run, place)
    except OSError as error:
        raise NotebookError("errors.file.not_written", path=place, reason=error.strerror or error) from error
    if as_json:
        print_json({"target": target, "document": str(written)})
    else:
        screen.print_line(screen.Cell(str(written), "cyan"))


def _find_note(book: Notebook, target: str) -> Path:
    """Returns the note of a report, a run or an experiment.

    Raises:
        NothingFoundError: There is none of that name.
        UsageError: Several runs match.
    """
    from labbook.index.query import find_run
    from labbook.store.experiments import find_experiment
    from labbook.store.paths import stays_inside

    report = book.paths.reports / f"{target.removesuffix('.md').rsplit('/', 1)[-1]}.md"
    if report.is_file() and stays_inside(report, book.paths.root):
        return report
    try:
        return book.paths.root / find_run(book, target).path
    except NothingFoundError as no_run:
        try:
            return find_experiment(book, target.removesuffix(".md").rsplit("/", 1)[-1]).path
        except UsageError:
            raise NothingFoundError(
                "dataset.no_note", name=target, advice=no_run.advice_key, **no_run.values
            ) from no_run
