"""All data of a run, for `labbook show --json` and for pages that need more than the entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from labbook.model.entry import Entry
from labbook.model.run import Run
from labbook.model.run_files import FileUse
from labbook.model.run_json import run_from_json, run_to_json
from labbook.model.series import Series
from labbook.model.verdict import judge_run
from labbook.report.entry.console_section import CONSOLE_FILE
from labbook.report.run_row import run_row
from labbook.report.series_choice import run_best, run_series
from labbook.store.json_files import read_run_facts, read_text_or_nothing
from labbook.store.paths import NotebookPaths


def load_run(paths: NotebookPaths, run_id: str) -> Run | None:
    """Returns the run from its `run.json`; `None` while it is running or if the file is missing or damaged."""
    data = read_run_facts(paths, run_id)
    if data.get("id") != run_id:
        return None
    run = run_from_json(data)
    whole = read_text_or_nothing(paths.attachments(run_id) / CONSOLE_FILE)
    if whole:
        run = replace(run, console=replace(run.console, text=whole))
    return run if run.verdict else add_verdict(run)  # recorded before there were verdicts


def add_verdict(run: Run) -> Run:
    """Returns the run with its verdict."""
    verdict = judge_run(run)
    return replace(run, verdict=verdict.name, verdict_reason=verdict.reason)


def run_data(entry: Entry, run: Run | None, commit: str) -> dict[str, Any]:
    """Returns all data of a run as JSON data.

    Args:
        entry: Its entry; the only source if the data of the run is missing.
        commit: Full hash of the commit of the entry, or "".

    Returns:
        The fields of `Run`, and `command`, `duration_s`, `metrics` (name -> first, best, last, steps, ...),
        `environment`, `code`, `inputs`, `outputs`, `entry` (path) and `commit`.
    """
    if run is None:
        return _data_of_entry(entry, commit)
    captured = run.captured
    encoded = {key: value for key, value in run_to_json(run).items() if key not in ("captured", "files", "schema")}
    return {
        "id": run.id,
        "status": run.status,
        "verdict": run.verdict,
        "verdict_reason": run.verdict_reason,
        "exit_code": run.exit_code,
        "signal": run.signal,
        "command": list(run.argv),
        "experiment": run.experiment,
        **encoded,
        "title": str(entry.meta.get("title") or run.title),  # people can rename a run
        "duration_s": run.duration_s,
        "metrics": {series.name: _summary(series, run) for series in run_series(run)},
        "environment": {name: dict(facts) for name, facts in captured.items() if name not in ("code", "command")},
        "code": dict(captured.get("code", {})),
        "inputs": _files(run.files, "read"),
        "outputs": _files(run.files, "written"),
        "probe": encoded.get("probe", {"status": run.probe.status}),
        "tags": list(run.tags),
        "symptoms": list(run.symptoms),
        # Written after `run.json`.
        "fix": str(entry.meta.get("fix") or run.fix),
        "entry": entry.path,
        "commit": commit,
    }


def _data_of_entry(entry: Entry, commit: str) -> dict[str, Any]:
    row = run_row(entry)
    meta = dict(entry.meta)
    metrics = meta.get("metrics")
    return {
        **meta,
        "id": row.id,
        "status": row.status,
        "verdict": row.verdict,
        "verdict_reason": row.verdict_reason,
        "exit_code": meta.get("exit_code"),
        "command": str(meta.get("command") or "").split(),
        "experiment": row.experiment,
        "metrics": metrics if isinstance(metrics, dict) else {},
        "environment": {},
        "code": meta.get("code") or {},
        "inputs": [],
        "outputs": [],
        "probe": meta.get("probe") or {},
        "tags": list(row.tags),
        "entry": entry.path,
        "commit": commit,
    }


def _summary(series: Series, run: Run) -> dict[str, Any]:
    return {
        "first": series.first,
        "best": run_best(run, series),
        "last": series.last,
        "steps": series.last_step,
        "count": series.count or len(series.values),
        "nonfinite": series.nonfinite,
        "source": series.source,
    }


def _files(files: Sequence[FileUse], mode: str) -> list[dict[str, Any]]:
    return [
        {
            "path": file.path,
            "size_bytes": file.size_bytes,
            "fingerprint": file.fingerprint,
            "members": file.members,
            "reason": file.reason,
            **({"tracked": file.tracked} if file.tracked else {}),
        }
        for file in files
        if mode in file.mode
    ]
