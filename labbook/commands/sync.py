"""`labbook sync`: shares the notebook through a git remote."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from labbook import screen
from labbook.commands.options import json_option, notebook_option, open_notebook, print_json, terminal_sentences
from labbook.errors import GitError, LabbookError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from labbook.sharing.remote_git import Remote
    from labbook.sharing.synchronize import SyncResult
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences

_REST = 50
"""With --watch: rest after a look for changes, as a multiple of the time that the look took; 2 % of a core. Source:
chosen by us; a look at 10,000 notes takes 30 ms."""


@click.command(cls=HelpCommand)
@click.option("--remote", "remote_name", default="", metavar="NAME", help="Remote to share with. Default: origin.")
@click.option(
    "--watch", "watching", is_flag=True, help="Keep running: share after each change, and fetch those of others."
)
@click.option(
    "--every",
    metavar="SECONDS",
    default=60.0,
    type=click.FloatRange(min=1),
    help="With --watch: seconds between two fetches of the entries of others. Default: 60.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    default=60.0,
    type=click.FloatRange(min=0.1),
    help="Give up when the remote is silent for this long. Default: 60.",
)
@click.option(
    "--rewritten",
    type=click.Choice(["keep", "follow"]),
    help="After a force-push: share removed files again (keep), or remove them here too (follow).",
)
@click.option("--quiet", "-q", is_flag=True, help="Print problems only, and never ask for a password.")
@click.option("--background", is_flag=True, help="Share once; the next command prints a failure. Used after a run.")
@json_option
@notebook_option
def command(
    remote_name: str,
    watching: bool,
    every: float,
    timeout: float,
    rewritten: str | None,
    quiet: bool,
    background: bool,
    as_json: bool,
    notebook: str | None,
) -> None:
    """Share the notebook with others through a git remote.

    Commits edited notes, fetches the entries and notes of others, merges, and sends yours. Your branch, index and
    working tree do not change. Where two people changed the same lines of a note, both versions stay in it.

    Any git remote works. Git asks for passwords itself; labbook stores none.
    """
    from labbook.sharing.remote_git import choose_remote

    book = open_notebook(notebook)
    if background:
        _sync_in_background(book, timeout)
        return
    remote = choose_remote(book, remote_name, timeout_s=timeout, quiet=quiet)

    def sync_once() -> SyncResult:
        result = _share(remote, rewritten or "")
        if as_json:
            print_json(_data(result, remote))
        else:
            # With --watch, only news is worth a line.
            is_news = bool(result.sent_files or result.received_files)
            _print(result, book, quiet or (watching and not is_news))
        return result

    if watching:
        _watch(remote, sync_once, every, terminal_sentences(book), quiet)
    else:
        sync_once()


def _share(remote: Remote, rewritten: str) -> SyncResult:
    """Shares, and once more if entries of the nodes of one job have come together and were joined."""
    from labbook.sharing.synchronize import synchronize

    result = synchronize(remote, rewritten=rewritten)
    if result.parts:
        from labbook.record.jobs.part_entries import join_jobs

        if join_jobs(remote.notebook, is_complete=True):
            again = synchronize(remote, rewritten=rewritten)
            return replace(result, commit=again.commit, sent_files=result.sent_files + again.sent_files)
    return result


def _sync_in_background(book: Notebook, timeout: float) -> None:
    """Shares once; a failure is printed by the next command of the user."""
    from labbook.sharing.remote_git import choose_remote
    from labbook.store.commit.sync_state import update_state

    try:
        result = _share(choose_remote(book, timeout_s=timeout, quiet=True), "")
        click.echo(f"{result.commit} {result.remote}")
    except LabbookError as error:
        update_state(book, error=error.message, advice=error.hint, failure=error.as_data(), printed=False)
        click.echo(error.message)


def _watch(remote: Remote, once: Callable[[], SyncResult], every: float, say: Sentences, quiet: bool) -> None:
    """Shares after each change of the branch or of a note, and at the given interval, until Ctrl-C."""
    from labbook.sharing.follow_remote import change_mark

    if not quiet:
        click.echo(say.line("sync.watching", remote=remote.name, seconds=f"{every:g}"), err=True)
    while True:
        try:
            once()
        except GitError as error:
            screen.print_error(*say.error(error))
        mark, deadline, look_s = change_mark(remote.notebook), time.monotonic() + every, 0.0
        while (left_s := deadline - time.monotonic()) > 0:
            time.sleep(min(max(1.0, _REST * look_s), left_s))  # a large notebook is looked at less often
            began = time.process_time()
            if change_mark(remote.notebook) != mark:
                break
            look_s = time.process_time() - began


def _data(result: SyncResult, remote: Remote) -> dict[str, object]:
    return {
        "remote": result.remote,
        "address": remote.address,
        "branch": result.branch,
        "commit": result.commit or None,
        "received": {"runs": result.received, "files": result.received_files},
        "sent": {"runs": result.sent, "files": result.sent_files},
        "conflicts": list(result.conflicts),
        "not_shared": [{"path": path, "reason": reason} for path, reason in result.unsent],
        "newer_notes": result.newer,
        "left": list(result.left),
    }


def _print(result: SyncResult, book: Notebook, quiet: bool) -> None:
    if quiet and not (result.conflicts or result.unsent or result.newer or result.left):
        return
    say = terminal_sentences(book)
    names = {"remote": result.remote, "branch": result.branch}
    if not quiet:
        if not result.received_files and not result.sent_files:
            click.echo(say.line("sync.nothing", **names))
        else:
            click.echo(say.line("sync.done", **names, commit=result.commit[:9]))
        if result.sent_files:
            click.echo("  " + say.line("sync.sent", runs=result.sent, files=result.sent_files))
        if result.received_files:
            click.echo("  " + say.line("sync.received", runs=result.received, files=result.received_files))
    if result.conflicts:
        _print_conflicts(result.conflicts, say)
    for path, reason in result.unsent:
        click.echo("labbook: " + say.line("sync.unsent", path=path, reason=reason), err=True)
    for path in result.left:
        click.echo("labbook: " + say.line("sync.left", path=path), err=True)
    if result.newer:
        click.echo("labbook: " + say.line("sync.newer", count=result.newer), err=True)


def _print_conflicts(paths: Sequence[str], say: Sentences) -> None:
    from labbook.sharing.file_merge import is_of_other_run

    renamed = [path for path in paths if is_of_other_run(path)]
    for path in paths:
        click.echo("labbook: " + say.line("sync.same_id" if path in renamed else "sync.conflict", path=path), err=True)
    if len(paths) > len(renamed):
        click.echo("         " + say.line("sync.conflict_advice"), err=True)
