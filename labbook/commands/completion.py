"""`labbook completion`: prints the line that enables shell completion."""

from __future__ import annotations

import click

from labbook.help_text import HelpCommand

_LINES = {
    "bash": 'eval "$(_LABBOOK_COMPLETE=bash_source labbook)"',
    "zsh": 'eval "$(_LABBOOK_COMPLETE=zsh_source labbook)"',
    "fish": "_LABBOOK_COMPLETE=fish_source labbook | source",
}
_EPILOG = """\b
Examples:
  labbook completion bash >> ~/.bashrc
  labbook completion zsh >> ~/.zshrc
  labbook completion fish > ~/.config/fish/completions/labbook.fish
"""


@click.command(cls=HelpCommand, epilog=_EPILOG)
@click.argument("shell", type=click.Choice(sorted(_LINES)))
def command(shell: str) -> None:
    """Print the line that enables shell completion.

    Add the line to the start-up file of your shell. Commands, options and run ids are then completed with Tab.
    """
    click.echo(_LINES[shell])
