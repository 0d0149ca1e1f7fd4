"""What the flight recorder found: where the first value that is not finite came from."""

from __future__ import annotations

import math
import re
from typing import Any

from labbook.health.evidence.measurements import join_names, place_message
from labbook.health.evidence.trend_tests import median
from labbook.model.events.data_kinds import Leaf
from labbook.model.events.inspection_kinds import Flight, NamedModule
from labbook.model.message import Message, message

_FINDINGS = {
    "bad batch": "health.first_nonfinite.bad_batch",
    "bad parameters": "health.first_nonfinite.bad_parameters",
    "loss expression": "health.first_nonfinite.loss_expression",
    "expression": "health.first_nonfinite.expression",
    "not reproduced": "health.first_nonfinite.not_reproduced",
    "not replayed": "health.first_nonfinite.not_replayed",
}
_ROLES = {
    "label": message("health.first_nonfinite.labels"),
    "input": message("health.first_nonfinite.inputs"),
}
_BATCH = message("health.first_nonfinite.batch")
EXPRESSIONS = ("loss expression", "expression")
"""Findings that are about what was computed after the model, or without one."""

_GROWTH = 3.0


def first_module(flight: Flight) -> Message | None:
    """Returns the first module with finite inputs and an output that is not; `None` when there is none."""
    if flight.get("finding") != "forward" or not flight.get("module"):
        return None
    module, step = _module_label(flight.get("module", {})), flight.get("step", 0)
    return message("health.nonfinite_activation.first", value=_value(flight), layer=module, step=step)


def bad_batch(flight: Flight) -> Message | None:
    """Returns what the batch of the first bad step held that is not finite; `None` when it was not the batch."""
    if flight.get("finding") != "bad batch":
        return None
    bad = [leaf for leaf in flight.get("batch", {}).get("leaves", []) if leaf.get("bad", 0) or leaf.get("nan") is True]
    many = message("health.nonfinite_input.many", count=bad[0].get("bad", 0)) if bad and bad[0].get("bad", 0) else ""
    return message(
        "health.nonfinite_input.found",
        value=_value(flight, bad[0] if bad else None),
        role=role_of(bad[0]) if bad else _BATCH,
        step=flight.get("step", 0),
        many=many,
    )


def role_of(leaf: Leaf) -> Message:
    """Returns what a leaf of a batch is: its labels, its inputs, or the batch itself."""
    return _ROLES.get(leaf.get("role", ""), _BATCH)


def _value(flight: Flight, leaf: Leaf | None = None) -> Message | str:
    """Returns "nan", "inf" or "-inf", where it is known: not of a parameter, nor of a leaf that became NaN later."""
    value = flight.get("value") if flight.get("trigger") != "parameter" else None
    if value == "nan" and leaf is not None and leaf.get("nan") is False:
        value = None
    return value or message("health.first_nonfinite.nonfinite_value")


def _module_label(module: NamedModule) -> Message | str:
    name, kind = module.get("name", ""), module.get("type", "")
    return message("health.module", name=name, type=kind) if name else kind


def origin_sentences(flight: Flight) -> tuple[Message, ...]:
    """Returns what is known of the origin, one sentence each."""
    if not flight:
        return ()
    found = [*_origin(flight)]
    if flight.get("finding") in EXPRESSIONS:
        op = flight.get("op", "").replace(" <- ", " ← ")
        found += [*_suspects(flight), *([message("health.first_nonfinite.operation", op=op)] if op else [])]
    if flight.get("file", ""):
        found.append(message("health.first_nonfinite.at", place=place_message(flight)))
    if flight.get("reason", ""):
        found.append(message("health.first_nonfinite.reason", reason=flight.get("reason", "")))
    return (*found, *_samples(flight), *_norms_before(flight))


def _origin(flight: Flight) -> list[Message]:
    finding, step = flight.get("finding", ""), flight.get("step", 0)
    module, op = flight.get("module", {}), flight.get("op", "")
    by = message("health.first_nonfinite.by", op=op) if op else ""
    if finding == "forward" and module:
        return [message("health.first_nonfinite.in_module", step=step, by=by, layer=_module_label(module))]
    if finding == "forward":
        return [message("health.first_nonfinite.in_forward", step=step, by=by)]
    if finding == "backward":
        return [message("health.first_nonfinite.in_backward", step=step, by=by)]
    if finding == "loss expression" and flight.get("trigger") == "gradient":
        return [message("health.first_nonfinite.loss_gradient", step=step)]
    return [message(_FINDINGS[finding], step=step)] if finding in _FINDINGS else []


def _suspects(flight: Flight) -> list[Message]:
    """Returns the operations of a loss that may have made the value, where none was observed to."""
    may = flight.get("may", [])
    names = list(dict.fromkeys(_operation_name(one.get("op", "")) for one in may))
    gradient = flight.get("trigger") == "gradient"
    found = []
    if len(names) == 1:
        key = "health.first_nonfinite.only_infinite_derivative" if gradient else "health.first_nonfinite.only_suspect"
        found.append(message(key, op=names[0]))
    elif names:
        key = "health.first_nonfinite.infinite_derivatives" if gradient else "health.first_nonfinite.suspects"
        found.append(message(key, ops=names))
    if len(may) > 1:
        places = [place_message(one) for one in may if one.get("file")]
        found += [message("health.first_nonfinite.at", place=place) for place in _place_messages(places)]
    return found


def _place_messages(places: list[Message]) -> list[Message]:
    unique: list[Message] = []
    for place in places:
        if place not in unique:
            unique.append(place)
    return unique


def is_of_loss(flight: Flight) -> bool:
    """Whether one operation of a loss made the value of a finite output, and the gradients did not grow before.

    Source: chosen by us; noise of gradient norms is below a factor of three in healthy runs.
    """
    if flight.get("finding") not in EXPRESSIONS or not (flight.get("made") or len(flight.get("may", [])) == 1):
        return False
    norms = [norm for row in flight.get("recent", []) if (norm := row.get("grad_norm")) is not None]
    known = [norm for norm in norms if math.isfinite(norm)]
    return not known or known[-1] <= _GROWTH * median(known)


def loss_operation(flight: Flight) -> Message | None:
    """Returns which operation of a loss made the value, with its numbers; `None` where none was observed to."""
    made = flight.get("made", {})
    if not made:
        return None
    op, nan, inf, of = _operation_name(made.get("op", "")), made.get("nan", 0), made.get("inf", 0), made.get("of", 0)
    if made.get("given") is True:
        return message("health.loss_operation.given", op=op)
    if made.get("zeros", 0):
        return message("health.loss_operation.divided_by_0", op=op, divisors=made.get("zeros", 0))
    if op == "mean":
        return message("health.loss_operation.empty_mean")
    if op.startswith("nll_loss"):
        return message("health.loss_operation.no_label")
    exponent, then = made.get("exponent"), made.get("then", {})
    by = message("health.loss_operation.exponent", exponent=f"{exponent:g}") if exponent is not None else ""
    low, high = made.get("low"), made.get("high")
    span: Message | str = ""
    if low is not None and high is not None:
        span = message("health.loss_operation.arguments", low=_format_bound(low), high=_format_bound(high))
    after = message("health.loss_operation.then", op=_operation_name(then.get("op", ""))) if then else ""
    values = _bad_values(nan, inf)
    return message("health.loss_operation.returned", op=op, by=by, values=values, of=of, span=span, then=after)


def _bad_values(nan: int, inf: int) -> Message | str:
    if nan and inf:
        return message("health.loss_operation.nan_and_inf", nan=nan, inf=inf)
    if inf:
        return message("health.loss_operation.inf", inf=inf)
    return message("health.loss_operation.nan", nan=nan) if nan else ""


def _format_bound(value: float) -> str:
    """A bound of a domain in few digits, but never rounded onto 0 or 1, where the domain may end."""
    short = f"{value:.4g}"
    return short if float(short) == value or float(short) not in (-1.0, 0.0, 1.0) else f"{value:.9g}"


def _operation_name(operation: str) -> str:
    """The name of an operation as a program writes it: "log_softmax" for "LogSoftmax"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).lower()


def _samples(flight: Flight) -> list[Message]:
    indices = flight.get("batch", {}).get("indices", [])
    if not indices:
        return []
    names = join_names([str(i) for i in indices], most=8)
    return [message("health.first_nonfinite.samples", samples=names)]


def _norms_before(flight: Flight) -> list[Message]:
    known = [n for row in flight.get("recent", []) if (n := row.get("grad_norm")) is not None and n == n]
    if len(known) < 3:
        return []
    return [message("health.first_nonfinite.norms_before", norms=known[-5:])]


def finding_place(flight: Flight) -> dict[str, Any]:
    """Returns the place of the finding, as `Outcome.where`."""
    found: dict[str, Any] = {"step": flight.get("step", 0)}
    if flight.get("module", {}).get("name", ""):
        found["module"] = flight.get("module", {}).get("name", "")
    if flight.get("file", ""):
        found |= {"file": flight.get("file", ""), "line": flight.get("line", 0), "function": flight.get("function", "")}
    return found
