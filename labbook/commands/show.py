"""`labbook show`: the entry of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from labbook import screen
from labbook.commands.options import (
    json_option,
    notebook_option,
    open_notebook,
    print_json,
    run_argument,
    terminal_sentences,
)
from labbook.errors import NothingFoundError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.model.entry import Entry
    from labbook.model.run import Run
    from labbook.store.notebook import Notebook

_BRIEF_LABEL = 12
_BRIEF_LINES = 24


@click.command(cls=HelpCommand)
@json_option
@click.option("--section", metavar="HEADING", help="Show only the sections whose heading begins with HEADING.")
@click.option("--brief", is_flag=True, help="Show a summary of one screen: verdict, finding, fix, metrics, changes.")
@click.option("--raw", is_flag=True, help="Print the Markdown source. Default if the output is not a terminal.")
@notebook_option
@run_argument()
def command(as_json: bool, section: str | None, brief: bool, raw: bool, notebook: str | None, run: str) -> None:
    """Show the entry of a run.

    RUN is "last" (default), an id, the first or last characters of an id, or the path of an entry. --json prints all
    recorded data of the run. An entry longer than the terminal opens in your pager (PAGER, else less). Of a run that
    goes on, it shows what was recorded so far: metrics, health checks and output.
    """
    from labbook.index.query import find_run
    from labbook.report.run_data import load_run, run_data
    from labbook.report.terminal_page import strip_markup

    book = open_notebook(notebook)
    entry = find_run(book, run)
    running = None
    if entry.meta.get("status") == "running":
        from labbook.record.running_run import look_at_running

        running = look_at_running(book, entry)
    if as_json:
        print_json(run_data(entry, running or load_run(book.paths, entry.id), _commit_of(book, entry.id)))
        return
    if brief:
        _print_brief(book, entry, running)
        return
    text = (book.paths.root / entry.path).read_text(encoding="utf-8", errors="replace")
    if running is not None:
        from labbook.report.entry.entry_page import entry_markdown

        text = entry_markdown(running, book, text)
    if section is not None:
        text = _section(text, section, entry.id)
    if raw or not screen.is_terminal():
        click.echo(screen.harmless(text), nl=False)
        return
    screen.print_line(screen.Cell(entry.path, "dim"))
    screen.print_markdown(strip_markup(text), paged=True)


def _print_brief(book: Notebook, entry: Entry, running: Run | None) -> None:
    """Prints a summary; on a terminal a long text is cut in its middle."""
    from functools import cache, partial
    from shutil import get_terminal_size

    from labbook.index.query import list_notes
    from labbook.report.entry.entry_front_matter import entry_meta
    from labbook.report.entry.section_limits import shorten_middle
    from labbook.report.run_data import load_run
    from labbook.report.run_row import run_row
    from labbook.report.terminal_brief import brief_lines
    from labbook.store.experiments import metric_goal

    if running is not None:
        entry = replace(entry, meta=entry_meta(running, running.title, entry.meta))
    goals = cache(partial(metric_goal, book))
    row = run_row(entry, goals)
    others = list_notes(book, f"experiment:{row.experiment}").entries if row.experiment else ()
    run = running or load_run(book.paths, entry.id)
    lines = brief_lines(entry, row, run, [run_row(one, goals) for one in others], terminal_sentences(book))
    room = get_terminal_size().columns - _BRIEF_LABEL
    for label, text in lines[:_BRIEF_LINES]:
        lead = label + " " * (_BRIEF_LABEL - screen.display_width(label))
        if screen.is_terminal():
            text = shorten_middle(text, room * len(text) // max(1, screen.display_width(text)))
        screen.print_line(screen.Cell(lead, "dim"), text)


def _section(text: str, wanted: str, run: str) -> str:
    from labbook.report.terminal_page import sections

    there = sections(text)
    found = [content for heading, content in there if heading.casefold().startswith(wanted.casefold().lstrip("# "))]
    if not found:
        headings = ", ".join(heading for heading, _ in there)
        raise NothingFoundError("terminal.show.no_section", run=run, section=wanted, headings=headings)
    return "\n".join(found)


def _commit_of(book: Notebook, run_id: str) -> str:
    """Returns the commit of the entry: as noted when it was made, else the latest one in git that changed it."""
    from labbook.store.commit.git_history import last_commit
    from labbook.store.journal import Journal
    from labbook.store.paths import is_run_id

    if not is_run_id(run_id):
        return ""
    journal = Journal(book.paths.journal(run_id))
    noted = str(journal.read(journal.paths.done).get("commit") or "")
    return noted or last_commit(book, book.paths.entry(run_id))
