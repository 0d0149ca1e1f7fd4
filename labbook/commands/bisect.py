"""`labbook bisect`: finds the difference between two runs that changed the result."""

from __future__ import annotations

import sys

import click

from labbook.commands.options import (
    json_option,
    message_printer,
    notebook_option,
    open_notebook,
    print_json,
    print_recorder_line,
    terminal_sentences,
)
from labbook.commands.word_completion import complete_runs
from labbook.help_text import HelpCommand


@click.command(cls=HelpCommand)
@click.option("--max-steps", type=click.IntRange(1), metavar="N", help="Stop each run after N optimizer steps.")
@click.option(
    "--runs", type=click.IntRange(1, 1000), default=20, metavar="N", help="Maximum number of runs. Default: 20."
)
@json_option
@notebook_option
@click.argument("good", shell_complete=complete_runs)
@click.argument("bad", shell_complete=complete_runs)
def command(max_steps: int | None, runs: int, as_json: bool, notebook: str | None, good: str, bad: str) -> None:
    """Find the difference between two runs that changed the result.

    Options, environment variables and hunks of code of the run BAD are tried on the run GOOD, half of them at a time,
    each in a worktree of its own. A run is bad if it fails as BAD does, else if it has the symptom that GOOD lacks,
    else if the primary metric is closer to that of BAD. The smallest guilty difference is written into the entry of
    BAD. Packages, data and hardware are not varied. The exit status is 0 if the difference was proven by a run.
    """
    from labbook.rerun.bisect_runs import bisect_runs, bisection_lines, fix_command, write_bisection
    from labbook.rerun.rerun_run import program_on_stderr, read_run

    book = open_notebook(notebook)
    say = terminal_sentences(book)

    one, other = read_run(book, good), read_run(book, bad)
    with program_on_stderr():
        found = bisect_runs(
            book,
            one,
            other,
            most=runs,
            max_steps=max_steps,
            print_line=print_recorder_line,
            notify=message_printer(say),
        )
    write_bisection(book, str(one["id"]), str(other["id"]), found, book.config.language_in_use())
    if as_json:
        guilty = [{"kind": d.kind, "name": d.name, "before": d.before, "now": d.now} for d in found.guilty]
        print_json({"guilty": guilty, "proven": found.proven, "runs": found.runs, "candidates": found.candidates})
    else:
        for line in bisection_lines(found):
            click.echo(say(line))
        if found.proven:
            command = fix_command(str(one["id"]), str(other["id"]), found.guilty, say)
            click.echo(say.line("rerun.fix_with", command=command), err=True)
    sys.exit(0 if found.proven else 1)
