"""Rules about learning rate schedules: the direction of the metric that they follow."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.model.metric_kinds import metric_kind
from labbook.review.code_index import Code, last_name
from labbook.review.rules.data_pipeline import argument
from labbook.review.source_file import Source
from labbook.review.violation import Hit, rule

_PLATEAU = ("torch.optim.lr_scheduler.ReduceLROnPlateau", "paddle.optimizer.lr.ReduceOnPlateau")


@rule(
    "lr_schedule_wrong",
    "warning",
    2,
    "torch.optim.lr_scheduler.ReduceLROnPlateau: mode='min' by default; the same in paddle",
    row="loop-bug",
)
def schedule_direction(code: Code, source: Source) -> Iterator[Hit]:
    """A schedule that waits for a metric to fall is given one that rises, or the other way round."""
    for where, call in code.calls.get("step", ()):
        if where is not source or not call.args or not isinstance(call.func, ast.Attribute):
            continue
        kind = code.kind(source, call.func.value)
        if kind is None or kind.name not in _PLATEAU:
            continue
        mode = argument(kind.call, 1, "mode")
        wanted = "min" if mode is None else getattr(mode, "value", "")
        name = _metric(call.args[0])
        direction = metric_kind(name).direction if name else ""
        if wanted in ("min", "max") and direction in ("min", "max") and direction != wanted:
            yield Hit(call, {"metric": name, "mode": str(wanted), "right": direction})


def _metric(node: ast.expr) -> str:
    """The name of the value that a schedule is given: of a variable, a key, an attribute."""
    while isinstance(node, ast.Call) and not node.keywords:
        inner = (
            node.func.value if isinstance(node.func, ast.Attribute) and not node.args else next(iter(node.args), None)
        )
        if inner is None:
            return ""
        node = inner
    if isinstance(node, ast.Subscript):
        key = node.slice
        return str(key.value) if isinstance(key, ast.Constant) and isinstance(key.value, str) else _metric(node.value)
    return last_name(node)
