"""`labbook artifact`: lists, gets, verifies, uploads and prunes the files that runs have kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labbook import screen
from labbook.commands.options import (
    json_option,
    notebook_option,
    open_notebook,
    print_json,
    terminal_sentences,
    with_notebook,
)
from labbook.errors import NothingFoundError, UsageError
from labbook.help_text import HelpGroup
from labbook.screen import harmless

if TYPE_CHECKING:
    from labbook.artifacts.inventory import KeptFile, VerifyResult
    from labbook.artifacts.upload import UploadState
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences


_PLACES = {"local": "terminal.artifact.place_local", "store": "terminal.artifact.place_store"}
_STATES = {
    "missing": "terminal.artifact.missing",
    "damaged": "terminal.artifact.damaged",
    "unreadable": "terminal.artifact.unreadable",
}


@click.group(cls=HelpGroup)
def command() -> None:
    """Manage the files that runs have kept.

    Kept files are stored once for each content, outside git, and linked from the entries of their runs.
    """


@command.command("list")
@json_option
@with_notebook
@click.argument("run", default="")
def list_command(run: str, as_json: bool, book: Notebook, say: Sentences) -> None:
    """List kept files.

    Shows the kept files of RUN, or of all runs, with their places, and how far the upload to the store is. Exits with
    status 1 if there are none.
    """
    from labbook.artifacts.inventory import list_kept
    from labbook.artifacts.upload import upload_state
    from labbook.index.query import find_run

    kept = list_kept(book, find_run(book, run).id if run else "")
    state = upload_state(book)
    if as_json:
        print_json({"files": [_data(file) for file in kept], "upload": vars(state)})
    if not kept:
        raise NothingFoundError("terminal.artifact.none")
    if not as_json:
        _print_list(kept, say)
        _print_state(book, state, say)


@command.command()
@click.option("--to", "target", type=click.Path(path_type=Path), metavar="PATH", help="Write to this file or folder.")
@notebook_option
@click.argument("run")
@click.argument("name", default="")
def get(run: str, name: str, target: Path | None, notebook: str | None) -> None:
    """Write a kept file to disk.

    RUN is a run or the first characters of a digest, NAME the name or path of the file, which may be omitted if the
    run has one kept file, or a folder in the names, such as snapshot, for all files in it. The digest is checked.
    Without --to, writes to the working folder. Never replaces a file.
    """
    from labbook.artifacts.inventory import find_file, find_files, get_file, get_files

    book = open_notebook(notebook)
    below = find_files(book, run, name)
    if below:
        for path in get_files(book, below, name, target or Path()):
            click.echo(str(path))
        return
    file = find_file(book, run, name)
    place = target or Path()
    if place.is_dir():
        place = place / (Path(file.artifact.path).name or file.hex[:12])
    get_file(book, file, place)
    click.echo(str(place))


@command.command()
@json_option
@with_notebook
@click.argument("run", default="")
@click.pass_context
def verify(context: click.Context, run: str, as_json: bool, book: Notebook, say: Sentences) -> None:
    """Read kept files again and compare their digests.

    Names what is missing or damaged, with its run, for RUN or for all runs. Exits with status 1 if a file is not as it
    was kept.
    """
    from labbook.artifacts.inventory import verify_kept
    from labbook.index.query import find_run

    with screen.progress(say.line("terminal.artifact.verifying")) as notify:
        results = verify_kept(book, find_run(book, run).id if run else "", notify)
    bad = [result for result in results if result.state != "ok"]
    if as_json:
        print_json([_verification_data(result) for result in results])
    else:
        _print_verified(bad, len(results), say)
    context.exit(1 if bad else 0)


@command.command()
@json_option
@notebook_option
@click.pass_context
def push(context: click.Context, as_json: bool, notebook: str | None) -> None:
    """Upload kept files to the store now.

    Uploads what waits for its upload, reads it back, and removes the local copies. After a run, labbook does this in
    the background. Exits with status 1 if something could not be uploaded.
    """
    from labbook.artifacts.upload import upload_pending, upload_state

    book = open_notebook(notebook, resume_upload=False)
    say = terminal_sentences(book)
    if not book.config.artifact_store.strip():
        raise UsageError("terminal.artifact.no_store")
    before = upload_state(book)

    def notify(digest: str, number: int, count: int) -> None:
        if digest and not as_json:
            click.echo(say.line("terminal.artifact.uploading", number=number + 1, total=count, digest=digest[:12]))

    state = upload_pending(book, notify)
    if as_json:
        print_json(vars(state))
    else:
        click.echo(say.line("terminal.artifact.uploaded", count=max(0, before.pending - state.pending)))
        _print_state(book, state, say)
    context.exit(1 if state.error else 0)


@command.command()
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@json_option
@with_notebook
def prune(dry_run: bool, as_json: bool, book: Notebook, say: Sentences) -> None:
    """Remove kept files that no entry names.

    Prints each file that it removes: those on this machine, and in the store those that this copy of the notebook has
    uploaded. Files that others uploaded are never removed, nor files of the last hour. Before pruning a store that a
    team shares, get the entries of the others.
    """
    from labbook.artifacts.inventory import find_unnamed, remove_unnamed
    from labbook.report.numbers import size

    found = find_unnamed(book)
    if not as_json:
        for one in found:
            place = say.line(_PLACES[one.place])
            click.echo(f"{one.digest[:12]}  {size(one.size):>9}  {place}")
    if not dry_run:
        remove_unnamed(book, found)
    if as_json:
        print_json({"removed": not dry_run, "files": [vars(one) for one in found]})
        return
    key = "terminal.artifact.would_prune" if dry_run else "terminal.artifact.pruned"
    click.echo(say.line(key, count=len(found), size=size(sum(one.size for one in found))))


def _data(file: KeptFile) -> dict[str, Any]:
    return {"run": file.run, **vars(file.artifact), "place": file.place or None}


def _verification_data(result: VerifyResult) -> dict[str, Any]:
    files = [{"run": file.run, "path": file.artifact.path} for file in result.files]
    return {"digest": result.digest, "state": result.state, "detail": result.detail, "files": files}


def _print_list(kept: Sequence[KeptFile], say: Sentences) -> None:
    from labbook.report.numbers import size

    columns = [
        screen.Column(say.line("terminal.columns.run"), keep=9),
        screen.Column(say.line("terminal.columns.name"), flexible=True, keep=8),
        screen.Column(say.line("terminal.columns.size"), right=True, keep=7),
        screen.Column("SHA-256", keep=8),
        screen.Column(say.line("terminal.columns.place"), keep=6),
    ]
    rows: list[list[screen.Cell | str]] = []
    for file in kept:
        artifact = file.artifact
        place = say.line(_PLACES[file.place]) if file.place else ""
        note = say(artifact.reason)
        rows.append(
            [
                screen.Cell(file.run, "bold"),
                artifact.name,
                size(artifact.size_bytes),
                screen.Cell(file.hex[:12], "dim"),
                "; ".join(part for part in (place, note) if part),
            ]
        )
    screen.print_table(columns, rows)


def _print_state(book: Notebook, state: UploadState, say: Sentences) -> None:
    from labbook.report.numbers import size
    from labbook.store.git.remotes import credential_free

    if not book.config.artifact_store.strip():
        return
    store = credential_free(book.config.artifact_store)
    if state.pending:
        key = "terminal.artifact.running" if state.running else "terminal.artifact.waiting"
        click.echo(say.line(key, count=state.pending, size=size(state.pending_bytes), store=store), err=True)
    if state.error:
        click.echo(say.line("terminal.artifact.failed", error=state.error), err=True)


def _print_verified(bad: Sequence[VerifyResult], count: int, say: Sentences) -> None:
    for result in bad:
        for file in result.files:
            name = harmless(file.artifact.name)
            state = say.line(_STATES[result.state], detail=harmless(result.detail))
            click.echo(f"{result.digest[:12]}  {file.run}  {name}: {state}")
    click.echo(say.line("terminal.artifact.verified", good=count - len(bad), count=count), err=True)
