"""`labbook new`: creates an experiment and starts it in this folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook.commands.options import json_option, notebook_option, open_notebook, print_json, terminal_sentences
from labbook.errors import NothingFoundError, UsageError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook


@click.command(cls=HelpCommand)
@click.argument("name", required=False)
@click.option(
    "--mode",
    type=click.Choice(["dynamic", "static", "compiled"]),
    default="dynamic",
    help="How the framework executes the model. Default: dynamic.",
)
@click.option("--script", metavar="FILE", help="Assign later runs of this script, and no others, to the experiment.")
@click.option(
    "--template",
    metavar="NAME",
    help="Page to start with: hypothesis (default), ablation, baseline, or one of the notebook.",
)
@click.option("--done", is_flag=True, help="End the experiment that was started in this folder.")
@json_option
@notebook_option
def command(
    name: str | None,
    mode: str,
    script: str | None,
    template: str | None,
    done: bool,
    as_json: bool,
    notebook: str | None,
) -> None:
    """Create an experiment and start it in this folder.

    Writes a page for its goal, hypothesis and conclusion, and prints the id of the experiment, for example
    exp003_digits-cnn_dynamic. The next runs from this folder belong to it until `labbook new --done`, or until another
    experiment is created here. With --script, only runs of that script belong to it, from any folder.
    """
    book = open_notebook(notebook)
    if done:
        if name:
            raise UsageError("errors.experiment.done_takes_no_name")
        _end(book, as_json)
        return
    if not name:
        raise UsageError("errors.experiment.no_name")
    from labbook.store.experiment_creation import new_experiment
    from labbook.store.started_experiment import start_experiment

    slug = new_experiment(book, name, mode=mode, script=script, template=template or "")
    page = book.paths.experiments / f"{slug}.md"
    if script is None:
        start_experiment(book, Path.cwd(), slug)
    if as_json:
        print_json({"experiment": slug, "page": str(page), "mode": mode, "script": script, "started": script is None})
        return
    click.echo(slug)
    say = terminal_sentences(book)
    click.echo(say.line("terminal.new.write_goal", page=str(page)), err=True)
    if script is None:
        click.echo(say.line("terminal.new.started"), err=True)
    else:
        click.echo(say.line("terminal.new.record", experiment=slug.split("_")[0]), err=True)


def _end(book: Notebook, as_json: bool) -> None:
    from labbook.store.started_experiment import end_experiment

    slug = end_experiment(book, Path.cwd())
    if not slug:
        raise NothingFoundError("errors.experiment.none_started")
    if as_json:
        print_json({"experiment": slug, "started": False})
        return
    page = book.paths.experiments / f"{slug}.md"
    click.echo(terminal_sentences(book).line("terminal.new.ended", experiment=slug, page=str(page)))
