"""Data of tables and charts of runs: a small file for each month and each experiment, in columns. Pure.

It has only data of the front matter of entries. The file of a month depends on its runs only, so that an old one does
not change with a new run.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

from labbook.model.metric_kinds import direction_of
from labbook.model.run_fields import option_keys, option_values
from labbook.publish.pages.build_record import content_key
from labbook.publish.pages.page import SiteFile, SiteSource, group_rows
from labbook.report.run_row import RunRow
from labbook.store.paths import is_run_id

_TEXTS = ("outcome", "status", "verdict", "experiment", "project", "script", "metric", "author", "host")
_LISTS = ("tags", "symptoms", "frameworks")
"""Fields of `RunRow` with one value a run, and with several."""

FORM = 4
"""Version of the format, read by `assets/rows.js`."""

_MAX_TEXT = 200
_MAX_COLUMNS = 100
"""Most metrics, and most options, in one file. Source: chosen by us; a table shows about ten."""

_FOLDER = "data/runs"
Front = Mapping[str, Any]


def table_files(source: SiteSource, titles: Mapping[str, str]) -> list[SiteFile]:
    """Returns `data/runs/<year>-<month>.json` for each month with runs, and their list `data/runs/index.json`.

    Args:
        titles: Symptom of a run -> its title.
    """
    files = []
    months = []
    for month, rows in group_by_month(source.rows).items():
        content = _columns_of_month(month, rows, source)
        files.append(SiteFile(f"{_FOLDER}/{month}.json", content))
        # The digest is part of the address, so that browsers can cache old months.
        months.append({"month": month, "runs": len(rows), "digest": hashlib.sha256(content).hexdigest()[:12]})
    shown = sorted({name for row in source.rows for name in row.symptoms})
    index = {
        "form": FORM,
        "runs": len(source.rows),
        "months": months,
        "symptoms": {_cut(name): _cut(titles.get(name, name)) for name in shown},
    }
    return [*files, SiteFile(f"{_FOLDER}/index.json", compact(index))]


def experiment_files(source: SiteSource) -> list[SiteFile]:
    """Returns `data/experiments/<name>.json`, the columns of the runs of each experiment with a page."""
    groups = group_rows(source.rows, attrgetter("experiment"))
    names = dict.fromkeys(page.path.rsplit("/", 1)[-1].removesuffix(".md") for page in source.experiments)
    return [
        SiteFile(f"data/experiments/{name}.json", _columns_of_experiment(name, groups[name], source))
        for name in names
        if groups.get(name)
    ]


def _columns_of_experiment(name: str, rows: Sequence[RunRow], source: SiteSource) -> bytes:
    make = partial(columns, rows, source.fronts, source.facts)
    known = [(row.path, source.digests.get(row.path, ""), row.path in source.facts) for row in rows]
    if not all(digest for _, digest, _ in known):
        return make()
    return source.cache.get_or_make(f"experiment-{content_key(name)}", content_key(known), make)


def _columns_of_month(month: str, rows: Sequence[RunRow], source: SiteSource) -> bytes:
    make = partial(columns, rows, source.fronts, source.facts)
    keys = source.months.get(month)
    if keys is None:
        return make()
    key = content_key(FORM, keys.content, [row.path in source.facts for row in rows])
    return source.cache.get_or_make(f"columns-{month}", key, make)


def entry_month(path: str) -> str:
    """Returns the month of the folder of an entry, `2026-11`, or "other"."""
    return _dates(path.rpartition("/")[0])[0]


def entry_day(path: str) -> str:
    """Returns the day of the folder of an entry, `2026-11-23`, else its month as `entry_month`."""
    return _dates(path.rpartition("/")[0])[1]


@lru_cache(maxsize=4096)
def _dates(folder: str) -> tuple[str, str]:
    """Returns month and day of the entries in a folder; cached, because there are few folders."""
    parts = folder.split("/")
    dated = len(parts) >= 4 and len(parts[2]) == 4 and len(parts[3]) == 2 and (parts[2] + parts[3]).isdecimal()
    if not dated or not (parts[2] + parts[3]).isascii():
        return "other", "other"
    month = f"{parts[2]}-{parts[3]}"
    of_day = len(parts) >= 5 and len(parts[4]) == 2 and parts[4].isdecimal() and parts[4].isascii()
    return month, f"{month}-{parts[4]}" if of_day else month


def group_by_month(rows: Sequence[RunRow]) -> dict[str, list[RunRow]]:
    """Returns `2026-11` or "other", the month of the folder of the entry -> its runs, newest first."""
    months = group_rows(rows, lambda row: entry_month(row.path))
    return dict(sorted(months.items(), key=lambda item: (item[0] != "other", item[0]), reverse=True))


def columns(rows: Sequence[RunRow], fronts: Mapping[str, Front], known: Container[str] = ()) -> bytes:
    """Returns runs as compact JSON in columns.

    Args:
        rows: Runs, newest first.
        fronts: Path of an entry -> its front matter.
        known: Paths of entries with data for comparisons, see `compare_data`.

    Returns:
        `id`, `title`, `started` (Unix seconds), `duration` (s) of each run; `at`: row -> address of the entry, if it
        does not follow from the id; `texts`: name -> values `t` and the number of each row's value `i`; `lists`:
        likewise with several values a row; `fixed`: rows with a confirmed fix; `bare`: rows without data for
        comparisons; `metrics`: name -> rows `r` (all of them where it is missing), `best` and `last`; `rising`: metrics
        of which more is better; `params`: name -> rows `r`, values `t` and their numbers `i`.
    """
    metrics: list[dict[str, tuple[Any, Any]]] = []
    params: list[dict[str, str]] = []
    for row in rows:
        front = fronts.get(row.path, {})
        metrics.append(_optimizer_rate(front) | metric_columns(front))
        params.append(option_columns(front))
    texts = {name: [str(getattr(row, name)) for row in rows] for name in _TEXTS}
    texts["mode"] = [str(fronts.get(row.path, {}).get("mode") or "") for row in rows]
    places = {str(number): place for number, row in enumerate(rows) if (place := _place(row)) != _usual_name(row.id)}
    return compact(
        {
            "form": FORM,
            "id": [_cut(row.id) for row in rows],
            "title": [_cut(row.subject) for row in rows],
            "started": [int(row.started) for row in rows],
            "duration": [_round_seconds(row.duration_s) for row in rows],
            "at": places,
            "texts": {name: _interned(list(map(_cut, values))) for name, values in texts.items()},
            "lists": {name: _as_columns([getattr(row, name) for row in rows]) for name in _LISTS},
            "fixed": [number for number, row in enumerate(rows) if row.fix],
            "bare": [number for number, row in enumerate(rows) if not (row.path in known and is_run_id(row.id))],
            "metrics": _metric_columns(metrics),
            "rising": sorted(name for name in {name for row in metrics for name in row} if direction_of(name) == "max"),
            "params": _param_columns(params),
        }
    )


def metric_columns(front: Front) -> dict[str, tuple[Any, Any]]:
    """Returns name -> best and last value of a metric; numbers that are not finite are texts."""
    found: dict[str, tuple[Any, Any]] = {}
    given = front.get("metrics")
    for name, values in given.items() if isinstance(given, Mapping) else ():
        pair = (values.get("best"), values.get("last")) if isinstance(values, Mapping) else (values, values)
        measured = (_number(pair[0]), _number(pair[1]))
        if measured != (None, None):
            found[_cut(str(name))] = measured
    return found


def option_columns(front: Front) -> dict[str, str]:
    """Returns name -> value of the options of a run as short text, see `option_values`."""
    return {_cut(name): _cut(str(value)) for name, value in option_values(front).items()}


def _optimizer_rate(front: Front) -> dict[str, tuple[Any, Any]]:
    """Returns the learning rate of the optimizer of a run without an option `lr`: `lr<0.02` finds it everywhere."""
    rates = front.get("lr")
    if (
        not isinstance(rates, list)
        or len(rates) != 1
        or any("lr" in option_keys(name) for name in option_values(front))
    ):
        return {}
    rate = _number(rates[0])
    return {} if rate is None else {"lr": (None, rate)}


def compact(data: Any) -> bytes:  # noqa: ANN401 - JSON data
    """Returns `data` as JSON without spaces and without escapes of non-ASCII letters."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")


def _place(row: RunRow) -> str:
    return row.path.removeprefix("notes/").removesuffix(".md")


def _usual_name(run_id: str) -> str:
    return f"runs/{run_id[:4]}/{run_id[4:6]}/{run_id[6:8]}/{run_id}" if is_run_id(run_id) else ""


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def _round_seconds(seconds: float | None) -> float | None:
    return round(seconds, 1) if seconds is not None and math.isfinite(seconds) else None


def _number(value: object) -> float | str | None:
    """Returns a finite number, or the text of another one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str):
        return value if value in ("nan", "inf", "-inf") else None
    if isinstance(value, int) and abs(value) >= 1 << 53:
        return None  # JSON parsers do not read it exactly
    return value if math.isfinite(value) else str(float(value))


def _interned(values: Sequence[str]) -> dict[str, Any]:
    """Returns the distinct values in order of appearance, and the number of each value."""
    numbers: dict[str, int] = {}
    return {"i": [numbers.setdefault(value, len(numbers)) for value in values], "t": list(numbers)}


def _as_columns(values: Sequence[Sequence[str]]) -> dict[str, Any]:
    numbers: dict[str, int] = {}
    found = [[numbers.setdefault(_cut(value), len(numbers)) for value in each] for each in values]
    return {"i": found, "t": list(numbers)}


def _metric_columns(rows: Sequence[Mapping[str, tuple[Any, Any]]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _most_frequent(rows):
        held = [number for number, row in enumerate(rows) if name in row]
        column: dict[str, Any] = {"r": held} if len(held) < len(rows) else {}
        column["best"] = [rows[number][name][0] for number in held]
        column["last"] = [rows[number][name][1] for number in held]
        found[name] = column
    return found


def _param_columns(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _most_frequent(rows):
        held = [number for number, row in enumerate(rows) if name in row]
        column: dict[str, Any] = {"r": held} if len(held) < len(rows) else {}
        found[name] = column | _interned([rows[number][name] for number in held])
    return found


def _most_frequent(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the most frequent names of the rows, earlier ones first."""
    return [name for name, _ in Counter(name for row in rows for name in row).most_common(_MAX_COLUMNS)]
