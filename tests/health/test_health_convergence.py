"""Where the loss goes: power on simulated faults, silence on simulated healthy trainings."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loss_signals import classifier, flat
from order_of_tests import in_one_test

RUNS = 800
ALARMS = 0.005
"""Share of simulated healthy runs that may have any warning or failure."""


@pytest.mark.long
@pytest.mark.timeout(400)
def test_healthy_runs_stay_green(simulate, rows_of):
    alarms = []
    for seed in range(RUNS):
        wrong = [row for row in rows_of(simulate(seed)).values() if row.verdict in ("warn", "fail")]
        alarms += [(seed, row.id, row.observed) for row in wrong]
    assert len({seed for seed, *_ in alarms}) <= ALARMS * RUNS, alarms


def test_some_healthy_runs_stay_green(simulate, rows_of):
    wrong = [
        (seed, row.id) for seed in range(100_000, 100_030) for row in rows_of(simulate(seed)).values()
        if row.verdict in ("warn", "fail")
    ]  # fmt: skip
    assert len(wrong) <= 1, wrong


@given(
    scale=st.floats(1e-6, 1e6),
    rate=st.floats(2, 50),
    floor=st.floats(0.0, 0.6),
    noise=st.floats(0.0, 0.1),
    n=st.integers(20, 600),
    seed=st.integers(0, 10**6),
)
def test_a_falling_loss_of_any_scale_raises_nothing(make_series, rows_of, make_run, scale, rate, floor, noise, n, seed):
    random_ = random.Random(seed)
    values = [
        scale * (floor + (1 - floor) * math.exp(-rate * i / n)) * math.exp(random_.gauss(0, noise)) for i in range(n)
    ]
    found = rows_of(make_run(make_series("loss", values), make_series("lr", [0.1] * n), signals={}))
    assert not [row.id for row in found.values() if row.verdict in ("warn", "fail")]


def test_a_flat_loss(ask, make_series):
    values = flat(random.Random(0))
    found = ask("loss_not_decreasing", make_series("loss", values))
    assert found.verdict == "warn" and "no fall" in found.observed and "tau" in found.evidence[0]


def test_too_few_or_too_noisy_to_tell(ask, make_series):
    assert (
        "too few measured steps, warm-up not counted (60, 100 needed)"
        in ask("loss_not_decreasing", make_series("loss", flat(random.Random(0), n=60))).observed
    )
    wild = flat(random.Random(1), n=120, noise=1.5)
    assert ask("loss_not_decreasing", make_series("loss", wild)).verdict in ("ok", "not observed")


def test_warm_up_is_not_judged(ask, make_series):
    values = flat(random.Random(2), n=150) + [2.3 * math.exp(-i / 30) for i in range(150)]
    rate = [1e-6] * 150 + [0.1] * 150
    assert ask("loss_not_decreasing", make_series("loss", values), make_series("lr", rate)).verdict == "ok"


def test_a_curriculum_is_no_flat_loss(ask, make_series):
    random_ = random.Random(3)
    values = [2 * math.exp(-(i % 100) / 30) * math.exp(random_.gauss(0, 0.05)) for i in range(400)]
    assert ask("loss_not_decreasing", make_series("loss", values)).verdict == "ok"
    assert ask("loss_diverging", make_series("loss", values)).verdict == "ok"


def test_two_losses_against_each_other_need_not_fall(ask, make_series):
    random_ = random.Random(4)
    values = flat(random_, 0.69), flat(random_, 0.7)
    signals = {"spans": {0: (0.0, 100.0), 1: (0.5, 100.5)}}
    series = make_series("loss", values[0]), make_series("loss.opt1", values[1])
    assert ask("loss_not_decreasing", *series, signals=signals).verdict == "not observed"
    both = make_series("loss", values[0]), make_series("loss.opt1", values[0])
    assert ask("loss_not_decreasing", *both, signals=signals).verdict == "warn"
    # One loss, of which each optimizer has a parameter, after a training of another loss.
    later = {"spans": {0: (0.0, 50.0), 1: (60.0, 100.0), 2: (60.5, 100.5)}}
    phases = *series, make_series("loss.opt2", values[1])
    assert ask("loss_not_decreasing", *phases, signals=later).verdict == "warn"


def test_a_policy_need_not_fall(ask, make_series):
    signals = {"loop": {"steps": 300, "backwards": 300, "forwards": {"train_nograd": 600, "train_grad": 300}}}
    assert (
        ask("loss_not_decreasing", make_series("loss", flat(random.Random(5))), signals=signals).verdict
        == "not observed"
    )


def test_a_policy_that_acts_with_gradients_need_not_fall(ask, make_series):
    rising = [1.0] * 20 + [0.2 + 0.01 * i for i in range(300)]
    forwards = {"train_grad": 1500, "small": 1200, "compared": 300}
    signals = {"loop": {"steps": 300, "backwards": 300, "forwards": forwards}}
    assert ask("loss_diverging", make_series("loss", rising), signals=signals).verdict == "not observed"
    forwards["small"] = 9
    assert ask("loss_diverging", make_series("loss", rising), signals=signals).verdict == "fail"


@pytest.mark.parametrize(("chained", "verdict"), [(290, "fail"), (9, "not observed"), (None, "not observed")])
def test_a_model_that_a_solver_calls_on_its_own_results_is_no_policy(ask, make_series, chained, verdict):
    rising = [1.0] * 20 + [0.2 + 0.01 * i for i in range(300)]
    forwards = {"train_grad": 9000} if chained is None else {"train_grad": 9000, "looked": 300, "chained": chained}
    signals = {"loop": {"steps": 300, "backwards": 300, "forwards": forwards}}
    assert ask("loss_diverging", make_series("loss", rising), signals=signals).verdict == verdict


@pytest.mark.parametrize(("whole", "verdict"), [(300, "warn"), (0, "not observed")])
def test_a_validation_in_every_step_does_not_silence_the_loss(ask, make_series, whole, verdict):
    phases = tuple({"batches": 1, "samples": 400, "phases": i + 1, "whole": min(whole, i + 1)} for i in range(300))
    forwards = {"eval_nograd": 300, "train_grad": 300}
    signals = {"loop": {"steps": 300, "backwards": 300, "forwards": forwards}, "evaluations": phases}
    assert ask("loss_not_decreasing", make_series("loss", flat(random.Random(5))), signals=signals).verdict == verdict


@pytest.mark.parametrize(
    ("function", "changed", "verdict"),
    [("mse_loss", True, "not observed"), ("mse_loss", False, "fail"), ("cross_entropy", True, "fail")],
)
def test_targets_from_a_copy_that_follows_may_rise(ask, make_series, function, changed, verdict):
    rising = [1.0] * 20 + [0.2 + 0.01 * i for i in range(300)]
    copies = [{"type": "Net", "calls": 300, "steps": 300, "last": 300, "changed": changed}]
    signals = {
        "loop": {"steps": 300, "backwards": 300, "copies": copies},
        "losses": ({"fn": function, "calls": 300, "training": True},),
    }
    assert ask("loss_diverging", make_series("loss", rising), signals=signals).verdict == verdict


def test_a_teacher_that_is_asked_at_every_step_does_not_silence_the_loss(ask, make_series):
    forwards = {"eval_nograd": 300, "train_grad": 300, "of_others": 290}
    signals = {"loop": {"steps": 300, "backwards": 300, "forwards": forwards}}
    assert ask("loss_not_decreasing", make_series("loss", flat(random.Random(5))), signals=signals).verdict == "warn"


@pytest.mark.parametrize(("level", "verdict"), [(math.log(10), "fail"), (math.log(10) * 0.8, "ok")])
def test_at_chance(ask, make_series, level, verdict):
    values = flat(random.Random(6), level, noise=0.02)
    found = ask("loss_at_chance", make_series("loss", values), signals=classifier(values))
    assert found.verdict == verdict


@pytest.mark.parametrize(("own", "judged"), [((1.16, 0.004), False), ((1.16, 0.6), False), ((1.16, 1.05), True)])
def test_a_sum_of_losses_is_not_compared_with_the_chance_level_of_one_term(ask, make_series, own, judged):
    values = flat(random.Random(6), math.log(3), noise=0.02)
    signals = classifier(values, classes=3, value_first=own[0], value_last=own[1])
    found = ask("loss_at_chance", make_series("loss", values), signals=signals)
    assert (found is not None and found.verdict == "fail") == judged


@pytest.mark.parametrize(("classes", "each", "verdict"), [(2, 90, "fail"), (999, 90, "fail"), (999, 9, "ok")])
def test_guessing_the_shares_of_the_classes_in_use_is_chance(ask, make_series, classes, each, verdict):
    values = flat(random.Random(7), -(0.8 * math.log(0.8) + 0.2 * math.log(0.2)), noise=0.02)
    batch = {"phase": "train", "labels": {"histogram": {"0": 4 * each, "1": each}}}
    signals = {**classifier(values, classes=classes), "batches": (batch,)}
    assert ask("loss_at_chance", make_series("loss", values), signals=signals).verdict == verdict


def test_a_contrastive_loss_has_no_chance_level(ask, make_series):
    values = flat(random.Random(8), math.log(32), noise=0.01)
    signals = classifier(values, classes=32, input={"shape": [32, 32]})
    assert ask("loss_at_chance", make_series("loss", values), signals=signals) is None


@in_one_test("seed", range(10))
def test_divergence(ask, make_series, seed):
    random_ = random.Random(seed)
    begin = random_.randint(5, 60)
    values = [
        (2 * math.exp(-i / 30) if i < begin else 2 * 1.08 ** (i - begin)) * math.exp(random_.gauss(0, 0.1))
        for i in range(160)
    ]
    assert ask("loss_diverging", make_series("loss", values)).verdict == "fail"


@pytest.mark.parametrize(("ratio", "lowest", "verdict"), [(14.7, 4.6, "fail"), (0.5, 4.6, "ok"), (14.7, 0.5, "ok")])
def test_a_first_update_larger_than_the_weights_may_not_ruin_the_loss(ask, make_series, ratio, lowest, verdict):
    model = {"model": 0, "modules": [], "parameters": [{"i": 0, "name": "w", "shape": [9, 9], "trainable": True}]}
    signals = {"models": (model,), "tensors": ({"model": 0, "step": 1, "params": [{"i": 0, "ratio": ratio}]},)}
    values = [0.19, 78.4, 2145.0, 57.2, 954.0, 600.0] + [12.0] * 44 + [lowest] + [12.0] * 9
    assert ask("loss_diverging", make_series("loss", values), signals=signals).verdict == verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([2.5 * 1.16**i for i in range(16)], "warn"),
        ([9.0, 0.4, 0.5, 0.3, 0.5, 0.4, 0.3, 9.0, 8.0, 9.0, 11.0, 9.0], "not observed"),
    ],
)
def test_a_short_run_whose_loss_rises_all_the_time_is_suspect(ask, make_series, values, verdict):
    assert ask("loss_diverging", make_series("loss", values)).verdict == verdict


def test_a_loss_near_zero_may_double(ask, make_series):
    values = [2 * math.exp(-i / 20) for i in range(200)] + [1e-3] * 40
    assert ask("loss_diverging", make_series("loss", values)).verdict == "ok"


def test_alternation_plateau_and_nothing_left(ask, make_series):
    swinging = [1.0 + 0.5 * (-1) ** i + 1e-3 * (i % 7) for i in range(200)]
    assert ask("loss_oscillating", make_series("loss", swinging)).verdict == "note"
    random_ = random.Random(10)
    level = [2.0 - min(i, 60) / 60 * 0.4 for i in range(600)]
    still = [v * math.exp(random_.gauss(0, 0.02)) for v in level]
    assert ask("loss_plateau", make_series("loss", still), make_series("lr", [0.1] * 600)).verdict == "note"
    gone = [max(1e-7, 2 * math.exp(-i / 5)) for i in range(100)]
    assert ask("train_loss_to_zero", make_series("loss", gone), signals=classifier(gone)).verdict == "note"


def test_overfitting(ask, make_series):
    train = make_series("loss", [2 * math.exp(-i / 60) for i in range(300)])
    up = [1.0 - 0.1 * i for i in range(4)] + [0.7 + 0.06 * i for i in range(16)]
    assert ask("overfitting", train, make_series("val_loss", up, "tensorboard")).verdict == "warn"
    for at, alias, verdict in ((300, False, "note"), (300, True, "warn"), (10, False, "warn")):
        loaded = {"loop": {"steps": 300}, "loaded": ({"what": "model", "step": at, "alias": alias},)}
        assert ask("overfitting", train, make_series("val_loss", up, "tensorboard"), signals=loaded).verdict == verdict
    down = make_series("val_loss", [1.0 * math.exp(-i / 8) + 0.3 for i in range(20)], "tensorboard")
    assert ask("overfitting", train, down).verdict == "ok" and ask("overfitting", train).verdict == "not observed"
    assert ask("overfitting", train, captured={"trainings": {"rows": [{}]}}).observed.endswith("one after another")
    for name, verdict in (("val_RMSE", "warn"), ("val_err", "not observed"), ("train_rmse", "not observed")):
        assert ask("overfitting", train, make_series(name, up, "text")).verdict == verdict, name


def test_a_classifier_that_knows_its_data_by_heart_overfits(ask, make_series):
    learnt = [2.3 * math.exp(-i / 30) + 1e-3 for i in range(300)]
    train, signals = make_series("loss", learnt), classifier(learnt)
    slow = [1.4 - 0.1 * min(i, 5) + 0.003 * max(0, i - 5) for i in range(40)]
    assert ask("overfitting", train, make_series("val_loss", slow, "tensorboard"), signals=signals).verdict == "warn"
    good = [value / 8 for value in slow]
    assert ask("overfitting", train, make_series("val_loss", good, "tensorboard"), signals=signals).verdict == "ok"


def test_validation_losses_of_the_phases_count(ask, make_series):
    train = make_series("loss", [2 * math.exp(-i / 60) for i in range(300)])
    values = [1.0 - 0.1 * i for i in range(4)] + [0.7 + 0.06 * i for i in range(16)]
    phases = tuple({"batches": 5, "loader": 1, "loss": {"cross_entropy": v}} for v in values)
    assert ask("overfitting", train, signals={"evaluations": phases}).verdict == "warn"


def test_what_is_learnt_holds_nowhere_else(ask, make_series):
    values = [2.3 * math.exp(-i / 40) for i in range(200)]
    worse = make_series("val_loss", [2.4, 2.8, 3.5, 4.1], "text")
    found = ask("label_noise_or_shuffled", make_series("loss", values), worse, signals=classifier(values))
    assert found.verdict == "fail"
    right = tuple({"accuracy": 0.9, "samples": 300, "batches": 5} for _ in range(4))
    prints = ({"phase": "train", "loader": 0, "epoch": 0, "histogram": {str(k): 50 for k in range(10)}},)
    known = {**classifier(values), "evaluations": right, "prints": prints, "loop": {"steps": 200}}
    assert ask("label_noise_or_shuffled", make_series("loss", values), worse, signals=known).verdict == "ok"
    fine = make_series("val_loss", [2.0, 1.5, 1.4, 1.6], "text")
    assert ask("label_noise_or_shuffled", make_series("loss", values), fine, signals=classifier(values)).verdict == "ok"


@pytest.mark.parametrize(
    ("first", "accuracy", "verdict"), [(2.29, 0.1, "fail"), (2.29, 0.4, "ok"), (2.0, 0.1, "ok"), (2.31, 0.1, "fail")]
)
def test_a_first_validation_a_little_below_chance_level(ask, make_series, first, accuracy, verdict):
    values = [2.3 * math.exp(-i / 40) for i in range(200)]
    worse = make_series("val_loss", [first, 2.8, 3.5, 4.1], "text")
    phases = tuple({"accuracy": accuracy, "samples": 400, "batches": 5} for _ in range(4))
    signals = {**classifier(values), "evaluations": phases}
    assert ask("label_noise_or_shuffled", make_series("loss", values), worse, signals=signals).verdict == verdict


def test_labels_that_are_learnt_by_heart_slowly(ask, make_series):
    values = [2.303 - 1e-4 * i for i in range(300)]
    worse = make_series("val_loss", [2.310, 2.306, *(2.307 + 1e-3 * i for i in range(8))], "text")

    def verdict(accuracy):
        phases = tuple({"accuracy": accuracy, "samples": 400, "batches": 5} for _ in range(4))
        signals = {**classifier(values), "evaluations": phases}
        return ask("label_noise_or_shuffled", make_series("loss", values), worse, signals=signals).verdict

    assert verdict(0.1) == "fail" and verdict(0.2) == "ok"


def test_commonest_class(ask):
    def signals(accuracy):
        prints = ({"phase": "train", "loader": 0, "epoch": 0, "histogram": {"0": 500, "1": 300, "2": 200}},)
        phases = tuple({"accuracy": accuracy, "samples": 300, "batches": 5} for _ in range(4))
        return {"prints": prints, "evaluations": phases, "loop": {"steps": 500}}

    assert ask("below_trivial_baseline", signals=signals(0.5)).verdict == "warn"
    assert ask("below_trivial_baseline", signals=signals(0.8)).verdict == "ok"
    few = {**signals(0.55), "evaluations": tuple({"accuracy": 0.55, "samples": 60, "batches": 2} for _ in range(5))}
    assert ask("below_trivial_baseline", signals=few).verdict == "warn"
    folds = {"trainings": {"rows": [{}] * 5}}
    assert ask("below_trivial_baseline", signals=few, captured=folds).verdict == "ok"


def test_a_loss_without_bottom(ask, make_series):
    falls = [5.0 * 2**i for i in range(3, 0, -1)] + [-(3.0**i) for i in range(20)]
    found = ask("loss_diverging", make_series("loss", falls))
    assert found.verdict == "fail" and found.where == {"step": 4}
    likelihood = [2.0 - 0.1 * i for i in range(60)]
    assert ask("loss_diverging", make_series("loss", likelihood)).verdict == "not observed"


@in_one_test(("momentum", "verdict"), [(0.0, "warn"), (0.001, "warn"), (0.1, "ok")])
@in_one_test("framework", ["torch", "paddle"])
def test_batch_norms_that_hardly_took_up_their_batches(ask, make_series, framework, momentum, verdict):
    """The protocol has the momentum as PyTorch has it, for PaddlePaddle too."""
    norm = {"i": 1, "name": "n", "type": "BatchNorm1D", "order": 1, "parameters": 8, "options": {"momentum": momentum}}
    signals = {
        "models": [{"model": 0, "modules": [norm], "parameters": []}],
        "loop": {"steps": 80},
        "losses": [{"fn": "cross_entropy", "classes": 2, "calls": 80, "training": True}],
    }
    series = make_series("loss", [0.1] * 80), make_series("val_loss", [5.0, 4.0, 3.0], source="stdout")
    assert ask("train_val_collapse_in_eval", *series, signals=signals, framework=framework).verdict == verdict


@in_one_test(
    ("name", "logged", "measured", "verdict"),
    [
        ("val_acc", [0.1, 0.12, 0.11], [0.5, 0.7, 0.9], "warn"),
        ("val_acc", [9.0, 11.0, 12.0], [0.5, 0.7, 0.9], "warn"),  # per cent
        ("val_acc", [0.5, 0.7, 0.89], [0.5, 0.7, 0.9], "ok"),
        ("val_acc", [0.2, 0.4, 0.55], [0.5, 0.7, 0.9], "ok"),  # it may be that of the training data
        ("train_acc", [0.1, 0.12, 0.11], [0.5, 0.7, 0.9], None),
        ("val_top5_acc", [0.1, 0.12, 0.11], [0.5, 0.7, 0.9], None),
        ("acc", [0.01, 0.0, 0.01], [None] * 3, "warn"),
        ("acc", [0.01, 0.0, 0.08], [None] * 3, None),  # as good as guessing, the validation may be of another kind
        ("sequence_acc", [0.0, 0.0, 0.01], [None] * 3, None),
    ],
)
def test_an_accuracy_that_contradicts_the_outputs(ask, make_series, name, logged, measured, verdict):
    """Measured over the scores of the same validation, else below guessing while the loss is low."""
    loss = [2.3 * 0.97**step for step in range(200)]
    phases = [{"begin_step": 9, "end_step": 9, "batches": 9, "samples": 300} for _ in measured]
    phases = tuple(
        one | ({} if share is None else {"accuracy": share}) for one, share in zip(phases, measured, strict=True)
    )
    shapes = {"input": {"shape": [32, 10]}, "target": {"shape": [32]}}
    batches = tuple({"step": step, "phase": "train", "samples": 32} for step in (1, 2))
    signals = {**classifier(loss, **shapes), "batches": batches, "evaluations": phases}
    found = ask(
        "accuracy_contradicts_loss", make_series("loss", loss), make_series(name, logged, "console"), signals=signals
    )
    assert (found.verdict if found else None) == verdict


@in_one_test(
    ("losses", "asked", "verdict"),
    [
        ([1.0, 0.6, 0.4], False, "warn"),
        ([1.0, 0.5, 0.3], False, "ok"),
        ([1.0, 0.6], False, "ok"),
        ([1.0, 0.6, 0.4], True, None),  # the accuracy may be that of attacked inputs
    ],
)
def test_an_accuracy_beside_the_loss_of_the_same_validation(ask, make_series, losses, asked, verdict):
    """Only where the logged loss is that of the phases, the logged accuracy is certainly of their samples."""
    loss = [2.3 * 0.97**step for step in range(200)]
    phase = {"begin_step": 9, "end_step": 9, "batches": 9, "samples": 300, "asked": asked}
    pairs = ((0.7, 1.002), (0.8, 0.601), (0.9, 0.4))
    phases = tuple(phase | {"accuracy": share, "loss": {"cross_entropy": value}} for share, value in pairs)
    batches = tuple({"step": step, "phase": "train", "samples": 32} for step in (1, 2))
    signals = {**classifier(loss, input={"shape": [32, 10]}, target={"shape": [32]}), "batches": batches}
    signals["evaluations"] = phases
    logged = make_series("val_acc", [0.17, 0.19, 0.18], "console"), make_series("val_loss", losses, "console")
    found = ask("accuracy_contradicts_loss", make_series("loss", loss), *logged, signals=signals)
    assert (found and found.verdict) == verdict


@in_one_test(
    ("function", "logged", "end", "verdict"),
    [
        ("mse_loss", [0.0] * 4, 0.1, "warn"),
        ("mse_loss", [0.0, 0.0, 0.01], 0.1, None),
        ("mse_loss", [0.0] * 2, 0.1, None),
        ("mse_loss", [0.0] * 4, 2.0, None),
        ("bce_with_logits", [0.0] * 4, 0.1, None),
    ],
    ids=["never right", "once right", "two reports", "nothing learnt", "classes"],
)
def test_an_accuracy_of_real_numbers(ask, make_series, function, logged, end, verdict):
    values = [2.5 + (end - 2.5) * step / 79 for step in range(80)]
    losses = ({"fn": function, "training": True, "calls": 80, "line": "t.py:3", "observed": 20},)
    series = (make_series("loss", values), make_series("accuracy", logged, "console"))
    found = ask("accuracy_contradicts_loss", *series, signals={"losses": losses})
    assert (found.verdict if found and "R2" in str(found.advice) else None) == verdict
