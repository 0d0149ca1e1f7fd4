"""`labbook fix`: records what fixed a failed run."""

from __future__ import annotations

import sys
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
from labbook.errors import UsageError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.fixes.confirm_fix import RecordedFix
    from labbook.store.notebook import Notebook


@click.command(cls=HelpCommand)
@click.option("--by", default="", metavar="RUN", help="Run that no longer fails.")
@click.option("-m", "--message", default="", help="Description of the fix. Default: what differs between the two runs.")
@click.option("--yes", "-y", is_flag=True, help="Confirm without asking for a description.")
@click.option("--reject", "rejecting", is_flag=True, help="Withdraw the proposed or confirmed fix.")
@json_option
@notebook_option
@run_argument()
def command(by: str, message: str, yes: bool, rejecting: bool, as_json: bool, notebook: str | None, run: str) -> None:
    """Record what fixed a failed run.

    The next run with the same failure is shown this fix. RUN is the failed run, or the run that labbook proposed as
    its fix: "last", an id, or the first or last characters of an id.

    Without --by, the fix is the proposed run, else the next run of the same script that got past the failure. The fix
    is written to both entries and to the symptom page of the notebook, in one commit.

    On a terminal, shows what differs and asks for one sentence on what was changed, unless -m or --yes is given.
    """
    from labbook.fixes.confirm_fix import confirm, reject

    if rejecting and message.strip():
        raise UsageError("errors.fix.reject_with_text")
    book = open_notebook(notebook)
    if not (message.strip() or yes or rejecting or as_json) and sys.stdin.isatty() and sys.stdout.isatty():
        message = _ask(book, run, by)
    written = reject(book, run, by) if rejecting else confirm(book, run, by, message)
    if as_json:
        print_json(_data(book, written))
        return
    _print(book, written)


def _ask(book: Notebook, run: str, by: str) -> str:
    """Shows the proposal and returns the sentence that the user types; "" for what differs, as shown."""
    from labbook.fixes.confirm_fix import preview
    from labbook.report.entry.fix_section import list_differences

    say = terminal_sentences(book)
    fix = preview(book, run, by)
    screen.print_line(say.line("terminal.fix.proposed", run=fix.run, by=fix.by))
    for line in list_differences(fix.changes, book.config.language_in_use()):
        screen.print_line("  ", line)
    answer = click.prompt(say.line("terminal.fix.question"), default=fix.text, prompt_suffix=" ")
    return "" if answer == fix.text else str(answer)


def _data(book: Notebook, written: RecordedFix) -> dict[str, object]:
    fix = written.fix
    return {
        "status": written.status,
        "run": fix.run,
        "by": fix.by or None,
        "text": fix.text,
        "symptoms": list(fix.symptoms),
        "changes": [
            {"kind": c.kind, "what": c.what, "before": c.before, "now": c.now, "detail": c.detail} for c in fix.changes
        ],
        "diff": fix.diff,
        "files": [book.paths.relative(path) for path in written.files],
        "commit": written.commit.commit,
        "committed": written.commit.status,
    }


def _print(book: Notebook, written: RecordedFix) -> None:
    from labbook.report.commit_line import commit_line

    say = terminal_sentences(book)
    fix = written.fix
    if written.status == "rejected":
        screen.print_line(say.line("terminal.fix.rejected", fix=fix.by or fix.text, run=fix.run))
    else:
        key = "terminal.fix.fixed_in" if fix.by else "terminal.fix.fixed"
        sentence = say.line(key, run=fix.run, fix=fix.text, by=fix.by)
        screen.print_line(screen.Cell(say.line("terminal.fix.done"), "green"), f"  {sentence}")
    for path in dict.fromkeys(written.files):
        screen.print_line("  ", screen.Cell(book.paths.relative(path), "cyan"))
    outcome = written.commit
    if outcome.status == "committed":
        branch = outcome.ref.removeprefix("refs/heads/")
        line = say.line("commit.committed_on", commit=outcome.commit[:9], branch=branch)
        screen.print_line("  ", screen.Cell(line, "dim"))
    elif outcome.status in ("queued", "withheld", "failed"):
        click.echo(f"labbook: {commit_line(outcome, say)}", err=True)
