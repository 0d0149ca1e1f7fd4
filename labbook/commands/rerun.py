"""`labbook rerun`: runs a recorded run again."""

from __future__ import annotations

import sys

import click

from labbook.commands.options import (
    message_printer,
    notebook_option,
    open_notebook,
    print_recorder_line,
    run_argument,
    terminal_sentences,
)
from labbook.help_text import HelpCommand


@click.command(cls=HelpCommand)
@click.option(
    "--rebuild",
    is_flag=True,
    help="Run in the recorded container image, or with the recorded packages installed again.",
)
@click.option("--incomplete", is_flag=True, help="Run it although the entry lacks a part of its code.")
@click.option("--keep", is_flag=True, help="Keep the worktree.")
@notebook_option
@run_argument()
@click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS]...")
def command(rebuild: bool, incomplete: bool, keep: bool, notebook: str | None, run: str, more: tuple[str, ...]) -> None:
    """Run a recorded run again and record it.

    The recorded commit is checked out in a worktree of its own, with the recorded patch and new files; your checkout is
    not touched. Inputs outside git are linked from where the run was recorded, and compared by fingerprint. ARGUMENTS
    are added to the command. labbook exits with the exit status of the command.
    """
    from labbook.rerun.rerun_run import RerunRequest, read_run, rerun

    book = open_notebook(notebook)
    say = terminal_sentences(book)

    request = RerunRequest(more, incomplete=incomplete, rebuild=rebuild, keep=keep)
    done = rerun(book, read_run(book, run), request, print_line=print_recorder_line, notify=message_printer(say))
    sys.exit(done.code)
