"""Writes the summary of a run that fits one screen, for `labbook show --brief`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.entry import Entry
from labbook.model.run import Run
from labbook.report import numbers
from labbook.report.best_runs import best_run
from labbook.report.entry.diagnosis_section import diagnosis_lines
from labbook.report.entry.title import verdict_reason
from labbook.report.period_context import local_time
from labbook.report.run_row import RunRow
from labbook.report.terminal_findings import finding_lines
from labbook.store.text.sentences import Sentences, translate_change
from labbook.store.text.templates import status_label, words

_MOST = 3
"""Most metrics and most changes. Source: chosen by us; with six lines of findings all fits 24 lines."""

_MOST_FINDINGS = 6


def brief_lines(
    entry: Entry, row: RunRow, run: Run | None, others: Sequence[RunRow], say: Sentences
) -> list[tuple[str, str]]:
    """Returns the lines of the summary as (label, text); a label is "" below the first line of its part.

    Args:
        run: The recorded data, `None` where there is only the entry.
        others: Runs of its experiment.
    """
    labels = words(say.language)
    reason = verdict_reason(run, labels) if run is not None else ""
    judged = str(labels["run_verdict"].get(row.verdict, row.verdict)) if row.verdict != row.status else ""
    state = [status_label(row.status, say.language), judged, reason]
    state += [numbers.duration(row.duration_s)] if row.duration_s else []
    parts = {
        "status": [" · ".join(filter(None, state))],
        "started": [" · ".join(filter(None, (local_time(row.started), row.author, row.host, row.experiment)))],
        "command": [" ".join(str(entry.meta.get("command") or "").split())],
        "code": [_code(entry.meta, say)],
        "finding": _findings(run, say),
        "metric": _metrics(entry.meta, row, say),
        "changes": _changes(run, say),
        "fix": [" ".join(str(entry.meta.get("fix_text") or entry.meta.get("fix") or "").split())],
        "best": [_best(row, others, say)],
        "entry": [entry.path],
    }
    return [("", row.title)] + [
        (str(labels["brief"][part]) if number == 0 else "", line)
        for part, lines in parts.items()
        for number, line in enumerate(line for line in lines if line)
    ]


def _code(meta: Mapping[str, Any], say: Sentences) -> str:
    """Returns commit and branch, and whether files had changes that are not committed."""
    code = meta.get("code")
    if not isinstance(code, Mapping):
        return ""
    known = [str(code.get("commit") or ""), str(code.get("branch") or "")]
    if known[0] and code.get("dirty"):
        known.append(say.line("terminal.brief.dirty"))
    return " · ".join(filter(None, known))


def _findings(run: Run | None, say: Sentences) -> list[str]:
    """Returns the diagnosis of a failure, else the worst findings of the health checks."""
    if run is None:
        return []
    failed = run.status in ("failed", "killed") and bool(run.findings)
    found = (diagnosis_lines if failed else finding_lines)(run, say.language)
    return [line.strip() if number == 0 else line for number, line in enumerate(found[:_MOST_FINDINGS])]


def _metrics(meta: Mapping[str, Any], row: RunRow, say: Sentences) -> list[str]:
    """Returns first, last and best value of the main metric, then the last values of others."""
    lines = []
    if row.metric:
        first, last = numbers.pair(row.first, row.last)
        lines.append(f"{row.metric} {first} → {last}" if row.first is not None else row.metric_text)
        if row.best is not None and row.best not in (row.first, row.last):
            lines[0] += " · " + say.line("terminal.brief.best_value", value=numbers.number(row.best))
    given = meta.get("metrics")
    for name, values in given.items() if isinstance(given, Mapping) else ():
        if name != row.metric and isinstance(values, Mapping) and isinstance(values.get("last"), (int, float)):
            lines.append(f"{name} {numbers.number(values['last'])}")
    return lines[:_MOST]


def _changes(run: Run | None, say: Sentences) -> list[str]:
    """Returns the first changes since the previous run, without those of metrics."""
    known = [change for change in run.changes if change.kind != "metric"] if run is not None else []
    changes = [translate_change(change, say) for change in known[:_MOST]]
    lines = [
        f"{change.what} {change.before or '–'} → {change.now or '–'}"
        if change.before or change.now
        else f"{change.what} {change.detail}".strip().splitlines()[0]
        for change in changes
    ]
    more = len(known) - len(lines)
    return [*lines, say.line("terminal.brief.more_changes", count=more)] if more else lines


def _best(row: RunRow, others: Sequence[RunRow], say: Sentences) -> str:
    """Returns the best run of the experiment, "" if nothing can be compared."""
    best = best_run(others)
    if best is None:
        return ""
    if best.id == row.id:
        return say.line("terminal.brief.is_best", count=len(others))
    return f"{best.metric} {numbers.number(best.best)} · {best.id}"
