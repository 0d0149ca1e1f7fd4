"""`labbook report`: writes the report of a week."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from labbook.commands.options import json_option, notebook_option, open_notebook, print_json, warn_of_problems

if TYPE_CHECKING:
    from labbook.publish.weekly import WeeklyReport

_EPILOG = """\b
Examples:
  labbook report --week             # this week
  labbook report --week last
  labbook report --week 2026-W47
  labbook report --week last --json | jq .open_runs
"""


@click.command(epilog=_EPILOG)
@click.option("--week", is_flag=False, flag_value="this", default="this", metavar="[YYYY-Www]", help="Which week.")
@json_option
@notebook_option
def command(week: str, as_json: bool, notebook: str | None) -> None:
    """Write the report of a week.

    Runs, results beside those of the week before, failures by kind, time spent, what changed, and what is still open
    go to notes/reports/<week>.md, which is committed. What people wrote in it stays. Weeks are ISO weeks in local time.
    """
    from labbook import screen
    from labbook.publish.weekly import write_week_report

    book = open_notebook(notebook)
    with screen.progress("reading notes") as tell:
        report = write_week_report(book, week, time.time(), tell=tell)
    shown = report.path.relative_to(book.paths.root).as_posix()
    if as_json:
        print_json({**report.data, "path": shown, "commit": report.commit.commit})
    else:
        _print(report, shown)
    if report.trouble:
        click.echo(f"labbook: {report.trouble}", err=True)
    warn_of_problems(report.problems)


def _print(report: WeeklyReport, shown: str) -> None:
    from labbook import screen

    data = report.data
    totals, before = data["totals"], data["before"]
    counts = ", ".join(f"{count} {status}" for status, count in totals["by_status"])
    lines = [f"{totals['runs']} runs ({counts}), {totals['time']}" if totals["runs"] else "no runs"]
    lines.append(f"the week before: {before['runs']} runs, {before['time']}")
    for row in data["results"][:8]:
        if row["run"]:
            trend = f" ({row['trend']}; before: {row['before']})" if row["trend"] else ""
            lines.append(f"{row['experiment'] or 'no experiment'}: best {row['metric']} {row['best']}{trend}")
    lines += [f"open: {row['title']}" for row in data["open_runs"][:5]]
    screen.print_panel(f"{data['week']}  {data['begin']} to {data['end']}", lines)
    how = {
        "committed": f"committed as {report.commit.commit[:9]}",
        "unchanged": "already committed",
        "off": report.commit.reason or "not committed: commits are switched off",
        "queued": f"will be committed later: {report.commit.reason}",
    }.get(report.commit.status, f"not committed: {report.commit.reason}")
    screen.print_line(screen.Cell(shown, "cyan"), f"  {how}")
