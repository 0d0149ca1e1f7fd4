"""What a loss pulls the model to: pairs of contrastive losses, targets of temporal differences, target networks."""

import math

import pytest
from order_of_tests import in_one_test

from labbook.probe.inspection.contrastive_pairs import compare_pairs
from labbook.probe.training.discarded_gradients import factor_between

pytestmark = pytest.mark.pure
SIZE = 12
COPY = {"type": "Net", "calls": 900, "steps": 900, "untrained": True, "changed": False, "compared": 64, "equal": 0}


def loss(**fields):
    call = {"fn": "cross_entropy", "line": "t.py:7", "training": True, "calls": 50, "observed": 20, "classes": 32}
    return {"losses": ({**call, "input": {"shape": [32, 32], "min": -9.0, "max": 9.0}, **fields},)}


def near(**fields):
    return loss(input={"shape": [32, 32], "min": -0.1, "max": 0.1, **fields})


SCALER = {"steps": 99, "raw": 99, "stepped": 0}
TRAINED = {"path": "0", "role": "input", "shape": [32, 8], "min": -3.0, "max": 3.0, "mean": 0.0, "std": 1.0}
BATCHES = tuple({"phase": "train", "step": step, "samples": 32, "leaves": [TRAINED]} for step in (1, 2, 3))


def validated(low, high, std, shape=(32, 8), phases=2):
    look = {"shape": list(shape), "min": low, "max": high, "mean": (low + high) / 2, "std": std}
    return {"batches": BATCHES, "evaluations": ({"begin_step": 9, "batches": 4, "inputs": look},) * phases}


STEPS = (1, 2, 3, 5, 8, 20, 60, 90, 150)


def coded(spread, decoder=6, name="fc_logvar"):
    """A model with two heads of 6 features, the outputs of which have this standard deviation, and a decoder."""
    kinds = ((1, "fc_mu", 48, 6), (2, name, 48, 6), (3, "decoder", decoder, 48))
    layers = [
        {"i": i, "name": name, "type": "Linear", "order": i, "options": {"in_features": given, "out_features": made}}
        for i, name, given, made in kinds
    ]
    looks = [{"i": i, "mean": 0.01, "std": spread} for i in (1, 2, 3)]
    return {
        "models": ({"model": 0, "root": "VAE", "modules": layers, "parameters": []},),
        "tensors": tuple({"step": step, "opt": 0, "model": 0, "modules": looks} for step in STEPS),
    }


def clipped(ones, phases=10, backwards=160):
    graph = {"ratios": 20, "ratios_one": ones}
    evaluation = {"begin_step": 1, "end_step": 1, "batches": 64, "phases": phases}
    return {"graphs": (graph,), "loop": {"steps": 160, "backwards": backwards}, "evaluations": (evaluation,)}


def masked(*seen, fn="attention"):
    looks = [{"step": at, "functions": [{"fn": fn, "padding_only": one}]} for at, one in enumerate(seen, 1)]
    return {"batches": BATCHES, "tensors": tuple({"opt": 0, "model": 0, "modules": [], **look} for look in looks)}


def pooled(*seen):
    return masked(*seen, fn="pooling")


NOISE = {"fn": "noise", "shape": [32, 6]}


def drawn(width=6, decoder=6, noise=NOISE, named=False):
    """A model whose layer gives mean and log variance of a code at once, and what normal numbers its forward drew."""
    kinds = ((1, "stats", 48, width), (2, "rest", 48, width), (3, "decoder", decoder, 48))
    layers = [
        {"i": i, "name": name, "type": "Linear", "order": i, "options": {"in_features": given, "out_features": made}}
        for i, name, given, made in (kinds if named else kinds[::2])
    ]
    looks = [{"i": i, "mean": 0.0, "std": 0.01, "shape": [32, width]} for i in (1, 2, 3)]
    step = {"opt": 0, "model": 0, "modules": looks, "functions": [noise]}
    return {
        "models": ({"model": 0, "root": "VAE", "modules": layers, "parameters": []},),
        "tensors": tuple({"step": at, **step} for at in STEPS),
    }


def attended(padding=0, **row):
    """Attention over batches of tokens, of which a third or more are 0."""
    words = {"i": 1, "name": "words", "type": "Embedding", "order": 0, "options": {"padding_idx": padding}}
    leaf = {"path": "0", "role": "input", "shape": [32, 12], "integer": True}
    look = {"opt": 0, "model": 0, "modules": [], "functions": [{"fn": "attention", "shape": [12, 12], **row}]}
    return {
        "models": ({"model": 0, "root": "Net", "modules": [words], "parameters": []},),
        "tensors": tuple({"step": at, **look} for at in STEPS),
        "batches": tuple({"step": at, "leaves": [{**leaf, "zero": 0.3 + at / 1000}]} for at in STEPS),
    }


SCORES = {"fn": "softmax", "shape": [32, 4, 12, 12], "dim": 3}


CASES = [
    ("posterior_collapse", drawn(12), drawn(12, noise={**NOISE, "shape": [32, 64]}), "stats (Linear) returns nearly"),
    ("posterior_collapse", drawn(12), drawn(12, decoder=12), "mean and log variance"),
    ("posterior_collapse", drawn(named=True), drawn(named=True, decoder=9), "stats (Linear) and rest (Linear)"),
    ("attention_over_padding", attended(hides=False), attended(hides=True), "34 % of the tokens are padding"),
    ("attention_over_padding", attended(hides=False), attended(padding=3, hides=False), "no mask in 9 looks"),
    ("attention_over_padding", attended(zero=0.0, **SCORES), attended(zero=0.3, **SCORES), "no mask in 9 looks"),
    ("posterior_collapse", coded(0.01), coded(0.3), "return nearly 0 for every sample"),
    ("posterior_collapse", coded(0.01), coded(0.01, decoder=12), "fc_mu (Linear) and fc_logvar (Linear)"),
    ("posterior_collapse", coded(0.01), coded(0.01, name="fc_offset"), "root mean square at most 0.014"),
    ("policy_ratio_constant", clipped(20), clipped(19), "exactly 1 in all 20 updates inspected"),
    ("policy_ratio_constant", clipped(20), clipped(20, phases=160), "160 steps on 10 rollouts"),
    ("policy_ratio_constant", clipped(20), clipped(20, backwards=640), "160 steps"),
    (
        "parameters_initialised_again",
        {"loop": {"steps": 99, "restarts": {"count": 4, "rising": 3, "line": "t.py:9"}}},
        {"loop": {"steps": 99, "restarts": {"count": 4, "rising": 1, "line": "t.py:9"}}},
        "ran again in 3 epochs",
    ),
    (
        "evaluation_updates_parameters",
        {"loop": {"steps": 99, "evaluation_updates": {"count": 3, "function": "", "line": "t.py:9"}}},
        {"loop": {"steps": 99, "evaluation_updates": {"count": 2, "function": "", "line": "t.py:9"}}},
        "3 runs used a copy",
    ),
    (
        "evaluation_updates_parameters",
        {"loop": {"steps": 99, "evaluation_updates": {"count": 30, "function": "", "held_out": True}}},
        {"loop": {"steps": 99, "evaluation_updates": {"count": 1, "function": "", "held_out": True}}},
        "30 runs on data that is never trained on",
    ),
    (
        "metric_of_wrong_values",
        {"loop": {"steps": 99, "metrics_carried": {"count": 2, "function": "Auc", "line": "t.py:9"}}},
        {"loop": {"steps": 99, "metrics_carried": {"count": 1, "function": "Auc"}}, "evaluations": ({"end_step": 9},)},
        "the `Auc` object collected 3 passes",
    ),
    ("policy_ratio_inverted", {"graphs": ({"inverted": "t.py:9"},)}, {"graphs": ({},)}, "exp(old - new)"),
    ("attention_mask_inverted", masked(True, True, None, True), masked(True, True, False), "sees only padding"),
    ("attention_mask_inverted", pooled(True, True, True), pooled(True, True, False), "multiplied by 0"),
    (
        "scaled_gradients_stepped",
        {"loop": {"steps": 99, "scaler": SCALER}},
        {"loop": {"steps": 99, "scaler": {**SCALER, "stepped": 9}}},
        "99 steps with gradients still multiplied",
    ),
    ("validation_inputs_differ", validated(0.0, 9.0, 4.0), validated(-6.0, 6.0, 2.0), "inputs of validation 0 to 9"),
    ("validation_inputs_differ", validated(0.0, 1.0, 0.3), validated(0.0, 1.0, 0.8), "of training -3 to 3"),
    ("validation_inputs_differ", validated(0.0, 9.0, 4.0), validated(0.0, 9.0, 4.0, (32, 7)), "inputs of validation"),
    ("validation_inputs_differ", validated(0.0, 9.0, 9.0, phases=1), validated(0.0, 9.0, 4.0, phases=1), "inputs of"),
    ("contrastive_pairs_wrong", loss(self_pairs=18), loss(self_pairs=10), "positive pairs are the anchors"),
    ("contrastive_pairs_wrong", loss(self_negatives=20), loss(), "each anchor is among its own negatives"),
    ("contrastive_temperature", near(), near(max=9.0), "similarities from -0.1 to 0.1"),
    ("contrastive_temperature", near(), near(shape=[64, 32]), "cannot fall below 3.273, chance level 3.466"),
    ("target_not_detached", {"graphs": ({"advantage": "t.py:9"},)}, {"graphs": ({},)}, "the advantage, return minus"),
    ("target_not_detached", {"graphs": ({"bootstrapped": "t.py:9"},)}, {"graphs": ({},)}, "the target, reward plus"),
    (
        "target_network_never_updated",
        {"loop": {"steps": 900, "copies": [COPY]}},
        {"loop": {"steps": 900, "copies": [{**COPY, "equal": 3}, {**COPY, "changed": True}, {**COPY, "steps": 90}]}},
        "Net: unchanged in 900 steps",
    ),
    (
        "accumulation_discarded",
        {"loop": {"steps": 99, "accumulation": {"4": 99}, "accumulated": {"0": {"discarded": 20}}}},
        {"loop": {"steps": 99, "accumulation": {"4": 99}, "accumulated": {"0": {"discarded": 10, "kept": 10}}}},
        "20 of 20 inspected steps use the gradients of 1 of 4 backward passes",
    ),
]


@in_one_test(("name", "broken", "right", "observed"), CASES)
def test_a_fault_is_named_and_its_counterpart_is_not(ask, name, broken, right, observed):
    found = ask(name, signals=broken)
    assert found.verdict in ("fail", "warn") and observed in str(found.observed)
    assert ask(name, signals=right) is None


def test_undivided_sums_are_a_finding_where_steps_are_too_large(rows_of, make_run, make_model, make_series, looks):
    loss = {"fn": "cross_entropy", "training": True, "calls": 96, "reduction": "mean", "value_first": 2.3}

    def rows(ratio):
        tensors = looks(params=lambda step: [{"i": i, "w": 1.0, "g": 1.0, "ratio": ratio} for i in (0, 1)])
        signals = {"models": (make_model("Linear", "Linear"),), "tensors": tensors}
        fields = {"losses": (loss,), "loop": {"steps": 12, "backwards": 96, "optimizers": 1, "accumulation": {"8": 12}}}
        return rows_of(make_run(make_series("loss", [8 * 2.3] * 12), signals={**signals, **fields}))

    assert rows(0.01)["accumulation_not_scaled"].verdict == "note"
    assert rows(5.0)["accumulation_not_scaled"].verdict == "warn"
    assert rows(5.0)["update_too_large"].explained_by == "accumulation_not_scaled"


def test_a_loss_that_is_made_anew(ask):
    """The graph of `torch.tensor(loss.item(), requires_grad=True)`, where all tensors are lost, or one of two."""
    graph = {"step": 2, "reachable": 2, "unreachable": ["a.w"], "unreachable_n": 1, "foreign": [{"parameter": False}]}
    loop = {"steps": 99, "backwards": 99, "never_grad": ["a.w"], "never_grad_n": 1}
    for trainable, verdict in ((1, "fail"), (2, "ok")):
        found = ask("detached_graph", signals={"graphs": (graph,), "loop": {**loop, "trainable_n": trainable}})
        assert found.verdict == verdict


def test_one_loss_that_outweighs_another(ask, make_series):
    """The loss is their weighted sum in all steps, and the light one stays where it was."""

    def weighted(last, weight=1000.0, third=0.0, scale=1.0, light="cross_entropy"):
        light = {"fn": light, "line": "t.py:7", "reduction": "mean", "value_first": 1.4, "value_last": last}
        heavy = {"fn": "mse_loss", "line": "t.py:8", "reduction": "mean"}
        heavy.update(value_first=2.0 * scale, value_last=0.03 * scale)
        losses = tuple({**one, "training": True, "calls": 99} for one in (light, heavy))
        sums = make_series("loss", [1.4 + 2.0 * weight * scale, 300.0, last + 0.03 * weight * scale + third, 28.0])
        return ask("loss_term_dominates", sums, signals={"losses": losses})

    assert weighted(1.2).verdict == "warn"
    assert "mse_loss counts 1000 times and makes 99.9 % of the loss" in weighted(1.2).observed
    metres = {"weight": 1.0, "scale": 1e5}
    assert "mse_loss begins at 200000" in weighted(1.2, **metres).observed
    assert weighted(0.6, **metres) is weighted(1.2, **metres, light="l1_loss") is None
    assert weighted(1.2, weight=1.0, scale=100.0) is None
    assert weighted(0.6) is weighted(1.2, weight=20.0) is weighted(1.2, third=5.0) is None


def table(first, second, scale=5.0):
    return [[scale * sum(a * b for a, b in zip(one, other, strict=True)) for other in second] for one in first]


def vectors(shift):
    found = [[math.sin(7 * i + 3 * j + shift * (i + j % 2)) for j in range(6)] for i in range(SIZE)]
    return [[value / math.hypot(*one) for value in one] for one in found]


def test_pairs_of_a_sample_with_itself():
    one, other = vectors(0), vectors(0.2)
    diagonal = list(range(SIZE))
    longer = [[value * (1 + at) for value in vector] for at, vector in enumerate(one)]
    both = [*one[: SIZE // 2], *other[: SIZE // 2]]
    partner = [(at + SIZE // 2) % SIZE for at in range(SIZE)]
    masked = [
        [-math.inf if at == column else v for column, v in enumerate(row)] for at, row in enumerate(table(both, both))
    ]
    assert compare_pairs(table(one, one), diagonal)["self_pairs"]
    assert compare_pairs(table(longer, longer), diagonal)["self_pairs"]
    assert compare_pairs(table(one, other), diagonal) == {"self_pairs": False, "self_negatives": False}
    assert compare_pairs(table(both, both), partner) == {"self_pairs": False, "self_negatives": True}
    assert compare_pairs(masked, partner) == {"self_pairs": False, "self_negatives": False}
    assert compare_pairs([[1.0] * SIZE] * SIZE, diagonal) == compare_pairs(table(one, one)[:4], diagonal[:4]) == {}


def test_gradients_that_are_only_scaled():
    assert factor_between([1.0, -2.0, 0.0], [0.5, -1.0, 0.0]) == 0.5
    assert not factor_between([1.0, -2.0, 0.0], [-1.0, 2.0, 0.0])
    assert not factor_between([1.0, -2.0, 0.0], [1.0, -2.0, 0.1])
    assert not factor_between([1.0], [1.0, 2.0])


def test_a_schedule_of_an_optimizer_that_never_steps(ask, make_series):
    idle = {"loop": {"steps": 50, "idle_schedulers": [{"type": "StepLR", "steps": 5}]}}
    found = ask("lr_schedule_wrong", make_series("lr", [0.1] * 50), signals=idle)
    assert found.verdict == "fail" and str(found.observed).startswith("StepLR was stepped 5 times")
    assert ask("lr_schedule_wrong", make_series("lr", [0.1] * 25 + [0.05] * 25), signals=idle) is None
    loose = {"loop": {"steps": 50, "idle_schedulers": [{"type": "NoamDecay", "steps": 5, "loose": True}]}}
    found = ask("lr_schedule_wrong", make_series("lr", [0.1] * 50), signals=loose)
    assert found.verdict == "warn" and "no optimizer uses it" in str(found.observed)


def test_a_log_probability_that_is_minimised(ask, make_series):
    falling = make_series("loss", [-1.0 - 0.1 * step for step in range(60)])
    found = ask("loss_negative", falling, signals={"graphs": ({"ascends": True},)})
    assert found.verdict == "fail" and "without the minus sign" in str(found.observed)
    assert ask("loss_negative", falling, signals={"graphs": ({"ascends": False},)}) is None


def test_class_0_of_a_contrastive_loss_is_the_positive(ask, make_model):
    call = {"fn": "cross_entropy", "line": "t.py:7", "training": True, "calls": 50, "observed": 20, "value_first": 5.0}
    target = {"shape": [64], "dtype": "int64", "min": 0.0, "max": 0.0}
    seen = tuple({"phase": "train", "histogram": {"0": 640}} for _ in range(3))

    def found(classes):
        loss = {**call, "classes": classes, "target": target, "input": {"shape": [64, classes]}}
        model = make_model("Linear", "Linear")
        for row in model["modules"]:
            row["options"] = {"out_features": 10}
        return ask("label_constant", signals={"losses": (loss,), "prints": seen, "models": (model,)})

    assert found(10).verdict == "fail"
    assert found(257) is None


def test_sums_of_an_epoch_hold_graphs_until_its_end(ask):
    kept = [(20, 15, 15), (35, 30, 30), (45, 2, 32), (70, 3, 33)]
    events = tuple({"step": step, "rss": 3e8, "graphs": alive, "graphs_of": of} for step, alive, of in kept)
    assert ask("memory_graph_retained", signals={"memory": events}).verdict == "warn"
    assert ask("memory_graph_retained", signals={"memory": (events[0], *events[2:])}).verdict != "warn"


@in_one_test(
    ("critic", "generator", "verdict"),
    [(-8.0, -15.0, "warn"), (-8.0, 0.0, None), (-0.01, -15.0, None), (8.0, -15.0, None)],
)
def test_adversaries_that_both_win(ask, make_series, critic, generator, verdict):
    falls = [make_series(name, [1.0 + slope * n for n in range(200)]) for name, slope in
             (("loss", critic), ("loss.opt1", generator))]  # fmt: skip
    found = ask("adversaries_not_opposed", *falls, signals={"spans": {0: (0.0, 9.0), 1: (0.1, 9.1)}})
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [({}, "warn"), ({"changed": True}, None), ({"fixed": 3}, None)],
)
def test_a_teacher_in_training_mode(ask, fields, verdict):
    teacher = {"type": "Teacher", "steps": 40, "fixed": 30, "changed": False, **fields}
    found = ask("teacher_in_train_mode", signals={"loop": {"steps": 50, "teachers": [teacher]}})
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(
    ("output", "trainable", "verdict"), [([8, 32], 100, "warn"), ([8, 4], 100, None), ([8, 32], 0, None)]
)
def test_a_list_of_one_layer(ask, output, trainable, verdict):
    rows = [
        {"i": 1, "name": "blocks", "type": "ModuleList"},
        {"i": 2, "name": "blocks.0", "type": "Block", "input": [{"shape": [8, 32]}], "output": [{"shape": output}]},
        {"i": 3, "name": "blocks.0.fc", "type": "Linear", "trainable": trainable},
    ]
    found = ask("layers_share_weights", signals={"models": ({"modules": rows, "repeated": [["blocks", 2, 4]]},)})
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(
    ("reached", "turns", "verdict"),
    [
        (((8, 0), (8, 0)), (200, 200), "warn"),
        (
            ((8, 0), (4, 4)),
            (200, 200),
            None,
        ),  # an adversarial autoencoder: the loss of the encoder bypasses the decoder
        (((8, 4), (12, 0)), (200, 200), None),
        (((10, 0), (10, 0)), (200, 200), None),  # a trunk that both train
        (((8, 0), (8, 0)), (200, 40), None),  # which of them the two graphs belong to is not known
    ],
)
def test_an_optimizer_that_holds_the_parameters_of_another(ask, make_series, reached, turns, verdict):
    losses = [make_series(name, [slope * n for n in range(count)]) for name, slope, count in
              (("loss", 1.0, turns[0]), ("loss.opt1", -1.0, turns[1]))]  # fmt: skip
    signals = {
        "spans": {0: (0.0, 9.0), 1: (0.1, 9.1)},
        "optimizers": ({"index": 0, "tensors": 8}, {"index": 1, "tensors": 4}),
        "graphs": tuple(
            {"backward": n, "reachable": count, "unreachable_n": rest, "held": 12}
            for n, (count, rest) in zip((1, 20), reached, strict=True)
        ),
    }
    found = ask("optimizers_overlap", *losses, signals=signals)
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(
    ("graph", "metric", "verdict"),
    [
        ({}, "val_return_rate", "not observed"),
        ({}, "mean_return", "not observed"),
        ({"ratios": 20}, "policy_loss", "not observed"),
        ({"advantage": "t.py:9"}, "policy_loss", "not observed"),
        ({}, "score", "fail"),
        ({}, "rewards/chosen rewards/rejected", "fail"),
        ({}, "mean_reward margin", "fail"),
        ({"ratios": 20}, "rewards/chosen rewards/rejected", "fail"),
    ],
)
def test_a_loss_of_a_policy_is_known_by_its_graph_and_by_rewards(ask, make_series, graph, metric, verdict):
    rising = [1.0] * 20 + [0.2 + 0.03 * i for i in range(300)]
    signals = {"loop": {"steps": 300, "backwards": 300}, "graphs": (graph,)}
    series = (make_series("loss", rising), *(make_series(name, [0.5, 9.0], "text") for name in metric.split()))
    assert ask("loss_diverging", *series, signals=signals).verdict == verdict


def test_a_program_without_modules_and_optimizers_has_its_parameters_to_itself(ask):
    leaves = ({"foreign": [{"shape": [3, 4], "parameter": True}]},)
    by_hand = ({"index": 0, "type": "none of the framework, parameters are updated without one"},)
    assert ask("unregistered_parameters", signals={"graphs": leaves, "optimizers": by_hand}) is None
    model = ({"model": 0, "modules": [], "parameters": []},)
    found = ask("unregistered_parameters", signals={"graphs": leaves, "optimizers": by_hand, "models": model})
    assert found.verdict == "fail"


@in_one_test(
    ("function", "name", "verdict"),
    [("mse_loss", "val_mse", "warn"), ("mse_loss", "val_mae", "not observed"),
     ("mse_loss", "train_mse", "not observed"),
     ("l1_loss", "val_mae", "warn"), ("cross_entropy", "val_mse", "not observed"), ("cross_entropy", "val_ce", "warn"),
     ("binary_cross_entropy_with_logits", "val_bce", "warn"), ("mse_loss", "val RMSE [kW]", "warn")],
)  # fmt: skip
def test_the_loss_function_by_its_own_name_is_a_validation_loss(ask, make_series, function, name, verdict):
    train = make_series("loss", [2 * math.exp(-i / 60) for i in range(300)])
    up = make_series(name, [1.0 - 0.1 * i for i in range(4)] + [0.7 + 0.06 * i for i in range(16)], "text")
    signals = {"losses": ({"fn": function, "calls": 300, "training": True},)}
    assert ask("overfitting", train, up, signals=signals).verdict == verdict
