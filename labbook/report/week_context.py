"""The data of a week, for its report and for the home page of the site."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from labbook.frozen import dataclass
from labbook.model.entry import Entry
from labbook.model.run import Change
from labbook.model.verdict import VERDICTS
from labbook.report import numbers
from labbook.report.run_row import RunRow
from labbook.report.week import Week

BROKEN = ("failed", "killed", "lost")
_MAX_CHANGES = 20
_MAX_OPEN = 30
_DIGITS = re.compile(r"\d+")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)

Link = Callable[[str], str]
"""Path of a note, relative to the notebook -> its address on the page."""


@dataclass(frozen=True)
class WeekSource:
    """Sources of the data of a week.

    Args:
        week: The week.
        rows: Runs of this week, the previous week and later.
        experiments: Pages of experiments, with their text.
        changes: Run id -> changes since its previous run.
        link: Returns addresses.
    """

    week: Week
    rows: Sequence[RunRow]
    experiments: Sequence[Entry]
    changes: Mapping[str, Sequence[Change]]
    link: Link


def week_context(source: WeekSource) -> dict[str, Any]:
    """Returns the data of a week: totals, results, failures, changes, open items, authors, days."""
    rows = sorted(_within(source.week, source.rows), key=lambda r: r.started)
    before = _within(source.week.before(), source.rows)
    return {
        "week": source.week.name,
        "begin": source.week.begin.isoformat(),
        "end": source.week.end.isoformat(),
        "totals": _totals(rows),
        "before": _totals(before),
        "results": _results(
            source.rows, rows, before, {page.id: source.link(page.path) for page in source.experiments}, source.link
        ),
        "failures": _failures(rows, source.link),
        "fixes": [_run(row, source.link) | {"fix": row.fix} for row in reversed(rows) if row.fix],
        "changes": _changes(rows, source.changes, source.link),
        "open_runs": _open_runs(source.rows, source.week, source.link),
        "open_experiments": _without_conclusion(source.experiments, rows, source.link),
        "authors": _by_author(rows),
        "days": _days(rows, source.week),
    }


def _within(week: Week, rows: Sequence[RunRow]) -> list[RunRow]:
    """Returns the runs that began in a week."""
    begin, end = week.span
    return [row for row in rows if begin <= row.started < end]


def failure_kind(row: RunRow) -> str:
    """Returns the kind of a failure: the first symptom, else the verdict in the title without numbers."""
    if row.symptoms:
        return row.symptoms[0]
    return _DIGITS.sub("N", row.subject) if row.status in BROKEN else ""


def _totals(rows: Sequence[RunRow]) -> dict[str, Any]:
    spent = sum(row.duration_s or 0.0 for row in rows)
    counts = Counter(row.status for row in rows)
    verdicts = Counter(row.verdict for row in rows)
    return {
        "runs": len(rows),
        "by_status": [(status, counts[status]) for status in _ORDER if counts[status]],
        "finished": counts["finished"],
        "broken": sum(counts[status] for status in BROKEN),
        "by_verdict": [(name, verdicts[name]) for name in VERDICTS if verdicts[name]],
        "healthy": verdicts["healthy"],
        "unhealthy": verdicts["unhealthy"],
        "time": numbers.duration(spent) if spent else "-",
        "time_s": spent,
        "lost_time": numbers.duration(lost) if (lost := _time_of(rows, BROKEN)) else "",
        "authors": len({row.author for row in rows if row.author}),
    }


_ORDER = ("finished", "failed", "interrupted", "killed", "lost", "running")


def _time_of(rows: Sequence[RunRow], statuses: Sequence[str]) -> float:
    return sum(row.duration_s or 0.0 for row in rows if row.status in statuses)


def _run(row: RunRow, link: Link) -> dict[str, Any]:
    return {
        "id": row.id,
        "url": link(row.path),
        "title": row.title,
        "status": row.status,
        "verdict": row.verdict,
        "author": row.author,
        "duration": numbers.duration(row.duration_s),
        "when": local_time(row.started),
        "metric": row.metric_text,
        "symptoms": list(row.symptoms),
    }


def local_time(moment: float) -> str:
    """Returns day and minute in local time, "" if unknown."""
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M") if moment > 0 else ""


def _results(
    known: Sequence[RunRow], rows: Sequence[RunRow], before: Sequence[RunRow], pages: Mapping[str, str], link: Link
) -> list[dict[str, Any]]:
    """Returns a row for each experiment: its best run of the week and the best value of the previous week."""
    found = []
    for name, group in sorted(_grouped(rows, lambda row: row.experiment).items()):
        best = best_run(group)
        earlier = [row for row in before if row.experiment == name and (best is None or row.metric == best.metric)]
        old = best_run(earlier)
        now_text, old_text = numbers.pair(best.best, old.best) if best and old else ("", "")
        found.append(
            {
                "experiment": name,
                "url": pages.get(name, ""),
                "runs": len(group),
                "broken": sum(row.status in BROKEN for row in group),
                "metric": best.metric if best else "",
                "best": now_text or (numbers.number(best.best) if best else ""),
                "run": _run(best, link) if best else None,
                "before": old_text,
                "trend": _trend(best, old, [row for row in known if row.experiment == name]),
                "time": numbers.duration(sum(row.duration_s or 0.0 for row in group)),
            }
        )
    return found


def best_run(rows: Sequence[RunRow]) -> RunRow | None:
    """Returns the run with the best value of the most frequent metric, or `None`.

    Failed and unhealthy runs are left out: their best value may be from before the failure, or mean nothing.
    """
    measured = [
        row
        for row in rows
        if row.best is not None
        and math.isfinite(row.best)
        and row.status not in (*BROKEN, "running")
        and row.verdict not in ("unhealthy", "failed")
    ]
    if not measured:
        return None
    metric = Counter(row.metric for row in measured).most_common(1)[0][0]
    chosen: RunRow | None = None
    for row in measured:
        if row.metric == metric and (chosen is None or row.better_than(chosen)):
            chosen = row
    return chosen


def _trend(best: RunRow | None, old: RunRow | None, rows: Sequence[RunRow]) -> str:
    """Returns "better", "worse", "same" or "noise"; "" where the noise of the experiment is not known."""
    if best is None or old is None or best.best is None or old.best is None:
        return ""
    if best.best == old.best:
        return "same"
    least = least_difference(rows, best.metric)
    if least is None:
        return ""
    if abs(best.best - old.best) <= least:
        return "noise"
    return "better" if best.better_than(old) else "worse"


_T_QUANTILE = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Quantile 0.975 of Student's t with 1 to 10 degrees of freedom."""


def least_difference(rows: Sequence[RunRow], metric: str) -> float | None:
    """Returns the least difference of two best values that is more than the noise of an experiment.

    Runs of the same configuration with other seeds are repeats; their pooled variance is the noise. The difference of
    two single runs is beyond it at the level of 5 % (two-sided t-test).

    Args:
        rows: Runs of the experiment.
        metric: The metric that is compared.

    Returns:
        `None` if no configuration was repeated.
    """
    groups: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if (
            row.configuration
            and row.metric == metric
            and row.best is not None
            and math.isfinite(row.best)
            and row.verdict != "unhealthy"
        ):
            # The same seed again measures nothing new; without a seed each run is a repeat.
            groups[row.configuration].setdefault(row.seed or row.id, row.best)
    squares, freedom = 0.0, 0
    for values in (list(group.values()) for group in groups.values()):
        mean = sum(values) / len(values)
        squares += sum((value - mean) ** 2 for value in values)
        freedom += len(values) - 1
    if not freedom:
        return None
    quantile = _T_QUANTILE[freedom - 1] if freedom <= len(_T_QUANTILE) else 2.0
    return quantile * math.sqrt(2 * squares / freedom)


def _failures(rows: Sequence[RunRow], link: Link) -> list[dict[str, Any]]:
    groups = _grouped([row for row in rows if row.status in BROKEN or row.symptoms], failure_kind)
    return [
        {
            "kind": kind,
            "count": len(group),
            "fixed": sum(bool(row.fix) for row in group),
            "time": numbers.duration(sum(row.duration_s or 0.0 for row in group)),
            "last": _run(group[-1], link),
        }
        for kind, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def _changes(rows: Sequence[RunRow], changes: Mapping[str, Sequence[Change]], link: Link) -> list[dict[str, Any]]:
    """Returns the settings and code changed this week, most frequent first, without metrics."""
    seen: dict[tuple[str, str], list[tuple[Change, RunRow]]] = defaultdict(list)
    for row in rows:
        for change in changes.get(row.id, ()):
            if change.kind != "metric":
                seen[change.kind, change.what].append((change, row))
    found = []
    for (kind, what), times in sorted(seen.items(), key=lambda item: (-len(item[1]), item[0]))[:_MAX_CHANGES]:
        change, row = times[-1]
        tried = list(dict.fromkeys(c.now for c, _ in times if c.now))
        values = ", ".join(value[:40] for value in tried[:6]) + (", ..." if len(tried) > 6 else "")
        found.append(
            {
                "kind": kind,
                "what": what,
                "before": times[0][0].before[:40],
                "values": values or change.detail[:80],
                "count": len(times),
                "run": _run(row, link),
            }
        )
    return found


def _open_runs(rows: Sequence[RunRow], week: Week, link: Link) -> list[dict[str, Any]]:
    """Returns failures without a fix whose script has not finished since, a row for each kind."""
    finished: dict[tuple[str, str], float] = defaultdict(float)
    for row in rows:
        if row.status == "finished":
            key = (row.script, row.experiment)
            finished[key] = max(finished[key], row.started)
    begin, end = week.span
    broken = [
        row
        for row in rows
        if row.status in BROKEN
        and not row.fix
        and begin <= row.started < end
        and finished[row.script, row.experiment] <= row.started
    ]
    broken.sort(key=lambda row: row.started)
    groups = _grouped(broken, lambda row: f"{row.script}\0{failure_kind(row)}")
    latest = sorted(groups.values(), key=lambda group: group[-1].started, reverse=True)
    return [_run(group[-1], link) | {"count": len(group)} for group in latest[:_MAX_OPEN]]


def _without_conclusion(experiments: Sequence[Entry], rows: Sequence[RunRow], link: Link) -> list[dict[str, Any]]:
    """Returns experiments with runs this week and without a conclusion."""
    ran = Counter(row.experiment for row in rows)
    return [
        {"experiment": page.id, "url": link(page.path), "runs": ran[page.id]}
        for page in sorted(experiments, key=lambda page: page.path)
        if ran[page.id] and not read_conclusion(page.body)
    ]


def read_conclusion(body: str) -> str:
    """Returns the text under "Conclusion" of a page, without comments."""
    return _under(body, "conclusion", "结论")


def read_goal(body: str) -> str:
    """Returns the text under "Goal" of a page, without comments."""
    return _under(body, "goal", "目标")


def _under(body: str, *headings: str) -> str:
    inside = False
    lines = []
    for line in body.splitlines():
        if line.startswith("#"):
            inside = line.strip("# ").strip().lower() in headings
        elif inside:
            lines.append(line)
    return _COMMENT.sub("", "\n".join(lines)).strip()


def _by_author(rows: Sequence[RunRow]) -> list[dict[str, Any]]:
    groups = _grouped(rows, lambda row: row.author)
    return [
        {
            "author": author,
            "runs": len(group),
            "broken": sum(row.status in BROKEN for row in group),
            "time": numbers.duration(sum(row.duration_s or 0.0 for row in group)),
            "experiments": sorted({row.experiment for row in group if row.experiment}),
        }
        for author, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def _days(rows: Sequence[RunRow], week: Week) -> list[dict[str, Any]]:
    counted = Counter(datetime.fromtimestamp(row.started).date() for row in rows)
    broken = Counter(datetime.fromtimestamp(row.started).date() for row in rows if row.status in BROKEN)
    days = [week.begin + timedelta(days=offset) for offset in range(7)]
    return [{"day": day.isoformat(), "runs": counted[day], "broken": broken[day]} for day in days]


def _grouped(rows: Sequence[RunRow], key: Callable[[RunRow], str]) -> dict[str, list[RunRow]]:
    groups: dict[str, list[RunRow]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(groups)
