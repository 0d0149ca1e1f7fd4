"""`labbook recover`: finishes the entries of runs whose recorder died."""

from __future__ import annotations

import os
from pathlib import Path

import click

from labbook.commands.options import notebook_option, terminal_sentences, warn_of_settings
from labbook.help_text import HelpCommand


@click.command(cls=HelpCommand)
@notebook_option
def command(notebook: str | None) -> None:
    """Finish interrupted entries and release withheld ones.

    Writes the entries of runs whose recorder was killed, for example by a reboot; every other labbook command does
    this, too. Runs that are still going on are not touched.

    An entry that may contain a secret is withheld: neither committed nor shown on the site. This command scans it
    again, masks what it finds in the entry and its files, and commits it. Running it twice does no harm.
    """
    from labbook.record.jobs.part_entries import join_jobs
    from labbook.record.recovery import recover
    from labbook.record.withheld_entries import release_withheld
    from labbook.store.commit.entry_commit import commit_queued
    from labbook.store.journal import remove_drafts
    from labbook.store.notebook_finder import find_notebook

    book = find_notebook(Path.cwd(), chosen=Path(notebook) if notebook else None, environ=os.environ)
    warn_of_settings(book)
    say = terminal_sentences(book)
    recovered = recover(book, click.echo)
    joined = join_jobs(book)
    for run_id in joined:
        click.echo(say.line("terminal.recover.joined", run=run_id))
    committed = [outcome for outcome in commit_queued(book) if outcome.status == "committed"]
    for outcome in committed:
        click.echo(say.line("terminal.recover.queued_committed", commit=outcome.commit[:9]))
    remove_drafts(book.paths.notes)
    released = release_withheld(book, click.echo)
    if not recovered and not joined and not committed and not released:
        click.echo(say.line("terminal.recover.nothing"))
