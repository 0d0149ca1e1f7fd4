"""`labbook completion`: the line that switches shell completion on."""

from __future__ import annotations

import click

_LINES = {
    "bash": 'eval "$(_LABBOOK_COMPLETE=bash_source labbook)"',
    "zsh": 'eval "$(_LABBOOK_COMPLETE=zsh_source labbook)"',
    "fish": "_LABBOOK_COMPLETE=fish_source labbook | source",
}


@click.command(epilog="\b\nExample:\n  labbook completion bash >> ~/.bashrc\n")
@click.argument("shell", type=click.Choice(sorted(_LINES)))
def command(shell: str) -> None:
    """Print the line that switches shell completion on."""
    click.echo(_LINES[shell])
