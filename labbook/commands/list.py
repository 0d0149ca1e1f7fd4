"""`labbook list`: runs, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import click

from labbook import screen
from labbook.commands.options import (
    FilterCommand,
    json_option,
    print_json,
    status_label,
    verdict_label,
    warn_of_notes,
    with_notebook,
)
from labbook.commands.word_completion import complete_keys, complete_names
from labbook.errors import NothingFoundError
from labbook.model.verdict import VERDICTS

if TYPE_CHECKING:
    from labbook.compare.run_groups import RunGroup
    from labbook.index.query import NoteList
    from labbook.model.entry import Entry
    from labbook.report.run_row import RunRow
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences

_MOST_LOOKS = 8
"""Running runs whose journals are read; each takes 0.1 s or more. Source: chosen by us."""


@click.command(cls=FilterCommand)
@click.option(
    "-n",
    "--limit",
    metavar="N",
    default=20,
    type=click.IntRange(min=0),
    help="Maximum number of runs, 0 for all. Default: 20.",
)
@click.option(
    "--group-by",
    metavar="NAME",
    shell_complete=complete_names,
    help="Show one line for each value of a field, an option or a metric: experiment, author, tag, lr.",
)
@json_option
@with_notebook
@click.argument("filters", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_keys)
def command(
    limit: int, group_by: str | None, as_json: bool, book: Notebook, say: Sentences, filters: tuple[str, ...]
) -> None:
    """List runs, newest first.

    FILTERS are conditions on options, metrics and fields, or words that occur in the entry; a run must match all of
    them. Exits with status 1 if no run matches.
    """
    from labbook.index.query import list_notes
    from labbook.report.run_row import run_row
    from labbook.store.experiments import metric_goal

    query = " ".join(filters)
    if group_by is not None:
        _check_name(book, group_by)
    with screen.progress(say.line("terminal.progress.reading_notes")) as report_progress:
        found = list_notes(book, query, limit=limit or None if group_by is None else None, notify=report_progress)
    found = replace(found, entries=_as_of_now(book, found.entries))
    goals = cache(partial(metric_goal, book))
    rows = [run_row(entry, goals) for entry in found.entries]
    groups = None
    if group_by is not None:
        from labbook.compare.run_groups import group_runs

        groups = group_runs(found.entries, rows, group_by)
    if as_json and groups is not None:
        print_json([group.data() for group in groups])
    elif as_json:
        print_json([{**entry.meta, **_data(row)} for entry, row in zip(found.entries, rows, strict=True)])
    if not rows and not query:
        raise NothingFoundError("terminal.list.empty")
    if not rows and found.missing is not None:
        raise NothingFoundError.from_data(found.missing.as_data())
    if not rows:
        raise NothingFoundError("terminal.list.no_match", filters=query)
    if not as_json and groups is not None:
        _print_groups(groups, limit, str(group_by), say)
    elif not as_json:
        _print(rows, found, say)
        warn_of_notes(found.refreshed.problems, say)


def _as_of_now(book: Notebook, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Returns the entries; those of the newest runs that go on have titles and metrics so far."""
    looked = [entry.id for entry in entries if entry.meta.get("status") == "running"][:_MOST_LOOKS]
    if not looked:
        return tuple(entries)
    from labbook.record.running_run import entry_as_of_now

    return tuple(entry_as_of_now(book, entry) if entry.id in looked else entry for entry in entries)


def _data(row: RunRow) -> dict[str, object]:
    data = asdict(row)
    return {
        "id": data["id"],
        "status": data["status"],
        "verdict": data["verdict"],
        "verdict_reason": data["verdict_reason"],
        "title": data["title"],
        "experiment": data["experiment"],
        "duration_s": data["duration_s"],
        "metric": {
            "name": data["metric"],
            **{key: data[key] for key in ("direction", "first", "best", "last", "steps")},
        },
        "entry": data["path"],
    }


def _print(rows: Sequence[RunRow], found: NoteList, say: Sentences) -> None:
    from labbook.report.numbers import duration

    columns = [
        screen.Column(say.line("terminal.columns.run"), keep=9),
        screen.Column(say.line("terminal.columns.verdict"), keep=8),
        screen.Column(say.line("terminal.columns.status"), keep=7),
        screen.Column(say.line("terminal.columns.experiment"), keep=3),
        screen.Column(say.line("terminal.columns.result"), flexible=True, keep=7),
        screen.Column(say.line("terminal.columns.time"), right=True, keep=4),
        screen.Column(say.line("terminal.columns.metric"), right=True, keep=5),
        screen.Column(say.line("terminal.columns.author"), keep=1),
    ]
    table: list[list[screen.Cell | str]] = [
        [
            screen.Cell(row.id, "bold"),
            screen.status_cell(row.verdict, verdict_label(row.verdict, say)),
            screen.Cell(status_label(row.status, say), "" if row.status == "finished" else "dim"),
            screen.Cell(row.experiment, "dim"),
            row.title,
            duration(row.duration_s),
            row.metric_text,
            screen.Cell(row.author, "dim"),
        ]
        for row in rows
    ]
    for key in (key for key in found.keys if key not in ("duration", "duration_s")):  # the time is there
        columns.insert(-1, screen.Column(key, right=True, keep=6))
        for line, entry in zip(table, found.entries, strict=True):
            line.insert(-1, _value(entry.meta, key))
    if not any(row.author for row in rows):
        columns, table = columns[:-1], [line[:-1] for line in table]
    screen.print_table(columns, table)
    if found.total > len(rows):
        click.echo(say.line("terminal.list.shown", shown=len(rows), total=found.total), err=True)


def _check_name(book: Notebook, name: str) -> None:
    """Raises `QueryError` for a name that no run has."""
    from labbook.index.query import read_field_names
    from labbook.index.query_error import unknown

    names = read_field_names(book)
    if not names.is_known(name):
        raise unknown("terminal.query.unknown_key", name, names.all_names())


def _print_groups(groups: Sequence[RunGroup], limit: int, name: str, say: Sentences) -> None:
    from labbook.report.numbers import duration, number

    verdicts = [one for one in VERDICTS if any(row.verdict == one for group in groups for row in group.rows)]
    columns = [
        screen.Column(name, keep=9),
        screen.Column(say.line("terminal.columns.runs"), right=True, keep=9),
        *(screen.Column(verdict_label(verdict, say), right=True, keep=5) for verdict in verdicts),
        screen.Column(say.line("terminal.columns.best"), flexible=True, keep=8),
        screen.Column(say.line("terminal.columns.last_run"), keep=4),
        screen.Column(say.line("terminal.columns.time"), right=True, keep=3),
    ]
    table: list[list[screen.Cell | str]] = []
    for group in groups[: limit or None]:
        data = group.data()
        best, counts = data["best"], data["verdicts"]
        shown = f"{best['metric']} {number(best['value'])}  {best['run']}" if best else ""
        table.append(
            [
                screen.Cell(group.value or "–", "bold"),
                str(data["runs"]),
                *(str(counts.get(verdict) or "") for verdict in verdicts),
                shown,
                screen.Cell(data["last"], "dim"),
                duration(data["time_s"]),
            ]
        )
    screen.print_table(columns, table)
    if len(table) < len(groups):
        click.echo(say.line("terminal.list.groups_shown", shown=len(table), total=len(groups)), err=True)


def _value(meta: Mapping[str, object], key: str) -> str:
    from labbook.model.run_fields import as_number, field_values
    from labbook.report.numbers import number

    values = field_values(meta, key)
    value = as_number(values[0]) if values else None
    return number(value) if value is not None else str(values[0]) if values else ""
