"""`labbook graph`: the recorded autograd graph of a run, or its model as ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labbook import screen
from labbook.commands.options import message_printer, notebook_option, open_notebook, run_argument, terminal_sentences
from labbook.errors import NotebookError, NothingFoundError, UsageError
from labbook.help_text import HelpCommand

if TYPE_CHECKING:
    from labbook.model.run import Run
    from labbook.store.notebook import Notebook
    from labbook.store.text.sentences import Sentences


@click.command(cls=HelpCommand)
@click.option("--autograd", is_flag=True, help="Draw the autograd graph. Default.")
@click.option("--model", is_flag=True, help="Draw the modules of the model with their health, into the file of --to.")
@click.option("--onnx", is_flag=True, help="Export the model as ONNX: run the program to its first optimizer step.")
@click.option("--around", default="", metavar="NAME", help="Show only the part around an operation or parameter.")
@click.option(
    "--to", "target", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write .svg, .mmd or .onnx."
)
@notebook_option
@run_argument()
def command(
    autograd: bool, model: bool, onnx: bool, around: str, target: Path | None, notebook: str | None, run: str
) -> None:
    """Show the autograd graph of a run, or export its model as ONNX.

    The probe records it at the first backward call, up to 400 operations. Each line is a chain of operations with the
    parameters that it takes. Below are the trainable parameters that the graph does not reach, where it was cut, and
    where the first value came from that was not finite. Exits with status 1 if no graph was recorded.

    With --onnx the recorded program runs again in a worktree until its first optimizer step, without an entry; the
    framework exports the model with the weights that the run kept, if it kept any.
    """
    from labbook.index.query import find_run
    from labbook.report.run_data import load_run

    if target is not None and target.suffix not in ((".onnx",) if onnx else (".svg", ".mmd")):
        raise UsageError("errors.graph.format", target=target, advice="errors.graph.onnx_advice" if onnx else "")
    book = open_notebook(notebook)
    say = terminal_sentences(book)
    if onnx:
        _export_onnx(book, say, run, target)
        return
    found = load_run(book.paths, find_run(book, run).id)
    if model:
        _write_model(book, found, target or Path(f"{run}.svg"))
        return
    _draw_autograd(book, say, found, around, target)


def _draw_autograd(book: Notebook, say: Sentences, run: Run | None, around: str, target: Path | None) -> None:
    from labbook.report import graph_drawing
    from labbook.store.text.templates import words

    health: Mapping[str, Any] = run.health if run is not None else {}
    graph = health.get("autograd") or {}
    boxes = graph_drawing.fold_graph(graph.get("operations") or [])
    if not boxes:
        raise NothingFoundError("terminal.graph.none")
    unreachable = [str(name) for name in graph.get("unreachable") or []]
    shown = graph_drawing.boxes_around(boxes, around)
    if not shown:
        missed = [name for name in unreachable if around.lower() in name.lower()]
        key = "terminal.graph.not_reached" if missed else "terminal.graph.not_around"
        raise NothingFoundError(key, name=around, names=missed[:12])
    labels = words(book.config.language_in_use(), book.paths.templates)["autograd"]
    remarks = graph_drawing.graph_remarks(health, say)
    if target is None:
        lines = graph_drawing.graph_lines(boxes, shown, labels["other"])
        if unreachable:
            remarks.insert(0, say.line("terminal.graph.missed", count=len(unreachable), names=unreachable[:12]))
        if len(shown) < len(boxes):
            remarks.append(say.line("terminal.graph.part", shown=len(shown), count=len(boxes)))
        if graph.get("more"):
            remarks.append(say.line("terminal.graph.more"))
        for line in (*lines, *(["", *remarks] if remarks else [])):
            click.echo(screen.harmless(line))
    elif target.suffix == ".svg":
        suspect = graph_drawing.suspect_of(run) if run is not None else ""
        _write(target, graph_drawing.graph_svg(boxes, shown, labels, unreachable, suspect, remarks))
    else:
        _write(target, graph_drawing.graph_mermaid(boxes, shown, labels["other"]))


def _write_model(book: Notebook, run: Run | None, target: Path) -> None:
    from labbook.report.model_mermaid import model_mermaid
    from labbook.report.model_svg import has_diagram, model_svg
    from labbook.store.text.templates import words

    if run is None or not has_diagram(run):
        raise NothingFoundError("terminal.graph.no_model")
    labels = words(book.config.language_in_use(), book.paths.templates)["diagram"]
    _write(target, (model_svg if target.suffix == ".svg" else model_mermaid)(run, labels))


def _write(target: Path, text: str) -> None:
    try:
        target.write_text(text, "utf-8")
    except OSError as error:
        raise NotebookError("errors.file.not_written", path=target, reason=error) from error
    click.echo(str(target))


def _export_onnx(book: Notebook, say: Sentences, run: str, target: Path | None) -> None:
    from labbook.rerun.onnx_model import export_onnx
    from labbook.rerun.rerun_run import read_run

    data = read_run(book, run)
    notify = message_printer(say)
    for model in export_onnx(book, data, (target or Path(f"{data['id']}.onnx")).absolute(), notify):
        click.echo(str(model.path))
        for note in model.notes:
            notify(note)
        if model.weights:
            click.echo(say.line("terminal.graph.onnx_kept", model=model.model, name=model.weights), err=True)
        else:
            click.echo(say.line("terminal.graph.onnx_first", model=model.model), err=True)
    click.echo(say.line("terminal.graph.onnx_open"), err=True)
