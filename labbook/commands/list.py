"""`labbook list`: runs, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from labbook.commands.options import (
    AskingCommand,
    json_option,
    notebook_option,
    open_notebook,
    print_json,
    warn_of_problems,
)

if TYPE_CHECKING:
    from labbook.report.run_row import RunRow

_EPILOG = """\b
Examples:
  labbook list
  labbook list status:failed since:7d
  labbook list experiment:digits framework:paddle -n 100
  labbook list symptom:loss_nonfinite has:fix
  labbook list tag:sweep,nightly -author:Wei       # comma: or; minus: not
  labbook list --json | jq '.[0].id'

\b
Filters: status experiment framework symptom tag author script host mode id has since before path.
A filter fits by the beginning of the value; dates are 2026-11-21, 2026-11, 2026-W47, today, 7d, 12h.
"""


@click.command(cls=AskingCommand, epilog=_EPILOG)
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(min=0), help="How many; 0 for all.")
@json_option
@notebook_option
@click.argument("filters", nargs=-1, type=click.UNPROCESSED)
def command(limit: int, as_json: bool, notebook: str | None, filters: tuple[str, ...]) -> None:
    """List runs, newest first.

    FILTERS are key:value or words that must occur in the entry. Ends with status 1 when no run fits.
    """
    from labbook import screen
    from labbook.errors import NothingFoundError
    from labbook.index.query import list_notes
    from labbook.index.query_parser import near_filters
    from labbook.report.run_row import run_row

    with screen.progress("reading notes") as tell:
        found = list_notes(open_notebook(notebook), " ".join(filters), limit=limit or None, tell=tell)
    rows = [run_row(entry) for entry in found.entries]
    if as_json:
        print_json([{**entry.meta, **_data(row)} for entry, row in zip(found.entries, rows, strict=True)])
    if not rows:
        asked = " ".join(filters)
        near = near_filters(asked)
        hint = f"did you mean {' '.join(near)}?" if near else "`labbook list` without filters shows all"
        hint = hint if asked else "record one: labbook record -- python train.py"
        raise NothingFoundError(f"no run fits {asked!r}" if asked else "there is no run yet", hint=hint)
    if not as_json:
        _print(rows, found.total)
        warn_of_problems(found.refreshed.problems)


def _data(row: RunRow) -> dict[str, object]:
    from dataclasses import asdict

    data = asdict(row)
    return {
        "id": data["id"],
        "status": data["status"],
        "title": data["title"],
        "experiment": data["experiment"],
        "duration_s": data["duration_s"],
        "metric": {"name": data["metric"], **{key: data[key] for key in ("first", "best", "last", "steps")}},
        "entry": data["path"],
    }


def _print(rows: Sequence[RunRow], total: int) -> None:
    from labbook import screen
    from labbook.report.numbers import duration

    columns = [
        screen.Column("run", keep=9),
        screen.Column("status", keep=8),
        screen.Column("experiment", keep=3),
        screen.Column("what", flexible=True, keep=7),
        screen.Column("time", right=True, keep=4),
        screen.Column("metric", right=True, keep=5),
        screen.Column("author", keep=1),
    ]
    table: list[list[screen.Cell | str]] = [
        [
            screen.Cell(row.id, "bold"),
            screen.status_cell(row.status),
            screen.Cell(row.experiment, "dim"),
            row.title,
            duration(row.duration_s),
            row.metric_text,
            screen.Cell(row.author, "dim"),
        ]
        for row in rows
    ]
    if not any(row.author for row in rows):
        columns, table = columns[:-1], [line[:-1] for line in table]
    screen.print_table(columns, table)
    if total > len(rows):
        click.echo(f"{len(rows)} of {total} runs; `-n 0` shows all", err=True)
