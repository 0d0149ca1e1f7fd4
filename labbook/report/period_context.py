"""The data of a period, for its report and for the home page of the site."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from labbook.frozen import dataclass
from labbook.model.entry import Entry
from labbook.model.run import Change
from labbook.model.run_fields import as_number
from labbook.model.verdict import VERDICTS
from labbook.report import numbers
from labbook.report.best_runs import BROKEN, best_run, trend_of
from labbook.report.period import Period
from labbook.report.period_costs import Cost, cost_rows, likely_cause, sum_time
from labbook.report.period_facts import report_facts
from labbook.report.run_row import RunRow
from labbook.store.text.sentences import Sentences, translate_change

_MAX_CHANGES = 20
_MAX_OPEN = 30
_MAX_LEARNT = 30
_MAX_TEXT = 240
_DIGITS = re.compile(r"\d+")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)

Link = Callable[[str], str]
Options = Mapping[str, Mapping[str, Any]]
"""Id of a run -> its options."""
"""Path of a note, relative to the notebook -> its address on the page."""


SEARCH_TAG = "bisect"
"""Tag of the runs that `labbook bisect` makes: they take time, but their failures and results are on purpose."""


@dataclass(frozen=True)
class PeriodSource:
    """Sources of the data of a period.

    Args:
        rows: All runs that count, also earlier and later ones.
        experiments: Pages of experiments, with their text.
        changes: Run id -> changes since its previous run.
        now: Unix seconds; what was before is compared up to the same moment of its period. `None`: the period is over.
        title: Returns the title of a symptom.
        costs: Run id -> what the run took, for runs of this period and the time before.
        gained_by: Returns the differences of two runs, the earlier one first, the likeliest cause first.
        options: Of all runs that have some.
    """

    period: Period
    rows: Sequence[RunRow]
    experiments: Sequence[Entry]
    changes: Mapping[str, Sequence[Change]]
    link: Link
    now: float | None = None
    title: Callable[[str], str] = str
    costs: Mapping[str, Cost] = field(default_factory=dict)
    gained_by: Callable[[str, str], Sequence[Change]] = lambda before, now: ()
    options: Options = field(default_factory=dict)
    sentences: Sentences = field(default_factory=lambda: Sentences("en"))


def period_context(source: PeriodSource) -> dict[str, Any]:
    """Returns the data of a period: totals, results, failures, changes, open items, authors, days."""
    period = source.period
    now = source.now if source.now is not None else period.span[1]
    every = _runs_within(period.span, source.rows)
    rows = [row for row in every if not _is_search(row)]
    earlier = _runs_within(period.span_before(now), source.rows)
    before = [row for row in earlier if not _is_search(row)]
    pages = {page.id: source.link(page.path) for page in source.experiments}
    data = {
        "name": period.name,
        "kind": period.kind,
        "over": period.is_over(now),
        "begin": period.begin.isoformat(),
        "end": period.end.isoformat(),
        "totals": _totals(every),
        "before": _totals(earlier),
        "results": _results(source, rows, pages),
        "failures": _failures(rows, source),
        "costs": cost_rows(rows, before, source.costs, source.changes, source.sentences),
        "fixes": [run_cells(row, source.link) | {"fix": row.fix} for row in reversed(rows) if row.fix],
        "learnt": _lessons(rows, source),
        "changes": _changes(rows, source),
        "open_runs": _open_runs(source.rows, period, source.link),
        "open_experiments": _without_conclusion(source.experiments, rows, source.link),
        "authors": _group_by_author(rows),
        "days": _days(rows, period),
    }
    return data | {"week": period.name, "facts": report_facts(data)}


def _is_search(row: RunRow) -> bool:
    # The tag alone may be one that a person has chosen.
    return SEARCH_TAG in row.tags and bool(row.rerun_of)


def _runs_within(span: tuple[float, float], rows: Sequence[RunRow]) -> list[RunRow]:
    """Returns the runs that began in a span of Unix seconds, the oldest first."""
    return sorted((row for row in rows if span[0] <= row.started < span[1]), key=lambda row: row.started)


def failure_kind(row: RunRow) -> str:
    """Returns the kind of a failure: the first symptom, else the verdict in the title without numbers."""
    if row.symptoms:
        return row.symptoms[0]
    return _DIGITS.sub("N", row.subject) if row.status in BROKEN else ""


def _totals(rows: Sequence[RunRow]) -> dict[str, Any]:
    spent = sum_time(rows)
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
        "lost_time": numbers.duration(lost)
        if (lost := sum_time([row for row in rows if row.status in BROKEN]))
        else "",
        "authors": len({row.author for row in rows if row.author}),
    }


_ORDER = ("finished", "failed", "interrupted", "killed", "lost", "running")


def run_cells(row: RunRow, link: Link) -> dict[str, Any]:
    """Returns what a table shows of a run."""
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


def _results(source: PeriodSource, rows: Sequence[RunRow], pages: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns a row for each experiment: its best run of the period, and the best one of all time before."""
    begin, _ = source.period.span
    found = []
    groups = _group(rows, lambda row: row.experiment)
    bests = [best for group in groups.values() if (best := best_run(group)) is not None]
    for name, group in sorted(groups.items()):
        known = [row for row in source.rows if row.experiment == name]
        best = best_run(group)
        old = best_run([row for row in known if row.started < begin and (best is None or row.metric == best.metric)])
        now_text, old_text = numbers.pair(best.best, old.best) if best and old else ("", "")
        trend = trend_of(best, old, known)
        improved = best is not None and old is not None and best.is_better_than(old) and trend != "noise"
        found.append(
            {
                "experiment": name,
                "url": pages.get(name, ""),
                "runs": len(group),
                "broken": sum(row.status in BROKEN for row in group),
                "metric": best.metric if best else "",
                "best": now_text or (numbers.number(best.best) if best else ""),
                "run": run_cells(best, source.link) if best else None,
                "rank": sum(other.is_better_than(best) for other in bests if best and other.metric == best.metric),
                "before": old_text,
                "trend": trend,
                "improved": improved,
                "by": likely_cause(source.gained_by(old.id, best.id), source.sentences)
                if improved and best and old
                else "",
                "time": numbers.duration(sum_time(group)),
            }
        )
    return found


def _failures(rows: Sequence[RunRow], source: PeriodSource) -> list[dict[str, Any]]:
    groups = _group([row for row in rows if row.status in BROKEN or row.symptoms], failure_kind)
    return [
        {
            "kind": kind,
            "title": source.title(kind) if group[0].symptoms else group[-1].subject,
            "count": len(group),
            "failed": sum(row.status in BROKEN for row in group),
            "fixed": sum(bool(row.fix) for row in group),
            **_most_common_fix(group),
            "time": numbers.duration(sum_time(group)),
            "last": run_cells(group[-1], source.link),
        }
        for kind, group in sorted(groups.items(), key=lambda item: (-len(item[1]), -sum_time(item[1]), item[0]))
    ]


def _most_common_fix(rows: Sequence[RunRow]) -> dict[str, Any]:
    """Returns the most frequent fix and how often it was confirmed; of equally frequent ones the last."""
    texts = Counter(row.fix_text for row in reversed(rows) if row.fix_text)
    text, count = texts.most_common(1)[0] if texts else ("", 0)
    return {"fix": text[:_MAX_TEXT], "fix_count": count}


def _lessons(rows: Sequence[RunRow], source: PeriodSource) -> list[dict[str, Any]]:
    """Returns what the period leaves behind: confirmed fixes, conclusions, and what was tried and did not help.

    A fix that was confirmed several times is there once, with the latest run.
    """
    fixes = {
        (source.title(row.symptoms[0]) if row.symptoms else row.title, row.fix_text): source.link(row.path)
        for row in rows
        if row.fix_text
    }
    found: list[dict[str, Any]] = [
        {"what": "fix", "title": title, "text": text, "url": url} for (title, text), url in fixes.items()
    ]
    ran = {row.experiment for row in rows}
    for page in sorted(source.experiments, key=lambda page: page.path):
        if page.id not in ran:
            continue
        link = {"title": page.id, "url": source.link(page.path)}
        if conclusion := " ".join(read_conclusion(page.body).split()):
            found.append({"what": "conclusion", "text": conclusion[:_MAX_TEXT], **link})
        found += [{"what": "tried", "text": text[:_MAX_TEXT], **link} for text in read_tried(page.body)]
    return found[:_MAX_LEARNT]


def _changes(rows: Sequence[RunRow], source: PeriodSource) -> list[dict[str, Any]]:
    """Returns the settings and code changed this week, most frequent first, without metrics.

    A text option that the next run of the script changes back was only tried, and is not listed.
    """
    tried_only = _tried_only(rows, source.changes)
    seen: dict[tuple[str, str], list[tuple[Change, RunRow]]] = defaultdict(list)
    for row in rows:
        for each in source.changes.get(row.id, ()):
            if each.kind != "metric" and (row.id, each.what) not in tried_only:
                change = translate_change(each, source.sentences)
                seen[change.kind, change.what].append((change, row))
    found = []
    for (kind, what), times in sorted(seen.items(), key=lambda item: (-len(item[1]), item[0]))[:_MAX_CHANGES]:
        change, row = times[-1]
        first = times[0][0].before
        tried = list(dict.fromkeys(c.now for c, _ in times if c.now not in ("", first)))
        between = "; " if any("," in value for value in tried) else ", "
        values = between.join([*(value[:40] for value in tried[:6]), *(["..."] if len(tried) > 6 else [])])
        found.append(
            {
                "kind": kind,
                "what": what,
                "before": first[:40],
                "values": values or change.detail[:80],
                "count": len(times),
                "run": run_cells(row, source.link),
            }
        )
    return found


def _tried_only(rows: Sequence[RunRow], changes: Mapping[str, Sequence[Change]]) -> set[tuple[str, str]]:
    """Returns run and option of each text that a single run had, as `--fault nan`, and of the way back from there."""
    histories: dict[tuple[str, str], list[tuple[str, Change]]] = defaultdict(list)
    single = set()
    newest: dict[str, set[str]] = {}
    for row in sorted(rows, key=lambda row: (row.started, row.id), reverse=True):
        options = {each.what: each for each in changes.get(row.id, ()) if each.kind == "argument"}
        for what, each in options.items():
            if not _has_number(each):
                histories[row.script, what].append((row.id, each))
                single |= {(row.id, what)} if what in newest.get(row.script, options) else set()
        newest[row.script] = set(options)
    for (_, what), history in histories.items():
        if next((each.now for run, each in history if (run, what) not in single), None) == history[-1][1].before:
            single |= {(run, what) for run, _ in history}
    return single


def _has_number(change: Change) -> bool:
    values = (as_number(value) for value in (change.before, change.now))
    return any(value is not None and math.isfinite(value) for value in values)


def _open_runs(rows: Sequence[RunRow], period: Period, link: Link) -> list[dict[str, Any]]:
    """Returns failures without a fix whose script has not finished since, a row for each kind."""
    finished: dict[tuple[str, str], float] = defaultdict(float)
    for row in rows:
        if row.status == "finished":
            key = (row.script, row.experiment)
            finished[key] = max(finished[key], row.started)
    begin, end = period.span
    broken = [
        row
        for row in rows
        if row.status in BROKEN
        and not row.fix
        and begin <= row.started < end
        and finished[row.script, row.experiment] <= row.started
    ]
    broken.sort(key=lambda row: row.started)
    groups = _group(broken, lambda row: f"{row.script}\0{failure_kind(row)}")
    latest = sorted(groups.values(), key=lambda group: group[-1].started, reverse=True)
    return [run_cells(group[-1], link) | {"count": len(group)} for group in latest[:_MAX_OPEN]]


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
    return _text_below(body, "conclusion", "结论")


def read_goal(body: str) -> str:
    """Returns the text under "Goal" of a page, without comments."""
    return _text_below(body, "goal", "目标")


def read_tried(body: str) -> list[str]:
    """Returns the items of the list under "Tried, did not help" of a page."""
    lines = _text_below(body, "tried, did not help", "试过但没有用").splitlines()
    return [" ".join(line.lstrip(" -*+").split()) for line in lines if line.strip(" -*+")]


def _text_below(body: str, *headings: str) -> str:
    inside = False
    lines = []
    for line in body.splitlines():
        if line.startswith("#"):
            inside = line.strip("# ").strip().lower() in headings
        elif inside:
            lines.append(line)
    return _COMMENT.sub("", "\n".join(lines)).strip()


def _group_by_author(rows: Sequence[RunRow]) -> list[dict[str, Any]]:
    groups = _group(rows, lambda row: row.author)
    return [
        {
            "author": author,
            "runs": len(group),
            "broken": sum(row.status in BROKEN for row in group),
            "time": numbers.duration(sum_time(group)),
            "experiments": sorted({row.experiment for row in group if row.experiment}),
        }
        for author, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def _days(rows: Sequence[RunRow], period: Period) -> list[dict[str, Any]]:
    counted = Counter(datetime.fromtimestamp(row.started).date() for row in rows)
    broken = Counter(datetime.fromtimestamp(row.started).date() for row in rows if row.status in BROKEN)
    days = [period.begin + timedelta(days=offset) for offset in range(period.days)]
    return [{"day": day.isoformat(), "runs": counted[day], "broken": broken[day]} for day in days]


def _group(rows: Sequence[RunRow], key: Callable[[RunRow], str]) -> dict[str, list[RunRow]]:
    groups: dict[str, list[RunRow]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(groups)
