"""`labbook completion`: prints the line that enables shell completion."""

from __future__ import annotations

import click

from labbook.help_text import HelpCommand

_LINES = {
    "bash": 'eval "$(_LABBOOK_COMPLETE=bash_source labbook)"',
    "zsh": 'eval "$(_LABBOOK_COMPLETE=zsh_source labbook)"',
    "fish": "_LABBOOK_COMPLETE=fish_source labbook | source",
}


@click.command(cls=HelpCommand)
@click.argument("shell", type=click.Choice(sorted(_LINES)))
def command(shell: str) -> None:
    """Print the line that enables shell completion.

    Add the line to the start-up file of your shell. Commands, options, runs,
    experiments, symptoms and the keys of a query are then completed with Tab.
    """
    click.echo(_LINES[shell])
