"""`labbook record`: runs a training command and records it as an entry."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook.commands.word_completion import complete_experiments
from labbook.errors import UsageError
from labbook.help_text import HelpCommand
from labbook.screen import terminal_lines

if TYPE_CHECKING:
    from labbook.record.child.supervisor import ChildEnd
    from labbook.record.end_summary import FinishedRun


_NOTEBOOK = "Use this notebook instead of the one found above the working folder."
_WATCH = "Save the last 20 values and the batch in the entry when CONDITION becomes true. Repeatable."
_BREAK = "Start pdb in your code after the step in which CONDITION becomes true. Repeatable."
_STOP_ON = "Stop the program with exit status 65 when CONDITION becomes true. Repeatable."
_PROFILE = "Profile N steps with the profiler of the framework, from step 10 on. Default: 5."
_LEVEL = (
    "How much to measure inside the program: off (step metrics only), light, normal or deep. "
    "Default: the setting `level`, normal."
)


@click.command(
    cls=HelpCommand,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("--notebook", type=click.Path(path_type=Path), metavar="PATH", help=_NOTEBOOK)
@click.option(
    "-e",
    "--experiment",
    shell_complete=complete_experiments,
    default="",
    metavar="NAME",
    help="Experiment of the run: its name, number (3, exp003) or a part of its name.",
)
@click.option("-m", "--note", "notes", multiple=True, help="Note for the entry. Repeatable.")
@click.option("-t", "--tag", "tags", multiple=True, help="Tag for the entry. Repeatable.")
@click.option(
    "--debug",
    "--level",
    "level",
    type=click.Choice(["off", "light", "normal", "deep"]),
    help=_LEVEL,
)
@click.option("--no-probe", is_flag=True, help="Do not observe the program: no loss, gradients or health checks.")
@click.option("--no-commit", is_flag=True, help="Write the entry without committing it.")
@click.option("--watch", multiple=True, metavar="CONDITION", help=_WATCH)
@click.option("--break", "breaks", multiple=True, metavar="CONDITION", help=_BREAK)
@click.option("--stop-on", multiple=True, metavar="CONDITION", help=_STOP_ON)
@click.option("--max-steps", type=int, metavar="N", help="Stop the program after N optimizer steps with exit status 0.")
@click.option("--profile", is_flag=False, flag_value="5", metavar="[N]", help=_PROFILE)
@click.option(
    "--full-pty", is_flag=True, help="Give the command a full terminal, for programs that draw the screen (htop, vim)."
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the result to FILE as JSON, as `labbook show --json` prints it. Standard output is the command's.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no messages of labbook.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENTS]...")
def command(
    notebook: Path | None,
    experiment: str,
    notes: tuple[str, ...],
    tags: tuple[str, ...],
    level: str | None,
    no_probe: bool,
    no_commit: bool,
    watch: tuple[str, ...],
    breaks: tuple[str, ...],
    stop_on: tuple[str, ...],
    max_steps: int | None,
    profile: str | None,
    full_pty: bool,
    json_file: Path | None,
    quiet: bool,
    command_line: tuple[str, ...],
) -> None:
    """Run a command and record it as an entry.

    The command behaves as without labbook: same output, exit status, signals and terminal. The entry has its result,
    configuration, uncommitted code and environment, and, for PyTorch and PaddlePaddle, loss, gradient norm and health
    checks. It is committed to git.

    labbook exits with the exit status of COMMAND. Put options of labbook before the --.
    """
    if not command_line:
        raise UsageError("errors.record.no_command")
    if command_line[0].endswith(".ipynb"):
        from labbook.record.notebook_command import as_command

        command_line = as_command(command_line)

    from labbook.record.child.unrecorded import record_or_exec

    def record_it() -> ChildEnd:
        from labbook.record.program_requests import parse_requests
        from labbook.record.record_request import RecordRequest
        from labbook.record.session import record

        requests = parse_requests(watch, breaks, stop_on, max_steps, profile)
        if requests and no_probe:
            first = next(iter(requests)).replace("_", "-")
            raise UsageError("errors.record.needs_probe", option=first)
        flags: dict[str, object] = {}
        if level:
            flags["level"] = level
        if no_probe:
            flags["probe"] = False
        if no_commit:
            flags["commit"] = "off"
        request = RecordRequest(command_line, notebook, experiment, flags, notes, tags, full_pty, quiet, requests)
        if json_file is not None:
            # The command may change or delete this folder.
            request = replace(request, on_finished=partial(_write_json, json_file.absolute()))
        return record(request, _say)

    record_or_exec(command_line, record_it, _say)


def _write_json(path: Path, finished: FinishedRun) -> None:
    from labbook.commands.options import strict_json
    from labbook.model.entry import Entry
    from labbook.report.run_data import run_data
    from labbook.store.journal import write_atomically

    root = finished.entry.parents[5]  # above notes/runs/YEAR/MONTH/DAY
    data = run_data(Entry(finished.entry.relative_to(root).as_posix(), {}), finished.run, finished.commit.commit)
    text = json.dumps(strict_json(data), ensure_ascii=False, indent=2, default=str)
    write_atomically(path, f"{text}\n".encode("utf-8", "replace"))


def _say(line: str) -> None:
    """Prints a line on standard error, with a prefix that distinguishes it from the program's; ignores write errors."""
    prefix = "" if line.startswith(" ") else "labbook  "
    with suppress(Exception):
        lines = [prefix + line]
        if sys.stderr.isatty():
            lines = terminal_lines(prefix + line, len(prefix))
        click.echo("\n".join(lines), err=True)
