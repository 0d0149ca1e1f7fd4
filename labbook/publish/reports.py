"""Writes the report of a period, or of an experiment, into the notebook and commits it."""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from labbook.compare.run_changes import compare_runs
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.errors import NotebookError
from labbook.frozen import dataclass
from labbook.index.query import list_notes
from labbook.model.entry import Entry
from labbook.model.run import Change, Run
from labbook.publish.pages.site_data import read_body
from labbook.report.period import Period
from labbook.report.period_context import Options, PeriodSource, period_context
from labbook.report.period_costs import Cost
from labbook.report.progress_svg import progress_svg
from labbook.report.report_page import experiment_runs_markdown, report_markdown
from labbook.report.run_data import load_run
from labbook.report.run_row import RunRow, run_row
from labbook.report.series_choice import step_time_series
from labbook.store.commit.branch_checkout import restore_before_writing
from labbook.store.commit.commit_queue import withheld_files
from labbook.store.commit.entry_commit import CommitOutcome, commit_files
from labbook.store.experiments import metric_goal
from labbook.store.journal import write_atomically
from labbook.store.json_files import read_run_facts
from labbook.store.notebook import Notebook
from labbook.store.paths import check_stays_inside, stays_inside
from labbook.store.text.entry_text import read_text, set_block
from labbook.store.text.sentences import Sentences
from labbook.store.text.templates import Templates


@dataclass(frozen=True)
class WrittenReport:
    """A written report.

    Args:
        trouble: Names a broken template of the notebook, or "".
        problems: Notes that could not be read, as (path, reason).
    """

    path: Path
    data: dict[str, Any]
    commit: CommitOutcome
    trouble: str
    problems: tuple[tuple[str, str], ...]


def write_report(
    notebook: Notebook,
    period: Period,
    now: float,
    *,
    experiment: str = "",
    notify: Callable[[int, int], None] | None = None,
) -> WrittenReport:
    """Writes and commits `notes/reports/<period>.md` and its figures; text of people is preserved.

    Args:
        now: Unix seconds.
        experiment: Only the runs of this experiment, all of them up to the end of the period; "" for all experiments.
        notify: Called with (files read, files to read) while the index is updated.

    Raises:
        NotebookError: The report cannot be written.
    """
    source, problems = report_source(notebook, period, now, experiment=experiment, notify=notify)
    data = period_context(source) | {"people": notebook.config.report_people}
    language = notebook.config.language_in_use()
    templates = Templates(notebook.paths.templates, language)
    path = notebook.paths.reports / f"{data['name']}.md"
    check_stays_inside(path, notebook.paths.root)
    restore_before_writing(notebook, path)
    labels = templates.words["week"]
    pictures = _pictures(source, data, (str(labels["legend_run"]), str(labels["legend_best"])))
    folder = path.with_suffix("")
    data["figures"] = [{"experiment": name, "path": f"{folder.name}/{name}.svg"} for name in pictures]
    files = [path]
    try:
        existing = read_text(path) if path.exists() else None
        say = Sentences(language, notebook.paths.templates)
        page, trouble = report_markdown(data, templates, say, existing)
        path.parent.mkdir(parents=True, exist_ok=True)
        if page != existing:
            write_atomically(path, page.encode("utf-8", "surrogateescape"))
        for name, picture in pictures.items():
            folder.mkdir(exist_ok=True)
            write_atomically(folder / f"{name}.svg", picture.encode())
            files.append(folder / f"{name}.svg")
        files += _list_runs(notebook, source, data, templates)
    except OSError as error:
        raise NotebookError("errors.report.not_written", path=path, reason=error) from error
    totals = data["totals"]
    message = f"Report of {data['name']}: {totals['runs']} runs, {totals['broken']} failed, {totals['time']}"
    return WrittenReport(path, data, commit_files(notebook, files, message), trouble, problems)


def report_source(
    notebook: Notebook,
    period: Period,
    now: float,
    *,
    experiment: str = "",
    notify: Callable[[int, int], None] | None = None,
) -> tuple[PeriodSource, tuple[tuple[str, str], ...]]:
    """Returns the sources of a report, and the notes that could not be read."""
    runs = list_notes(notebook, notify=notify)
    rows = _rows(notebook, runs.entries)
    if experiment:
        rows = [row for row in rows if row.experiment == experiment]
        period = _all_runs(period, experiment, rows, now)
    begin = period.span_before(now)[0]
    recent = {row.id: run for row in rows if row.started >= begin and (run := load_run(notebook.paths, row.id))}
    pages = [read_body(notebook, page) for page in list_notes(notebook, kind="experiment").entries]
    catalogue, language = load_catalogue(notebook.paths.symptoms), notebook.config.language_in_use()
    source = PeriodSource(
        period=period,
        rows=rows,
        experiments=pages,
        changes={name: run.changes for name, run in recent.items() if run.changes},
        link=partial(posixpath.relpath, start="notes/reports"),
        now=now,
        title=lambda symptom: catalogue.title(symptom, language).replace("`", ""),
        costs={name: _cost(run) for name, run in recent.items()},
        gained_by=partial(_differences, notebook),
        sentences=Sentences(language, notebook.paths.templates),
        options=_options(runs.entries),
    )
    return source, runs.refreshed.problems


def _all_runs(period: Period, experiment: str, rows: Sequence[RunRow], now: float) -> Period:
    """Returns the days from the first run of an experiment to the end of a period, or to today."""
    first = min((row.started for row in rows if row.started > 0), default=period.span[0])
    end = min(datetime.fromtimestamp(now).date(), period.end)
    begin = min(datetime.fromtimestamp(first).date(), end)
    return Period("experiment", f"{experiment}-report", begin, end)


def _cost(run: Run) -> Cost:
    used = run.captured.get("resources", {})
    gpu = [_number(one.get("own_peak_memory_bytes")) or _number(one.get("peak_memory_bytes")) for one in _gpus(used)]
    on_gpu = [size for size in gpu if size]
    series = step_time_series(run)
    return Cost(
        host=run.host,
        step_s=series.median if series is not None else None,
        memory_bytes=max(on_gpu) if on_gpu else _number(used.get("peak_rss_bytes")),
        on_gpu=bool(on_gpu),
    )


def _gpus(used: Any) -> Iterable[dict[str, Any]]:  # noqa: ANN401 - JSON data
    return [one for one in used.get("gpus") or () if isinstance(one, dict)]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else None


def _differences(notebook: Notebook, before: str, now: str) -> Sequence[Change]:
    """Returns the differences of two runs, () if the data of one is missing.

    Nothing is known of the code and the packages of an imported run: its differences from a recorded one are no cause.
    """
    facts = [read_run_facts(notebook.paths, run_id) for run_id in (before, now)]
    if not all(facts) or len({bool(run.get("imported_from")) for run in facts}) > 1:
        return ()
    return compare_runs(facts[0], facts[1])


def _list_runs(notebook: Notebook, source: PeriodSource, data: dict[str, Any], templates: Templates) -> list[Path]:
    """Lists the runs of each experiment of the report on its page, for readers on a git host; returns the pages.

    The site lists them there itself, with runs that are newer than the report.
    """
    figures = {one["experiment"]: f"../reports/{one['path']}" for one in data["figures"]}
    written = []
    for row in data["results"]:
        name = row["experiment"]
        page = notebook.paths.experiments / f"{name}.md"
        if not name or not page.is_file() or not stays_inside(page, notebook.paths.root):
            continue
        rows = [one for one in source.rows if one.experiment == name]
        text = read_text(page)
        changed = _add_runs(text, name, rows, figures.get(name, ""), templates, source.options)
        if changed != text:
            write_atomically(page, changed.encode("utf-8", "surrogateescape"))
            written.append(page)
    return written


def _add_runs(text: str, name: str, rows: Sequence[RunRow], figure: str, templates: Templates, options: Options) -> str:
    block = experiment_runs_markdown(name, rows, figure, templates, options)
    return set_block(text, "runs", block) if "<!-- labbook:begin runs -->" in text else text


def add_current_runs(notebook: Notebook, name: str, text: str) -> str:
    """Returns the page of an experiment with its runs of now and their figure, which is inside the text."""
    templates = Templates(notebook.paths.templates, notebook.config.language_in_use())
    labels = templates.words["week"]
    entries = list_notes(notebook).entries
    rows = [row for row in _rows(notebook, entries) if row.experiment == name]
    picture = progress_svg(rows, 0.0, (str(labels["legend_run"]), str(labels["legend_best"])))
    encoded = base64.b64encode(picture.encode()).decode()
    return _add_runs(
        text, name, rows, f"data:image/svg+xml;base64,{encoded}" if picture else "", templates, _options(entries)
    )


def _options(entries: Iterable[Entry]) -> Options:
    """Returns the options of the runs by their ids."""
    return {entry.id: params for entry in entries if isinstance(params := entry.meta.get("params"), Mapping)}


def _rows(notebook: Notebook, entries: Iterable[Entry]) -> list[RunRow]:
    """Returns the rows of the runs that may be published."""
    withheld, goals = withheld_files(notebook.paths), cache(partial(metric_goal, notebook))
    return [run_row(entry, goals) for entry in entries if entry.path not in withheld]


def _pictures(source: PeriodSource, data: dict[str, Any], labels: tuple[str, str]) -> dict[str, str]:
    """Returns experiment -> its picture, for the experiments with runs in the period."""
    begin, end = source.period.span
    found = {}
    for row in data["results"]:
        rows = [one for one in source.rows if one.experiment == row["experiment"] and one.started < end]
        picture = progress_svg(rows, begin, labels) if row["experiment"] else ""
        if picture:
            found[row["experiment"]] = picture
    return found
