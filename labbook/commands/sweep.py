"""`labbook sweep`: records a script with many combinations of options."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labbook.commands.options import with_notebook
from labbook.errors import NotebookError, NothingFoundError, UsageError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences
    from labbook.sweep.sweep_runner import SweepRequest


@click.command(cls=HelpCommand)
@click.option("--name", metavar="NAME", help="Name of the sweep. Default: made from the script and the options.")
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Run N random combinations instead of all.")
@click.option("--sample-seed", type=int, default=0, metavar="SEED", help="Seed of the random sample. Default: 0.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, metavar="J", help="Trials at a time. Default: 1, with Slurm all."
)
@click.option(
    "--style",
    type=click.Choice(["auto", "dashes", "equals"]),
    default="auto",
    help="How the script takes options: --lr=0.1 (dashes) or lr=0.1 (equals). Default: found in the script.",
)
@click.option(
    "--stop-on",
    multiple=True,
    metavar="CONDITION",
    help="With unhealthy: start no trial after a failed or unhealthy one. Other conditions are passed to `labbook "
    "record`. Repeatable.",
)
@click.option("--sbatch", metavar="OPTIONS", help="Submit the trials as an array of Slurm, with options of sbatch.")
@click.option("--print", "only_print", is_flag=True, help="Print the commands or the script of Slurm and run nothing.")
@click.option("--python", default="python", metavar="PROGRAM", help="Interpreter of the script. Default: python.")
@click.option("--page", metavar="NAME", help="Write the page of this sweep again and run nothing.")
@with_notebook
@click.argument("script", required=False)
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[NAME=VALUES]...")
def command(
    name: str | None,
    sample: int | None,
    sample_seed: int,
    jobs: int,
    style: str,
    stop_on: tuple[str, ...],
    sbatch: str | None,
    only_print: bool,
    python: str,
    page: str | None,
    book: Notebook,
    say: Sentences,
    script: str | None,
    options: tuple[str, ...],
) -> None:
    """Run a script with many combinations of options and record each.

    VALUES of an option NAME of the script are a list, lr=0.001,0.01, or a range of integers, seed=0..4. All
    combinations are run, each recorded as an entry. The page of the sweep shows the best trials and which options
    matter. Trials that are finished are not run again by the same command.
    """
    from labbook.store.experiments import slug_part
    from labbook.sweep.option_style import find_style
    from labbook.sweep.sweep_runner import SweepRequest
    from labbook.sweep.trial_grid import make_trials, parse_axes, sweep_name

    if page is not None:
        _write_page(book, page)
        return
    if script is None or not Path(script).is_file():
        raise UsageError("sweep.no_script", script=script or "")
    words, rest = _parts(options)
    trials = make_trials(parse_axes(words), sample, sample_seed)
    found = find_style(Path(script), style)
    request = SweepRequest(
        name=(slug_part(name) if name else "") or sweep_name(script, words, rest),
        commands=[(python, script, *rest, *found.words(trial)) for trial in trials],
        record_options=tuple(part for each in stop_on if each != "unhealthy" for part in ("--stop-on", each)),
        jobs=jobs,
        stop_on_unhealthy="unhealthy" in stop_on,
    )
    if sbatch is not None:
        _submit(book, request, shlex.split(sbatch), only_print=only_print)
    elif only_print:
        click.echo("\n".join(shlex.join(each) for each in request.commands))
    else:
        _run(book, request, say)


def _parts(options: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Returns the options with values, and the fixed ones: from the first word that begins with a dash."""
    at = next((number for number, word in enumerate(options) if word.startswith("-")), len(options))
    return list(options[:at]), list(options[at:])


def _write_page(book: Notebook, name: str) -> None:
    from labbook.sweep.sweep_page import write_sweep_page
    from labbook.sweep.sweep_runner import list_sweeps

    page = write_sweep_page(book, name)
    if page is None:
        known = list_sweeps(book)[-5:]
        raise NothingFoundError("sweep.no_trials", name=name, names=known, advice="sweep.known" if known else "")
    click.echo(str(page))


def _run(book: Notebook, request: SweepRequest, say: Sentences) -> None:
    from labbook.sweep.sweep_page import write_sweep_page
    from labbook.sweep.sweep_runner import run_trials

    def notify(key: str, **values: object) -> None:
        click.echo(f"labbook  {say.line(key, **values)}", err=True)

    result = run_trials(book, request, notify)
    page = write_sweep_page(book, request.name)
    notify("sweep.done", finished=result.finished, total=len(request.commands), failed=result.failed)
    if result.stopped_by:
        notify("sweep.stopped", run=result.stopped_by, left=result.left)
    if page is not None:
        notify("sweep.page", page=str(page))
    if result.interrupted:
        notify("sweep.interrupted")
        sys.exit(130)
    if result.finished < len(request.commands):
        sys.exit(1)


def _submit(book: Notebook, request: SweepRequest, options: list[str], *, only_print: bool) -> None:
    import subprocess
    from shutil import which

    from labbook.sweep.slurm_array import array_script

    text = array_script(book, request, options, str(Path.cwd()))
    if only_print:
        click.echo(text, nl=False)
        return
    file = book.paths.private / "sweeps" / f"{request.name}.sh"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise NotebookError("errors.file.not_written", path=file, reason=error) from error
    program = which("sbatch")
    if program is None:
        raise UsageError("sweep.no_sbatch", script=file)
    sys.exit(subprocess.run([program, str(file)]).returncode)
