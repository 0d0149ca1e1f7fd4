"""`labbook move`: moves a run to another notebook."""

from __future__ import annotations

import click

from labbook.commands.options import (
    json_option,
    notebook_option,
    open_notebook,
    print_json,
    run_argument,
    terminal_sentences,
)
from labbook.help_text import HelpCommand


@click.command(cls=HelpCommand)
@click.option("--to", "target", required=True, metavar="PATH", help="Notebook that gets the run.")
@json_option
@notebook_option
@run_argument(required=True)
def command(target: str, as_json: bool, notebook: str | None, run: str) -> None:
    """Move a run to another notebook.

    The entry, its figures and its data are written and committed in the other notebook first, then removed here by a
    commit. The page of its experiment is copied if the other notebook lacks it. After an interruption, the same
    command finishes the move.

    Runs that are going on, that are withheld, or that have kept files are not moved.
    """
    from labbook.report.commit_line import commit_line
    from labbook.sharing.move_run import move_run

    book = open_notebook(notebook)
    other = open_notebook(target)
    moved = move_run(book, run, other)
    root = str(other.paths.root)
    if as_json:
        commits = {"added": moved.added.commit or None, "removed": moved.removed.commit or None}
        print_json({"run": moved.run, "to": root, "files": moved.files, "experiment": moved.experiment, **commits})
        return
    say = terminal_sentences(book)
    click.echo(say.line("sync.move.done", run=moved.run, target=root))
    if moved.experiment:
        click.echo("  " + say.line("sync.move.also", experiment=moved.experiment))
    if moved.other:
        click.echo("  " + say.line("sync.move.kept", run=moved.run, other=moved.other))
    for failed in moved.fixed:
        click.echo("  " + say.line("sync.move.fixed", run=moved.run, failed=failed))
    if moved.removed.status == "queued":
        click.echo(f"labbook: {commit_line(moved.removed, say)}", err=True)
