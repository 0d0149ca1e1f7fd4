"""The modules of a run's models as names with a value each, and their differences between two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.compare.code_changes import make_change
from labbook.compare.run_settings import list_rows
from labbook.model.message import message
from labbook.model.run import Change

_SHOWN = 60


def model_facts(run: Mapping[str, Any]) -> dict[str, str] | None:
    """Returns the modules of the models: name -> "Linear, Nx64, 1,200 parameters"; `None` if none was observed.

    The first axis of a shape is `N`, so that another batch size changes nothing. The model itself has the sum of its
    parameters. With several models a name begins with the class of its model.
    """
    health = run.get("health")
    models = list_rows(health, "models") if isinstance(health, Mapping) else []
    found: dict[str, str] = {}
    for model in models:
        prefix = str(model.get("root") or "") if len(models) > 1 else ""
        for row in list_rows(model, "rows"):
            own = str(row.get("name") or "")
            size = (row if own else model).get("parameters")
            facts = [str(row.get("type") or ""), _shape(str(row.get("output") or ""))]
            facts += [f"{size:,} parameters"] if isinstance(size, int) and size else []
            name = ".".join(filter(None, (prefix, own))) or "(model)"
            found[name] = ", ".join(filter(None, facts))
    return found or None


def _shape(text: str) -> str:
    """Returns the shapes of outputs with `N` for the first axis."""
    shapes = [each.partition("x") for each in text.split(", ")]
    return ", ".join(f"N{cross}{rest}" if cross else first for first, cross, rest in shapes)


def deepest_module(run: Mapping[str, Any]) -> int | None:
    """Returns the depth below which modules have no row in the entry; `None` if all have one."""
    health = run.get("health")
    models = list_rows(health, "models") if isinstance(health, Mapping) else []
    if not any(model.get("left_out") for model in models):
        return None
    return max((int(row.get("depth") or 0) for model in models for row in list_rows(model, "rows")), default=0)


def compare_models(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Returns the modules that were added, removed, or have another class, output shape or number of parameters."""
    old, new = model_facts(before), model_facts(now)
    if old is None or new is None:
        return []
    names = common_modules([old, new], [deepest_module(before), deepest_module(now)])
    changes = [Change("model", n, old.get(n, ""), new.get(n, "")) for n in names if old.get(n) != new.get(n)]
    if len(changes) > _SHOWN:
        changes[_SHOWN:] = [
            make_change(message("capture.change.more", count=len(changes) - _SHOWN), "", "", kind="model")
        ]
    return changes


def common_modules(sides: Sequence[Mapping[str, str]], depths: Sequence[int | None]) -> list[str]:
    """Returns the names of modules down to the depth that all runs show."""
    least = min((depth for depth in depths if depth is not None), default=None)
    names = dict.fromkeys(name for side in sides for name in side)
    return [name for name in names if least is None or name.count(".") < least]
