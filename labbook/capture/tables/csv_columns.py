"""What the columns of a table of a training are, by their names: steps, times, runs, data splits, metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from labbook.model.metric_kinds import is_counter

_QUALIFIERS = frozenset({
    "global", "total", "train", "training", "trainer", "num", "n", "number", "idx", "index", "id", "current",
})  # fmt: skip
_STEPS = ["step", "steps", "timestep", "timesteps", "步数", "步", "全局步数"]
_STEPS += ["iteration", "iterations", "iter", "iters", "迭代", "迭代次数", "迭代数"]
_BATCHES = ["batch", "batches", "批次"]
_EPOCHS = ["epoch", "epochs", "轮次", "轮数", "轮", "episode", "episodes", "回合"]
_TIMES = [
    "timestamp", "_timestamp", "wall_time", "walltime", "created_at", "datetime", "time", "date", "时间", "时间戳",
]  # fmt: skip
_NAMES = ["run", "run_name", "run_id"]
_OPTIONS = ["seed", "fold", "trial", "trial_id", "model", "optimizer", "method", "algorithm"]
_SPLITS = ["phase", "split", "mode", "stage", "subset", "dataset", "阶段", "数据集", "rank"]
_SERIES = ["series", "metric", "metric_name", "key", "tag", "name", "指标"]
_VALUES = ["value", "值"]
_NO_NAME = re.compile(r"unnamed:_?\d+|")
_EXTREME = re.compile("__(MIN|MAX)$")
_CHART = re.compile("(.+) - (.+)")


class CsvColumns:
    """Places of the columns of a table; of several columns of one kind, the first in the order of the lists above."""

    def __init__(self, header: Sequence[str]) -> None:
        plain = {place: re.sub(r"[\s-]+", "_", name.lower()) for place, name in enumerate(header)}
        self._named: dict[str, int] = {}
        for place, name in [*plain.items(), *((place, name.rpartition("/")[2]) for place, name in plain.items())]:
            self._named.setdefault(name, place)
        self.step, self.batch, self.epoch = (self._counter(words) for words in (_STEPS, _BATCHES, _EPOCHS))
        self.time = self._first(_TIMES)
        self.split = self._first(_SPLITS)
        self.names = [self._named[word] for word in _NAMES if word in self._named]
        self.options = [self._named[word] for word in _OPTIONS if word in self._named]
        self.series = self._first(_SERIES)
        special = {self.step, self.batch, self.epoch, self.split, self.series, *self.names, *self.options}
        self.metrics = _split_charts(
            {
                place: name
                for place, name in enumerate(header)
                if place not in special and not _NO_NAME.fullmatch(plain[place]) and not is_counter(name)
                if not (_EXTREME.search(name) and _EXTREME.sub("", name) in header)
            }
        )
        """Place, run, and name of each metric."""
        value = [metric for metric in self.metrics if plain[metric[0]] in _VALUES]
        self.is_long = bool(value) and (
            "series" in self._named
            or (self.series is not None and {place for place, _, _ in self.metrics} <= {value[0][0], self.time})
        )
        """Whether each row has one value of a named series."""
        if self.is_long:
            self.metrics = value

    @property
    def counter(self) -> int | None:
        """The finest column that counts steps."""
        return next((place for place in (self.step, self.batch, self.epoch) if place is not None), None)

    def _first(self, words: Sequence[str]) -> int | None:
        return next((self._named[word] for word in words if word in self._named), None)

    def _counter(self, words: Sequence[str]) -> int | None:
        """Returns the column that counts one of these; a total comes before a plain count."""
        found = []
        for name, place in self._named.items():
            parts = [part for part in name.split("_") if part]
            unit = [part for part in parts if part not in _QUALIFIERS]
            if len(unit) == 1 and unit[0] in words:
                found.append((not {"global", "total"} & set(parts), words.index(unit[0]), place))
        return min(found)[2] if found else None


def _split_charts(names: Mapping[int, str]) -> list[tuple[int, str, str]]:
    """Returns place, run and name of columns: W&B names those of a chart `run - metric`; equal names get numbers."""
    numbered, seen = {}, Counter[str]()
    for place, name in names.items():
        numbered[place] = f"{name}.{seen[name]}" if seen[name] else name
        seen[name] += 1
    charts = {place: chart for place, name in numbered.items() if (chart := _CHART.fullmatch(name)) is not None}
    if len(charts) < len(numbered):
        return [(place, "", name) for place, name in numbered.items()]
    return [(place, chart[1], chart[2]) for place, chart in charts.items()]
