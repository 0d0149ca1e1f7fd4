"""Held-out metrics that collapse, or stay at a trivial value, while the training loss falls."""

from dataclasses import replace

import pytest
from order_of_tests import in_one_test

FALLING = [0.7 * 0.98**i for i in range(200)]
LEAPING = [*FALLING[:100], *FALLING[:100]]
ACCURACY, LOW = [0.97, 0.7, 0.4, 0.2, 0.1, 0.05], [0.38, 0.12, 0.0, 0.0, 0.0, 0.0]


def judge(ask, make_series, check, metrics, loss=FALLING, phases=6, **fields):
    call = {"fn": "cross_entropy", "training": True, "calls": len(loss), "classes": 10, "step": 1, "observed": 20}
    seen = [{"end_step": 30 * i, "samples": 300, "batches": 3, "phases": i + 1} for i in range(phases)]
    signals = {"losses": (call,), "evaluations": tuple(seen), "loop": {"steps": len(loss)}, **fields}
    logged = [make_series(name, values, "text") for name, values in metrics.items()]
    found = ask(check, make_series("loss", loss), *logged, signals=signals)
    return found.verdict if found is not None else None


@pytest.mark.parametrize(
    "metrics",
    [
        {"val_acc": ACCURACY},
        {"val_acc": [100 * value for value in ACCURACY], "train_acc": [0.3, 0.5, 0.7, 0.8, 0.9, 1.0]},
        {"iou": LOW},
        {"val_auc": [0.9, 0.8, 0.6, 0.55, 0.52, 0.5]},
        {"recall@10": [0.25, 0.2, 0.1, 0.03, 0.02, 0.02], "val_loss": [0.7, 0.6, 0.5, 0.4, 0.3, 0.2]},
        {"val_r2": [0.8, 0.7, 0.2, -0.1, -0.4, -0.6]},
        {"val_rmse": [0.34, 0.33, 0.6, 1.1, 1.7, 1.9]},
    ],
)
def test_a_metric_that_collapses_is_a_finding(ask, make_series, metrics):
    assert judge(ask, make_series, "metric_collapsed", metrics) == "warn"


@pytest.mark.parametrize(
    ("metrics", "fields"),
    [
        ({"val_acc": ACCURACY[::-1]}, {}),
        ({"val_acc": ACCURACY[:4]}, {}),  # too few
        ({"val_acc": [0.9, 0.95, 0.2, 0.9, 0.93, 0.9]}, {}),  # came back
        ({"val_acc": [0.9, 0.88, 0.85, 0.8, 0.75, 0.7]}, {}),  # less good
        ({"val_acc": [0.63, 0.4, 0.57, 0.5, 0.43, 0.4]}, {}),  # 30 samples at chance
        ({"f1": [0.02, 0.03, 0.0, 0.01, 0.0, 0.0]}, {}),  # never learnt
        ({"val_acc_old": ACCURACY, "val_acc_new": ACCURACY[::-1]}, {}),  # tasks one after the other
        ({"recall": [1.0, 0.7, 0.4, 0.3, 0.3, 0.3], "precision": ACCURACY[::-1]}, {}),  # a moving threshold
        ({"val_iou": LOW, "val_acc": [0.3, 0.6, 0.7, 0.8, 0.8, 0.8]}, {}),
        ({"iou_3": LOW}, {}),  # one class
        ({"dice": ACCURACY, "bce": FALLING[::30]}, {}),  # a term of the loss: 1 - dice
        ({"iou": ACCURACY, "val_iou": ACCURACY[::-1]}, {}),  # the same, beside the metric
        ({"ece": [0.02, 0.04, 0.06, 0.09, 0.1, 0.12]}, {}),  # calibration
        ({"val_mse": [9.0, 2e-5, 1e-5, 3e-5, 4e-5, 5e-5]}, {}),  # noise near 0
        ({"best_acc": ACCURACY, "train_acc": ACCURACY, "reward": ACCURACY}, {}),
        ({"accuracy": ACCURACY}, {"phases": 1}),  # attacks on the trained model
        ({"accuracy": ACCURACY}, {"evaluations": ({"end_step": 200, "phases": 6},) * 6}),  # the same, phase by phase
        ({"val_acc": ACCURACY}, {"loss": LEAPING}),  # pruned, or another task
        ({"val_acc": ACCURACY}, {"loss": FALLING[::-1]}),  # data that get harder
    ],
)
def test_healthy_courses_are_no_collapse(ask, make_series, metrics, fields):
    assert judge(ask, make_series, "metric_collapsed", metrics, **fields) is None


@pytest.mark.parametrize(
    "metrics",
    [
        {"val_f1": [0.1, 0.0, 0.0, 0.0, 0.0], "val_acc": [0.95] * 5},
        {"val_R2": [-12.4, -12.3, -12.4, -12.4, -12.5, -12.4]},
        {"val_rmse": [133670.1, 133670.2, 133670.1, 133670.1, 133670.1]},
        {"accuracy": [0.4875] * 6},
    ],
)
def test_a_trivial_metric_beside_a_falling_loss_is_a_finding(ask, make_series, metrics):
    assert judge(ask, make_series, "below_trivial_baseline", metrics) == "warn"


@pytest.mark.parametrize(
    ("metrics", "fields"),
    [
        ({"val_f1": [0.0, 0.0, 0.0]}, {}),  # a short demo
        ({"val_f1": [0.0, 0.0, 0.0, 0.0, 0.1, 0.3]}, {}),  # begins to learn
        ({"val_f1": [0.0] * 6}, {"loss": [0.7 * 0.995**i for i in range(200)]}),  # has not learnt yet
        ({"bleu": [0.0] * 6, "map": [0.0] * 6}, {}),  # late in most trainings
        ({"val_r2": [-30.0, -8.0, -3.0, -1.0, -0.5, -0.2]}, {}),  # learns the mean of the targets
        ({"val_rmse": [0.05] * 6, "val_error": [0.025] * 6}, {}),  # converged, and rounded
        ({"val_rmse": [1.003, 1.002, 1.003, 1.003, 1.002, 1.003]}, {"loss": [1.0] + [0.1] * 199}),  # noise of the data
        ({"val_acc": [0.93] * 6}, {}),
        ({"val_acc": [0.5] * 6}, {"phases": 1}),
    ],
)
def test_healthy_courses_are_not_trivial(ask, make_series, metrics, fields):
    assert judge(ask, make_series, "below_trivial_baseline", metrics, **fields) in (None, "ok", "not observed")


def test_a_model_without_validation_phases_is_judged_by_the_loss_beside(ask, make_series):
    beside = {"hit@10": ACCURACY, "train_loss": [0.7, 0.5, 0.4, 0.3, 0.2, 0.1]}
    assert judge(ask, make_series, "metric_collapsed", beside, phases=0) == "warn"
    assert judge(ask, make_series, "metric_collapsed", {"hit@10": ACCURACY}, phases=0) is None


@pytest.mark.parametrize(
    ("name", "values", "verdict"),
    [
        ("val_acc", [0.09, 0.1, 0.11, 0.09, 0.1, 0.1], "warn"),
        ("acc", [0.09, 0.1, 0.11, 0.09, 0.1, 0.1], "warn"),
        ("acc", [0.09, 0.1, 0.1], "not observed"),  # not one value for each validation
        ("val_acc_old", [0.09, 0.1, 0.11, 0.09, 0.1, 0.1], "not observed"),  # an earlier task
        ("train_acc", [0.09, 0.1, 0.11, 0.09, 0.1, 0.1], "not observed"),
        ("val_acc", [0.09, 0.1, 0.11, 0.15, 0.18, 0.2], "not observed"),
    ],
)
def test_an_accuracy_as_by_guessing_where_labels_are_not_known(ask, make_series, name, values, verdict):
    loss = {"fn": "cross_entropy", "training": True, "calls": 200, "classes": 10, "step": 1, "observed": 20}
    shapes = {"input": {"shape": [16, 10]}, "target": {"shape": [16]}}
    fields = {"losses": ({**loss, **shapes},), "batches": ({"phase": "train", "samples": 16},)}
    assert judge(ask, make_series, "below_trivial_baseline", {name: values}, **fields) == verdict


@pytest.mark.parametrize(
    ("zeros", "end", "values", "verdict"),
    [
        (0.97, 0.13, 6, "not observed"),
        (0.97, 0.13, 12, "warn"),  # long enough: all predictions are negative
        (0.6, 0.7, 12, "not observed"),
        (0.97, 0.05, 6, "warn"),
        (0.85, 0.15, 6, "warn"),
    ],
)
def test_f1_of_0_is_trivial_where_the_loss_is_low_or_labels_are_rare(ask, make_series, zeros, end, values, verdict):
    loss = [0.7 * (end / 0.7) ** (i / 180) for i in range(200)]
    binary = {"fn": "bce_with_logits", "training": True, "calls": 200, "step": 1, "observed": 20}
    fields = {"losses": ({**binary, "target": {"min": 0.0, "max": 1.0, "zero": zeros}},)}
    metrics = {"val_f1": [0.04, 0.01, *[0.0] * (values - 2)] if values > 6 else [0.0] * values}
    assert judge(ask, make_series, "below_trivial_baseline", metrics, loss, values, **fields) == verdict


@pytest.mark.parametrize(("columns", "accuracies", "named"), [(1, [0.5] * 6, True), (2, [0.5] * 6, False)])
def test_the_argmax_of_one_column(ask, make_series, columns, accuracies, named):
    """An accuracy that is exactly the same each time, of a model that learns and has one output."""
    model = {"model": 0, "modules": [{"i": 0, "name": "", "type": "Net", "output": [{"shape": [32, columns]}]}]}
    call = {"fn": "binary_cross_entropy", "training": True, "calls": 200, "classes": 2, "step": 1, "observed": 20}
    signals = {
        "models": ({**model, "parameters": []},),
        "losses": (call,),
        "prints": ({"phase": "train", "loader": 0, "epoch": 0, "histogram": {"0": 300, "1": 300}},),
        "evaluations": tuple({"accuracy": a, "samples": 300, "batches": 3, "end_step": 30} for a in accuracies),
        "loop": {"steps": 200},
    }
    found = ask("below_trivial_baseline", make_series("loss", FALLING), signals=signals)
    assert found.verdict == "warn" and ("with a threshold" in (found.advice or "")) is named


@pytest.mark.parametrize(
    ("accuracy", "named"), [(0.19, "accuracy_contradicts_loss"), (0.33, "label_noise_or_shuffled")]
)
def test_an_accuracy_far_below_guessing_is_no_sign_of_wrong_labels(ask, make_series, accuracy, named):
    loss = [1.1 * 0.97**step for step in range(200)]
    function = {"fn": "cross_entropy", "training": True, "calls": 200, "classes": 3, "reduction": "mean"}
    signals = {
        "losses": ({**function, "input": {"shape": [32, 3]}, "target": {"shape": [32]}},),
        "batches": tuple({"step": step, "phase": "train", "samples": 32} for step in (1, 2)),
        "prints": ({"phase": "train", "loader": 0, "epoch": 0, "histogram": {"0": 200, "1": 100, "2": 100}},),
        "evaluations": tuple({"batches": 5, "samples": 400} for _ in range(4)),
        "loop": {"steps": 200},
    }
    series = make_series("loss", loss), make_series("val_accuracy", [accuracy] * 4, "console")
    found = {
        name: ask(name, *series, signals=signals) for name in ("accuracy_contradicts_loss", "label_noise_or_shuffled")
    }
    assert [name for name, one in found.items() if one is not None and one.verdict in ("warn", "fail")] == [named]


@in_one_test(("weight", "accuracy", "verdict"), [(True, 0.4, "ok"), (True, 0.5, "warn"), (False, 0.4, "warn")])
def test_weights_of_the_classes_cost_accuracy_and_one_answer_for_all_is_none_of_them(ask, weight, accuracy, verdict):
    prints = ({"phase": "train", "loader": 0, "epoch": 0, "histogram": {"0": 500, "1": 300, "2": 200}},)
    phases = tuple({"accuracy": accuracy, "samples": 300, "batches": 5} for _ in range(4))
    losses = ({"fn": "cross_entropy", "training": True, "calls": 500, "weight": weight},)
    signals = {"prints": prints, "evaluations": phases, "losses": losses, "loop": {"steps": 500}}
    assert ask("below_trivial_baseline", signals=signals).verdict == verdict


@pytest.mark.parametrize(("accuracy", "verdict"), [(0.5, "fail"), (0.9, None)])
def test_labels_are_known_without_a_loader(ask, make_series, accuracy, verdict):
    """Tensors that the program cuts into batches itself; the test words have other ids than those of training."""
    seen = tuple({"phase": "train", "step": n, "labels": {"histogram": {"0": 30, "1": 30}}} for n in range(1, 6))
    loss = [0.7 * 0.97**i for i in range(200)]
    fields = {"batches": seen, "losses": ({"fn": "cross_entropy", "calls": 200, "classes": 2},)}
    assert judge(ask, make_series, "label_noise_or_shuffled", {"test_acc": [accuracy] * 6}, loss, **fields) == verdict


@pytest.mark.parametrize(
    ("name", "last", "loss", "offset", "verdict"),
    [
        ("test_loss", 6, FALLING, 0.0, "warn"),
        ("train_loss", 6, FALLING, 0.0, None),
        ("test_loss", 6, FALLING, 0.01, None),  # of other data
        ("test_loss", 40, FALLING, 0.0, None),  # the mean of the epoch under the name of the test set
        ("test_loss", 1, FALLING, 0.0, None),  # the last batch
        ("test_loss", 6, [0.6931] * 200, 0.0, None),  # one that does not move
    ],
)
def test_a_validation_loss_that_is_the_loss_of_steps(ask, make_series, name, last, loss, offset, verdict):
    values = [round(sum(loss[end - last : end]) / last + offset, 4) for end in range(40, 201, 40)]
    series = make_series("loss", loss), make_series(name, values, "text")
    found = ask("evaluation_updates_parameters", *series, signals={"loop": {"steps": 200}})
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_the_last_of_these_steps_may_be_of_a_smaller_batch_and_reports_of_some_epochs(ask, make_series, share, first):
    ends = [40, 80, 160, 200]
    values = [round((sum(FALLING[end - 6 : end - 1]) + share * FALLING[end - 1]) / (5 + share), 4) for end in ends]
    series = make_series("loss", FALLING), make_series("test_loss", values, "text")
    series = series[0], replace(series[1], steps=tuple(end // 40 - 1 + first for end in ends))
    found = ask("evaluation_updates_parameters", *series, signals={"loop": {"steps": 200}})
    assert found.verdict == "warn" and "last 6 of 40" in found.observed


@pytest.mark.parametrize(("items", "verdict"), [(16, "warn"), (256, "ok")])
def test_the_accuracy_of_sequences_is_judged_by_their_tokens(ask, items, verdict):
    """Of 64 sequences of 16 tokens 55 % are more than the 50 % of the usual one, which they are not of 64 samples."""
    signals = {
        "prints": ({"phase": "train", "loader": 0, "epoch": 0, "histogram": {"0": 500, "1": 300, "2": 200}},),
        "evaluations": tuple({"accuracy": 0.55, "samples": 64, "batches": 1} for _ in range(4)),
        "batches": ({"phase": "train", "samples": 16, "leaves": []},),
        "losses": ({"fn": "cross_entropy", "training": True, "calls": 500, "items": items},),
        "loop": {"steps": 500},
    }
    assert ask("below_trivial_baseline", signals=signals).verdict == verdict
