"""`labbook commit`: commits what people wrote in notes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from labbook.commands.options import notebook_option, open_notebook

_EPILOG = """\b
Examples:
  labbook commit                       # every note that was edited
  labbook commit -m "conclusion of the sweep" notes/experiments/exp003_sweep_dynamic.md
"""


@click.command(epilog=_EPILOG)
@click.option("-m", "--message", default="", help="Message of the commit.")
@notebook_option
@click.argument("notes", nargs=-1, type=click.Path(exists=True, path_type=Path))
def command(message: str, notebook: str | None, notes: tuple[Path, ...]) -> None:
    """Commit what you wrote in notes: goals, observations, conclusions.

    Commits exactly these notes, or all edited ones, where the entries are committed, also on a branch that is not
    checked out. Index, staged files and HEAD stay as they are. A note that may hold a secret is not committed; entries
    that were withheld for that reason are masked and committed first, as by `labbook recover`.
    """
    from labbook.errors import EntryError, GitError
    from labbook.record.withheld_entries import release_withheld
    from labbook.store.changed_notes import edited_notes
    from labbook.store.commit import commit_files

    book = open_notebook(notebook)
    released = release_withheld(book, click.echo) if not notes else 0
    files = _below(book.paths.notes, notes) if notes else edited_notes(book)
    if not files and released:
        return
    if not files:
        click.echo("no note was edited since it was committed", err=True)
        return
    names = [file.relative_to(book.paths.root).as_posix() for file in files]
    outcome = commit_files(book, files, message or _message(names))
    if outcome.status == "committed":
        click.echo(f"committed as {outcome.commit[:9]} on {outcome.ref.removeprefix('refs/heads/')}")
    elif outcome.status == "unchanged":
        click.echo("already committed", err=True)
    elif outcome.status == "withheld":
        raise EntryError(
            f"nothing was committed: {outcome.reason}",
            hint="mask it by hand (`labbook redact FILE` shows how), or write it into `allow` of `redact_rules`",
        )
    elif outcome.status == "queued":
        click.echo(f"will be committed later: {outcome.reason}", err=True)
    else:
        raise GitError(f"not committed: {outcome.reason}", hint="`labbook doctor` says what works here")
    for name in names:
        click.echo(f"  {name}")


def _below(folder: Path, notes: Sequence[Path]) -> list[Path]:
    """The notes with their full paths.

    Raises:
        UsageError: One lies elsewhere.
    """
    from labbook.errors import UsageError

    found = []
    for note in notes:
        path = note.resolve()
        if not path.is_relative_to(folder.resolve()):
            raise UsageError(f"{note} is no note of this notebook", hint=f"notes lie in {folder}")
        found.append(folder / path.relative_to(folder.resolve()))
    return found


def _message(names: Sequence[str]) -> str:
    shown = ", ".join(name.rsplit("/", 1)[-1].removesuffix(".md") for name in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"Notes: {shown}{more}\n"
