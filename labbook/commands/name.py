"""`labbook name`: gives a run a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from labbook.commands.options import json_option, print_json, run_argument, with_notebook
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences


@click.command(cls=HelpCommand)
@json_option
@with_notebook
@run_argument(required=True)
@click.argument("name")
def command(as_json: bool, run: str, name: str, book: Notebook, say: Sentences) -> None:
    """Give a run a name.

    NAME replaces the name of the script in the title of the entry, in lists and on the site; words of it are found by
    `labbook list` and `labbook search`. An empty NAME gives the script back. The id and the address of the entry stay.

    RUN is "last", an id, or the first or last characters of an id. A run that is going on cannot be named.
    """
    from labbook.report.commit_line import commit_line
    from labbook.sharing.name_run import name_run

    run_id, title, outcome = name_run(book, run, name)
    if as_json:
        print_json({"run": run_id, "title": title, "commit": outcome.commit or None, "committed": outcome.status})
        return
    click.echo(f"{run_id}  {title}")
    if outcome.status == "queued":
        click.echo(f"labbook: {commit_line(outcome, say)}", err=True)
