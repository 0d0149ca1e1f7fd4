"""Sections on requests of the user: `--watch`, `--break`, `--stop-on`, the profile, `labbook.checks`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.message import message
from labbook.model.run import Run
from labbook.report import numbers
from labbook.report.entry.section_limits import Limits, shorten_middle
from labbook.store.text.sentences import Sentences

_MOMENTS = 9
_SERIES = 8
_VALUES = 20


def moments_section(run: Run, limits: Limits) -> dict[str, Any] | None:
    """Returns when conditions were true, with values, or `None` without conditions."""
    watched = _list(run.asked.get("watched"))
    moments = _list(run.asked.get("moments"))
    if not watched and not moments:
        return None
    format_event_number = moments[: min(_MOMENTS, limits.rows)]
    return {
        "conditions": [_condition(each, moments) for each in watched[: limits.rows]],
        "moments": [_moment(each, limits) for each in format_event_number],
        "more": len(moments) - len(format_event_number),
    }


def _condition(facts: Mapping[str, Any], moments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    key = (facts.get("option"), facts.get("expression"))
    notes = [m.get("note") for m in moments if (m.get("option"), m.get("expression")) == key and m.get("note")]
    return {
        "what": f"--{facts.get('option')} {facts.get('expression')}",
        "rank": facts.get("rank"),
        "held": _as_int(facts.get("held")),
        "looked": _as_int(facts.get("looked")),
        "came": _as_int(facts.get("moments")),
        "first": facts.get("first"),
        "last": facts.get("last"),
        "missing": [str(name) for name in _list(facts.get("missing"))][:10],
        "note": str(notes[0]) if notes else "",
    }


def _moment(facts: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    steps = facts.get("steps") or {}
    series = facts.get("series") or {}
    rows = [_recent(name, _list(series[name]), _list(steps.get(name)), limits) for name in list(series)[:_SERIES]]
    batch = facts.get("batch") or {}
    values = facts.get("values") or {}
    return {
        "expression": str(facts.get("expression") or ""),
        "option": f"--{facts.get('option')}",
        "step": facts.get("step"),
        "rank": facts.get("rank"),
        "values": [
            {"name": str(name), "value": format_event_number(value)} for name, value in list(values.items())[:_SERIES]
        ],
        "line": str(facts.get("line") or ""),
        "series": rows,
        "leaves": [_leaf(leaf) for leaf in _list(batch.get("leaves"))[:_SERIES]],
        "samples": batch.get("samples"),
        "print": str(batch.get("print") or ""),
    }


def _recent(name: str, values: list[Any], steps: list[Any], limits: Limits) -> dict[str, Any]:
    few = values[-min(_VALUES, 2 * limits.rows) :]
    return {
        "name": str(name),
        "from": steps[-len(few)] if len(steps) >= len(few) > 0 else None,
        "to": steps[-1] if steps else None,
        "values": " ".join(format_event_number(value, 3) for value in few),
    }


def _leaf(leaf: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "path": str(leaf.get("path")),
        "role": str(leaf.get("role") or ""),
        "shape": "x".join(str(n) for n in _list(leaf.get("shape"))),
        "dtype": str(leaf.get("dtype") or ""),
        "range": f"{format_event_number(leaf.get('min'))} .. {format_event_number(leaf.get('max'))}",
        "mean": format_event_number(leaf.get("mean")),
        "std": format_event_number(leaf.get("std")),
        "bad": _as_int(leaf.get("bad")),
    }


def profile_section(run: Run, limits: Limits) -> dict[str, Any] | None:
    """Returns the table of the profiler, or `None` without a profile."""
    profiles = _list(run.asked.get("profiles"))
    if not profiles:
        return None
    return {"folder": run.id, "profiles": [_profile(each, limits) for each in profiles[:4]]}


def _profile(facts: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    begin, end = _as_int(facts.get("begin_step")), _as_int(facts.get("end_step"))
    steps = max(1, end - begin + 1)
    rows = _list(facts.get("rows"))[: limits.rows]
    seconds = float(facts.get("seconds") or 0.0)
    return {
        "framework": str(facts.get("framework") or ""),
        "begin": begin,
        "end": end,
        "seconds": numbers.duration(seconds / steps),
        "own": any(row.get("own_ms") is not None for row in rows),
        "device": bool(facts.get("device")),
        "rows": [_operator(row, steps, seconds, limits) for row in rows],
        "more": max(0, _as_int(facts.get("operators")) - len(rows)),
        "file": str(facts.get("file") or ""),
        "flame": str(facts.get("flame") or ""),
        "memory": str(facts.get("memory") or ""),
        "speedscope": str(facts.get("speedscope") or ""),
        "kept": str(facts.get("kept") or ""),
        "size": numbers.size(_as_int(facts.get("bytes"))),
    }


def _operator(row: Mapping[str, Any], steps: int, seconds: float, limits: Limits) -> dict[str, str]:
    own, total, device = (_number(row.get(key)) for key in ("own_ms", "total_ms", "device_ms"))
    weight = own if own is not None else total
    return {
        "name": shorten_middle(str(row.get("name") or ""), limits.cell),
        "calls": _round_value(_as_int(row.get("calls")) / steps),
        "own": _round_value(own / steps) if own is not None else "",
        "total": _round_value(total / steps) if total is not None else "",
        "device": _round_value(device / steps) if device is not None else "",
        "share": numbers.percent(weight / 1e3 / seconds) if weight is not None and seconds > 0 else "",
    }


def _round_value(value: float) -> str:
    """Returns three significant digits, and no exponent for the thousands of a slow step."""
    return numbers.number(round(value) if value >= 100 else value, 3)


def checked_section(run: Run, limits: Limits, say: Sentences) -> dict[str, Any] | None:
    """Returns results of `labbook.checks` in the program, or `None`."""
    results = _list(run.asked.get("checked"))
    if not results:
        return None
    return {"results": [_result(each, limits, say) for each in results[:10]], "more": max(0, len(results) - 10)}


def _result(facts: Mapping[str, Any], limits: Limits, say: Sentences) -> dict[str, Any]:
    columns = [str(name) for name in _list(facts.get("columns"))][:12]
    rows = _list(facts.get("rows"))
    kept = rows[: limits.rows]
    translated = facts.get("said") or {}
    cells = [
        [translated.get(f"{at},{place}") or cell for place, cell in enumerate(_list(row)[: len(columns)])]
        for at, row in enumerate(kept)
    ]
    return {
        "title": shorten_middle(say(translated.get("title") or str(facts.get("title") or "")), limits.cell),
        "summary": shorten_middle(_summary(facts, columns, rows, say), limits.text),
        "verdict": str(facts.get("verdict") or "note"),
        "line": str(facts.get("line") or ""),
        "rank": facts.get("rank"),
        "columns": columns,
        "rows": [[shorten_middle(_cell(each, say), 2 * limits.cell) for each in row] for row in cells],
        "more": _as_int(facts.get("left_out")) + len(rows) - len(kept),
    }


def _summary(facts: Mapping[str, Any], columns: Sequence[str], rows: Sequence[Any], say: Sentences) -> str:
    """Returns the sentence of a result; that of a checklist in the language of the entry."""
    if facts.get("check") != "checklist" or "verdict" not in columns or facts.get("left_out"):
        return say((facts.get("said") or {}).get("summary") or str(facts.get("summary") or ""))
    at = columns.index("verdict")
    failed, warned = ([say(str(row[0])) for row in rows if row[at] == verdict] for verdict in ("fail", "warn"))
    parts = [message("health.checked.failed", names=failed)] if failed else []
    parts += [message("health.checked.warned", names=warned)] if warned else []
    key = "health.checked.found" if parts else "health.checked.nothing"
    return say.line(key, count=len(rows), parts=parts)


def _cell(text: object, say: Sentences) -> str:
    """Returns a cell with each clause that has a translation in the language of the entry."""
    if isinstance(text, Mapping):
        return say(text)
    return say.line("health.clauses", parts=[say(part) for part in str(text).split("; ")])


def stopped_line(run: Run) -> dict[str, Any] | None:
    """Returns the option that stopped the run (`what`) and the `step`, or `None`."""
    stopped = run.asked.get("stopped")
    if not isinstance(stopped, Mapping):
        return None
    what = f"--{stopped.get('option')} {stopped.get('expression') or ''}".strip()
    return {"what": what, "step": _as_int(stopped.get("step")), "how": str(stopped.get("how") or "exit")}


def format_event_number(value: object, digits: int = 4) -> str:
    """Returns a number of an event as text; numbers that are not finite are texts there."""
    return numbers.number(_number(value), digits)


def _number(value: object) -> float | None:
    if isinstance(value, (int, float)):
        return float(value)
    return float(value) if isinstance(value, str) and value in ("nan", "inf", "-inf") else None


def _as_int(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []
