"""Losses and rewards beside trivial levels: the variance of targets, a margin, no lower bound."""

import math
import random

import pytest
from loss_signals import classifier, flat
from order_of_tests import in_one_test


def squared_error(values, target=1.0, **fields):
    call = classifier(values, fn="mse_loss", classes=0, **fields)
    looks = tuple(
        {"phase": "train", "samples": 32, "step": step,
         "leaves": [{"path": "target", "shape": [32, 4], "mean": 0.1 * step, "std": target}]}
        for step in (1, 10, 100)
    )  # fmt: skip
    return {**call, "batches": tuple({**one, "leaves": [{**one["leaves"][0], "mean": 0.0}]} for one in looks)}


@pytest.mark.parametrize(
    ("level", "fields", "verdict"),
    [
        (1.0, {}, "warn"),
        (1.6, {}, "warn"),  # worse than a constant
        (0.93, {}, "ok"),
        (1.0, {"reduction": "sum"}, None),
        (1.0, {"target": 2.0}, "ok"),
    ],
)
def test_a_squared_error_beside_the_variance_of_its_targets(ask, make_series, level, fields, verdict):
    values = flat(random.Random(3), level)
    found = ask("loss_at_chance", make_series("loss", values), signals=squared_error(values, **fields))
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(("weight", "verdicts"), [(False, ["fail", "fail"]), (True, [None, None])])
def test_a_binary_loss_with_weights_has_another_chance_level(ask, make_series, weight, verdicts):
    """`pos_weight` multiplies the loss of the positive samples, and nothing divides by it."""
    validation = make_series("val_loss", [0.71, 0.70, 0.75, 0.88], "text")
    learnt, flat = [0.9 * math.exp(-i / 60) for i in range(200)], [0.693 + 0.01 * (-1) ** i for i in range(200)]
    found = [
        ask(
            name,
            make_series("loss", values),
            validation,
            signals=classifier(values, 2, fn="bce_with_logits", weight=weight),
        )
        for name, values in (("label_noise_or_shuffled", learnt), ("loss_at_chance", flat))
    ]
    assert [one and one.verdict for one in found] == verdicts


def test_a_squared_error_that_still_falls_is_not_at_chance(ask, make_series):
    values = [1.3 - 0.3 * n / 300 for n in range(300)]
    assert ask("loss_at_chance", make_series("loss", values), signals=squared_error(values)).verdict == "ok"


@pytest.mark.parametrize(
    ("course", "signals", "verdict"),
    [
        (lambda n: 600 - 0.5 * n * n, {}, "fail"),
        (lambda n: 6 - 0.02 * n * n, {}, "fail"),
        (lambda n: 6 - 0.5 * n, {}, "ok"),  # steady
        (lambda n: 6 - 40 * (1 - math.exp(-n / 60)), {}, "ok"),  # a density that flattens out
        (lambda n: 6 - 0.02 * n * n, {"graphs": ({"advantage": "t.py:3"},)}, "ok"),  # a policy
    ],
)
def test_a_loss_that_falls_faster_and_faster_below_zero(ask, make_series, course, signals, verdict):
    found = ask("loss_diverging", make_series("loss", [float(course(n)) for n in range(200)]), signals=signals)
    assert (found.verdict == "fail") is (verdict == "fail")


@pytest.mark.parametrize(("level", "flat_share", "verdict"), [(1.2, 0.8, "fail"), (0.4, 0.8, None), (1.2, 0.2, None)])
def test_an_output_that_is_flat_for_most_values(ask, make_series, level, flat_share, verdict):
    """An autoencoder of black and white images may have such an output, too, and a low error."""
    row = {"fn": "sigmoid", "line": "t.py:9", "shape": [32, 4], "sat": flat_share}
    looks = tuple({"step": step, "modules": [{"i": 0}], "functions": [row]} for step in (2, 3, 4, 50))
    values = flat(random.Random(3), level)
    signals = {**squared_error(values), "tensors": looks, "models": ({"model": 0, "modules": [{"i": 0, "name": ""}]},)}
    found = ask("saturated_activation", make_series("loss", values), signals=signals)
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(
    ("share", "end", "masked", "steps", "verdict"),
    [
        (0.02, 2.0, False, 500, "warn"),
        (0.3, 2.0, False, 500, None),
        (0.02, 0.5, False, 500, None),  # learns what it needs
        (0.02, 2.0, True, 500, None),  # a causal mask shows the order, too
        (0.02, 2.0, False, 60, None),
    ],
)
def test_positions_that_are_small_beside_the_tokens(ask, make_series, share, end, masked, steps, verdict):
    rows = [{"fn": "attention", "masked": masked, "unordered": False, "placed": share, "shape": [12, 12]}]
    looks = tuple({"step": step, "functions": rows} for step in (1, 10, 100))
    losses = make_series("loss", [3.0 - (3.0 - end) * min(1.0, n / 50) for n in range(steps)])
    signals = {"tensors": looks, "batches": ({"step": 1, "phase": "train"},), "loop": {"steps": steps}}
    found = ask("positions_missing", losses, signals={**signals, **classifier([3.0] * 50, 20)})
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(
    ("near", "far", "last", "calls", "verdict"),
    [
        (1.6, 1.5, 1.1, 400, "warn"),
        (1e-5, 1e-5, 1.0, 400, "warn"),  # all embeddings are the same
        (1.6, 1.7, 0.9, 200, "warn"),  # positives of any class
        (1.6, 1.7, 0.9, 150, None),
        (0.4, 2.0, 0.1, 400, None),
        (1.0, 0.9, 0.5, 400, None),  # the hardest pairs of a batch, while the loss is below the margin
        (1.6, 1.5, 1.1, 50, None),
        (None, None, 1.1, 400, None),
    ],
)
def test_triplets_that_are_not_separated(ask, near, far, last, calls, verdict):
    call = {"fn": "triplet", "training": True, "calls": calls, "observed": 20, "line": "t.py:5", "margin": 1.0}
    found = ask("triplet_swapped", signals={"losses": ({**call, "near": near, "far": far, "value_last": last},)})
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(
    ("tags", "form", "options", "verdict"),
    [
        (0.0, [32, 60], {"padding_idx": 0, "num_embeddings": 40}, "warn"),
        (0.0, [1920], {"padding_idx": 0, "num_embeddings": 40}, "warn"),
        (0.02, [32, 60], {"padding_idx": 0, "num_embeddings": 40}, None),  # the usual tag, also of some words
        (0.0, [32, 60], {"num_embeddings": 40}, "warn"),
        (0.0, [32, 60], {"num_embeddings": 4}, None),  # the words themselves, in another order
        (0.0, [32, 60], {}, None),
    ],
)
def test_tags_of_padding_in_the_loss(ask, tags, form, options, verdict):
    model = {"model": 0, "modules": [{"i": 1, "name": "emb", "type": "Embedding", "order": 0, "options": options}]}
    whole = {"shape": [32, 60], "dtype": "int64", "integer": True}
    batches = tuple(
        {
            "phase": "train", "step": step, "samples": 32,
            "leaves": [
                {"path": "0", "role": "input", "zero": 0.5 + 0.01 * step, **whole},
                {"path": "target", "role": "label", "zero": 0.5 + 0.01 * step + tags, **whole, "shape": form},
            ],
        }
        for step in range(8)
    )  # fmt: skip
    loss = classifier([1.0] * 50, 4, target={**whole, "shape": form, "min": 0, "max": 3})["losses"][0]
    found = ask("padding_in_loss", signals={"losses": (loss,), "models": (model,), "batches": batches})
    assert (found.verdict if found else None) == verdict


@pytest.mark.parametrize(
    ("changed", "samples", "words", "verdict"),
    [
        ({}, 32, 900, "warn"),
        ({"ignore_index": -100}, 32, 900, None),
        ({"ignored": 0.01}, 32, 900, None),
        ({}, 4, 900, None),  # tokens of four sentences
        ({"classes": 0}, 32, 900, None),
        ({}, 32, 4, None),  # the next token, one a call
        ({"calls": 450}, 32, 900, None),  # one call for each time step
    ],
)
def test_a_class_that_the_loss_ignores(ask, changed, samples, words, verdict):
    facts = {"target": {"shape": [32], "dtype": "int64"}, "ignored": 0.25, "ignore_index": 0, **changed}
    loss = classifier([1.0] * 50, facts.pop("classes", 4), **facts)["losses"][0]
    batches = ({"phase": "train", "step": 1, "samples": samples, "leaves": []},)
    model = {"modules": [{"type": "Embedding", "options": {"num_embeddings": words}}]}
    seen = {"models": (model,), "batches": batches, "loop": {"backwards": 50}}
    found = ask("class_ignored", signals={"losses": (loss,), **seen})
    assert (found and found.verdict) == verdict
    assert ask("class_ignored", signals={"losses": (loss, {**loss, "line": "t.py:9"}), "batches": batches}) is None


@pytest.mark.parametrize(("spread", "verdict"), [(1.0, "fail"), (3.0, "note")])
def test_a_loss_may_rise_with_inputs_that_spread(ask, make_series, spread, verdict):
    values = [0.1] * 20 + [0.01] * 40 + [0.02 * step for step in range(1, 101)]
    leaf = {"path": "0", "role": "input", "shape": [32, 4]}
    looks = [
        {"phase": "train", "step": at, "samples": 32, "leaves": [{**leaf, "std": 1.0 if at < 20 else spread}]}
        for at in (1, 2, 4, 8, 90, 120, 150)
    ]
    assert ask("loss_diverging", make_series("loss", values), signals={"batches": looks}).verdict == verdict


ACTS = {"loop": {"steps": 50, "forwards": {"compared": 50, "small": 50}}}


@in_one_test(
    ("name", "values", "signals", "verdict"),
    [
        ("reward", [20.0 - 0.5 * n for n in range(20)], ACTS, "warn"),
        ("ep_return", [-100.0 - 5 * n + 9 * (n % 2) for n in range(20)], ACTS, "warn"),
        ("reward", [9.0 + 0.5 * n for n in range(20)], ACTS, None),
        ("reward", [20.0 + (n * 7) % 5 for n in range(20)], ACTS, None),
        ("reward", [200.0 - 0.1 * n for n in range(20)], ACTS, None),  # as good as before
        ("last_reward", [20.0 - 0.5 * n for n in range(20)], ACTS, None),
        ("f1_score", [20.0 - 0.5 * n for n in range(20)], ACTS, None),
        ("reward", [20.0 - 0.5 * n for n in range(20)], {}, None),  # nothing acts
        ("mean_reward", [1.0 - 0.5 * n for n in range(20)], {"graphs": ({"step": 1},)}, "warn"),  # acts with gradients
        ("return", [1.0 - 0.5 * n for n in range(20)], {"graphs": ({"step": 1},)}, None),  # of shares
        (
            "reward",
            [1.0 - 0.5 * n for n in range(20)],
            {"graphs": ({"step": 1},), "losses": ({"fn": "mse_loss"},)},
            None,
        ),
    ],
)
def test_a_reward_that_falls(ask, make_series, name, values, signals, verdict):
    found = ask("reward_falling", make_series(name, values, source="text"), signals=signals)
    assert (found and found.verdict) == verdict
