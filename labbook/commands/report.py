"""`labbook report`: writes the report of a week, a month, some days, or an experiment."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from labbook import screen
from labbook.commands.options import json_option, print_json, status_label, verdict_label, warn_of_notes, with_notebook
from labbook.commands.word_completion import complete_experiments
from labbook.errors import UsageError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.publish.reports import WrittenReport
    from labbook.report.period import Period
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences

_MAX_OPEN = 5


@click.command(cls=HelpCommand)
@click.option(
    "--week",
    is_flag=False,
    flag_value="this",
    metavar="WEEK",
    help="ISO week (2026-W47), this or last, in local time. Default: this.",
)
@click.option("--month", is_flag=False, flag_value="this", metavar="MONTH", help="A month (2026-11), this or last.")
@click.option("--since", metavar="DATE", help="First day (2026-11-03).")
@click.option("--until", metavar="DATE", help="Last day; only with --since. Default: today.")
@click.option(
    "--experiment", "-e", metavar="EXPERIMENT", help="All runs of this experiment.", shell_complete=complete_experiments
)
@click.option("--to", type=click.Choice(["html", "pdf", "md", "ipynb", "docx"]), help="Also write one file to send on.")
@click.option("--output", "-o", metavar="FILE", help="The file of --to. Default: the name of the report, here.")
@click.option("--send", is_flag=True, help="Mail the report to `notify_to` of the settings.")
@json_option
@with_notebook
def command(
    week: str | None,
    month: str | None,
    since: str | None,
    until: str | None,
    experiment: str | None,
    to: str | None,
    output: str | None,
    send: bool,
    as_json: bool,
    book: Notebook,
    say: Sentences,
) -> None:
    """Write the report of a week, a month, some days, or an experiment.

    The report begins with what matters: results beyond noise, failures and their fixes, changes of speed. It has a
    figure of each experiment and lists what was learnt and what is open. It is written to notes/reports/ and committed.
    Text that people added to it is preserved.
    """
    from labbook.publish.document import write_copy
    from labbook.publish.reports import write_report
    from labbook.store.experiments import find_experiment

    now = time.time()
    period = _period(book, now, week, month, since, until, experiment)
    slug = find_experiment(book, experiment).slug if experiment else ""
    with screen.progress(say.line("terminal.progress.reading_notes")) as report_progress:
        report = write_report(book, period, now, experiment=slug, notify=report_progress)
    path = book.paths.relative(report.path)
    document = write_copy(report.path, book.paths.root, to, output) if to or output else None
    if as_json:
        from labbook.model.message import as_data

        facts = [{**as_data(fact), "text": say(fact)} for fact in report.data["facts"]]
        print_json({**report.data, "facts": facts, "path": path, "commit": report.commit.commit, "document": document})
    else:
        _print(report, path, say)
        if document:
            screen.print_line(screen.Cell(document, "cyan"))
    if send:
        _send(report, book, say)
    if report.trouble:
        click.echo(f"labbook: {report.trouble}", err=True)
    warn_of_notes(report.problems, say)


def _send(report: WrittenReport, book: Notebook, say: Sentences) -> None:
    from labbook.publish.document import html_document
    from labbook.publish.mail import send_mail
    from labbook.store.text.frontmatter import parse

    heading = parse(report.path.read_text("utf-8"), str(report.path))[0].get("title") or report.data["name"]
    text = "\n- ".join([_count_runs(report.data["totals"], say), *map(say, report.data["facts"])])
    send_mail(book.config, f"{book.config.title}: {heading}", f"{text}\n", html_document(report.path, book.paths.root))
    click.echo(say.line("terminal.report.sent", people=list(book.config.notify_to)), err=True)


def _period(
    book: Notebook,
    now: float,
    week: str | None,
    month: str | None,
    since: str | None,
    until: str | None,
    experiment: str | None,
) -> Period:
    from labbook.report.period import days_between, month_named, week_named

    named = {"--week": week, "--month": month, "--since": since, "--experiment": experiment}
    given = [option for option, value in named.items() if value is not None]
    if len(given) > 1:
        raise UsageError("errors.report.two_subjects", options=" and ".join(given))
    if until is not None and since is None:
        raise UsageError("errors.report.until_alone")
    if month is not None:
        return month_named(month, now)
    if since is not None:
        return days_between(since, until or "", now)
    return week_named(week or "this", now, book.config.week_start)


def _print(report: WrittenReport, path: str, say: Sentences) -> None:
    from labbook.report.commit_line import commit_line

    data = report.data
    before = data["before"]
    lines = [_count_runs(data["totals"], say)]
    if data["kind"] != "experiment" and before["runs"]:
        key = "terminal.report.before" if data["over"] else "terminal.report.before_so_far"
        lines.append(say.line(key, count=before["runs"], time=before["time"]))
    lines += [say(fact) for fact in data["facts"]]
    lines += [say.line("terminal.report.open", title=row["title"]) for row in data["open_runs"][:_MAX_OPEN]]
    key = "terminal.report.span_days" if data["kind"] == "days" else "terminal.report.span"
    span = say.line(key, name=data["name"].removesuffix("-report"), begin=data["begin"], end=data["end"])
    screen.print_panel(span, lines)
    screen.print_line(screen.Cell(path, "cyan"), f"  {commit_line(report.commit, say)}")


def _count_runs(totals: Mapping[str, Any], say: Sentences) -> str:
    """Returns the line with the runs of a report: "24 runs, 1 unhealthy (22 finished, 2 failed), 19 min"."""
    from labbook.model.message import message

    if not totals["runs"]:
        return say.line("terminal.report.no_runs")
    counts = [
        say.line("terminal.report.count", count=n, status=status_label(one, say)) for one, n in totals["by_status"]
    ]
    judged = "".join(
        say(message("terminal.report.of_them", count=n, verdict=verdict_label(one, say)))
        for one, n in totals["by_verdict"]
        if one in ("unhealthy", "suspect")
    )
    return say.line("terminal.report.runs", count=totals["runs"], judged=judged, counts=counts, time=totals["time"])
