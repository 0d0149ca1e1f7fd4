"""A run as one row of a list, a report or a page of the site, from the front matter of its entry."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from labbook.frozen import dataclass
from labbook.model.entry import Entry
from labbook.model.series import more_is_better
from labbook.report.numbers import number
from labbook.store.paths import is_run_id


@dataclass(frozen=True)
class RunRow:
    """One row of a list of runs.

    Args:
        path: Path of its entry, relative to the notebook.
        started: Unix seconds, 0 if unknown.
        metric: Name of the primary metric, or "".
        first, best, last: Values of that metric, or `None`.
        steps: Number of steps with that metric, or `None`.
    """

    id: str
    path: str
    status: str
    title: str
    experiment: str = ""
    author: str = ""
    host: str = ""
    script: str = ""
    started: float = 0.0
    duration_s: float | None = None
    metric: str = ""
    first: float | None = None
    best: float | None = None
    last: float | None = None
    steps: int | None = None
    frameworks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    fix: str = ""
    previous: str = ""

    @property
    def metric_text(self) -> str:
        """The metric and its last value: `loss 0.213`; "" without a value."""
        if not self.metric or (self.last is None and self.best is None):
            return ""
        return f"{self.metric} {number(self.last if self.last is not None else self.best)}"

    @property
    def subject(self) -> str:
        """The title without the name of the script."""
        head, _, rest = self.title.replace("：", ": ", 1).partition(": ")
        return rest if rest and head == self.script else self.title

    def better_than(self, other: RunRow) -> bool:
        """Whether the best value of the metric is better than that of another run."""
        if self.best is None or other.best is None:
            return self.best is not None and other.best is None
        return self.best > other.best if more_is_better(self.metric) else self.best < other.best


def run_row(entry: Entry) -> RunRow:
    """Returns the row of an entry; missing or invalid front matter leaves fields empty."""
    meta = entry.meta
    metric, values = _metric(meta.get("metrics"))
    title = meta.get("title")
    return RunRow(
        id=entry.id,
        path=entry.path,
        status=_text(meta.get("status")) or "lost",
        title=_text(title) or entry.id,
        experiment=_text(meta.get("experiment")),
        author=_text(meta.get("author")),
        host=_text(meta.get("host")),
        script=_text(entry.script),
        started=_seconds(meta.get("started"), entry.id),
        duration_s=_number(meta.get("duration_s")),
        metric=metric,
        first=_number(values.get("first")),
        best=_number(values.get("best")),
        last=_number(values.get("last")),
        steps=int(steps) if (steps := _finite(values.get("steps"))) is not None else None,
        frameworks=_texts(meta.get("frameworks")),
        tags=_texts(meta.get("tags")),
        symptoms=_texts(meta.get("symptoms")),
        fix=_text(meta.get("fix")),
        previous=_text(meta.get("previous")),
    )


def _metric(metrics: object) -> tuple[str, Mapping[str, Any]]:
    """Returns name and values of the first metric of the front matter, which is the primary one."""
    if isinstance(metrics, Mapping):
        for name, values in metrics.items():
            if isinstance(values, Mapping):
                return str(name), values
            if _number(values) is not None:
                return str(name), {"best": values, "last": values}
    return "", {}


def _seconds(started: object, run_id: str) -> float:
    """Returns the Unix seconds of the start, else of the run id, else 0."""
    texts = [started] if isinstance(started, str) else []
    if is_run_id(run_id):
        texts.append(f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T{run_id[9:11]}:{run_id[11:13]}:{run_id[13:15]}")
    return next((seconds for text in texts if (seconds := _moment(text)) is not None), 0.0)


def _moment(text: str) -> float | None:
    try:
        when = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        return (when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        return None


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)) or value in ("nan", "inf", "-inf"):
        try:
            return float(value)
        except OverflowError:  # an integer with hundreds of digits, written by hand
            return None
    return None


def _finite(value: object) -> float | None:
    found = _number(value)
    return found if found is not None and abs(found) < 1e15 else None


def _text(value: object) -> str:
    return " ".join(str(value).split()) if isinstance(value, (str, int, float)) and value != "" else ""


def _texts(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return tuple(text for item in items if (text := _text(item)))
