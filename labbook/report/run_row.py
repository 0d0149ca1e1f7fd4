"""A run as one row of a list, a report or a page of the site, from the front matter of its entry."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING

from labbook.frozen import dataclass
from labbook.model.entry import Entry
from labbook.model.metric_kinds import MetricGoal, choose_metric, direction_of, metric_kind, named_metric
from labbook.model.verdict import judge_entry
from labbook.report.numbers import number
from labbook.store.moments import first_moment
from labbook.store.paths import is_run_id
from labbook.store.text.words_files import builtin_folder, read_words

if TYPE_CHECKING:  # 12 ms: with the classes of all events
    from labbook.model.run import Facts

Goals = Callable[[str], MetricGoal]
"""Experiment -> the metric that people chose for it."""


@dataclass(frozen=True)
class RunRow:
    """One row of a list of runs.

    Args:
        path: Path of its entry, relative to the notebook.
        started: Unix seconds, 0 if unknown.
        metric: Name of the primary metric, or "".
        first, best, last: Values of that metric, or `None`; `best` is never the value of a single training batch.
        steps: Number of values of that metric, or `None`.
        direction: "max" or "min"; "" where no value of the metric is the best one.
        verdict: One of `labbook.model.verdict.VERDICTS`.
        verdict_reason: Id of the symptom behind it, one of `labbook.model.verdict.REASONS`, or "".
        configuration: Key of its options, command and commit without seeds; equal ones are repeats of one another.
        seed: Its seeds as text, or "".
        fix_text: The confirmed fix in words, or "".
        parents: Ids of the runs that wrote what it read.
        rerun_of: Id of the run that it repeats, or "".
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
    direction: str = ""
    verdict: str = "unknown"
    verdict_reason: str = ""
    configuration: str = ""
    seed: str = ""
    fix_text: str = ""
    parents: tuple[str, ...] = ()
    rerun_of: str = ""
    project: str = ""

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

    @property
    def outcome(self) -> str:
        """The subject without what columns for status and metric show: "0.41 → 0.93 in 80 steps", "dead ReLU units"."""
        text = self.subject
        for beginning in _status_words():
            if text.startswith(beginning):
                text = text[len(beginning) :]
                break
        text = text.removeprefix(f"{self.metric} ") if self.metric else text
        is_value = self.metric_text in (self.subject, f"{self.metric} {text}")
        return "" if is_value or text in _status_words() else text

    def is_better_than(self, other: RunRow) -> bool:
        """Whether the best value of the metric is better than that of another run."""
        if self.best is None or other.best is None:
            return self.best is not None and other.best is None
        return self.best > other.best if self.direction == "max" else self.best < other.best


@cache
def _status_words() -> tuple[str, ...]:
    """Returns how titles begin that repeat the status, in all languages, the longest first."""
    found: set[str] = set()
    for language in ("en", "zh"):
        title = read_words(builtin_folder() / "words" / f"{language}.toml")["title"]
        found |= {
            str(title[key]).partition("{")[0] for key in ("finished", "finished_with", "finished_but", "failed_with")
        }
    return tuple(sorted(found, key=len, reverse=True))


def run_row(entry: Entry, goals: Goals | None = None) -> RunRow:
    """Returns the row of an entry; missing or invalid front matter leaves fields empty.

    Args:
        goals: Experiment -> the metric that people chose for it.
    """
    meta = entry.meta
    experiment = _text(meta.get("experiment"))
    measured = _primary_metric(meta, goals(experiment) if goals is not None else MetricGoal())
    metric, values = measured.name, measured.values
    verdict = judge_entry(meta, entry.body)
    configuration, seed = _configuration(meta)
    title = meta.get("title")
    return RunRow(
        id=entry.id,
        path=entry.path,
        status=_text(meta.get("status")) or "lost",
        title=_text(title) or entry.id,
        experiment=experiment,
        author=_text(meta.get("author")),
        host=_text(meta.get("host")),
        script=_text(entry.script),
        started=first_moment([meta.get("started")], entry.id) or 0.0,
        duration_s=_number(meta.get("duration_s")),
        metric=metric,
        first=_number(values.get("first")),
        best=measured.best,
        last=_number(values.get("last")),
        steps=int(steps) if (steps := _finite_or_none(values.get("steps"))) is not None else None,
        frameworks=_texts(meta.get("frameworks")),
        tags=_texts(meta.get("tags")),
        symptoms=_texts(meta.get("symptoms")),
        fix=_text(meta.get("fix")),
        parents=_texts(meta.get("parents")),
        rerun_of=_text(meta.get("rerun_of")),
        project=_text(meta.get("project")),
        previous=_text(meta.get("previous")),
        direction=measured.direction,
        verdict=verdict.name,
        verdict_reason=verdict.reason,
        configuration=configuration,
        seed=seed,
        fix_text=_text(meta.get("fix_text")) or ("" if is_run_id(_text(meta.get("fix"))) else _text(meta.get("fix"))),
    )


@dataclass(frozen=True)
class _PrimaryMetric:
    """The primary metric in a front matter."""

    name: str = ""
    values: Facts = field(default_factory=dict)
    direction: str = ""
    best: float | None = None


def _primary_metric(meta: Facts, goal: MetricGoal) -> _PrimaryMetric:
    """Returns the primary metric: the chosen one, else that of the run, else the one that its name makes it."""
    metrics = _metrics(meta.get("metrics"))
    recorded = _text(meta.get("metric"))
    chosen = named_metric(metrics, goal.metric) if goal.metric else ""
    name = chosen or (recorded if recorded in metrics else "") or choose_metric(_epochs(metrics))
    name = name or next(iter(metrics), "")
    values = metrics.get(name, {})
    own = _text(meta.get("direction")) if "direction" in meta and name == recorded else direction_of(name)
    direction = goal.direction if goal.direction and (chosen or not goal.metric) and name else own
    best = _number(values.get("best"))
    if "metric" not in meta and metric_kind(name).is_training and metric_kind(name).quantity == "loss":
        best = None  # older entries have the best single batch here
    elif own != direction:
        best = _number(values.get("last"))  # the best value was chosen in the other direction
    return _PrimaryMetric(name, values, direction, best if direction else None)


def _metrics(given: object) -> dict[str, Facts]:
    found: dict[str, Facts] = {}
    for name, values in given.items() if isinstance(given, Mapping) else ():
        if isinstance(values, Mapping):
            found[str(name)] = values
        elif _number(values) is not None:
            found[str(name)] = {"best": values, "last": values}
    return found


def _epochs(metrics: Mapping[str, Facts]) -> dict[str, bool]:
    """Returns the names, with whether each has fewer values than there were steps."""
    steps = {name: _finite_or_none(values.get("steps")) or 0 for name, values in metrics.items()}
    most = max(steps.values(), default=0)
    return {name: bool(own and 2 * own <= most) for name, own in steps.items()}


_SEEDS = re.compile(r"(?:^|[_.-])seeds?$|^(?:random|manual|global)_?state$", re.IGNORECASE)
_SEED_WORDS = re.compile(r"(?:^|\s)\S*seeds?[= ](\S+)", re.IGNORECASE)


def _configuration(meta: Facts) -> tuple[str, str]:
    """Returns a key of the options, the command and the commit without seeds, and the seeds."""
    params = meta.get("params")
    code = meta.get("code")
    commit = str(code.get("commit") or "") if isinstance(code, Mapping) else ""
    if isinstance(params, Mapping) and params:
        named = {str(name): str(value) for name, value in params.items()}
        seeds = [named[name] for name in sorted(named) if _SEEDS.search(name)]
        others = sorted((name, value) for name, value in named.items() if not _SEEDS.search(name))
    else:
        command = _text(meta.get("command"))
        seeds, others = _SEED_WORDS.findall(command), [(_SEED_WORDS.sub(" ", command), "")]
    key = json.dumps([commit, _text(meta.get("experiment")), others])
    return hashlib.sha256(key.encode()).hexdigest()[:16], " ".join(seeds)


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)) or value in ("nan", "inf", "-inf"):
        try:
            return float(value)
        except OverflowError:  # an integer with hundreds of digits, written by hand
            return None
    return None


def _finite_or_none(value: object) -> float | None:
    found = _number(value)
    return found if found is not None and abs(found) < 1e15 else None


def _text(value: object) -> str:
    return " ".join(str(value).split()) if isinstance(value, (str, int, float)) and value != "" else ""


def _texts(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return tuple(text for item in items if (text := _text(item)))
