"""`labbook compare`: where two or more runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from labbook.commands.options import json_option, notebook_option, open_notebook, print_json, run_argument
from labbook.errors import UsageError

if TYPE_CHECKING:
    from labbook.compare.comparison import MetricRow
    from labbook.model.run import Change, Run
    from labbook.store.notebook import Notebook
    from labbook.store.repository import CodeRepository, HistoryCommit

_EPILOG = """\b
Examples:
  labbook compare                   # the last run with the one of this script before it
  labbook compare k3f9              # this run with the one before it
  labbook compare a1b2 k3f9         # two runs, the earlier one first
  labbook compare a1b2 k3f9 --code  # and what was committed in between, with the patch
  labbook compare a1b2 k3f9 m4n5    # up to twenty runs side by side
  labbook compare a1b2 k3f9 --markdown >> notes/ideas.md
"""
_MAX_RUNS = 20
_MAX_COMMITS = 50
_MAX_PATCH_BYTES = 4 << 20


@click.command(epilog=_EPILOG)
@click.option("--code", is_flag=True, help="Show the commits between the two, and the patch from one to the other.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown, for a note, a report or an issue.")
@json_option
@notebook_option
@run_argument()
@click.argument("others", nargs=-1)
def command(code: bool, markdown: bool, as_json: bool, notebook: str | None, run: str, others: tuple[str, ...]) -> None:
    """Show where two or more runs differ.

    Arguments, configuration, code, inputs, packages, hardware and numbers. RUN and OTHERS are "last", an id, its
    beginning or end; up to twenty runs. With one run alone: that run, and the one of the same script before it.
    """
    from labbook.compare.comparison import comparison_data
    from labbook.compare.run_changes import compare_runs
    from labbook.model.run_json import run_to_json

    book = open_notebook(notebook)
    runs = _runs(book, run, others)
    if len(runs) > 2 or markdown:
        if code:
            raise UsageError(
                "--code compares two runs, and not as Markdown", hint="name two runs: `labbook compare A B`"
            )
        _compare_many(book, runs, markdown=markdown, as_json=as_json)
        return
    before, now = runs
    changes = [c for c in compare_runs(run_to_json(before), run_to_json(now)) if c.kind != "metric"]
    repository = _repository(now) if code or as_json else None
    commits = _commits(repository, before, now) if repository is not None else []
    if as_json:
        print_json(comparison_data(before, now, changes, commits))
        return
    _print(before, now, changes)
    if code:
        _print_code(repository, before, now, commits)


def _compare_many(book: Notebook, runs: Sequence[Run], *, markdown: bool, as_json: bool) -> None:
    """Runs side by side: the same rows as on the site's page."""
    from labbook.compare.comparison import comparison_markdown, metric_table, runs_data
    from labbook.compare.run_table import collect_facts, compare_facts
    from labbook.model.run_json import run_to_json

    found = compare_facts([collect_facts(run_to_json(run)) for run in runs])
    rows = [(each.kind, each.what, each.values) for each in found]
    measured = metric_table(runs)
    if as_json:
        print_json(runs_data(runs, rows, measured))
    elif markdown:
        from labbook.store.templates import Templates

        said = Templates(book.paths.templates, book.config.language).words
        click.echo(comparison_markdown(runs, rows, measured, said), nl=False)
    else:
        _print_many(runs, rows, measured)


def _print_many(
    runs: Sequence[Run], rows: Sequence[tuple[str, str, tuple[str, ...]]], measured: Sequence[MetricRow]
) -> None:
    from labbook import screen
    from labbook.compare.comparison import summary_rows
    from labbook.report.numbers import number

    table: list[list[screen.Cell | str]] = [
        [screen.Cell(what, "dim"), *(value or "-" for value in values)] for what, values in summary_rows(runs)
    ]
    table += [
        [screen.Cell(row.name if row.what == "last" else f"{row.name} ({row.what})", "dim"), *map(number, row.values)]
        for row in measured
    ]
    table += [[what, *(value or "-" for value in values)] for _, what, values in rows]
    columns = [screen.Column("what", keep=9), *(screen.Column(run.id, flexible=True, keep=8) for run in runs)]
    screen.print_table(columns, table)
    if not rows:
        click.echo("no difference was found in arguments, configuration, code, packages, hardware and inputs", err=True)


def _runs(book: Notebook, run: str, others: Sequence[str]) -> list[Run]:
    """The runs, each once, in the order asked for.

    Raises:
        NothingFoundError: One is not there, has no data, or has none before it.
        UsageError: More than twenty are named.
    """
    from labbook.errors import NothingFoundError
    from labbook.index.query import find_run
    from labbook.report.run_data import load_run

    def load(word: str) -> Run:
        entry = find_run(book, word)
        found = load_run(book.paths, entry.id)
        if found is None:
            hint = "it is still running, or `run.json` in the folder beside its entry is missing or damaged"
            raise NothingFoundError(f"the run {entry.id} has no data to compare", hint=hint)
        return found

    if len(others) >= _MAX_RUNS:
        raise UsageError(f"{len(others) + 1} runs are more than {_MAX_RUNS}", hint="name fewer runs")
    if others:
        found = {each.id: each for each in map(load, (run, *others))}
        return list(found.values()) if len(found) > 1 else [*found.values(), *found.values()]
    now = load(run)
    if not now.previous:
        hint = "name two runs: `labbook compare A B`; `labbook list` shows them"
        raise NothingFoundError(f"the run {now.id} has no earlier run of the same script", hint=hint)
    return [load(now.previous), now]


def _commit(run: Run) -> str:
    facts = run.captured.get("code")
    return str(facts.get("commit") or "") if facts else ""


def _repository(run: Run) -> CodeRepository | None:
    """The repository of the code, if it is on this machine."""
    from pathlib import Path

    from labbook.store.repository import CodeRepository

    top = str((run.captured.get("code") or {}).get("top") or "")
    return CodeRepository.open(Path(top).expanduser()) if top and Path(top).expanduser().is_dir() else None


def _commits(repository: CodeRepository, before: Run, now: Run) -> list[HistoryCommit]:
    from labbook.errors import GitError

    old, new = _commit(before), _commit(now)
    if not old or not new or old == new:
        return []
    try:
        return repository.commits_between(old, new, _MAX_COMMITS)
    except GitError:
        return []  # one of them was never here, or is gone


def _print(before: Run, now: Run, changes: Sequence[Change]) -> None:
    from labbook import screen
    from labbook.compare.comparison import metric_table, summary_rows
    from labbook.report.numbers import pair

    rows: list[list[screen.Cell | str]] = [
        [screen.Cell(what, "dim"), *_sides(old, new)] for what, (old, new) in summary_rows([before, now])
    ]
    rows += [
        [screen.Cell(row.name if row.what == "last" else f"{row.name} ({row.what})", "dim"), *pair(*row.values)]
        for row in metric_table([before, now])
    ]
    rows += [[change.what, *_sides(change.before, change.now)] for change in changes]
    columns = [
        screen.Column("what", keep=9),
        screen.Column(before.id, flexible=True, keep=8),
        screen.Column(now.id, flexible=True, keep=9),
    ]
    screen.print_table(columns, rows)
    if not changes:
        click.echo("no difference was found in arguments, configuration, code, packages, hardware and inputs", err=True)


def _sides(old: str, new: str) -> tuple[str, str]:
    return old or "-", new or "-"


def _print_code(repository: CodeRepository | None, before: Run, now: Run, commits: Sequence[HistoryCommit]) -> None:
    from labbook import screen
    from labbook.errors import GitError

    if repository is None:
        click.echo("labbook: the repository of the code is not on this machine", err=True)
        return
    for commit in commits:
        screen.print_line(
            screen.Cell(commit.commit[:9], "yellow"), f" {commit.subject}  ", screen.Cell(commit.author, "dim")
        )
    old, new = _commit(before), _commit(now)
    if not old or not new:
        click.echo("labbook: one of the runs has no commit of its code", err=True)
        return
    try:
        patch = repository.diff_between(old, new, _MAX_PATCH_BYTES) if old != new else b""
    except GitError as error:
        click.echo(f"labbook: {error.message}", err=True)
        return
    click.echo(screen.harmless(patch.decode("utf-8", "replace")), nl=False)
