"""`labbook rm`: removes a run or an experiment from the notebook."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from labbook.commands.options import json_option, print_json, with_notebook
from labbook.commands.word_completion import complete_targets
from labbook.errors import UsageError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.sharing.remove_run import Removal
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences


@click.command(cls=HelpCommand)
@click.option("--yes", "-y", is_flag=True, help="Remove without asking.")
@json_option
@with_notebook
@click.argument("target", metavar="RUN|EXPERIMENT", shell_complete=complete_targets)
def command(yes: bool, as_json: bool, target: str, book: Notebook, say: Sentences) -> None:
    """Remove a run, or an experiment with all its runs.

    Removes the entry, its figures and data, and its journal, by one commit; `labbook sync` removes them for everybody.
    The page of the experiment goes with its last run, unless people wrote on it. Trials go with their run. Older
    versions stay in the history of git.

    RUN is "last", an id, or the first or last characters of an id; EXPERIMENT is `exp003` or its whole name. Runs that
    are going on are not removed. `labbook artifact prune` deletes kept files that no run names any more.
    """
    from labbook.sharing.remove_run import plan_removal, remove_runs

    plan = plan_removal(book, target)
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise UsageError("sync.rm.not_confirmed", target=target)
        for line in _plan_lines(plan, say):
            click.echo(line)
        if not click.confirm(say.line("sync.rm.question")):
            raise click.Abort
    outcome = remove_runs(book, plan)
    if as_json:
        print_json(
            {
                "runs": list(plan.runs),
                "experiment": plan.experiment or None,
                "kept_files": plan.kept,
                "commit": outcome.commit or None,
                "committed": outcome.status,
            }
        )
        return
    for line in [] if not yes else _plan_lines(plan, say):
        click.echo(line)
    is_committed = outcome.status in ("committed", "queued")
    click.echo(say.line("sync.rm.done" if is_committed else "sync.rm.done_uncommitted"))
    if plan.kept:
        click.echo("  " + say.line("sync.rm.kept", count=plan.kept))
    if outcome.status == "queued":
        from labbook.report.commit_line import commit_line

        click.echo(f"labbook: {commit_line(outcome, say)}", err=True)


def _plan_lines(plan: Removal, say: Sentences) -> list[str]:
    """Returns what goes and what refers to it."""
    lines = []
    if len(plan.runs) == 1:
        lines.append(say.line("sync.rm.run", run=plan.runs[0], title=plan.title))
    elif plan.runs:
        lines.append(say.line("sync.rm.runs", count=len(plan.runs), first=plan.runs[0], last=plan.runs[-1]))
    if plan.experiment:
        lines.append(say.line("sync.rm.experiment", experiment=plan.experiment))
    if plan.written:
        lines.append(say.line("sync.rm.written", experiment=plan.written))
    lines += [say.line("sync.rm.named", run=run) for run in plan.named]
    return lines
