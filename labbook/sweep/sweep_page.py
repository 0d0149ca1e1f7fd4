"""Writes the page of a sweep, `notes/sweeps/<name>.md`, and its picture; text that people add to it is preserved."""

from __future__ import annotations

from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any

from labbook.report.best_runs import PRUNED, counts_as_result
from labbook.report.numbers import duration, number, percent
from labbook.store.commit.entry_commit import commit_files
from labbook.store.experiments import metric_goal
from labbook.store.journal import write_atomically
from labbook.store.notebook import Notebook, not_writable
from labbook.store.paths import check_stays_inside
from labbook.store.text import entry_text, frontmatter
from labbook.store.text.sentences import Sentences
from labbook.store.text.templates import Templates
from labbook.sweep.parallel_coordinates_svg import parallel_coordinates
from labbook.sweep.sweep_runner import list_trials
from labbook.sweep.sweep_summary import SweepSummary, SweepTrial, summarize_sweep

_SHOWN = 50
_PICTURE = "trials.svg"


def write_sweep_page(notebook: Notebook, name: str, *, commit: bool = True) -> Path | None:
    """Writes and commits the page of a sweep from its trials; returns its path, `None` without any trial.

    Raises:
        NotebookError: The page cannot be written.
    """
    entries = list_trials(notebook, name)
    if not entries:
        return None
    summary = summarize_sweep(entries, cache(partial(metric_goal, notebook)))
    language = notebook.config.language_in_use()
    page = notebook.paths.sweep(name)
    check_stays_inside(page.parent, notebook.paths.root)
    title = Sentences(language).line("sweep.title", name=name)
    svg = parallel_coordinates(summary, title)
    picture = page.with_suffix("") / _PICTURE
    text = _page(notebook, summary, name, title, bool(svg))
    try:
        existing = entry_text.read_text(page) if page.exists() else None
        made = entry_text.merge(existing, text, known=("sweep",)) if existing is not None else text
        page.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(page, entry_text.to_bytes(made))
        if svg:
            picture.parent.mkdir(exist_ok=True)
            write_atomically(picture, svg.encode())
    except OSError as error:
        raise not_writable(notebook.paths.root, error) from error
    if commit and notebook.config.commit != "off":
        commit_files(notebook, [page, picture] if svg else [page], f"Update sweep {name}\n")
    return page


def _page(notebook: Notebook, summary: SweepSummary, name: str, title: str, has_picture: bool) -> str:
    templates = Templates(notebook.paths.templates, notebook.config.language_in_use())
    shown = summary.trials[:_SHOWN]
    data = {
        "title": title,
        "metric": summary.metric,
        "options": list(summary.options),
        "counts": Counter(PRUNED if PRUNED in trial.row.tags else trial.row.status for trial in summary.trials),
        "total": len(summary.trials),
        "time": duration(sum(trial.row.duration_s or 0.0 for trial in summary.trials)),
        "trials": [_cells(trial, summary) for trial in shown],
        "more": len(summary.trials) - len(shown),
        "importance": [
            {
                "option": each.option,
                "values": each.values,
                "trials": each.trials,
                "correlation": "" if each.correlation is None else f"{each.correlation:+.2f}",
                "explained": "" if each.explained is None else percent(each.explained),
            }
            for each in summary.importance
        ],
        "picture": f"{name}/{_PICTURE}" if has_picture else "",
        "sweep": name,
    }
    body, _ = templates.render_anyway("sweep_page.md.j2", data)
    first = summary.trials[0].row
    results = (trial.row for trial in summary.trials if trial.row.metric == summary.metric)
    best = next((row for row in results if counts_as_result(row)), None)
    meta: dict[str, Any] = {
        "schema": 1,
        "title": title,
        "sweep": name,
        "experiment": first.experiment or None,
        "metric": summary.metric or None,
        "best": best.id if best else None,
        "trials": len(summary.trials),
    }
    return f"{frontmatter.emit(meta)}\n{entry_text.tidy(body)}"


def _cells(trial: SweepTrial, summary: SweepSummary) -> dict[str, Any]:
    row = trial.row
    best = row.best if row.best is not None else row.last
    return {
        "id": row.id,
        "link": f"../{row.path.removeprefix('notes/')}",
        "verdict": row.verdict,
        "metric": number(best) if row.metric == summary.metric else "-",
        "time": duration(row.duration_s),
        "values": [_show_value(trial.values.get(name)) for name in summary.options],
    }


def _show_value(value: object) -> str:
    if value is None:
        return "-"
    return number(value) if isinstance(value, float) else str(value)
