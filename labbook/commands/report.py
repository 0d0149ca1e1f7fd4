"""`labbook report`: writes the report of a week."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from labbook.commands.options import (
    json_option,
    notebook_option,
    open_notebook,
    print_json,
    status_label,
    terminal_sentences,
    verdict_label,
    warn_of_notes,
)
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.publish.weekly import WeeklyReport
    from labbook.store.sentences import Sentences

_EPILOG = """\b
Examples:
  labbook report                    # this week
  labbook report --week last
  labbook report --week 2026-W47
  labbook report --week last --json | jq .open_runs
"""
_MAX_RESULTS = 8
_MAX_OPEN = 5
_TRENDS = {
    "better": "terminal.report.better",
    "worse": "terminal.report.worse",
    "same": "terminal.report.same",
    "noise": "terminal.report.noise",
}


@click.command(cls=HelpCommand, epilog=_EPILOG)
@click.option(
    "--week",
    is_flag=False,
    flag_value="this",
    default="this",
    metavar="WEEK",
    help="ISO week (2026-W47), this or last, in local time. Default: this.",
)
@json_option
@notebook_option
def command(week: str, as_json: bool, notebook: str | None) -> None:
    """Write the report of a week.

    The report lists runs, best results compared with the previous week, failures by kind, time spent, changes, and
    open problems. It is written to notes/reports/WEEK.md and committed. Text that people added to it is preserved.
    """
    from labbook import screen
    from labbook.publish.weekly import write_week_report

    book = open_notebook(notebook)
    say = terminal_sentences(book)
    with screen.progress(say.line("terminal.progress.reading_notes")) as report_progress:
        report = write_week_report(book, week, time.time(), tell=report_progress)
    path = report.path.relative_to(book.paths.root).as_posix()
    if as_json:
        print_json({**report.data, "path": path, "commit": report.commit.commit})
    else:
        _print(report, path, say)
    if report.trouble:
        click.echo(f"labbook: {report.trouble}", err=True)
    warn_of_notes(report.problems, say)


def _print(report: WeeklyReport, path: str, say: Sentences) -> None:
    from labbook import screen
    from labbook.report.commit_line import commit_line

    data = report.data
    totals, before = data["totals"], data["before"]
    counts = [
        say.line("terminal.report.count", count=n, status=status_label(one, say)) for one, n in totals["by_status"]
    ]
    counts += [
        say.line("terminal.report.count", count=n, status=verdict_label(one, say))
        for one, n in totals["by_verdict"]
        if one in ("unhealthy", "suspect")
    ]
    if totals["runs"]:
        lines = [say.line("terminal.report.runs", count=totals["runs"], counts=counts, time=totals["time"])]
    else:
        lines = [say.line("terminal.report.no_runs")]
    lines.append(say.line("terminal.report.before", count=before["runs"], time=before["time"]))
    for row in data["results"][:_MAX_RESULTS]:
        if row["run"]:
            name = row["experiment"] or say.line("terminal.report.no_experiment")
            best = say.line("terminal.report.best", experiment=name, metric=row["metric"], value=row["best"])
            trend = say.line(_TRENDS[row["trend"]], before=row["before"]) if row["trend"] else ""
            lines.append(best + trend)
    lines += [say.line("terminal.report.open", title=row["title"]) for row in data["open_runs"][:_MAX_OPEN]]
    span = say.line("terminal.report.span", week=data["week"], begin=data["begin"], end=data["end"])
    screen.print_panel(span, lines)
    screen.print_line(screen.Cell(path, "cyan"), f"  {commit_line(report.commit, say)}")
