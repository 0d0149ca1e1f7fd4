"""`labbook record`: runs a command and writes its entry."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook.errors import UsageError
from labbook.record.child.unrecorded import run_in_any_case

if TYPE_CHECKING:
    from labbook.record.child.supervisor import ChildEnd

_EPILOG = """\b
Examples:
  labbook record -- python train.py --lr 0.1
  labbook record -e exp003_digits-cnn_dynamic -m "larger batch" -- python train.py
  labbook record -- torchrun --nproc-per-node 2 train.py
  labbook record -- bash run.sh
  labbook record --full-pty -- htop          # programs that draw the whole screen
  labbook record --watch "loss > 10" --watch "val/acc < 0.5" -- python train.py
  labbook record --break "grad_norm > 100" -- python train.py     # pdb in your code, at that step
  labbook record --stop-on nan -- python train.py
  labbook record --max-steps 20 --profile -- python train.py      # a dry run with a profile
"""

_WATCH = (
    "Keep the last 20 values and the batch in the entry when this comes true: a series (loss, grad_norm, lr, "
    "step_time_s, or a name that the program logs), <, <=, >, >=, ==, !=, numbers, nan, inf, and, or, not; may be "
    "repeated."
)
_BREAK = "Start pdb in your own code after the step in which this comes true; may be repeated."
_STOP_ON = "End the program, with exit status 65, when this comes true; `nan`: loss or gradient norm not finite."
_PROFILE = "Profile N steps (5) from step 10 on with the framework's profiler; put -- before the command."


@click.command(
    epilog=_EPILOG,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("--notebook", type=click.Path(path_type=Path), help="Use this notebook instead of the one found.")
@click.option("-e", "--experiment", default="", help="Experiment that the run belongs to.")
@click.option("-m", "--note", "notes", multiple=True, help="A sentence for the entry; may be repeated.")
@click.option("-t", "--tag", "tags", multiple=True, help="A tag for the entry; may be repeated.")
@click.option(
    "--debug",
    "--level",
    "level",
    type=click.Choice(["off", "light", "normal", "deep"]),
    help="How much the probe measures.",
)
@click.option("--no-probe", is_flag=True, help="Do not look inside the program.")
@click.option("--no-commit", is_flag=True, help="Write the entry but do not commit it.")
@click.option("--watch", multiple=True, metavar="CONDITION", help=_WATCH)
@click.option("--break", "breaks", multiple=True, metavar="CONDITION", help=_BREAK)
@click.option("--stop-on", multiple=True, metavar="CONDITION", help=_STOP_ON)
@click.option("--max-steps", type=int, metavar="N", help="End the program after N optimizer steps, with exit status 0.")
@click.option("--profile", is_flag=False, flag_value="5", metavar="[N]", help=_PROFILE)
@click.option("--full-pty", is_flag=True, help="Give the command a whole terminal, for programs drawn with curses.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing of labbook's own.")
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
    quiet: bool,
    command_line: tuple[str, ...],
) -> None:
    """Run a command and write its entry.

    The command's output, exit status, signals and terminal are as without labbook. Its end, its configuration, its
    uncommitted code and, for PyTorch and PaddlePaddle, its losses and gradient norms become a Markdown entry, committed
    to git. Ends with the exit status of the command.
    """
    if not command_line:
        raise UsageError("no command to record", hint="put it after `--`: labbook record -- python train.py")

    def record_it() -> ChildEnd:
        from labbook.record.program_requests import parse_requests
        from labbook.record.session import RecordRequest, record

        asked = parse_requests(watch, breaks, stop_on, max_steps, profile)
        if asked and no_probe:
            first = next(iter(asked)).replace("_", "-")
            raise UsageError(f"--{first} needs the probe", hint="leave --no-probe out")
        flags: dict[str, object] = {}
        if level:
            flags["level"] = level
        if no_probe:
            flags["probe"] = False
        if no_commit:
            flags["commit"] = "off"
        request = RecordRequest(command_line, notebook, experiment, flags, notes, tags, full_pty, quiet, asked)
        return record(request, _say)

    run_in_any_case(command_line, record_it, _say)


def _say(line: str) -> None:
    """Shows a line on standard error, if it can be written, begun with the name to set it off from the program's."""
    prefix = "" if line.startswith(" ") else "labbook  "
    with suppress(Exception):
        click.echo(prefix + line, err=True)
