"""Checks of the numbers themselves: finite losses, inputs, outputs, gradients and weights, losses in their range."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labbook.health.evidence.layer_history import modules_of, parameters_of
from labbook.health.evidence.measurements import (
    called_in_sentence,
    measured_series,
    place_of,
    process_series,
    unobserved,
)
from labbook.health.evidence.training_kind import (
    NONNEGATIVE,
    acts_in_environment,
    has_opposed_optimizers,
    loss_function,
    training_losses,
)
from labbook.health.evidence.trend_tests import median
from labbook.health.rules import first_nonfinite
from labbook.model.check import Outcome, check
from labbook.model.events.data_kinds import Leaf
from labbook.model.events.inspection_kinds import Graph, ModuleInspection
from labbook.model.events.training_kinds import LossCall
from labbook.model.message import Message, message
from labbook.model.metric_kinds import metric_kind
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.model.signals import Signals

_NEVER_NEGATIVE = message("health.loss_negative.ok")


@check("loss_nonfinite", family="numeric", tier=1, whole=True)
def loss_finite(run: Run, signals: Signals) -> Outcome:
    """Whether every loss was finite, those included that the program printed or logged without a backward pass.

    Source: a logical invariant (tier 1); diagnosis catalogue, `loss_nonfinite`.
    """
    outcome = _judge_finite(measured_series(run, "loss"))
    if signals.flight.get("trigger") == "end":
        outcome = Outcome("fail", message("health.loss_nonfinite.at_end"))
    elif outcome.verdict == "ok":
        return _last_printed(run) or outcome
    if not signals.flight:
        return outcome
    where = {**first_nonfinite.finding_place(signals.flight), **outcome.where}
    operation = first_nonfinite.loss_operation(signals.flight)
    observed = outcome.observed
    if operation is not None:
        observed = message("health.loss_nonfinite.origin", counts=observed, operation=operation)
    return Outcome(outcome.verdict, observed, first_nonfinite.origin_sentences(signals.flight), where)


@check("nonfinite_gradient", family="numeric", tier=1, whole=True, needs=("grad_norm",))
def gradient_finite(run: Run, signals: Signals) -> Outcome:
    """Whether every gradient norm was finite.

    Source: a logical invariant (tier 1); diagnosis catalogue, `nonfinite_gradient`.
    """
    outcome = _judge_finite(measured_series(run, "grad_norm"))
    if outcome.verdict == "ok":
        return outcome
    evidence: list[Message] = []
    for parameter in parameters_of(signals):
        bad = next(((s, r.get("g_bad", 0)) for s, r in parameter.history if r.get("g_bad", 0)), None)
        if bad is not None and len(evidence) < 3:
            step, values = bad
            evidence.append(
                message("health.nonfinite_gradient.parameter", step=step, name=parameter.name, values=values)
            )
    # They are counted where the norm of a parameter is not finite: it may be too large for its data type.
    counted = [row["g_bad"] for p in parameters_of(signals) for _, row in p.history if "g_bad" in row]
    if counted and not any(counted):
        return Outcome("note", message("health.nonfinite_gradient.overflow", step=outcome.where["step"]))
    if signals.flight.get("trigger") == "gradient":
        evidence = [*first_nonfinite.origin_sentences(signals.flight), *evidence]
        where = {**first_nonfinite.finding_place(signals.flight), **outcome.where}
        return Outcome(outcome.verdict, outcome.observed, tuple(evidence), where)
    return Outcome(outcome.verdict, outcome.observed, tuple(evidence), outcome.where)


def _judge_finite(series: Sequence[Series]) -> Outcome:
    if not series:
        return unobserved(message("health.not_observed.no_value"))
    bad = sum(s.nonfinite for s in series)
    total = sum(max(s.count, len(s.values)) for s in series)
    source = message("health.finite.from_console") if all(s.source == "text" for s in series) else ""
    if not bad:
        return Outcome("ok", message("health.finite.all", total=total, source=source))
    first = min(_first_bad(s) for s in series if s.nonfinite)
    lasting = any(not math.isfinite(s.values[-1]) for s in series)
    observed = message("health.finite.bad", bad=bad, total=total, source=source, step=first)
    return Outcome("fail" if lasting else "warn", observed, where={"step": first})


def _last_printed(run: Run) -> Outcome | None:
    """A loss that the program saw become NaN itself: it ended or left its loop before the backward pass."""
    others = (s for s in (*run.series, *run.printed) if s.source != "probe")
    written = [s for s in others if metric_kind(s.name).quantity in ("loss", "objective")]
    ended = [s for s in written if s.values and not math.isfinite(s.values[-1]) and any(map(math.isfinite, s.values))]
    return next(
        (Outcome("fail", message("health.loss_nonfinite.last", name=s.name, loss=s.values[-1])) for s in ended), None
    )


def _first_bad(series: Series) -> int:
    return next((s for s, v in zip(series.steps, series.values, strict=True) if not math.isfinite(v)), series.steps[0])


@check("nonfinite_input", family="numeric", tier=1, needs=("batches",))
def inputs_finite(run: Run, signals: Signals) -> Outcome | None:
    """Whether every batch was finite. A NaN that never reaches the loss is handled by the program, and only noted.

    Source: a logical invariant (tier 1); infinities alone are usual in masks. UMLAUT NaNInInput, TheDeepChecker.
    """
    found = first_nonfinite.bad_batch(signals.flight)
    if found is not None:
        evidence = first_nonfinite.origin_sentences(signals.flight)
        return Outcome("fail", found, evidence, first_nonfinite.finding_place(signals.flight))
    looked = 0
    for batch in signals.batches:
        leaves = batch.get("leaves", [])
        looked += bool(leaves)
        for leaf in leaves:
            if not _is_nonfinite(leaf):
                continue
            # Not every batch is inspected: the step may be later than that of the first effect.
            harmful = any(s.nonfinite for s in measured_series(run, "loss")) or bool(signals.flight)
            return _bad_leaf(leaf, batch.get("step", 0), "fail" if harmful else "note")
    if not looked:
        return unobserved(message("health.not_observed.batches"))
    return Outcome("ok", message("health.nonfinite_input.ok", batches=looked))


def _bad_leaf(leaf: Leaf, step: int, verdict: str) -> Outcome:
    role = first_nonfinite.role_of(leaf)
    value: Message | str = f"{_nans(leaf)} NaN"
    if not _nans(leaf):
        value = message("health.nonfinite_input.values", count=leaf.get("bad", 0))
    observed = message("health.nonfinite_input.found", value=value, role=role, step=step, many="")
    path, elements = leaf.get("path", ""), math.prod(leaf["shape"]) if "shape" in leaf else 0
    evidence = message("health.nonfinite_input.leaf", path=path, step=step, value=value, elements=elements)
    return Outcome(verdict, observed, (evidence,))


def _is_nonfinite(leaf: Leaf) -> bool:
    return _nans(leaf) > 0 or (leaf.get("bad", 0) > 0 and leaf.get("role") != "other")


def _nans(tensor: Leaf | ModuleInspection) -> int:
    """How many NaN a tensor has; where only their presence is known, all its non-finite values."""
    nan = tensor.get("nan", 0)
    return tensor.get("bad", 0) if nan is True else int(nan)


@check("nonfinite_activation", family="numeric", tier=1, needs=("modules",))
def outputs_finite(run: Run, signals: Signals) -> Outcome:
    """Whether a module with finite inputs returned NaN.

    Source: a logical invariant (tier 1); transformers' DebugUnderflowOverflow. Infinities alone are usual in masks.
    """
    found = first_nonfinite.first_module(signals.flight)
    if found is not None:
        evidence = first_nonfinite.origin_sentences(signals.flight)
        return Outcome("fail", found, evidence, first_nonfinite.finding_place(signals.flight))
    origins = []
    known = signals.flight.get("step", 0) or math.inf
    for module in modules_of(signals):
        for step, row in module.history:
            # After the first value that was not finite the parameters may be none, too.
            if step <= known and _nans(row) and not row.get("in_bad") and row.get("in_bad") is not None:
                origins.append((step, module.order, module, _nans(row)))
                break
    if not origins:
        return Outcome("ok", message("health.nonfinite_activation.ok"))
    step, _, module, bad = min(origins, key=lambda origin: origin[:2])
    observed = message("health.nonfinite_activation.found", count=bad, layer=module.label, step=step)
    return Outcome("fail", observed, where={"module": module.name, "step": step})


@check("nonfinite_parameter", family="numeric", tier=1, needs=("params",))
def parameters_finite(run: Run, signals: Signals) -> Outcome:
    """Whether every parameter stayed finite.

    Source: a logical invariant (tier 1); AUTOTRAINER nan_weight, TheDeepChecker w_nan.
    """
    bad = []
    for parameter in parameters_of(signals):
        for step, row in parameter.history:
            # The norm of large numbers may be infinite in float32 while each of them is finite.
            if row.get("bad", not math.isfinite(row.get("w") or 0.0)):
                bad.append((step, parameter.name))
                break
    if not bad:
        return Outcome("ok", message("health.nonfinite_parameter.ok"))
    step = min(s for s, _ in bad)
    first = [name for s, name in bad if s == step]
    observed = message("health.nonfinite_parameter.found", parameters=len(bad), step=step, name=first[0])
    return Outcome("fail", observed, where={"step": step, "parameter": first[0]})


@check("nan_hidden_by_logger", family="numeric", tier=1, whole=True, needs=("loss",))
def log_is_honest(run: Run, signals: Signals) -> Outcome | None:
    """Whether the log went on with finite losses while the loss of every step was not finite.

    Source: a logical invariant (tier 1); transformers' logging_nan_inf_filter is on by default.
    """
    own = [s for s in run.series if s.source == "probe" and s.nonfinite and s.name.rpartition("/")[2] == "loss"]
    logged = (*(s for s in run.series if s.source != "probe"), *run.printed)
    losses = [s for s in logged if "loss" in s.name.lower() and s.count >= 3]
    losses = [s for s in losses if not any(w in s.name.lower() for w in ("val", "test", "eval"))]
    if not own or not losses:
        return None
    broken = next((s for s in own if not any(math.isfinite(v) for v in s.values[-20:]) and len(s.values) >= 20), None)
    finite_log = next((s for s in losses if s.nonfinite == 0), None)
    if broken is None or finite_log is None or _count_logged_after(finite_log, broken) < 2:
        return None
    step, value = _first_bad(broken), finite_log.values[-1]
    observed = message("health.nan_hidden_by_logger.logged", step=step, name=finite_log.name, value=value)
    return Outcome("fail", observed, where={"step": step})


def _count_logged_after(log: Series, broken: Series) -> float:
    """How many points of a log lie after the first loss that is not finite; logs count epochs as well as steps."""
    share = 1 - _first_bad(broken) / max(1, broken.last_step or 1)
    return max(share * log.count, sum(step > _first_bad(broken) for step in log.steps))


@check("loss_negative", family="numeric", tier=1)
def loss_in_range(run: Run, signals: Signals) -> Outcome | None:
    """Whether a loss whose range begins at 0 was negative, by its targets or by its sign.

    Source: a logical invariant (tier 1); AUTOTRAINER abnormal_loss.
    """
    for loss in training_losses(signals):
        fn, negative = loss.get("fn", ""), loss.get("negative", 0)
        if fn in NONNEGATIVE and negative and not has_opposed_optimizers(run, signals):
            observed = message(
                "health.loss_negative.negative",
                function=fn,
                bad=negative,
                calls=loss.get("observed", 0),
                lowest=loss.get("value_min") or 0.0,
            )
            return Outcome("fail", observed, called_in_sentence(loss.get("line", "")), place_of(loss.get("line", "")))
    return _ascent(run, signals) or _score_above_one(run, signals) or _judge_flipped(run, signals)


def _score_above_one(run: Run, signals: Signals) -> Outcome | None:
    """A loss of 1 minus a ratio, as a Dice loss, falls below 0: its masks are 0 and 255, or have more channels.

    Source: an overlap is at most 1; 0.01 is chosen by us, far above what rounding makes of it.
    """
    series = process_series(run, signals, "loss")
    lowest = min((v for one in series for v in one.values if math.isfinite(v)), default=0.0)
    if len(series) != 1 or lowest > -0.01 or not any(map(_is_rest_of_ratio, signals.graphs)):
        return None
    advice = message("health.loss_negative.ratio_advice")
    return Outcome("fail", message("health.loss_negative.ratio", lowest=lowest), advice=advice)


def _is_rest_of_ratio(graph: Graph) -> bool:
    """Whether a loss is a number minus a ratio, or the mean of such differences or ratios."""
    operations, at = graph.get("operations") or [], 0
    before: list[str] = []
    while at < len(operations) and operations[at][0] in ("Rsub", "Mean") and len(operations[at][1]) == 1:
        before.append(operations[at][0])
        at = operations[at][1][0]
    return before.count("Rsub") == 1 and at < len(operations) and operations[at][0] == "Div"


def _ascent(run: Run, signals: Signals) -> Outcome | None:
    """A single optimizer that minimises log-probabilities: the minus before the likelihood is missing."""
    series = process_series(run, signals, "loss")
    ascends = any(graph.get("ascends") for graph in signals.graphs)
    if not ascends or len(series) != 1 or acts_in_environment(signals) or has_opposed_optimizers(run, signals):
        return None
    values = [v for v in series[0].values if math.isfinite(v)]
    if len(values) < 20 or max(values) >= 0 or median(values[-5:]) > 2 * median(values[:5]):
        return None
    return Outcome("fail", message("health.loss_negative.ascent", first=values[0], last=values[-1]))


def _judge_flipped(run: Run, signals: Signals) -> Outcome | None:
    """A single optimizer that maximises a loss of the framework: backward is called on its negative."""
    loss = loss_function(signals)
    series = process_series(run, signals, "loss")
    if loss is None or loss.get("fn") not in NONNEGATIVE or len(series) != 1 or len(training_losses(signals)) != 1:
        return Outcome("ok", _NEVER_NEGATIVE) if loss is not None else None
    first, last = loss.get("value_first"), loss.get("value_last")
    values = [v for v in series[0].values if math.isfinite(v)]
    if first is None or last is None or len(values) < 5 or first <= 0 or any(v >= 0 for v in values):
        return Outcome("ok", _NEVER_NEGATIVE)
    if not math.isclose(-values[0], first, rel_tol=1e-3):
        return Outcome("ok", _NEVER_NEGATIVE)
    fn = loss.get("fn", "")
    observed = message("health.loss_negative.flipped", backward=values[0], function=fn, loss=first)
    return Outcome("fail", observed, called_in_sentence(loss.get("line", "")), place_of(loss.get("line", "")))


_UNLABELLED = 0.2
"""Share of batches without a label from which on data are lost, as answers cut off. Source: chosen by us."""


@check("loss_exactly_zero", family="numeric", tier=1, needs=("losses",))
def loss_is_something(run: Run, signals: Signals) -> Outcome | None:
    """Whether a classifier's loss compared nothing: all targets ignored, or a single class.

    Source: a logical invariant (tier 1); torch gives NaN and paddle 0.0 when every label is ignored. A loss that
    becomes 0 later may have been learnt. Batches without a label beside others are a warning, in evaluation too.
    """
    series, seen = next(iter(process_series(run, signals, "loss")), None), False
    most_called = loss_function(signals) or LossCall()
    first = most_called.get("value_first")
    if series is not None and len(series.values) >= 20 and first and not any(series.values[:20]):
        observed = message("health.loss_exactly_zero.from_start", loss=first)
        return Outcome("fail", observed, called_in_sentence(most_called.get("line", "")), {"step": series.steps[0]})
    for loss in sorted(signals.losses, key=lambda one: (one.get("training") is False, -one.get("calls", 0))):
        calls, fn = loss.get("calls", 0), loss.get("fn", "")
        if fn not in ("cross_entropy", "nll_loss"):
            continue
        is_training = loss.get("training") is not False
        seen = seen or is_training
        where = called_in_sentence(loss.get("line", ""))
        ignored, looked = loss.get("all_ignored", 0), loss.get("observed", 0)
        if ignored >= 3 and ignored > _UNLABELLED * looked:
            values = {"bad": ignored, "calls": looked, "function": fn}
            observed = message("health.loss_exactly_zero.ignored", **values)
            if not is_training:
                observed = message("health.loss_exactly_zero.ignored_in_evaluation", **values)
            verdict = "fail" if is_training and ignored > 0.5 * looked else "warn"
            return Outcome(verdict, observed, where, place_of(loss.get("line", "")))
        if is_training and calls >= 3 and loss.get("classes", 0) == 1 and not loss.get("soft"):
            observed = message("health.loss_exactly_zero.one_class", function=fn)
            advice = message("health.loss_exactly_zero.one_class_advice")
            return Outcome("fail", observed, where, place_of(loss.get("line", "")), advice=advice)
    return Outcome("ok", message("health.loss_exactly_zero.ok")) if seen else None
