"""Judges a run and writes its entry: checks, diagnosis, title, the page and its attachments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from labbook.errors import NotebookError
from labbook.findings.run_findings import add_diagnosis
from labbook.model.events.process_kinds import FileItem
from labbook.model.metric_kinds import MetricGoal, metric_kind, name_words, named_metric
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.probe.redaction.redactor import Redactor
from labbook.record.kept_files import draw_lineage
from labbook.store.journal import write_atomically
from labbook.store.notebook import Notebook
from labbook.store.paths import check_stays_inside
from labbook.store.text.sentences import Sentences
from labbook.store.text.templates import words

OBJECTIVE = "objective"
"""Name of the result of a trial among its metrics."""

_SERIES_POINTS = 2000
_ALL_POINTS = 20_000
"""Maximum points of one series, and of all together, in `run.json`; the journal has all of them. Source: 20,000 points
take about 800 kB, and the folder of an entry stays under 1 MiB."""


def add_printed_metrics(run: Run, text: str) -> Run:
    """Adds the series printed on the console or in cells, except those that the probe recorded too."""
    if not text.strip():
        return run
    from labbook.capture.metrics_text import metrics_from_console
    from labbook.findings.watched_metric import add_watched_metric

    return add_watched_metric(_add_unknown(run, metrics_from_console(text), str.lower), text)


def add_metrics_of_tables(run: Run, items: Sequence[FileItem], cwd: Path, redactor: Redactor) -> Run:
    """Adds the series in the tables that the run wrote, except those that were logged or printed, too.

    One of which the program prints every tenth value, say, takes the place of the printed one.
    """
    from labbook.capture.tables.written_tables import metrics_from_tables
    from labbook.report.entry.printed_series import is_part_of, repeats_values

    ended = run.started if run.ended is None else run.ended
    trainings = len(run.facts("trainings").get("rows") or ()) or int(run.facts("phases").get("count") or 0)
    found = metrics_from_tables(items, cwd, run.started, ended, trainings)
    own = {name_words(series.name) for series in found}
    others = [s for s in run.series if name_words(s.name) not in own and metric_kind(s.name).quantity]
    new = [s for s in found if not any(repeats_values(s, other) or repeats_values(other, s) for other in others)]
    masked = [replace(s, name=redactor.text(s.name), source=redactor.text(s.source)) for s in new]
    shorter = tuple(
        s
        for s in run.series
        if s.source == "text" and any(name_words(w.name) == name_words(s.name) and is_part_of(s, w) for w in masked)
    )
    rest = tuple(s for s in run.series if s not in shorter)
    run = replace(run, series=rest, printed=run.printed + shorter)
    return _add_unknown(run, masked, name_words)  # `val/acc` for `val_acc`


def _add_unknown(run: Run, read: Sequence[Series], key: Callable[[str], object]) -> Run:
    """Adds series under new names; those of a known one are compared with it by checks."""
    known = {key(s.name) for s in run.series}
    new = tuple(s for s in read if key(s.name) not in known)
    return replace(run, series=run.series + new, printed=run.printed + tuple(s for s in read if s not in new))


def add_findings(notebook: Notebook, run: Run) -> Run:
    """Adds health checks, the diagnosis, the primary series, tags and the title."""
    from labbook.report.entry.title import run_title
    from labbook.report.run_data import add_verdict
    from labbook.report.series_choice import with_axis

    run = replace(
        run, series=tuple(with_axis(series, run.steps) for each in run.series for series in _phases(run, each))
    )
    if run.signals or run.series or (run.frameworks and not run.captured.get("trials")):
        from labbook.diagnosis.catalogue.check_pages import load_check_pages
        from labbook.findings.code_checks import check_code, source_files
        from labbook.findings.operation_lines import add_operation_line
        from labbook.health.checklist import checklist
        from labbook.health.debug_output import update_ratios
        from labbook.health.model_summary import summary
        from labbook.report.terminal_findings import visible_findings

        framework = run.frameworks[0].name if run.frameworks else ""
        pages = load_check_pages(notebook.paths.symptoms, framework)
        run = add_operation_line(run, source_files(run))
        run = replace(run, checks=tuple(checklist(run, pages, check_code(run))), health=summary(run))
        run = _add_primary_series(notebook, run)
        run = replace(
            run, symptoms=tuple(dict.fromkeys((*run.symptoms, *(check.id for check in visible_findings(run)))))
        )
        ratios = (series for signals in run.signals for series in update_ratios(signals))
        run = replace(run, series=(*run.series, *ratios))
    run = add_verdict(add_diagnosis(notebook, run))
    tags = dict.fromkeys((*run.tags, *(f.name for f in run.frameworks if f.optimizers or len(run.frameworks) == 1)))
    run = replace(run, tags=tuple(tags))
    return replace(run, title=run_title(run, notebook.config.language_in_use()))


def _phases(run: Run, series: Series) -> list[Series]:
    """Returns the parts of a printed series that has one for each phase of the training, the last one first.

    Phases train for other ends: the loss of a pretraining is no better than that of the training after it.
    """
    ends = (*series.starts[1:], len(series.values))
    if series.source == "probe" or len(ends) < 2 or len(ends) != run.facts("phases").get("count"):
        return [series]
    parts: list[Series] = []
    for at, (begin, end) in enumerate(zip(series.starts, ends, strict=True)):
        name = series.name if end == len(series.values) else f"phase{at + 1}/{series.name}"
        values = series.values[begin:end]
        parts.insert(0, Series.of_values(name, series.source, range(1, len(values) + 1), values, axis="number"))
    return parts


def _add_primary_series(notebook: Notebook, run: Run) -> Run:
    """Adds the name of the main metric of the run, and its direction: that of its trainings where it has several."""
    from labbook.findings.watched_metric import add_watched_goal, trainer_goal
    from labbook.health.evidence.training_kind import may_rise
    from labbook.report.series_choice import primary_series, split_direction
    from labbook.store.experiments import metric_goal

    goal = metric_goal(notebook, run.experiment)
    goal = goal if goal.metric else trainer_goal(run) or goal
    goals = run.facts("trial").get("goals")
    if goals and not goal.metric:
        return replace(run, primary=OBJECTIVE, direction=goals[0])
    reported = run.facts("trainings").get("metric", "loss") if not goal.metric else "loss"
    if not goal.metric:
        run = add_watched_goal(run)
        if watched := run.facts("watched"):
            goal = MetricGoal(watched["metric"], goal.direction or watched["direction"])
    name = primary_series(run, goal) if reported == "loss" else reported
    kind = metric_kind(name)
    chosen = goal.direction if not goal.metric or named_metric([name], goal.metric) else ""
    rises = any(may_rise(run, each) for each in run.signals)
    found = "none" if rises and kind.quantity == "loss" and kind.is_training else split_direction(run, name)
    if run.facts("watched"):
        run = replace(run, captured={**run.captured, "watched": {**run.facts("watched"), "loss_may_rise": rises}})
    return replace(run, primary=name, direction=chosen or found)


def write_entry(notebook: Notebook, run: Run) -> Path:
    """Writes the entry and its attachments, each file atomically."""
    from labbook.report.entry.entry_page import entry_markdown
    from labbook.store.text.entry_text import read_text, to_bytes

    entry = notebook.paths.entry(run.id)
    check_stays_inside(entry, notebook.paths.root)
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        if run.status != "running":
            _write_attachments(notebook, run)
        page = entry_markdown(run, notebook, read_text(entry) if entry.exists() else None)
        write_atomically(entry, to_bytes(page))
    except OSError as error:
        raise NotebookError("errors.record.entry_not_written", entry=entry, reason=error) from error
    return entry


def _write_attachments(notebook: Notebook, run: Run) -> None:
    from labbook.model.run_json import line_by_line, run_to_json

    folder = notebook.paths.attachments(run.id)
    folder.mkdir(parents=True, exist_ok=True)
    if run.parents:
        draw_lineage(run, folder)
    _draw_model(notebook, run, folder)
    if run.series:
        from labbook.report.curves import curves_svg, drawable, metrics_csv
        from labbook.report.gradient_flow_svg import flow_svg, is_worth_drawing

        if is_worth_drawing(run):
            write_atomically(folder / "flow.svg", flow_svg(run).encode("utf-8"), durable=False)
        if drawable(run.series):
            axes = words(notebook.config.language_in_use(), notebook.paths.templates)["curves"]
            curves = curves_svg(run.series, run.title, run.primary, axes).encode("utf-8")
            write_atomically(folder / "curves.svg", curves, durable=False)
        write_atomically(folder / "metrics.csv", metrics_csv(run.series).encode("utf-8"), durable=False)
    points = max(20, min(_SERIES_POINTS, _ALL_POINTS // max(1, len(run.series))))
    facts = line_by_line(run_to_json(move_long_console(run, folder), max_points=points))
    write_atomically(folder / "run.json", facts.encode("utf-8"), durable=False)


def move_long_console(run: Run, folder: Path) -> Run:
    """Returns the run with the ends of a long output, which gets a file of its own: lists and pages read `run.json`."""
    from labbook.report.entry.console_section import CONSOLE_FILE, MOST_INLINE

    text = run.console.text
    if len(text) <= MOST_INLINE:
        (folder / CONSOLE_FILE).unlink(missing_ok=True)  # of an earlier output, when a job is joined or read again
        return run
    write_atomically(folder / CONSOLE_FILE, text.encode("utf-8", "replace"), durable=False)
    begin, end = text[: MOST_INLINE // 4], text[-MOST_INLINE // 2 :]
    short = f"{begin.rpartition(chr(10))[0]}\n... {CONSOLE_FILE} ...\n{end.partition(chr(10))[2]}"
    return replace(run, console=replace(run.console, text=short))


def _draw_model(notebook: Notebook, run: Run, folder: Path) -> None:
    from labbook.report.graph_drawing import is_incomplete, run_graph_svg
    from labbook.report.model_svg import has_diagram, model_svg

    language, own = notebook.config.language_in_use(), notebook.paths.templates
    if has_diagram(run):
        picture = model_svg(run, words(language, own)["diagram"])
        write_atomically(folder / "model.svg", picture.encode("utf-8"), durable=False)
    if is_incomplete(run):
        picture = run_graph_svg(run, words(language, own)["autograd"], Sentences(language, own))
        write_atomically(folder / "autograd.svg", picture.encode("utf-8"), durable=False)


def entry_files(notebook: Notebook, run_id: str, entry: Path) -> list[Path]:
    """Returns an entry and its attachments."""
    folder = notebook.paths.attachments(run_id)
    return [entry, *(sorted(p for p in folder.iterdir() if p.is_file()) if folder.is_dir() else [])]
