"""`labbook new`: starts an experiment."""

from __future__ import annotations

import click

from labbook.commands.options import json_option, notebook_option, open_notebook, print_json

_EPILOG = """\b
Examples:
  labbook new "digits cnn"
  labbook new "学习率扫描" --script train.py      # its runs belong to this experiment from now on
  labbook record -e exp003 -- python train.py
"""


@click.command(epilog=_EPILOG)
@click.argument("name")
@click.option(
    "--mode",
    type=click.Choice(["dynamic", "static", "compiled"]),
    default="dynamic",
    show_default=True,
    help="How the framework executes the model.",
)
@click.option("--script", help="Script whose runs belong to the experiment from now on.")
@json_option
@notebook_option
def command(name: str, mode: str, script: str | None, as_json: bool, notebook: str | None) -> None:
    """Start the experiment NAME: a page for its goal, hypothesis, runs and conclusion.

    Prints its name, which `labbook record --experiment` takes.
    """
    from labbook.store.experiments import new_experiment

    book = open_notebook(notebook)
    slug = new_experiment(book, name, mode=mode, script=script)
    page = book.paths.experiments / f"{slug}.md"
    if as_json:
        print_json({"experiment": slug, "page": str(page), "mode": mode, "script": script})
        return
    click.echo(slug)
    click.echo(f"write down its goal and hypothesis in {page}", err=True)
