"""Groups runs by the value of a field, an option or a metric, for `labbook list --group-by`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from labbook.frozen import dataclass
from labbook.model.entry import Entry
from labbook.model.run_fields import as_number, field_values
from labbook.report.best_runs import best_run
from labbook.report.period_costs import sum_time
from labbook.report.run_row import RunRow


@dataclass(frozen=True)
class RunGroup:
    """Runs with one value.

    Args:
        value: The value as text, "" for runs without one.
        rows: The runs, newest first.
    """

    value: str
    rows: tuple[RunRow, ...]

    def data(self) -> dict[str, Any]:
        """Returns the group as JSON data: `value`, `runs`, the number of each verdict, `time_s`, `best`, `last`."""
        best = best_run(self.rows)
        return {
            "value": self.value,
            "runs": len(self.rows),
            "verdicts": dict(Counter(row.verdict for row in self.rows)),
            "time_s": sum_time(self.rows),
            "best": {"run": best.id, "metric": best.metric, "value": best.best} if best else None,
            "last": self.rows[0].id,
        }


def group_runs(entries: Sequence[Entry], rows: Sequence[RunRow], key: str) -> list[RunGroup]:
    """Returns the groups, by number if all values are numbers, else the one with the newest run first.

    A run with several values, such as tags, is in several groups.

    Args:
        rows: The rows of the entries, in the same order.
    """
    groups: dict[str, list[RunRow]] = defaultdict(list)
    for entry, row in zip(entries, rows, strict=True):
        for value in dict.fromkeys(_values(entry.meta, row, key)) or [""]:
            groups[value].append(row)
    names = list(groups)
    numbers = {name: as_number(name) for name in names if name}
    if all(number is not None for number in numbers.values()):
        names.sort(key=lambda name: (name == "", numbers.get(name) or 0.0))
    return [RunGroup(name, tuple(groups[name])) for name in names]


def _values(meta: Mapping[str, Any], row: RunRow, key: str) -> list[str]:
    """Returns the values of a run as text; the verdict also of old entries, `tag` as `tags`."""
    known = getattr(row, key, None) if key in ("verdict", "script") else None
    values = [known] if known else field_values(meta, key) or field_values(meta, f"{key}s")
    return [" ".join(str(value).split()) for value in values]
