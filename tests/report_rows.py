"""Rows of runs, and the report of a week that they make."""

from __future__ import annotations

from datetime import datetime

from labbook.report.period import week_named
from labbook.report.period_context import PeriodSource, period_context
from labbook.report.run_row import RunRow
from labbook.store.text.sentences import Sentences

WEEK = week_named("2026-W47", 0.0)


def at(day: int, hour: int = 12) -> float:
    return datetime(2026, 11, day, hour).timestamp()


def row(number: int, day: int, status: str = "finished", **more) -> RunRow:
    run_id = f"202611{day:02d}-1200{number:02d}-aaaa"
    facts = {"script": "train.py", "experiment": "exp001_x_dynamic", "author": "Wei", "duration_s": 60.0, **more}
    return RunRow(
        run_id, f"notes/runs/2026/11/{day:02d}/{run_id}.md", status, f"train.py: run {number}", started=at(day), **facts
    )


def story(rows, experiments=(), changes=None, **more) -> dict:
    return period_context(PeriodSource(WEEK, rows, experiments, changes or {}, lambda path: f"../{path}", **more))


def facts(data, language="en") -> list[str]:
    return [Sentences(language)(fact) for fact in data["facts"]]
