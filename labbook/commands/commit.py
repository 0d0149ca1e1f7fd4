"""`labbook commit`: commits what people wrote in notes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook.commands.options import with_notebook
from labbook.errors import EntryError, GitError, UsageError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences


@click.command(cls=HelpCommand)
@click.option("-m", "--message", default="", help="Commit message. Default: the names of the notes.")
@with_notebook
@click.argument("notes", nargs=-1, type=click.Path(path_type=Path))
def command(message: str, book: Notebook, say: Sentences, notes: tuple[Path, ...]) -> None:
    """Commit edited notes.

    Commits the given NOTES, or every edited note, to the branch that holds the entries, even when another branch is
    checked out. Your index, staged files and HEAD do not change. A note that you have deleted is deleted there when it
    is named, and at the next `labbook sync` for everybody.

    A note that may contain a secret is not committed. Without NOTES, entries that were withheld because of a secret
    are masked and committed first, as `labbook recover` does.
    """
    from labbook.record.withheld_entries import release_withheld
    from labbook.report.commit_line import commit_line
    from labbook.store.commit.changed_notes import edited_notes, has_conflict
    from labbook.store.commit.entry_commit import commit_files

    released = release_withheld(book, click.echo) if not notes else 0
    files = _expand_paths(book, notes) if notes else edited_notes(book)
    if not files and released:
        return
    if not files:
        click.echo(say.line("terminal.commit.nothing_edited"), err=True)
        return
    for file in files:
        if file.is_file() and has_conflict(file):
            path = book.paths.relative(file)
            raise EntryError("terminal.commit.conflict", path=path)
    names = [book.paths.relative(file) for file in files]
    outcome = commit_files(book, files, message or _message(names))
    if outcome.status == "committed":
        branch = outcome.ref.removeprefix("refs/heads/")
        click.echo(say.line("commit.committed_on", commit=outcome.commit[:9], branch=branch))
    elif outcome.status in ("unchanged", "queued"):
        click.echo(commit_line(outcome, say), err=True)
    elif outcome.status == "withheld":
        raise EntryError("commit.withheld", reason=outcome.cause, advice="terminal.commit.withheld_advice")
    else:
        raise GitError("commit.failed", reason=outcome.cause, advice="terminal.commit.failed_advice")
    for name in names:
        click.echo(f"  {name}")


def _expand_paths(book: Notebook, notes: Sequence[Path]) -> list[Path]:
    """Returns the notes with their full paths, and the files of deleted entries that are deleted on disk, too.

    Raises:
        UsageError: One lies outside the folder, or is neither on disk nor on the branch.
    """
    from labbook.store.commit.branch_checkout import missing_files

    folder, paths = book.paths.notes, []
    missing: list[Path] = []
    for note in notes:
        path = note.resolve()
        if not path.is_relative_to(folder.resolve()):
            raise UsageError("terminal.commit.not_a_note", path=note, folder=folder)
        inside = folder / path.relative_to(folder.resolve())
        paths.append(inside)
        if not path.exists():
            missing = missing or missing_files(book)
            if not any(inside in (file, *file.parents) for file in missing):
                raise UsageError("terminal.commit.no_such_note", path=note)
            paths += [file for file in missing if inside.with_suffix("") in file.parents]
    return paths


def _message(names: Sequence[str]) -> str:
    shown = ", ".join(name.rsplit("/", 1)[-1].removesuffix(".md") for name in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"Notes: {shown}{more}\n"
