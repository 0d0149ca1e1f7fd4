"""`labbook compare`: where two or more runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook import screen
from labbook.commands.options import json_option, print_json, run_argument, status_label, verdict_label, with_notebook
from labbook.commands.word_completion import complete_runs
from labbook.errors import GitError, NothingFoundError, UsageError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.compare.comparison import MetricRow
    from labbook.model.run import Change, Run
    from labbook.store.git.repository import CodeRepository, HistoryCommit
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences

_MAX_RUNS = 20
_MAX_COMMITS = 50
_MAX_PATCH_BYTES = 4 << 20
_NUMBERS = {
    "best": "terminal.compare.best",
    "level": "terminal.compare.level",
    "median": "terminal.compare.median",
}
_SUMMARY_ROWS = {
    "title": "terminal.compare.run",
    "status": "terminal.compare.status",
    "verdict": "terminal.compare.verdict",
    "duration": "terminal.compare.duration",
}
"""Row of `summary_rows` -> key of its label."""


@click.command(cls=HelpCommand)
@click.option("--code", is_flag=True, help="Also show the commits and the patch between two runs.")
@click.option("--markdown", is_flag=True, help="Print a Markdown table for a note, a report or an issue.")
@json_option
@with_notebook
@run_argument()
@click.argument("others", nargs=-1, shell_complete=complete_runs)
def command(
    code: bool, markdown: bool, as_json: bool, book: Notebook, say: Sentences, run: str, others: tuple[str, ...]
) -> None:
    """Show the differences between runs.

    Compares arguments, configuration, code, inputs, packages, hardware and metrics of up to 20 runs. RUN and OTHERS
    are "last", an id, or the first or last characters of an id. A single RUN is compared with the previous run of the
    same script.
    """
    from labbook.compare.comparison import comparison_data
    from labbook.compare.model_facts import compare_models
    from labbook.compare.run_changes import compare_runs
    from labbook.model.run_json import run_to_json

    runs = _runs(book, run, others)
    if len(runs) > 2 or markdown:
        if code:
            raise UsageError("terminal.compare.code_of_two", advice="terminal.compare.name_two")
        _compare_many(book, runs, say, markdown=markdown, as_json=as_json)
        return
    before, now = runs
    sides = run_to_json(before), run_to_json(now)
    changes = [c for c in compare_runs(*sides) if c.kind != "metric"] + compare_models(*sides)
    repository = _repository(now) if code or as_json else None
    commits = _commits(repository, before, now) if repository is not None else []
    if as_json:
        print_json(comparison_data(before, now, changes, commits))
        return
    _print(before, now, changes, say)
    if code:
        _print_code(repository, before, now, commits, say)


def _compare_many(book: Notebook, runs: Sequence[Run], say: Sentences, *, markdown: bool, as_json: bool) -> None:
    """Prints runs side by side, with the rows of the site's page."""
    from labbook.compare.comparison import comparison_markdown, metric_table, runs_data
    from labbook.compare.run_table import collect_facts, compare_facts, translate_difference
    from labbook.model.run_json import run_to_json

    found = compare_facts([collect_facts(run_to_json(run)) for run in runs])
    rows = [(each.kind, each.what, each.values) for each in found]
    measured = metric_table(runs)
    if as_json:
        print_json(runs_data(runs, rows, measured))
    elif markdown:
        from labbook.store.text.templates import Templates

        words = Templates(book.paths.templates, book.config.language).words
        click.echo(comparison_markdown(runs, rows, measured, words), nl=False)
    else:
        _print_table(runs, measured, [translate_difference(each, say) for each in found], say)


def _print_table(
    runs: Sequence[Run], measured: Sequence[MetricRow], rows: Sequence[tuple[str, Sequence[str]]], say: Sentences
) -> None:
    """Prints title, status, duration, metrics and differences, a column for each run."""
    from labbook.compare.comparison import summary_rows
    from labbook.report.numbers import number, pair

    table: list[list[screen.Cell | str]] = []
    for what, values in summary_rows(runs):
        label = {"status": status_label, "verdict": verdict_label}.get(what)
        shown = [label(value, say) for value in values] if label else values
        table.append([screen.Cell(say.line(_SUMMARY_ROWS[what]), "dim"), *(value or "-" for value in shown)])
    for row in measured:
        name = row.name if row.what == "last" else say.line(_NUMBERS[row.what], metric=row.name)
        values = pair(*row.values) if len(row.values) == 2 else tuple(map(number, row.values))
        table.append([screen.Cell(name, "dim"), *values])
    table += [[what, *(value or "-" for value in values)] for what, values in rows]
    last = len(runs) - 1
    columns = [
        screen.Column(say.line("terminal.columns.what"), keep=9),
        *(screen.Column(run.id, flexible=True, keep=9 if at == last else 8) for at, run in enumerate(runs)),
    ]
    screen.print_table(columns, table)
    if not rows:
        is_imported = any(run.imported_from for run in runs)
        key = "terminal.compare.no_difference_known" if is_imported else "terminal.compare.no_difference"
        click.echo(say.line(key), err=True)


def _runs(book: Notebook, run: str, others: Sequence[str]) -> list[Run]:
    """Returns the runs to compare, each once, in the order of the command line.

    Raises:
        NothingFoundError: A run does not exist, has no data, or has no previous run.
        UsageError: More than twenty are named.
    """
    from labbook.index.query import find_run
    from labbook.report.run_data import load_run

    def load(word: str) -> Run:
        entry = find_run(book, word)
        loaded = load_run(book.paths, entry.id)
        if loaded is None:
            raise NothingFoundError("terminal.compare.no_data", run=entry.id)
        return loaded

    if len(others) >= _MAX_RUNS:
        raise UsageError(
            "terminal.compare.too_many", count=len(others) + 1, most=_MAX_RUNS, advice="terminal.compare.name_fewer"
        )
    if others:
        by_id = {each.id: each for each in map(load, (run, *others))}
        return list(by_id.values()) if len(by_id) > 1 else [*by_id.values(), *by_id.values()]
    now = load(run)
    if not now.previous:
        raise NothingFoundError("terminal.compare.no_previous", run=now.id, advice="terminal.compare.name_two")
    return [load(now.previous), now]


def _commit(run: Run) -> str:
    facts = run.captured.get("code")
    return str(facts.get("commit") or "") if facts else ""


def _repository(run: Run) -> CodeRepository | None:
    """Returns the repository of the code, or `None` where it is not on this machine."""
    from labbook.store.git.repository import CodeRepository

    top = str(run.facts("code").get("top") or "")
    return CodeRepository.open(Path(top).expanduser()) if top and Path(top).expanduser().is_dir() else None


def _commits(repository: CodeRepository, before: Run, now: Run) -> list[HistoryCommit]:
    old, new = _commit(before), _commit(now)
    if not old or not new or old == new:
        return []
    try:
        return repository.commits_between(old, new, _MAX_COMMITS)
    except GitError:
        return []  # one of them never was in this repository, or was removed


def _print(before: Run, now: Run, changes: Sequence[Change], say: Sentences) -> None:
    from labbook.compare.comparison import metric_table
    from labbook.store.text.sentences import translate_change

    runs = [before, now]
    shown = [translate_change(change, say) for change in changes]
    _print_table(runs, metric_table(runs), [(c.what, (c.before, c.now)) for c in shown], say)


def _print_code(
    repository: CodeRepository | None, before: Run, now: Run, commits: Sequence[HistoryCommit], say: Sentences
) -> None:
    if repository is None:
        click.echo("labbook: " + say.line("terminal.compare.no_repository"), err=True)
        return
    for commit in commits:
        screen.print_line(
            screen.Cell(commit.commit[:9], "yellow"), f" {commit.subject}  ", screen.Cell(commit.author, "dim")
        )
    old, new = _commit(before), _commit(now)
    if not old or not new:
        click.echo("labbook: " + say.line("terminal.compare.no_commit"), err=True)
        return
    try:
        patch = repository.diff_between(old, new, _MAX_PATCH_BYTES) if old != new else b""
    except GitError as error:
        screen.print_error(*say.error(error))
        return
    click.echo(screen.harmless(patch.decode("utf-8", "replace")), nl=False)
