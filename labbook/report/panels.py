"""Groups the series of a run into panels."""

from __future__ import annotations

import re
from collections.abc import Sequence

from labbook.frozen import dataclass
from labbook.model.metric_kinds import metric_kind
from labbook.model.series import Series
from labbook.report.series_choice import base_name, sort_by_trust

MAX_PANELS = 7
MAX_LINES = 8
"""Most lines in one panel. Source: chosen by us; the palette has eight distinct colours."""

_PARTS = re.compile(
    r"(?:^|(?<=[/_.\- ]))(?:train|training|val|valid|validation|eval|test|dev)(?=$|[/_.\- ])", re.IGNORECASE
)
_NOT_DRAWN = ("step_time_s", "grad_scale")
_LAST = ("grad_norm", "lr", "update_ratio")


@dataclass(frozen=True)
class Panel:
    """One diagram.

    Args:
        key: "loss", "grad_norm", "lr", or the name of a logged metric.
        lines: Series with their labels; a single one has the label "".
        left_out: Number of series that are not drawn.
    """

    key: str
    title: str
    lines: tuple[tuple[str, Series], ...]
    left_out: int = 0


def choose_panels(series: Sequence[Series], primary: str = "") -> tuple[list[Panel], int]:
    """Returns the panels and the number of series that are not drawn.

    The panel of the main metric is first, then losses, then metrics that say how good a model is, the most telling
    first, and what the probe measures of the optimizer last. A single line is titled by its name, as in the table.

    Args:
        primary: Name of the main metric, "" for none.
    """
    groups: dict[tuple[str, str], list[Series]] = {}
    for each in sort_by_trust(series):
        if base_name(each.name) in _NOT_DRAWN or len(each.values) < 2:
            continue
        script, quantity = _script(each.name), _quantity(each.name)
        names = (quantity, f"{quantity} ({each.source})", f"{quantity} ({each.source}, {each.axis or 'step'})")
        free = [(script, name) for name in names if _has_axis_of(groups.get((script, name), [each])[0], each)]
        key = next((key for key in free if key not in groups or _same_steps(groups[key][0], each)), free[-1])
        groups.setdefault(key, []).append(each)
    keys = sorted(
        groups,
        key=lambda key: (
            all(each.name != primary for each in groups[key]),
            key[0] != "",
            key[0],
            *_place_of(key[1].split(" (")[0]),
        ),
    )
    panels = [_panel(key, groups[key]) for key in keys[:MAX_PANELS]]
    return panels, sum(len(groups[key]) for key in keys[MAX_PANELS:]) + sum(p.left_out for p in panels)


def _place_of(quantity: str) -> tuple[int, int]:
    if quantity == "loss":
        return 0, 0
    if quantity in _LAST:
        return 3, _LAST.index(quantity)
    kind = metric_kind(quantity)
    return (1, kind.rank) if kind.direction and kind.quantity != "speed" else (2, 0)


def _panel(key: tuple[str, str], members: list[Series]) -> Panel:
    script, quantity = key
    members = _distinct(members)
    shown = members[:MAX_LINES]
    labels = _labels(shown)
    lines = tuple(zip(labels, shown, strict=True))
    title = f"{script}: {quantity}" if script else quantity
    if len(shown) == 1:
        _, mark, source = quantity.partition(" (")
        title = f"{shown[0].name}{mark}{source}"
    return Panel(quantity.split(" (")[0], title, lines, len(members) - len(shown))


def _distinct(members: list[Series]) -> list[Series]:
    """Returns the series without exact copies, such as the learning rates of several ranks."""
    found: dict[tuple[str, tuple[int, ...], tuple[float, ...]], Series] = {}
    for each in members:
        found.setdefault((each.name, each.steps, each.values), each)
    return list(found.values())


def _labels(members: list[Series]) -> list[str]:
    """Returns the shortest distinct names for the lines of a panel; "" for a single one."""
    if len(members) == 1:
        return [""]
    names, sources, ranks = ({getattr(s, what) for s in members} for what in ("name", "source", "rank"))
    labels = []
    for each in members:
        parts = [each.name.removeprefix(f"{_script(each.name)}/")] if len(names) > 1 else []
        parts += [f"rank {each.rank}"] if len(ranks) > 1 and each.rank is not None else []
        parts += (
            [f"({each.source})" if parts else each.source] if len(sources) > 1 and len(names) != len(members) else []
        )
        labels.append(" ".join(parts) or each.name)
    return labels


def _quantity(name: str) -> str:
    """Returns the quantity without the data split: "loss" for "val/loss"."""
    bare = name.removeprefix(f"{_script(name)}/").split(".opt")[0].split(".group")[0]
    stripped = _PARTS.sub("", bare).strip("/_.- ")
    stripped = re.sub(r"[/_.\- ]{2,}", "/", stripped).lower()
    return stripped or bare


def _script(name: str) -> str:
    head, slash, _ = name.partition("/")
    return head if slash and head.split("#")[0].endswith((".py", ".ipynb")) else ""


def _has_axis_of(one: Series, other: Series) -> bool:
    """Whether the steps of two series number the same, optimizer steps, epochs or values."""
    return (one.axis or "step") == (other.axis or "step")


def _same_steps(one: Series, other: Series) -> bool:
    """Whether two series have about as many steps; one may count those of an optimizer, the other batches."""
    a, b = one.steps[-1], other.steps[-1]
    return max(a, b) <= 1.5 * max(1, min(a, b)) + 5
