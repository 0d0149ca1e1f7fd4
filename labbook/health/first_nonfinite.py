"""Says what the flight recorder found: where the first value that is not finite was born."""

from __future__ import annotations

import re
from typing import Any, TypeGuard

from labbook.health.event_fields import Facts, count, rows, table, words

_FINDINGS = {
    "bad batch": "the batch itself was not finite",
    "bad parameters": "the parameters were not finite before the step",
    "loss expression": "the model's output was finite, the expression of the loss was not",
    "not reproduced": "the step was replayed, and was finite then",
    "not replayed": "the step was not replayed",
}


def first_module(flight: Facts) -> str | None:
    """The first module with finite input and an output that is not, in a few words; `None` when there is none."""
    if words(flight, "finding") != "forward" or not table(flight, "module"):
        return None
    module = table(flight, "module")
    value = words(flight, "value") or "a value that is not finite"
    return f"{value} first in the output of {_named(module)} in step {count(flight, 'step')}, its inputs finite"


def bad_batch(flight: Facts) -> str:
    """What the batch of the first bad step held that was no number, in a few words; empty when it was not the batch."""
    if words(flight, "finding") != "bad batch":
        return ""
    roles = {"label": "labels", "input": "inputs"}
    bad = [leaf for leaf in rows(table(flight, "batch"), "leaves") if count(leaf, "bad") or leaf.get("nan") is True]
    where = roles.get(words(bad[0], "role"), "batch") if bad else "batch"
    kind = words(flight, "value") or "a value that is not finite"
    many = f" ({count(bad[0], 'bad')} values)" if bad and count(bad[0], "bad") else ""
    return f"{kind} in the {where} of step {count(flight, 'step')}{many}"


def _named(module: Facts) -> str:
    name, kind = words(module, "name"), words(module, "type")
    return f"{name} ({kind})" if name else kind


def sentences(flight: Facts) -> tuple[str, ...]:
    """What is known of it, one sentence each."""
    if not flight:
        return ()
    told = []
    finding, step = words(flight, "finding"), count(flight, "step")
    module, op = table(flight, "module"), words(flight, "op")
    by = f" by {op}" if op else ""
    if finding == "forward":
        told.append(
            f"step {step}: born{by} in the forward of {_named(module)}"
            if module
            else f"step {step}: born{by} in the forward"
        )
    elif finding == "backward":
        told.append(f"step {step}: born{by} in the backward pass; loss and outputs were finite")
    elif finding == "loss expression" and words(flight, "trigger") == "gradient":
        told.append(f"step {step}: the model's output and the loss were finite, the gradient of the loss was not")
    elif finding in _FINDINGS:
        told.append(f"step {step}: {_FINDINGS[finding]}")
    if finding == "loss expression":
        told += [*_may(flight), *([f"operation: {op}"] if op else [])]
    if words(flight, "file"):
        source = words(flight, "source").strip()
        told.append(f"at {words(flight, 'file')}:{count(flight, 'line')}" + (f": {source}" if source else ""))
    if words(flight, "reason"):
        told.append(f"reason: {words(flight, 'reason')}")
    return (*told, *_batch(flight), *_before(flight))


def _may(flight: Facts) -> list[str]:
    """The operations of a loss that may have made the value, where none was seen to."""
    may = rows(flight, "may")
    names = list(dict.fromkeys(_spoken(words(one, "op")) for one in may))
    what = (
        "of which the derivative is infinite for some arguments"
        if words(flight, "trigger") == "gradient"
        else "that can make such a value of finite ones"
    )
    if len(names) == 1:
        told = [f"{names[0]} is the only operation of the loss {what}"]
    else:
        told = [f"operations of the loss {what}: {', '.join(names)}"] if names else []
    lines = [
        f"{words(one, 'file')}:{count(one, 'line')}: {words(one, 'source').strip()}" for one in may if one.get("file")
    ]
    return told + ([f"at {line}" for line in dict.fromkeys(lines)] if len(may) > 1 else [])


def born(flight: Facts) -> str:
    """What operation of a loss was seen to make the value, with its numbers; empty where none was."""
    made = table(flight, "made")
    if not made:
        return ""
    op, nan, inf, of = _spoken(words(made, "op")), count(made, "nan"), count(made, "inf"), count(made, "of")
    if made.get("given") is True:
        return f"{op} was given a value that is not finite by an argument without a gradient, as a target or a weight"
    if count(made, "zeros"):
        return f"{op} divided by 0 ({count(made, 'zeros')} of its divisors)"
    if op == "mean":
        return "mean was taken over no element"
    if op.startswith("nll_loss"):
        return "cross entropy (nll_loss) was taken over no label: all of the batch are ignored ones"
    exponent, then = made.get("exponent"), table(made, "then")
    by = f" by {exponent:g}" if isinstance(exponent, (int, float)) else ""
    values = " and ".join(f"{n} {kind}" for n, kind in ((nan, "NaN"), (inf, "infinite")) if n)
    low, high = made.get("low"), made.get("high")
    span = f", its arguments from {_exact(low)} to {_exact(high)}" if _is_real(low) and _is_real(high) else ""
    after = f"; {_spoken(words(then, 'op'))} made NaN of the infinities" if then else ""
    return f"{op}{by} gave {values} of {of} values{span}{after}"


def _is_real(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _exact(value: float) -> str:
    """A bound of a domain in few digits, but never rounded onto 0 or 1, where the domain may end."""
    short = f"{value:.4g}"
    return short if float(short) == value or float(short) not in (-1.0, 0.0, 1.0) else f"{value:.9g}"


def _spoken(operation: str) -> str:
    """The name of an operation as a program writes it: "log_softmax" for "LogSoftmax"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).lower()


def _batch(flight: Facts) -> list[str]:
    indices = flight.get("batch", {}).get("indices") if isinstance(flight.get("batch"), dict) else None
    if not isinstance(indices, list) or not indices:
        return []
    shown = ", ".join(str(i) for i in indices[:8])
    return [f"samples of that batch: {shown}" + (f" and {len(indices) - 8} more" if len(indices) > 8 else "")]


def _before(flight: Facts) -> list[str]:
    norms = [row.get("grad_norm") for row in rows(flight, "recent")]
    known = [n for n in norms if isinstance(n, (int, float)) and not isinstance(n, bool) and n == n]
    if len(known) < 3:
        return []
    return ["gradient norm of the steps before: " + ", ".join(f"{n:.3g}" for n in known[-5:])]


def where(flight: Facts) -> dict[str, Any]:
    """Place of the finding, as `Outcome.where`."""
    found: dict[str, Any] = {"step": count(flight, "step")}
    if words(table(flight, "module"), "name"):
        found["module"] = words(table(flight, "module"), "name")
    if words(flight, "file"):
        found |= {"file": words(flight, "file"), "line": count(flight, "line"), "function": words(flight, "function")}
    return found
