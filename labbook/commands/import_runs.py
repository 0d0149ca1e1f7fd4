"""`labbook import`: makes entries of runs of other tools."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from labbook.commands.options import json_option, notebook_option, open_notebook, print_json, terminal_sentences
from labbook.commands.word_completion import complete_experiments
from labbook.help_text import HelpCommand
from labbook.screen import harmless, progress

_FORMATS = ("tensorboard", "visualdl", "mlflow", "wandb", "swanlab", "trackio", "huggingface", "csv")
_SHOWN = 20


@click.command(cls=HelpCommand)
@click.argument("tool", type=click.Choice(_FORMATS), metavar="TOOL")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "-e",
    "--experiment",
    shell_complete=complete_experiments,
    metavar="NAME",
    default="",
    help="Experiment of the runs; created if it is missing. Default: the experiment, project or folder in the tool.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be imported, and write nothing.")
@json_option
@notebook_option
def command(tool: str, path: Path, experiment: str, dry_run: bool, as_json: bool, notebook: str | None) -> None:
    """Import runs of TensorBoard, MLflow, W&B and others.

    TOOL is tensorboard, visualdl, mlflow, wandb, swanlab, trackio, huggingface or csv.

    Each run in PATH, a file or a folder, becomes an entry with its parameters, curves, texts, images, tags and times.
    Health checks run on the curves as far as they can.

    Importing the same path again adds new runs, updates those that have grown, and changes nothing else. Text that you
    wrote in an entry is preserved. The tool itself need not be installed.
    """
    from labbook.imports.batch_import import import_runs
    from labbook.imports.formats import FORMATS

    book = open_notebook(notebook)
    say = terminal_sentences(book)
    with progress(say.line("terminal.import.progress")) as notify:
        done = import_runs(book, FORMATS[tool], path, experiment=experiment, dry_run=dry_run, progress=notify)
    if as_json:
        print_json({**asdict(done), "dry_run": dry_run})
        return
    counts = {action: sum(run.action == action for run in done.runs) for action in ("added", "updated", "unchanged")}
    changed = [run for run in done.runs if run.action != "unchanged"]
    for run in changed[:_SHOWN]:
        click.echo(harmless(f"  {run.id}  {run.title}"))
    if len(changed) > _SHOWN:
        click.echo("  " + say.line("terminal.problems.more", count=len(changed) - _SHOWN))
    for place, reason in done.problems[:_SHOWN]:
        line = say.line("terminal.import.problem", path=place, reason=reason)
        click.echo(f"labbook: {harmless(line)}", err=True)
    for cause in done.uncommitted:
        click.echo(f"labbook: {say.line('terminal.import.uncommitted', reason=cause)}", err=True)
    click.echo(
        say.line(
            "terminal.import.would" if dry_run else "terminal.import.done",
            added=counts["added"],
            updated=counts["updated"],
            unchanged=counts["unchanged"],
        )
    )
    if book.personal and changed:
        click.echo(f"labbook: {say.line('record.personal', notebook=harmless(str(book.paths.root)))}", err=True)
    if not done.runs:
        click.get_current_context().exit(1)
