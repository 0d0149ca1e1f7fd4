"""Checks of the numbers themselves: finite losses, inputs, outputs, gradients and weights, losses in their range."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labbook.health import first_nonfinite
from labbook.health.event_fields import Facts, count, finite, flag, nans, number, rows, words
from labbook.health.layer_history import modules_of, parameters_of
from labbook.health.measurements import called_in, measured, measured_in, place_of, said, unobserved
from labbook.health.training_kind import NONNEGATIVE, loss_function, opposed_optimizers, training_losses
from labbook.model.check import Outcome, check
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.model.signals import Signals


@check(
    "loss_nonfinite",
    "loss is finite",
    "no NaN, no infinity",
    family="numeric",
    tier=1,
    whole=True,
    advice="Look at the first module and batch named below; lower the learning rate, or guard logarithm, division and "
    "square root by an epsilon.",
)
def loss_finite(run: Run, signals: Signals) -> Outcome:
    """Whether every loss was a number.

    Source: a logical invariant (tier 1); diagnosis catalogue, `loss_nonfinite`.
    """
    outcome = _finite(measured(run, "loss"))
    if outcome.verdict == "ok" or not signals.flight:
        return outcome
    where = {**first_nonfinite.where(signals.flight), **outcome.where}
    born = first_nonfinite.born(signals.flight)
    observed = f"{outcome.observed}: {born}" if born else outcome.observed
    return Outcome(outcome.verdict, observed, first_nonfinite.sentences(signals.flight), where)


@check(
    "nonfinite_gradient",
    "gradient norm is finite",
    "no NaN, no infinity",
    family="numeric",
    tier=1,
    whole=True,
    needs=("grad_norm",),
    advice="Guard square roots and norms at 0, and both branches of where, by an epsilon.",
)
def gradient_finite(run: Run, signals: Signals) -> Outcome:
    """Whether every gradient norm was a number.

    Source: a logical invariant (tier 1); diagnosis catalogue, `nonfinite_gradient`.
    """
    outcome = _finite(measured(run, "grad_norm"))
    if outcome.verdict == "ok":
        return outcome
    evidence: list[str] = []
    for parameter in parameters_of(signals):
        bad = next(((s, count(r, "g_bad")) for s, r in parameter.history if count(r, "g_bad")), None)
        if bad is not None and len(evidence) < 3:
            evidence.append(
                f"in step {bad[0]} the gradient of {parameter.name} held {bad[1]} values that are not finite"
            )
    if words(signals.flight, "trigger") == "gradient":
        told = (*first_nonfinite.sentences(signals.flight), *evidence)
        return Outcome(
            outcome.verdict, outcome.observed, told, {**first_nonfinite.where(signals.flight), **outcome.where}
        )
    return Outcome(outcome.verdict, outcome.observed, tuple(evidence), outcome.where)


def _finite(series: Sequence[Series]) -> Outcome:
    if not series:
        return unobserved("no value was seen")
    bad = sum(s.nonfinite for s in series)
    total = sum(max(s.count, len(s.values)) for s in series)
    read = " read from the console" if all(s.source == "text" for s in series) else ""
    if not bad:
        return Outcome("ok", f"all {total} values finite{read}")
    first = min(_first_bad(s) for s in series if s.nonfinite)
    lasting = any(not math.isfinite(s.values[-1]) for s in series)
    observed = f"{bad} of {total} values not finite{read}, first in step {first}"
    return Outcome("fail" if lasting else "warn", observed, where={"step": first})


def _first_bad(series: Series) -> int:
    return next((s for s, v in zip(series.steps, series.values, strict=True) if not math.isfinite(v)), series.steps[0])


@check(
    "nonfinite_input",
    "inputs are finite",
    "no NaN, no infinity in a batch",
    family="numeric",
    tier=1,
    needs=("batches",),
    advice="Drop or fill missing values, and divide by no constant feature when normalising.",
)
def inputs_finite(run: Run, signals: Signals) -> Outcome | None:
    """Whether every batch was finite. A NaN that never reaches the loss is handled by the program, and only noted.

    Source: a logical invariant (tier 1); infinities alone are usual in masks. UMLAUT NaNInInput, TheDeepChecker.
    """
    born = first_nonfinite.bad_batch(signals.flight)
    if born:
        return Outcome("fail", born, first_nonfinite.sentences(signals.flight), first_nonfinite.where(signals.flight))
    looked = 0
    for batch in signals.batches:
        leaves = rows(batch, "leaves")
        looked += bool(leaves)
        for leaf in leaves:
            if not _poisoned(leaf):
                continue
            step, path = count(batch, "step"), words(leaf, "path")
            role = {"label": "labels", "input": "inputs"}.get(words(leaf, "role"), "batch")
            kind = f"{nans(leaf)} NaN" if nans(leaf) else f"{count(leaf, 'bad')} values not finite"
            observed = f"{kind} in the {role} of step {step}"
            harmful = any(s.nonfinite for s in measured(run, "loss")) or bool(signals.flight)
            told = f"leaf {path} of the batch in step {step} holds {kind} among {_elements(leaf)} values"
            # Not every batch is looked at: the step may be later than that of the first effect.
            return Outcome("fail" if harmful else "note", observed, (told,))
    return Outcome("ok", f"{looked} batches looked at, all finite") if looked else unobserved("no tensor was looked at")


def _poisoned(leaf: Facts) -> bool:
    return nans(leaf) > 0 or (count(leaf, "bad") > 0 and words(leaf, "role") != "other")


def _elements(leaf: Facts) -> int:
    shape = leaf.get("shape")
    return math.prod(n for n in shape if isinstance(n, int)) if isinstance(shape, (list, tuple)) else 0


@check(
    "nonfinite_activation",
    "module outputs are finite",
    "no NaN in an output",
    family="numeric",
    tier=1,
    needs=("modules",),
    advice="Guard the operation named below: an epsilon, float32 for it, or a mask that leaves a value.",
)
def outputs_finite(run: Run, signals: Signals) -> Outcome:
    """The first module with finite inputs and a NaN in its output.

    Source: a logical invariant (tier 1); transformers' DebugUnderflowOverflow. Infinities alone are usual in masks.
    """
    found = first_nonfinite.first_module(signals.flight)
    if found is not None:
        return Outcome("fail", found, first_nonfinite.sentences(signals.flight), first_nonfinite.where(signals.flight))
    births = []
    known = count(signals.flight, "step") or math.inf
    for module in modules_of(signals):
        for step, row in module.history:
            # After the first value that was not finite the parameters may be none, too.
            if step <= known and nans(row) and not count(row, "in_bad") and finite(row, "in_bad") is not None:
                births.append((step, module.order, module, nans(row)))
                break
    if not births:
        return Outcome("ok", "no NaN in any output looked at")
    step, _, module, bad = min(births, key=lambda birth: birth[:2])
    observed = f"{bad} NaN in the output of {module.said} in step {step}, its inputs finite"
    return Outcome("fail", observed, where={"module": module.name, "step": step})


@check(
    "nonfinite_parameter",
    "parameters are finite",
    "no NaN, no infinity",
    family="numeric",
    tier=1,
    needs=("params",),
    advice="Skip steps whose gradient is not finite, and go back to the last finite checkpoint.",
)
def parameters_finite(run: Run, signals: Signals) -> Outcome:
    """Whether every parameter stayed a number.

    Source: a logical invariant (tier 1); AUTOTRAINER nan_weight, TheDeepChecker w_nan.
    """
    bad = []
    for parameter in parameters_of(signals):
        for step, row in parameter.history:
            if count(row, "bad") or not math.isfinite(number(row, "w") or 0.0):
                bad.append((step, parameter.name))
                break
    if not bad:
        return Outcome("ok", "all finite")
    step = min(s for s, _ in bad)
    first = [name for s, name in bad if s == step]
    observed = f"{len(bad)} parameters not finite, first seen so at the look in step {step}: {first[0]}"
    return Outcome("fail", observed, where={"step": step, "parameter": first[0]})


@check(
    "nan_hidden_by_logger",
    "logged loss tells the truth",
    "NaN in the loss is NaN in the log",
    family="numeric",
    tier=1,
    whole=True,
    needs=("loss",),
    advice="Turn the logger's filter off (logging_nan_inf_filter=False in transformers).",
)
def log_is_honest(run: Run, signals: Signals) -> Outcome | None:
    """Whether the log went on with finite losses while the loss of every step was not a number.

    Source: a logical invariant (tier 1); transformers' logging_nan_inf_filter is on by default.
    """
    own = [s for s in run.series if s.source == "probe" and s.nonfinite and s.name.rpartition("/")[2] == "loss"]
    logged = (*(s for s in run.series if s.source != "probe"), *run.printed)
    told = [s for s in logged if "loss" in s.name.lower() and s.count >= 3]
    told = [s for s in told if not any(w in s.name.lower() for w in ("val", "test", "eval"))]
    if not own or not told:
        return None
    broken = next((s for s in own if not any(math.isfinite(v) for v in s.values[-20:]) and len(s.values) >= 20), None)
    honest = next((s for s in told if s.nonfinite == 0), None)
    if broken is None or honest is None or _logged_after(honest, broken) < 2:
        return None
    step = _first_bad(broken)
    observed = f"loss not finite from step {step}, yet {honest.name} was logged as {said(honest.values[-1])}"
    return Outcome("fail", observed, where={"step": step})


def _logged_after(told: Series, broken: Series) -> float:
    """How many points of a log lie after the first loss that is not finite; logs count epochs as well as steps."""
    share = 1 - _first_bad(broken) / max(1, broken.last_step or 1)
    return max(share * told.count, sum(step > _first_bad(broken) for step in told.steps))


@check(
    "loss_negative",
    "loss is in its range",
    "at least 0 for this loss function",
    family="numeric",
    tier=1,
    needs=("losses",),
    advice="Check the sign of the loss, and that targets lie in the range that the function expects.",
)
def loss_in_range(run: Run, signals: Signals) -> Outcome | None:
    """Whether a loss whose range begins at 0 was negative, by its targets or by its sign.

    Source: a logical invariant (tier 1); AUTOTRAINER abnormal_loss.
    """
    for loss in training_losses(signals):
        fn, negative = words(loss, "fn"), count(loss, "negative")
        if fn in NONNEGATIVE and negative and not opposed_optimizers(run, signals):
            lowest = said(finite(loss, "value_min") or 0.0)
            observed = f"{fn} was negative in {negative} of {count(loss, 'observed')} calls, lowest {lowest}"
            return Outcome("fail", observed, called_in(loss), place_of(words(loss, "line")))
    return _flipped(run, signals)


def _flipped(run: Run, signals: Signals) -> Outcome | None:
    """A single optimizer that makes a loss of the framework as large as it can."""
    loss = loss_function(signals)
    series = measured_in(run, signals, "loss")
    if loss is None or words(loss, "fn") not in NONNEGATIVE or len(series) != 1 or len(training_losses(signals)) != 1:
        return Outcome("ok", "never negative") if loss is not None else None
    first, last = finite(loss, "value_first"), finite(loss, "value_last")
    values = [v for v in series[0].values if math.isfinite(v)]
    if first is None or last is None or len(values) < 5 or first <= 0 or any(v >= 0 for v in values):
        return Outcome("ok", "never negative")
    if not math.isclose(-values[0], first, rel_tol=1e-3):
        return Outcome("ok", "never negative")
    observed = f"backward is called on {said(values[0])} where {words(loss, 'fn')} is {said(first)}: its sign is turned"
    return Outcome("fail", observed, called_in(loss), place_of(words(loss, "line")))


@check(
    "loss_exactly_zero",
    "loss is not exactly zero",
    "above 0",
    family="numeric",
    tier=1,
    needs=("losses",),
    advice="Look at mask and labels: every target is ignored, or there is only one class to choose.",
)
def loss_is_something(run: Run, signals: Signals) -> Outcome | None:
    """Whether a classifier's loss had nothing to compare: all targets ignored, or one class.

    Source: a logical invariant (tier 1); torch gives NaN and paddle 0.0 when every label is ignored. A loss that
    becomes 0 later may have been learnt.
    """
    series, seen = next(iter(measured_in(run, signals, "loss")), None), False
    first = finite(loss_function(signals) or {}, "value_first")
    if series is not None and len(series.values) >= 20 and first and not any(series.values[:20]):
        observed = f"exactly 0 from the first step on, while the loss function gives {said(first)}"
        return Outcome("fail", observed, called_in(loss_function(signals) or {}), {"step": series.steps[0]})
    for loss in training_losses(signals):
        calls, fn = count(loss, "calls"), words(loss, "fn")
        if fn not in ("cross_entropy", "nll_loss"):
            continue
        seen = True
        where = called_in(loss)
        if count(loss, "all_ignored") >= 3 and count(loss, "all_ignored") > 0.5 * count(loss, "observed"):
            observed = (
                f"every target was ignored in {count(loss, 'all_ignored')} of {count(loss, 'observed')} calls of {fn}"
            )
            return Outcome("fail", observed, where, place_of(words(loss, "line")))
        if calls >= 3 and count(loss, "classes") == 1 and not flag(loss, "soft"):
            return Outcome("fail", f"{fn} over a single class is always 0", where, place_of(words(loss, "line")))
    return Outcome("ok", "above 0") if seen else None


CHECKS = (
    loss_finite,
    gradient_finite,
    inputs_finite,
    outputs_finite,
    parameters_finite,
    log_is_honest,
    loss_in_range,
    loss_is_something,
)
