"""`labbook fix`: what cured a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from labbook.commands.options import json_option, notebook_option, open_notebook, print_json, run_argument

if TYPE_CHECKING:
    from labbook.fixes.confirm_fix import RecordedFix
    from labbook.store.notebook import Notebook

_EPILOG = """\b
Examples:
  labbook fix last                          # confirm what labbook proposed after the last run
  labbook fix k3f9 --by a1b2                # this run failed, that one does not any more
  labbook fix k3f9 -m "divide the loss by the number of steps"
  labbook fix k3f9 --reject                 # the proposal was not the fix
"""


@click.command(epilog=_EPILOG)
@click.option("--by", default="", metavar="RUN", help="The run that no longer fails.")
@click.option("-m", "--message", default="", help="What the fix was, in your words.")
@click.option("--reject", "rejecting", is_flag=True, help="The proposed, or noted, run was not the fix.")
@json_option
@notebook_option
@run_argument()
def command(by: str, message: str, rejecting: bool, as_json: bool, notebook: str | None, run: str) -> None:
    """Note what cured a failed run, so that it is found when the failure comes back.

    RUN is the run that failed, or the one that labbook proposed as its cure: "last", an id, its beginning or end.
    Without --by it is the proposed run, or the next one of the same script that came past the failure. The fix goes to
    both entries and to the notebook's page of the symptom, in one commit.
    """
    from labbook.errors import UsageError
    from labbook.fixes.confirm_fix import confirm, reject

    if rejecting and message.strip():
        raise UsageError("--reject takes no -m", hint='reject first, then `labbook fix RUN -m "..."`')
    book = open_notebook(notebook)
    written = reject(book, run, by) if rejecting else confirm(book, run, by, message)
    if as_json:
        print_json(_data(book, written))
        return
    _print(book, written)


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
        "files": [path.relative_to(book.paths.root).as_posix() for path in written.files],
        "commit": written.commit.commit,
        "committed": written.commit.status,
    }


def _print(book: Notebook, written: RecordedFix) -> None:
    from labbook import screen

    fix = written.fix
    if written.status == "rejected":
        screen.print_line(f"{fix.by or fix.text} is not the fix of {fix.run}; it is not proposed again")
    else:
        where = f", in {fix.by}" if fix.by else ""
        screen.print_line(screen.Cell("fixed", "green"), f"  {fix.run}: {fix.text}{where}")
    for path in dict.fromkeys(written.files):
        screen.print_line("  ", screen.Cell(path.relative_to(book.paths.root).as_posix(), "cyan"))
    outcome = written.commit
    if outcome.status == "committed":
        branch = outcome.ref.removeprefix("refs/heads/")
        screen.print_line("  ", screen.Cell(f"committed as {outcome.commit[:9]} on {branch}", "dim"))
    elif outcome.status in ("queued", "withheld", "failed"):
        later = "will be committed later" if outcome.status == "queued" else "not committed"
        click.echo(f"labbook: {later}: {outcome.reason}", err=True)
