"""The paragraph at the head of a report: a few facts, the most important first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.message import Message, message

_MAX_OF_KIND = 3
"""Most facts of one kind. Source: chosen by us; a reader has two minutes, and the tables below have the rest."""


def report_facts(data: Mapping[str, Any]) -> list[Message]:
    """Returns the facts of a period: failures, results, speed, what is open.

    Args:
        data: Data of `labbook.report.period_context.period_context`.
    """
    if not data["totals"]["runs"]:
        return []
    facts = [_failure(row) for row in data["failures"][:_MAX_OF_KIND]] or [message("report.nothing_failed")]
    results = [fact for row in data["results"] if (fact := _result(row)) is not None][:_MAX_OF_KIND]
    results += _first_results(data["results"])
    speed = [fact for row in data["costs"] if (fact := _speed(row)) is not None]
    open_count = len(data["open_runs"])
    still = [message("report.open", count=open_count)] if open_count else []
    return [*results, *facts, *speed[:_MAX_OF_KIND], *still]


def _failure(row: Mapping[str, Any]) -> Message:
    values = {"title": row["title"], "count": row["count"], "time": row["time"], "fixed": row["fixed"]}
    if not row["fixed"]:
        return message("report.failure_open", **values)
    if row["fix"]:
        key = "report.failure_fixed_by" if row["fix_count"] > 1 else "report.failure_fixed_last"
        return message(key, fix=row["fix"], **values)
    return message("report.failure_fixed", **values)


def _result(row: Mapping[str, Any]) -> Message | None:
    if not row["run"]:
        return None
    values = {"metric": row["metric"], "experiment": row["experiment"], "now": row["best"], "before": row["before"]}
    if not row["improved"]:
        return None
    by = [message("report.by", change=row["by"])] if row["by"] else []
    if row["trend"] == "better":
        return message("report.better", by=by, **values)
    return message("report.better_perhaps", by=by, **values)


def _first_results(rows: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Returns the results of new experiments by metric, the best first; of many metrics the first ones."""
    first = [row for row in rows if row["run"] and not row["before"]]
    found = []
    for metric in dict.fromkeys(row["metric"] for row in first):
        own = sorted((row for row in first if row["metric"] == metric), key=lambda row: row["rank"])
        results = [f"{row['experiment']} {row['best']}" for row in own[:_MAX_OF_KIND]]
        more = [message("report.and_more", count=len(own) - len(results))] if len(own) > len(results) else []
        found.append(message("report.first_result", metric=metric, results=results, count=len(own), more=more))
    others = found[_MAX_OF_KIND:]
    return found if len(others) < 2 else [*found[:_MAX_OF_KIND], message("report.more_metrics", count=len(others))]


def _speed(row: Mapping[str, Any]) -> Message | None:
    if not row["trend"]:
        return None
    by: Sequence[Message] = [message("report.by", change=row["by"])] if row["by"] else []
    values = {"experiment": row["experiment"], "host": row["host"], "now": row["step"], "before": row["step_before"]}
    return (
        message("report.slower", by=by, **values)
        if row["trend"] == "slower"
        else message("report.faster", by=by, **values)
    )
