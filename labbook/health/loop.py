"""Checks of the training loop: steps and backwards in their order, modes switched, losses fed rightly."""

from __future__ import annotations

from labbook.health.event_fields import Facts, count, finite, flag, shape, table, words
from labbook.health.layer_history import gave
from labbook.health.measurements import called_in, measured_in, missing, percent, place_of, said, unobserved
from labbook.health.training_kind import acts, opposed_optimizers, training_losses
from labbook.model.check import Outcome, check
from labbook.model.run import Run
from labbook.model.signals import Signals

_STREAK = 3
_CALLS = 3
_PHASE = 10


@check(
    "backward_but_no_step",
    "the optimizer steps",
    "a step after backward",
    family="loop-bug",
    tier=1,
    needs=("loop",),
    advice="Call optimizer.step(), and see that the line is reached.",
)
def backwards_have_steps(run: Run, signals: Signals) -> Outcome | None:
    """Whether an optimizer was made, gradients were computed, and no step ever taken.

    Source: a logical invariant (tier 1), after 20 backwards in a run that finished. Without an optimizer a program
    computes gradients for another purpose.
    """
    steps, backwards = count(signals.loop, "steps"), count(signals.loop, "backwards")
    if steps or backwards < 20:
        return Outcome("ok", f"{steps} steps, {backwards} backwards") if steps else None
    if not count(signals.loop, "optimizers") or run.status not in ("finished", "interrupted"):
        return None
    return Outcome("fail", f"{backwards} backwards, no step of {count(signals.loop, 'optimizers')} optimizers")


@check(
    "step_without_backward",
    "backward before each step",
    "new gradients for each step",
    family="loop-bug",
    tier=1,
    needs=("loop",),
    advice="Call loss.backward() before optimizer.step().",
)
def steps_have_backwards(run: Run, signals: Signals) -> Outcome:
    """Whether most steps of an optimizer had no new gradient. One such step, to quieten a scheduler, is usual.

    Source: a logical invariant (tier 1).
    """
    told = table(signals.loop, "steps_without_backward")
    for opt in told:
        bare, steps = count(told, opt), count(signals.loop, "steps")
        rates = [s for s in measured_in(run, signals, "lr") if s.name.endswith("lr" if opt == "0" else f"lr.opt{opt}")]
        steps = (rates[0].last_step or steps) if rates else steps
        if bare >= _STREAK and bare > 0.5 * steps:
            which = f" of optimizer {opt}" if len(told) > 1 else ""
            return Outcome("fail", f"{bare} of {steps} steps{which} without a backward since the one before")
    return Outcome("ok", f"{count(signals.loop, 'backwards')} backwards for {count(signals.loop, 'steps')} steps")


@check(
    "forward_but_no_backward",
    "losses are followed by backward",
    "backward after each loss",
    family="loop-bug",
    tier=1,
    needs=("loop",),
    advice="Call loss.backward().",
)
def losses_have_backwards(run: Run, signals: Signals) -> Outcome | None:
    """Whether an optimizer was made and losses of training forwards were computed, and backward never called.

    Source: a logical invariant (tier 1), after 20 losses.
    """
    lonely = count(signals.loop, "losses_lonely")
    if count(signals.loop, "backwards") or not count(signals.loop, "optimizers"):
        return None
    if lonely < 20 or count(signals.loop, "forwards", "train_grad") < 20:
        return None
    return Outcome("fail", f"{lonely} losses with gradients, no backward")


@check(
    "backward_in_eval_mode",
    "trained in training mode",
    "train() before backward",
    family="loop-bug",
    tier=1,
    needs=("loop.backward_in_eval",),
    advice="Call model.train() at the beginning of each epoch.",
)
def trains_in_training_mode(run: Run, signals: Signals) -> Outcome:
    """Whether a model with dropout or batch norm was trained in evaluation mode, mostly after a validation.

    Source: a logical invariant (tier 1). From the first step on it may be on purpose (no dropout in fine-tuning).
    """
    told = table(signals.loop, "backward_in_eval")
    seen, right = count(told, "count"), count(told, "in_train")
    if seen < 5 or not flag(told, "stochastic") or seen < 0.1 * (seen + right):
        return Outcome("ok", f"{right} backwards in training mode" if right else "no layer depends on it")
    first = count(told, "first_step")
    observed = f"{seen} of {seen + right} backwards in evaluation mode, from step {first} on"
    return Outcome("fail" if right else "warn", observed, where={"step": first})


@check(
    "eval_in_train_mode",
    "evaluated in evaluation mode",
    "eval() for validation",
    family="loop-bug",
    tier=1,
    needs=("evaluations",),
    advice="Call model.eval() before validation, model.train() after it.",
)
def evaluates_in_evaluation_mode(run: Run, signals: Signals) -> Outcome:
    """Whether validation phases ran a model with dropout or batch norm in training mode.

    Source: a logical invariant (tier 1) over at least 3 batches with a loss, else more than 10. Recomputing batch
    statistics of averaged weights is done this way on purpose; single forwards without a loss are a validation only
    where labels are learnt and nothing acts or plays against another.
    """
    wrong = [
        e
        for e in signals.evaluations
        if flag(e, "training") and flag(e, "stochastic") and not flag(e, "grad") and "Averaged" not in words(e, "root")
    ]
    scored = [e for e in wrong if table(e, "loss") or finite(e, "accuracy") is not None]
    long = [e for e in wrong if count(e, "batches") >= _CALLS]
    short = [e for e in wrong if e not in long and e not in scored]
    told = scored if sum(count(e, "batches") for e in scored) >= _CALLS else long
    batches, verdict = sum(count(e, "batches") for e in told), "fail"
    if told is long and batches <= _PHASE:
        told, verdict = short if len(short) >= _CALLS and _supervised(run, signals) else [], "warn"
        batches = sum(count(e, "batches") for e in told)
    if told:
        observed = f"{batches} batches without gradients in training mode, in {len(told)} phases"
        return Outcome(verdict, observed, where={"step": count(told[0], "begin_step")})
    phases = max(len(signals.evaluations), count(signals.evaluations[-1], "phases"))
    return Outcome("ok", f"{phases} validation phases")


def _supervised(run: Run, signals: Signals) -> bool:
    """Whether one model learns labels or values, and does nothing else."""
    losses = training_losses(signals)
    usual = ("cross_entropy", "nll_loss", "bce_with_logits", "binary_cross_entropy", "mse_loss", "l1_loss")
    alone = len(signals.models) <= 1 and len(losses) == 1 and words(losses[0], "fn") in usual
    return alone and not opposed_optimizers(run, signals) and not acts(signals)


@check(
    "dropout_active_in_eval",
    "no dropout in evaluation",
    "off in evaluation mode",
    family="loop-bug",
    tier=1,
    needs=("evaluations",),
    advice="Call F.dropout(x, p, training=self.training).",
)
def no_dropout_in_evaluation(run: Run, signals: Signals) -> Outcome | None:
    """Whether functional dropout went on under a model in evaluation mode. With repeated batches it is Monte Carlo.

    Source: a logical invariant (tier 1); TrainCheck transformers-33844.
    """
    for phase in signals.evaluations:
        active, batches = count(phase, "dropout_active"), count(phase, "batches")
        if active >= max(_CALLS, batches // 2) and not flag(phase, "training") and batches >= 2:
            sampled = count(phase, "repeated") > 0.5 * batches
            observed = f"dropout active in {active} calls over {batches} batches in evaluation mode"
            place = place_of(words(phase, "dropout_line"))
            told = (f"called in {words(phase, 'dropout_line')}",) if place else ()
            return Outcome("note" if sampled else "fail", observed, told, place)
    return Outcome("ok", "off")


@check(
    "softmax_before_cross_entropy",
    "the loss gets logits",
    "scores before softmax",
    family="loop-bug",
    tier=1,
    needs=("losses",),
    advice="Leave softmax or sigmoid out: the loss applies it itself.",
)
def loss_gets_logits(run: Run, signals: Signals) -> Outcome | None:
    """Whether a loss that applies softmax or sigmoid itself gets probabilities in more than 95 % of calls.

    Source: a logical invariant (tier 1), 0 of 14 healthy runs; TheDeepChecker, UMLAUT.
    """
    asked = False
    for loss in training_losses(signals):
        fn, seen = words(loss, "fn"), count(loss, "observed")
        key = {"cross_entropy": "prob_rows", "bce_with_logits": "unit_range"}.get(fn)
        share = finite(loss, key) if key else None
        if share is None or seen < _CALLS:
            continue
        asked = True
        if share > 0.95 and (fn == "cross_entropy" or _from_activation(loss, signals)):
            what = "rows that sum to 1" if fn == "cross_entropy" else "values between 0 and 1"
            observed = f"{fn} got {what} in {percent(share)} of {seen} calls"
            return Outcome("fail", observed, called_in(loss), place_of(words(loss, "line")))
    return Outcome("ok", "logits") if asked else None


def _from_activation(loss: Facts, signals: Signals) -> bool:
    """Whether values between 0 and 1 come from a sigmoid: they fill that interval, or one has put out just these.

    Scores of a model that begins at the rate of its classes may stay between 0 and 1, too, in a part of it.
    """
    low, high = finite(loss, "input", "min"), finite(loss, "input", "max")
    if count(loss, "observed") < 5 or low is None or high is None or low < 0.0:
        return False
    return low < 0.1 or high > 0.9 or gave(signals, ("sigmoid", "hardsigmoid", "softmax"), low, high)


def _called(loss: Facts) -> tuple[str, ...]:
    return (f"called in {words(loss, 'line')}",) if words(loss, "line") else ()


@check(
    "missing_output_activation",
    "the loss gets log-probabilities",
    "rows whose exponentials sum to 1",
    family="loop-bug",
    tier=2,
    needs=("losses",),
    advice="Put log_softmax before nll_loss, or use cross entropy.",
)
def nll_gets_log_probabilities(run: Run, signals: Signals) -> Outcome | None:
    """Whether `nll_loss` gets something else than log-probabilities. Source: tier 2; logsumexp of a row is not 0."""
    for loss in training_losses(signals):
        share, seen = finite(loss, "logprob_rows"), count(loss, "observed")
        if words(loss, "fn") != "nll_loss" or share is None or seen < _CALLS:
            continue
        if share < 0.05 and (finite(loss, "prob_columns") or 0.0) < 0.5:
            observed = f"log-probabilities in {percent(share)} of {seen} calls of nll_loss"
            return Outcome("fail", observed, called_in(loss), place_of(words(loss, "line")))
        return Outcome("ok", "log-probabilities")
    return None


@check(
    "loss_activation_mismatch",
    "head and loss fit",
    "scores of both signs",
    family="loop-bug",
    tier=3,
    needs=("losses",),
    advice="Leave the activation of the last layer out.",
)
def head_fits_loss(run: Run, signals: Signals) -> Outcome | None:
    """Whether cross entropy gets scores that are never negative and often exactly 0, as after a ReLU.

    Source: a hint (tier 3), chosen by us; AUTOTRAINER's improper activation.
    """
    for loss in training_losses(signals):
        zero, low = finite(loss, "input", "zero"), finite(loss, "input", "min")
        probable = max(finite(loss, "prob_rows") or 0.0, finite(loss, "unit_range") or 0.0)
        fits = words(loss, "fn") in ("cross_entropy", "bce_with_logits") and probable < 0.5
        if fits and zero is not None and zero > 0.1 and low == 0.0 and count(loss, "observed") >= _CALLS:
            observed = f"{percent(zero)} of the scores are exactly 0, none below"
            return Outcome("note", observed, called_in(loss), place_of(words(loss, "line")))
    return None


@check(
    "loss_broadcast",
    "shapes of output and target agree",
    "equal shapes",
    family="loop-bug",
    tier=1,
    advice="Give both the same shape, [N] and [N] or [N, 1] and [N, 1].",
)
def loss_shapes_agree(run: Run, signals: Signals) -> Outcome | None:
    """Whether output and target were blown up against each other, as [N, 1] and [N] to [N, N].

    Source: a logical invariant (tier 1); torch warns, paddle is silent. What is computed by hand is known by its graph.
    """
    for graph in signals.graphs:
        blown = table(graph, "blown")
        if blown:
            result, of = _form(shape(blown, "shape")), _form(shape(blown, "of"))
            observed = f"outputs of shape {of} became {result} against the targets"
            told = (f"in {words(blown, 'op')}, before backward in {words(blown, 'line')}",)
            verdict = "fail" if flag(blown, "sure") else "warn"
            return Outcome(verdict, observed, told, place_of(words(blown, "line")))
    if not signals.losses and not (signals.graphs and signals.framework == "torch"):
        return unobserved(missing(run, signals, "losses") or "no graph was looked at")
    for loss in signals.losses:
        if count(loss, "broadcast"):
            one, other = shape(loss, "input", "shape"), shape(loss, "target", "shape")
            observed = f"{words(loss, 'fn')} got {_form(one)} and {_form(other)} in {count(loss, 'broadcast')} calls"
            # Axes of 1 that were put in on both sides are meant, as for all pairs of quantiles.
            meant = len(one) == len(other) and len(one) > 2
            return Outcome("note" if meant else "fail", observed, called_in(loss), place_of(words(loss, "line")))
    return Outcome("ok", "equal")


def _form(form: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(n) for n in form) + "]"


@check(
    "label_dtype_truncated",
    "class labels are integers",
    "an integer type",
    family="loop-bug",
    tier=1,
    needs=("losses",),
    advice="Cast them to int64.",
)
def labels_are_integers(run: Run, signals: Signals) -> Outcome | None:
    """Whether class labels in floating point reached a classifier's loss, which paddle cuts to integers silently.

    Source: a logical invariant (tier 1).
    """
    if signals.framework != "paddle":
        return None
    for loss in signals.losses:
        dtype = words(loss, "target", "dtype")
        soft = flag(loss, "soft") or shape(loss, "target", "shape") == shape(loss, "input", "shape")
        if words(loss, "fn") in ("cross_entropy", "nll_loss") and "float" in dtype and not soft:
            return Outcome("fail", f"{dtype} labels in {words(loss, 'fn')}", called_in(loss))
    return None


@check(
    "accumulation_not_scaled",
    "accumulated losses are divided",
    "divided by the number of backwards",
    family="loop-bug",
    tier=3,
    needs=("loop",),
    advice="Divide the loss by the number of backwards for a step.",
)
def accumulation_scaled(run: Run, signals: Signals) -> Outcome | None:
    """Whether a constant number of backwards of one whole mean loss make a step.

    Source: a hint (tier 3): then accumulating raises the learning rate by as much.
    """
    told = {k: v for k, v in table(signals.loop, "accumulation").items() if isinstance(v, int)}
    total = sum(told.values())
    common = max(told, key=lambda k: told[k], default="")
    losses = training_losses(signals)
    if not common.isdigit() or int(common) < 3 or told[common] < 0.9 * total or len(losses) != 1 or total < 5:
        return None
    series, first = measured_in(run, signals, "loss"), finite(losses[0], "value_first")
    if not series or not first or words(losses[0], "reduction") != "mean":
        return None
    early = series[0].values[0]
    if not 0.75 * first < early < 1.33 * first:
        return None
    return Outcome("note", f"{common} backwards for a step, each of the whole loss ({said(early)})")


@check(
    "seed_reset_in_loop",
    "random numbers go on",
    "a new state at each step",
    family="loop-bug",
    tier=1,
    needs=("loop.rng",),
    advice="Seed once, before the loop.",
)
def seeds_once(run: Run, signals: Signals) -> Outcome:
    """Whether the generator was seeded in the loop, so that every step draws the same numbers.

    Source: a logical invariant (tier 1): the same state at 3 steps or more, after as many seedings.
    """
    rng, steps = table(signals.loop, "rng"), count(signals.loop, "steps")
    same, seeded = count(rng, "same"), count(rng, "seeded")
    if seeded >= max(_STREAK, 0.5 * steps) and same >= _STREAK:
        place = place_of(words(rng, "line"))
        told = (f"seeded in {words(rng, 'line')}",) if place else ()
        return Outcome("fail", f"seeded {seeded} times in {steps} steps; {same} steps began alike", told, place)
    return Outcome("ok", "not reset")


CHECKS = (
    backwards_have_steps,
    steps_have_backwards,
    losses_have_backwards,
    trains_in_training_mode,
    evaluates_in_evaluation_mode,
    no_dropout_in_evaluation,
    loss_gets_logits,
    nll_gets_log_probabilities,
    head_fits_loss,
    loss_shapes_agree,
    labels_are_integers,
    accumulation_scaled,
    seeds_once,
)
