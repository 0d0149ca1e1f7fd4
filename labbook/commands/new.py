"""`labbook new`: creates an experiment."""

from __future__ import annotations

import click

from labbook.commands.options import json_option, notebook_option, open_notebook, print_json, terminal_sentences
from labbook.help_text import HelpCommand

_EPILOG = """\b
Examples:
  labbook new "digits cnn"
  labbook new "学习率扫描" --script train.py    # later runs of train.py belong to it
  labbook record -e exp003 -- python train.py
"""


@click.command(cls=HelpCommand, epilog=_EPILOG)
@click.argument("name")
@click.option(
    "--mode",
    type=click.Choice(["dynamic", "static", "compiled"]),
    default="dynamic",
    help="How the framework executes the model. Default: dynamic.",
)
@click.option("--script", metavar="FILE", help="Assign later runs of this script to the experiment.")
@json_option
@notebook_option
def command(name: str, mode: str, script: str | None, as_json: bool, notebook: str | None) -> None:
    """Create an experiment.

    Writes a page for its goal, hypothesis and conclusion, and prints the id of the experiment, for example
    exp003_digits-cnn_dynamic. Pass the id to `labbook record -e` to add runs to it.
    """
    from labbook.store.experiments import new_experiment

    book = open_notebook(notebook)
    slug = new_experiment(book, name, mode=mode, script=script)
    page = book.paths.experiments / f"{slug}.md"
    if as_json:
        print_json({"experiment": slug, "page": str(page), "mode": mode, "script": script})
        return
    click.echo(slug)
    say = terminal_sentences(book)
    click.echo(say.line("terminal.new.write_goal", page=str(page)), err=True)
    click.echo(say.line("terminal.new.record", experiment=slug.split("_")[0]), err=True)
