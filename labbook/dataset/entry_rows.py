"""Turns an entry and its `run.json` into rows of the tables. Pure, apart from reading that file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from labbook.dataset.dataset_tables import TABLES
from labbook.index.fix_outcomes import confirmed_fix
from labbook.model.entry import Entry
from labbook.model.run_fields import as_number, option_values
from labbook.report.run_row import run_row
from labbook.store.json_files import read_json_object
from labbook.store.paths import NotebookPaths, is_run_id

Rows = dict[str, dict[str, list[Any]]]
"""Table -> column -> its values."""

_DIGITS = re.compile(r"[-+]?[0-9]{1,18}\Z")
_INT64 = 1 << 63
_FACTS = {
    "python": ("version", "implementation", "kind"),
    "hardware": ("cpu", "cores", "memory_bytes", "os", "kernel", "machine"),
    "container": ("kind", "image"),
}


def empty_rows() -> Rows:
    """Returns the tables without rows."""
    return {table: {column.name: [] for column in columns} for table, columns in TABLES.items()}


def add_run(rows: Rows, paths: NotebookPaths, path: str, meta: Mapping[str, Any], digest: str) -> None:
    """Appends the rows of one run.

    Args:
        rows: From `empty_rows`.
        path: Path of the entry, relative to the notebook.
        digest: Its digest, as the index has it.
    """
    entry = Entry(path, meta)
    data = read_run_json(paths.root / path.removesuffix(".md") / "run.json", entry.id)
    tables = {
        "runs": _runs(entry, digest),
        "params": _params(meta),
        "metrics": _metrics(meta),
        "checks": _checks(data),
        "findings": _findings(data),
        "fixes": _fixes(meta),
        "environments": _environments(data),
        "artifacts": _artifacts(data),
    }
    run_id = entry.id
    for table, found in tables.items():
        listed = [{**row, "run": run_id} for row in found]
        for column in TABLES[table]:
            cast, name = _CAST[column.kind], column.name
            rows[table][name].extend([cast(row.get(name)) for row in listed])
    _add_series(rows["series"], data, run_id)


def read_run_json(path: Path, run_id: str) -> Mapping[str, Any]:
    """Returns the data of a run; empty if the file is missing, damaged or of another run."""
    data = read_json_object(path)
    return data if data.get("id") == run_id else {}


def _runs(entry: Entry, digest: str) -> Iterator[dict[str, Any]]:
    meta, row = entry.meta, run_row(entry)
    code, probe = _mapping(meta.get("code")), _mapping(meta.get("probe"))
    names = ("exit_code", "sweep", "project", "command", "mode")
    yield {name: meta.get(name) for name in names} | {
        "started": row.started or None,
        "duration_s": row.duration_s,
        "status": row.status,
        "verdict": row.verdict,
        "verdict_reason": row.verdict_reason,
        "title": row.title,
        "experiment": row.experiment,
        "script": row.script,
        "host": row.host,
        "author": row.author,
        "frameworks": row.frameworks,
        "tags": row.tags,
        "symptoms": row.symptoms,
        "metric": row.metric,
        "direction": row.direction,
        "metric_best": row.best,
        "metric_last": row.last,
        "steps": row.steps,
        "commit": code.get("commit"),
        "branch": code.get("branch"),
        "dirty": code.get("dirty"),
        "previous": row.previous,
        "probe_status": probe.get("status"),
        "overhead_fraction": probe.get("overhead_fraction"),
        "entry": entry.path,
        "digest": digest,
    }


def _params(meta: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, value in option_values(meta).items():
        text = ("true" if value else "false") if isinstance(value, bool) else value
        yield {"name": name, "value": text, "number": as_number(value)}


def _metrics(meta: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, values in _mapping(meta.get("metrics")).items():
        parts = values if isinstance(values, Mapping) else {"last": values}
        row = {part: parts.get(part) for part in ("first", "best", "last", "steps")}
        yield {"name": name, "is_primary": name == meta.get("metric"), **row}


def _add_series(rows: dict[str, list[Any]], data: Mapping[str, Any], run_id: str) -> None:
    """Appends the points of all series, a column at a time: nine of ten rows of a data set are points."""
    for series in _mappings(data.get("series")):
        steps, values = _as_list(series.get("steps")), _as_list(series.get("values"))
        low, high = (_as_list(series.get(name)) or values for name in ("low", "high"))
        points = {"step": steps, "value": values, "low": low, "high": high}
        count = min(map(len, points.values()))
        for column in TABLES["series"]:
            name, cast = column.name, _CAST[column.kind]
            if name in points:
                rows[name].extend(_cast_all(points[name][:count], cast))
            else:
                rows[name].extend([cast(run_id if name == "run" else series.get(name))] * count)


def _cast_all(values: list[Any], cast: Callable[[object], Any]) -> list[Any]:
    """Returns what `cast` makes of each value, at once where all are of the type already."""
    kinds = set(map(type, values))
    if cast is _float and kinds == {float}:
        return values
    if cast is _int and kinds == {int} and min(values) >= -_INT64 and max(values) < _INT64:
        return values
    return [cast(value) for value in values]


def _checks(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for check in _mappings(data.get("checks")):
        where = _mapping(check.get("where"))
        places = {name: where.get(name) for name in ("module", "parameter", "step")}
        yield {**check, "check": check.get("id"), **places}


def _findings(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for position, finding in enumerate(_mappings(data.get("findings")), 1):
        where = _mapping(finding.get("where"))
        places = {name: where.get(name) for name in ("file", "line", "step", "rank")}
        places["step"] = where.get("step", where.get("after_step"))
        yield {**finding, "position": position, "class": finding.get("class_"), **places}


def _fixes(meta: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    change, by = confirmed_fix(meta)
    if not change and not by:
        return
    keys = {"symptom": "symptoms", "family": "families", "fingerprint": "fingerprints"}
    first = {name: next(iter(_as_list(meta.get(key))), None) for name, key in keys.items()}
    yield {"fixed_by": by or None, "change": change or None, **first}


def _environments(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    captured = _mapping(data.get("captured"))
    for source, names in _FACTS.items():
        facts = _mapping(captured.get(source))
        yield from ({"source": source, "name": name, "value": facts[name]} for name in names if facts.get(name))
    for gpu in _mappings(_mapping(captured.get("hardware")).get("gpus")):
        yield {"source": "gpu", "name": gpu.get("name"), "value": gpu.get("memory_bytes")}
    for name, version in _mapping(_mapping(captured.get("python")).get("packages")).items():
        yield {"source": "package", "name": name, "value": version}
    for framework in _mappings(data.get("frameworks")):
        yield {"source": "framework", "name": framework.get("name"), "value": framework.get("version")}


def _artifacts(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for file in _mappings(data.get("files")):
        size = file.get("size_bytes")
        yield {**file, "size_bytes": size if isinstance(size, int) and size >= 0 else None}


def entry_month(path: str, run_id: str) -> str:
    """Returns the month of an entry by its run id, else by its folder: `2026-11`; "other" if it has none."""
    digits = run_id[:6]
    if path[11:15] + path[16:18] != digits and not is_run_id(run_id):  # most are in the folder of their month
        digits = "".join(path.split("/")[2:4])
    return f"{digits[:4]}-{digits[4:]}" if len(digits) == 6 and digits.isascii() and digits.isdigit() else "other"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [one for one in _as_list(value) if isinstance(one, Mapping)]


def _text(value: object) -> str | None:
    if value is None or value == "":
        return None
    if type(value) is str and value.isascii():
        return value
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _texts(value: object) -> list[str]:
    return [text for one in value if (text := _text(one))] if isinstance(value, (list, tuple)) else []


def _float(value: object) -> float | None:
    return value if type(value) is float else as_number(value)


def _int(value: object) -> int | None:
    if isinstance(value, str) and _DIGITS.match(value):
        value = int(value)
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    return value if type(value) is int and -_INT64 <= value < _INT64 else None


def _bool(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _time(value: object) -> datetime | None:
    number = as_number(value)
    try:
        return None if number is None else datetime.fromtimestamp(round(number, 6), timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None


_CAST = {"text": _text, "texts": _texts, "float": _float, "int": _int, "bool": _bool, "time": _time}
