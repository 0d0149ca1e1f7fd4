"""Checks of the axis over which a softmax runs, and of the time steps that are read of a recurrent layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labbook.health.evidence.layer_history import functions_of, modules_of
from labbook.health.evidence.measurements import called_in_sentence, place_of
from labbook.health.evidence.training_kind import has_fallen, training_losses
from labbook.health.evidence.trend_tests import median
from labbook.model.check import Outcome, check
from labbook.model.events.inspection_kinds import FunctionInspection
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_CONFIRMED = 3
_PADDED = 0.25
_FALLEN = 0.9
"""Share of the steps that are padding, and of its first values below which a loss has fallen. Source: chosen by us."""


@check("softmax_wrong_axis", family="loop-bug", tier=1)
def softmax_axis(run: Run, signals: Signals) -> Outcome | None:
    """Whether a softmax runs over an axis of length 1, or over the samples, as a loss or attention scores show.

    Source: a logical invariant (tier 1); Stack Overflow 71457035.
    """
    return _judge_functions(signals) or _judge_modules(signals) or _judge_loss_inputs(signals)


def _judge_functions(signals: Signals) -> Outcome | None:
    """Returns what the calls of the functions `softmax` and `log_softmax` show."""
    for (fn, line), history in functions_of(signals).items():
        if fn not in ("softmax", "log_softmax") or len(history) < _CONFIRMED:
            continue
        if all(row.get("size", 0) == 1 for _, row in history):
            verdict, key = "fail", "health.softmax_wrong_axis.length_1"
        elif all(_scores_samples(signals, row) for _, row in history):
            verdict, key = "fail", "health.softmax_wrong_axis.batch"
        elif all(_is_over_batch(signals, step, row) for step, row in history):
            verdict, key = "warn", "health.softmax_wrong_axis.batch"
        elif all(_mixes_samples(signals, step, row) for step, row in history):
            verdict, key = "warn", "health.softmax_wrong_axis.attention"
        elif all(row.get("of_output") and _is_over_width(signals, row) for _, row in history):
            verdict, key = "warn", "health.softmax_wrong_axis.width"
        else:
            continue
        observed = message(key, softmax=fn, axis=history[-1][1].get("dim", 0))
        return Outcome(verdict, observed, (message("health.called_in", line=line),), place_of(line))
    return None


def _judge_modules(signals: Signals) -> Outcome | None:
    """Returns what the calls of the layers `Softmax` and `LogSoftmax` show."""
    for module in modules_of(signals):
        if module.type not in ("Softmax", "LogSoftmax") or len(module.history) < _CONFIRMED:
            continue
        axis = module.options.get("dim")
        axis = module.options.get("axis") if axis is None else axis
        forms = [row.get("shape", ()) for _, row in module.history]
        picture = forms[-1] if axis in (-1, len(forms[-1]) - 1) else ()
        if _is_made_by_convolution(signals, picture, module.order):
            observed = message("health.softmax_wrong_axis.width", softmax=module.label, axis=len(picture) - 1)
            return Outcome("warn", observed, where={"module": module.name})
        if axis is not None and all(_length(form, int(axis)) == 1 for form in forms):
            observed = message("health.softmax_wrong_axis.length_1", softmax=module.label)
            return Outcome("fail", observed, where={"module": module.name})
    return None


def _judge_loss_inputs(signals: Signals) -> Outcome | None:
    """Returns what the inputs of the losses show: probabilities that sum to 1 over the samples."""
    for loss in signals.losses:
        share, seen = loss.get("prob_columns"), loss.get("observed", 0)
        if share is not None and share > 0.95 and seen >= _CONFIRMED:
            observed = message("health.softmax_wrong_axis.loss_input", function=loss.get("fn", ""))
            return Outcome("fail", observed, called_in_sentence(loss.get("line", "")), place_of(loss.get("line", "")))
    return None


def _is_over_batch(signals: Signals, step: int, row: FunctionInspection) -> bool:
    """Whether a softmax of what the model returned, (samples, classes), runs over the samples.

    A square output holds similarities, which are compared along both axes; one column holds a score for each sample.
    """
    form = row.get("shape", ())
    if not row.get("of_output") or len(form) != 2 or form[1] < 2 or form[0] == form[1] or row.get("dim") != 0:
        return False
    return _samples_at(signals, step) == form[0]


def _scores_samples(signals: Signals, row: FunctionInspection) -> bool:
    """Whether a log softmax of (samples, classes) runs over the samples, and `nll_loss` gets no log-probabilities."""
    form = row.get("shape", ())
    if row.get("fn") != "log_softmax" or len(form) != 2 or form[0] == form[1] or row.get("dim") != 0:
        return False
    fed = [loss for loss in training_losses(signals) if loss.get("fn") == "nll_loss" and loss.get("classes") == form[1]]
    return any((loss.get("logprob_rows") or 0.0) < 0.05 for loss in fed)


def _mixes_samples(signals: Signals, step: int, row: FunctionInspection) -> bool:
    """Whether a softmax of (samples, ..., queries, keys), as many of either or labels a sample, is over the samples."""
    form = row.get("shape", ())
    if len(form) < 3 or row.get("dim") != 0 or not 1 < form[0] != form[1] or _samples_at(signals, step) != form[0]:
        return False
    labels = [loss.get("target", {}).get("shape", ()) for loss in training_losses(signals)]
    return 1 < form[-1] == form[-2] != form[0] or any(shape[:1] == form[:1] for shape in labels)


def _samples_at(signals: Signals, step: int) -> int:
    """How many samples the batch of a step has; 0 where it was not seen."""
    return next((b.get("samples", 0) for b in signals.batches if b.get("step", 0) == step), 0)


def _length(form: tuple[int, ...], axis: int) -> int | None:
    return form[axis] if -len(form) <= axis < len(form) else None


def _is_over_width(signals: Signals, row: FunctionInspection) -> bool:
    form = row.get("shape", ())
    return row.get("dim") == len(form) - 1 and _is_made_by_convolution(signals, form, math.inf)


def _is_made_by_convolution(signals: Signals, form: Sequence[int], order: float) -> bool:
    """Whether a picture of that form, with several channels, is what the last layer before `order` returned."""
    before = [module for module in modules_of(signals) if module.order < order and module.parameters and module.history]
    if len(form) < 4 or form[1] < 2 or not before:
        return False
    last = max(before, key=lambda module: module.order)
    return last.type.startswith("Conv") and list(last.history[-1][1].get("shape", ())) == list(form)


@check("recurrent_first_step", family="loop-bug", tier=2, needs=("models",))
def last_step_is_read(run: Run, signals: Signals) -> Outcome | None:
    """Whether all that modules are given of a recurrent layer's output is its first time step, or the last of padding.

    Source: chosen by us (tier 2): in one direction, the first step has seen one input only; with two directions, either
    end. Behind padding for a quarter of the steps a layer may have forgotten the sequence: a note where the loss falls.
    """
    for module in modules_of(signals):
        outputs = module.facts.get("output", [])
        form = outputs[0].get("shape", ()) if outputs else ()
        steps = form[1 if module.options.get("batch_first", True) else 0] if len(form) == 3 else 0
        once = all(row.get("calls") == 1 for _, row in module.history)
        read, both = set(module.facts.get("steps_read", [])), module.options.get("bidirectional", False)
        if steps > 1 and once and (read == {0} or (both and read == {steps - 1})):
            key = "health.recurrent_first_step.one_side" if both else "health.recurrent_first_step.read"
            advice = message("health.recurrent_first_step.join") if both else None
            return Outcome("warn", message(key, layer=module.label, steps=steps), advice=advice)
        padded = [share for share in _padded_shares(signals, steps) if once and not both and read == {steps - 1}]
        if len(padded) >= _CONFIRMED and median(padded) > _PADDED:
            facts = {"layer": module.label, "steps": steps, "share": median(padded)}
            verdict = "note" if has_fallen(run, signals, _FALLEN) else "warn"
            return Outcome(verdict, message("health.recurrent_first_step.padded", **facts))
    return None


def _padded_shares(signals: Signals, steps: int) -> list[float]:
    """Returns which share of each inspected batch of so many tokens is padding at the end of its rows."""
    leaves = [leaf for batch in signals.batches for leaf in batch.get("leaves", []) if leaf.get("role") == "input"]
    return [leaf.get("padded", 0.0) for leaf in leaves if "padded" in leaf and leaf.get("shape", ())[1:] == (steps,)]


@check("batch_axis_taken_as_time", family="loop-bug", tier=2, needs=("batches", "modules"))
def time_is_not_the_batch(run: Run, signals: Signals) -> Outcome | None:
    """Whether a recurrent layer or attention gets as many time steps as there are labels, and other samples.

    Source: torch.nn.RNN, `batch_first` (tier 2); in at least 3 looks and all of them, with labels that have no axis as
    long as that of the samples, and several sequences of another length.
    """
    labels = {
        batch.get("step", 0): tuple(leaf.get("shape", ()))
        for batch in signals.batches
        for leaf in batch.get("leaves", [])
        if leaf.get("path") == "target"
    }
    for module in modules_of(signals):
        batch_first = module.options.get("batch_first")
        looks = [(tuple(row.get("shape", ())), labels[step]) for step, row in module.history if step in labels]
        if batch_first is None or len(looks) < _CONFIRMED or any(len(form) != 3 for form, _ in looks):
            continue
        samples = 1 if batch_first else 0  # the axis of the samples where it should be that of time
        if all(
            1 < form[1 - samples] != form[samples] == (*label, 0)[0] and form[1 - samples] not in label
            for form, label in looks
        ):
            form = looks[-1][0]
            facts = {"layer": module.label, "samples": form[samples], "steps": form[1 - samples]}
            key = "health.batch_axis_taken_as_time.steps" if batch_first else "health.batch_axis_taken_as_time.axes"
            advice = message("health.batch_axis_taken_as_time.samples_first") if batch_first else None
            return Outcome("warn", message(key, **facts), where={"module": module.name}, advice=advice)
    return None
