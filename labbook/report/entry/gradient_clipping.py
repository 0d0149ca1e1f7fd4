"""What an entry says of gradient clipping: its limit, how often it acted, and which gradient norms were measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labbook.model.run import Run
from labbook.report import numbers

_OPTION = "ClipGradByGlobalNorm"


def clipping_row(run: Run) -> list[dict[str, Any]]:
    """Returns the row of the model table on clipping, of the first process that clips; empty without one.

    Returns:
        `what`: "clipping"; `kind`: "norm" or "value"; `limit`: "" if it varies; `clipped` of `calls`: both "" if not
        every norm was read. Where an optimizer of PaddlePaddle clips, which calls nothing, the calls are its steps.
    """
    clips = next((clip for s in run.signals if (clip := s.loop.get("clip"))), None) or _of_optimizer(run)
    calls, limit = clips.get("calls", 0), clips.get("limit")
    if not calls:
        return []
    kind = clips.get("kind", "norm")
    counted = kind == "norm" and limit is not None and clips.get("read", 0) == calls
    return [
        {
            "what": "clipping",
            "kind": kind,
            "limit": "" if limit is None or clips.get("changed") else numbers.number(limit),
            "clipped": numbers.count(clips.get("clipped", 0)) if counted else "",
            "calls": numbers.count(calls) if counted else "",
        }
    ]


def _of_optimizer(run: Run) -> Mapping[str, Any]:
    """Returns the steps of the only optimizer that has a limit for its total norm, if each norm is in the run."""
    options = [str(one.get("options", {}).get("grad_clip", "")) for s in run.signals for one in s.optimizers]
    norms = [s for s in run.series if s.source == "probe" and s.name == "grad_norm"]
    if len(options) != 1 or not options[0].startswith(_OPTION) or len(norms) != 1:
        return {}
    values, limit = norms[0].values, float(options[0].split()[1])
    if norms[0].count not in (0, len(values)) or norms[0].nonfinite or len(values) != run.steps:
        return {}
    return {"calls": len(values), "read": len(values), "clipped": sum(v > limit for v in values), "limit": limit}


def norm_place(run: Run, name: str) -> str:
    """Returns "before" or "after" for gradient norms of an optimizer that all are on that side of clipping, else "".

    Where more or less is clipped than what the optimizer has, as a whole model with a layer that no optimizer has,
    its norm is measured after clipping. Clipping in the optimizer, as in PaddlePaddle, comes after it.

    Args:
        name: Name of the series: "grad_norm", "grad_norm.opt1".
    """
    index = name.partition(".opt")[2] or "0"
    own = [one for s in run.signals for one in s.optimizers if str(one.get("index", 0)) == index]
    if any(str(one.get("options", {}).get("grad_clip", "")).startswith("ClipGradBy") for one in own):
        return "before"
    norms = [s.loop.get("clipped_norms", {}).get(index, {}) for s in run.signals]
    before, after = any(one.get("before") for one in norms), any(one.get("after") for one in norms)
    return "" if before == after else "before" if before else "after"
