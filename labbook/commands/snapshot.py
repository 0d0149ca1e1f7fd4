"""`labbook snapshot`: keeps what brings a run back."""

from __future__ import annotations

import sys

import click

from labbook import screen
from labbook.commands.options import notebook_option, open_notebook, run_argument, terminal_sentences
from labbook.help_text import HelpCommand


@click.command(cls=HelpCommand)
@click.option("--which", type=click.Choice(["best", "last"]), help="Checkpoint to keep. Default: best.")
@click.option("--note", default="", metavar="TEXT", help="A sentence for the entry.")
@notebook_option
@run_argument()
def command(which: str | None, note: str, notebook: str | None, run: str) -> None:
    """Keep a checkpoint of a run with the files needed to restore it.

    Keeps the checkpoint that the program calls the best, or the last one, with the recorded packages, patch,
    configuration files and executed notebook, and adds them to the entry. A checkpoint that was changed since the run
    is not kept. Exits with status 1 if the run has left no checkpoint.
    """
    from labbook.record.run_snapshot import snapshot_recorded_run
    from labbook.report.numbers import size
    from labbook.rerun.rerun_run import read_run

    book = open_notebook(notebook)
    say = terminal_sentences(book)
    made, _ = snapshot_recorded_run(book, read_run(book, run), which or "best", note.strip())
    kept = [one for one in made.artifacts if one.via == "snapshot"]
    for one in kept:
        place = one.hex[:12] or say(one.reason)
        click.echo(f"  {screen.harmless(one.name)}  {size(one.size_bytes)}  {place}")
    total = size(sum(one.size_bytes for one in kept if one.digest))
    click.echo(say.line("terminal.snapshot.kept", run=made.id, count=sum(bool(one.digest) for one in kept), size=total))
    if not made.captured["snapshot"]["checkpoint"]:
        click.echo(say.line("terminal.snapshot.no_checkpoint"), err=True)
    if book.config.artifact_store:
        from labbook.artifacts.upload import start_upload

        start_upload(book)
    sys.exit(0 if made.captured["snapshot"]["checkpoint"] else 1)
