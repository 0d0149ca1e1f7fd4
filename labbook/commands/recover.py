"""`labbook recover`: finishes the entries of runs whose recorder died."""

from __future__ import annotations

import os
from pathlib import Path

import click

from labbook.commands.options import notebook_option


@click.command(epilog="\b\nExample:\n  labbook recover\n")
@notebook_option
def command(notebook: str | None) -> None:
    """Finish the entries of runs whose recorder died, and commit entries that were withheld.

    Every labbook command does the first; this one says what it found. A run whose command still goes on is left alone.
    An entry is withheld, and not shown on the site, while it may hold a secret: it is looked at again, what may be one
    is masked in the entry and in the files beside it, and the entry is committed. Nothing is lost by running it twice.
    """
    from labbook.record.recover import recover
    from labbook.record.withheld_entries import release_withheld
    from labbook.store.commit import commit_queued
    from labbook.store.notebook import find_notebook

    book = find_notebook(Path.cwd(), chosen=Path(notebook) if notebook else None, environ=os.environ)
    found = recover(book, click.echo)
    committed = [outcome for outcome in commit_queued(book) if outcome.status == "committed"]
    for outcome in committed:
        click.echo(f"committed an entry that had to wait, as {outcome.commit[:9]}")
    released = release_withheld(book, click.echo)
    if not found and not committed and not released:
        click.echo("nothing to recover")
