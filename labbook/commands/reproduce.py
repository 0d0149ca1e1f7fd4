"""`labbook reproduce`: runs a recorded run again and compares the results."""

from __future__ import annotations

import contextlib
import sys

import click

from labbook.commands.options import (
    json_option,
    message_printer,
    notebook_option,
    open_notebook,
    print_json,
    print_recorder_line,
    run_argument,
    terminal_sentences,
)
from labbook.help_text import HelpCommand


@click.command(cls=HelpCommand)
@click.option("--runs", type=click.IntRange(1, 100), default=1, metavar="N", help="Number of reruns. Default: 1.")
@click.option("--with", "other", metavar="RUN", help="Compare with this run instead of running it again.")
@click.option(
    "--rebuild",
    is_flag=True,
    help="Run in the recorded container image, or with the recorded packages installed again.",
)
@click.option("--incomplete", is_flag=True, help="Run it although the entry lacks a part of its code.")
@json_option
@notebook_option
@run_argument()
def command(
    runs: int, other: str | None, rebuild: bool, incomplete: bool, as_json: bool, notebook: str | None, run: str
) -> None:
    """Run a recorded run again and compare the results.

    The verdict is: bitwise identical; within the noise of repeated runs; different from a step on, with the first
    quantity that differs and the likeliest reason. It is written into both entries. Times, speeds and memory are not
    compared. The exit status is 0 if the result is the same, 1 if it differs, and 3 if nothing could be compared.
    """
    from labbook.rerun.repeats import find_repeats
    from labbook.rerun.reproduction import compare_results
    from labbook.rerun.reproduction_report import reproduction_lines, verdict_data, write_verdict
    from labbook.rerun.rerun_run import RerunRequest, program_on_stderr, read_run, rerun
    from labbook.rerun.varying_code import recorded_variations

    book = open_notebook(notebook)
    say = terminal_sentences(book)

    original = read_run(book, run)
    made = [read_run(book, other)] if other else []
    if not other:
        with program_on_stderr() if as_json else contextlib.nullcontext():
            for _ in range(runs):
                request = RerunRequest(incomplete=incomplete, rebuild=rebuild)
                notify = message_printer(say)
                done = rerun(book, original, request, print_line=print_recorder_line, notify=notify)
                done.check_not_stopped()
                made.append(read_run(book, done.run))
    possible = recorded_variations(book, original)
    found = compare_results(original, made[0], find_repeats(book, original, made), possible)
    names = [str(one["id"]) for one in made]
    commit = write_verdict(book, str(original["id"]), names, found, book.config.language_in_use())
    if as_json:
        print_json({"run": original["id"], "reruns": names, "commit": commit.commit, **verdict_data(found, say)})
    else:
        for line in reproduction_lines(found):
            click.echo(say(line))
    sys.exit({"identical": 0, "within_noise": 0, "different": 1}.get(found.verdict, 3))
