"""Inputs, labels and the order of batches."""

import math
import random

import pytest
from order_of_tests import in_one_test


def batches(n=20, samples=32, model=None, **leaf):
    recorded = {
        "path": "0",
        "role": "input",
        "shape": [32, 8],
        "dtype": "float32",
        "integer": False,
        "bad": 0,
        "nan": 0,
    }
    made = {**recorded, "mean": 0.0, "std": 1.0, "min": -3.0, "max": 3.0, **leaf}
    rows = tuple({"step": i + 1, "phase": "train", "samples": samples, "leaves": [made]} for i in range(n))
    return {"batches": rows, **({"models": (model,)} if model else {})}


def chain(make_model, looks, *kinds):
    return {"models": (make_model(*kinds),), "tensors": looks(modules=lambda _: [{"i": 1, "std": 1.0}])}


@in_one_test(
    ("leaf", "verdict"),
    [
        ({"mean": 110.0, "std": 70.0, "min": 0.0, "max": 255.0}, "warn"),
        ({"mean": 0.0, "std": 900.0, "min": -9e3, "max": 9e3}, "warn"),
        ({"mean": -40.0, "std": 11.0, "min": -80.0, "max": 0.0}, "note"),
        ({"mean": 0.13, "std": 0.31, "min": 0.0, "max": 1.0}, "ok"),
        ({"mean": 0.002, "std": 0.05, "min": 0.0, "max": 1.0}, "ok"),
        ({"mean": 0.0, "std": 1.0}, "ok"),
        ({"mean": 3000.0, "std": 900.0, "integer": True}, "not observed"),
        ({"mean": 0.003, "std": 0.015, "min": 0.0, "max": 0.25, "zero": 0.97}, "ok"),
        ({"mean": 16.0, "std": 0.0, "shape": ()}, "not observed"),
    ],
)
def test_scale_of_inputs(ask, make_model, looks, leaf, verdict):
    signals = {**batches(**leaf), **chain(make_model, looks, "Linear", "Linear")}
    assert ask("input_not_normalised", signals=signals).verdict == verdict


def test_of_several_inputs_the_largest_one_is_shown(ask, make_model, looks):
    images = batches(path="img", shape=[32, 3, 8, 8], mean=0.2)["batches"]
    numbers = batches(path="batch_idx", shape=[32], mean=2.5, std=2.0)["batches"]
    both = tuple({**a, "leaves": [*b["leaves"], *a["leaves"]]} for a, b in zip(images, numbers, strict=True))
    signals = {"batches": both, **chain(make_model, looks, "Conv2d", "Linear")}
    assert ask("input_not_normalised", signals=signals).observed == "mean 0.2, standard deviation 1"


@pytest.mark.parametrize("layers", [["BatchNorm1d"], ["LayerNorm"], ["Embedding"], ["Conv2d", "BatchNorm2d"]])
def test_a_model_may_normalise_its_inputs_itself(ask, make_model, looks, layers):
    signals = {**batches(mean=110.0, std=70.0, max=255.0), **chain(make_model, looks, *layers, "Linear")}
    for model in signals["models"]:
        model["feeds"] = [[1, 2]]
    found = ask("input_not_normalised", signals=signals)
    assert found.verdict == "ok" and found.observed.endswith("a norm or a lookup table, or a norm follows it")


@in_one_test(
    ("shape", "top", "verdict"),
    [([32, 2], 4e6, "warn"), ([32, 2], 80.0, "ok"), ([32, 1], 4e6, "ok"), ([32, 8, 8], 4e6, "ok")],
    ids=["no ids", "ids as real numbers", "one column", "no rows"],
)
def test_real_numbers_beside_a_lookup_table(ask, make_model, looks, shape, top, verdict):
    chained = chain(make_model, looks, "Embedding", "Linear")
    for module in chained["models"][0]["modules"]:
        is_table = module["type"] == "Embedding"
        module.update({"options": {"num_embeddings": 100}, "parameters": 100} if is_table else {})
    chained["tensors"] = looks(modules=lambda _: [{"i": 1, "std": 1.0}, {"i": 2, "std": 1.0}])
    signals = {**batches(mean=7e5, std=8e5, max=top, shape=shape), **chained}
    assert ask("input_not_normalised", signals=signals).verdict == verdict


@in_one_test(
    ("name", "top", "verdict"),
    [("lstm/kernel", 9e5, "warn"), ("conv/kernel", 255.0, "ok"), ("normalization/mean", 9e5, "ok")],
)
def test_inputs_of_layers_that_are_no_modules(ask, make_model, name, top, verdict):
    model = make_model("Linear")
    root = {**model["modules"][0], "parameters": 0}
    model = {**model, "modules": [root], "parameters": [{**model["parameters"][0], "name": name, "module": 0}]}
    tensors = tuple({"step": step, "model": 0, "modules": [{"i": 0, "mean": 0.0}]} for step in (1, 2, 3))
    signals = {**batches(mean=6e2, std=7e2, max=top), "models": (model,), "tensors": tensors}
    assert ask("input_not_normalised", signals=signals).verdict == verdict


def test_images(ask, make_model, looks):
    twice = batches(shape=[32, 1, 28, 28], min=0.0, max=1 / 255, mean=0.0005, std=0.001)
    assert ask("input_double_normalised", signals=twice).verdict == "note"
    assert ask("input_double_normalised", signals=batches(shape=[32, 1, 28, 28], min=0.0, max=1.0)) is None
    turned = {**batches(shape=[8, 32, 32, 3]), **chain(make_model, looks, "Conv2d", "Linear")}
    assert ask("image_layout_suspect", signals=turned).verdict == "note"
    mixed, right = [[0.5, 0.5, 0.2]] * 3, [[0.2, 0.3, 0.4]] * 3
    for lags, verdict in ((mixed, "warn"), ([[0.153, 0.155, 0.127]] * 3, "warn"), (right, None)):
        fields = {**batches(shape=[8, 3, 32, 32]), **chain(make_model, looks, "Conv2d", "Linear")}
        leaves = [{**fields["batches"][0]["leaves"][0], "lags": one} for one in lags]
        fields["batches"] = tuple({**fields["batches"][0], "leaves": [leaf]} for leaf in leaves)
        found = ask("image_layout_suspect", signals=fields)
        assert (found.verdict if found else None) == verdict


def test_constant_columns(ask):
    def signals(constant, columns=8, n=640):
        return batches(constant=constant, constant_n=n, shape=[32, columns])

    def masked_tokens(highest):
        leaf = {"role": "input", "shape": [32, 8], "constant": 1, "constant_n": 640, "min": 0, "max": highest}
        words = {**leaf, "path": "0", "integer": True, "max": 20, "constant": 0}
        return {"batches": ({"step": 2, "phase": "train", "leaves": [words, {**leaf, "path": "1"}]},)}

    assert ask("constant_feature", signals=signals(8)).verdict == "fail"
    assert ask("constant_feature", signals=signals(1)).verdict == "warn"
    for leaf in ({"zero": 0.9}, {"constant_at": [7]}, {"constant_at": [0]}):
        assert ask("constant_feature", signals=batches(constant=1, constant_n=640, **leaf)).verdict == "note"
    assert ask("constant_feature", signals=signals(12, columns=784)) is None
    assert ask("constant_feature", signals=signals(8, n=64)) is None
    assert ask("constant_feature", signals=masked_tokens(1)) is None
    assert ask("constant_feature", signals=masked_tokens(20)).verdict == "warn"
    named = ask("constant_feature", signals=batches(constant=2, constant_at=[2, 5], constant_n=640))
    assert named.observed == "2 of 8 columns of input 0 are constant: column 2, 5 (counted from 0)"


def test_padding(ask, make_model):
    ids = {"integer": True, "shape": [32, 64], "min": 0.0, "max": 900.0, "zero": 0.8}
    assert ask("padding_ratio_high", signals=batches(**ids, model=make_model("Embedding", "Linear"))).verdict == "note"
    assert ask("padding_ratio_high", signals=batches(**ids, model=make_model("Linear"))) is None


def test_drift(ask):
    def signals(slope):
        leaf = {"path": "0", "role": "input", "shape": [32, 8], "std": 1.0}
        return {
            "batches": tuple(
                {"step": i, "phase": "train", "samples": 32, "leaves": [{**leaf, "mean": slope * i}]} for i in range(60)
            )
        }

    assert ask("input_drift_in_run", signals=signals(0.2)).verdict == "note"
    assert ask("input_drift_in_run", signals=signals(0.001)) is None


def test_indices_outside(ask):
    recorded = {"op": "gather", "line": "t.py:3", "max": 12, "min": 0, "size": 10, "count": 5}
    assert "index 12 for size 10" in ask("out_of_bounds_read", signals={"loop": {"out_of_bounds": [recorded]}}).observed
    assert ask("out_of_bounds_read", signals={"loop": {"steps": 1}}) is None


def classifier(**fields):
    recorded = {"fn": "cross_entropy", "training": True, "calls": 50, "classes": 3, "line": "t.py:2", "observed": 20}
    return {**recorded, "target": {"shape": [32], "min": 0, "max": 2}, **fields}


def test_an_input_column_that_determines_the_target(ask, make_series):
    turns = [make_series("loss", [0.7, 0.6, 0.5]), make_series("loss.opt1", [2.3, 2.1, 1.8])]
    critic = {**batches(telling=[5], telling_n=320), "spans": {0: (0.0, 9.0), 1: (0.1, 9.1)}}
    assert ask("target_in_inputs", *turns, signals=critic) is None
    found = ask("target_in_inputs", signals=batches(telling=[5], telling_n=320))
    assert found.verdict == "warn"
    assert found.observed == "column 5 (counted from 0) of input 0 alone determined the target in 320 samples"
    assert ask("target_in_inputs", signals=batches(telling=[5], telling_n=64)) is None
    found = ask("target_in_inputs", signals=batches(telling=[0], telling_n=320, shape=[64, 24, 1]))
    assert (
        found.verdict == "warn" and "last value of the sequence" in found.observed and "series[i + n]" in found.advice
    )
    assert ask("target_in_inputs", signals=batches(telling=[], telling_n=320)) is None
    assert ask("target_in_inputs", signals=batches()) is None


def epoch(labels, number=0, size=32, loader=0, phase="train", rows=()):
    """A `prints` event of one epoch with these labels."""
    cut = [labels[i : i + size] for i in range(0, len(labels), size)]
    pairs = []
    for part in cut:
        counts = {c: part.count(c) for c in set(part)}
        entropy = -sum(n / len(part) * math.log(n / len(part)) for n in counts.values())
        pairs.append([entropy, str(max(counts, key=counts.get))])
    histogram = {str(c): labels.count(c) for c in set(labels)}
    prints = [f"{number}-{i}" for i in range(len(cut))]
    return {
        "loader": loader, "phase": phase, "epoch": number, "batches": len(cut), "prints": prints, "labels": pairs,
        "histogram": histogram, "rows": list(rows),
    }  # fmt: skip


def test_labels_out_of_the_head(ask):
    found = ask("label_out_of_head", signals={"losses": (classifier(outside=7, target={"min": 1, "max": 3}),)})
    assert found.verdict == "fail" and found.observed == "7 targets outside, 1 to 3" and found.expected == "0 to 2"
    assert ask("label_out_of_head", signals={"losses": (classifier(),)}).verdict == "ok"
    masked = classifier(target={"min": 0, "max": 2}, ignored=0.25)
    found = ask("label_out_of_head", signals={"losses": (masked,)})
    assert found.verdict == "ok" and found.observed == "0 to 2, 25 % of the inspected ones ignored"
    calls = [{"fn": "binary_cross_entropy", "training": True, "target": {"min": n, "max": n}} for n in (1, 0, 1)]
    found = ask("label_out_of_head", signals={"losses": tuple(calls)})
    assert found.verdict == "ok" and found.observed == "0 to 1"
    mixed = classifier(soft=True, target={"min": 0, "max": 1})
    assert ask("label_out_of_head", signals={"losses": (mixed,)}).expected == "0 to 1"


def test_constant_labels(ask):
    same = {"losses": (classifier(target={"shape": [32], "min": 1, "max": 1}),), "prints": (epoch([1] * 640),)}
    assert ask("label_constant", signals=same).verdict == "fail"
    contrastive = {"losses": same["losses"], "prints": (epoch([0, 1, 2] * 200),)}
    assert ask("label_constant", signals=contrastive) is None


def test_imbalance(ask):
    def signals(counts, **fields):
        labels = [c for c, n in enumerate(counts) for _ in range(n)]
        return {"losses": (classifier(**fields),), "prints": (epoch(labels),)}

    assert ask("class_imbalance", signals=signals([1900, 50, 50], weight=True)).observed.endswith("weights the classes")
    shares = [("warn", [1900, 50, 50]), ("warn", [130, 2, 4]), ("note", [600, 500, 40]), ("ok", [300, 300, 300])]
    assert all(ask("class_imbalance", signals=signals(counts)).verdict == one for one, counts in shares)
    assert ask("class_imbalance", signals=signals([1900, 50, 50], reduction="none")).verdict == "note"
    words = [max(1, 2000 // rank) for rank in range(1, 150)]
    assert ask("class_imbalance", signals=signals(words, classes=2)).verdict == "not observed", "these are ids"
    table = {"i": 0, "name": "e", "type": "Embedding", "order": 0, "options": {"num_embeddings": 149}}
    model = {"models": ({"model": 0, "modules": [table], "parameters": []},)}
    for size, rows, verdict in ((149, 149, "not observed"), (150, 149, "note"), (2, 2, "warn")):
        table["options"] = {"num_embeddings": rows}
        labels = signals(words if size > 2 else [1900, 50], classes=size) | model
        assert ask("class_imbalance", signals=labels).verdict == verdict
    assert ask("class_imbalance", signals=signals([90, 8, 6])).verdict == "ok", "too few to be certain"
    masked = ask("class_imbalance", signals=signals([1900, 300, 300], ignored=0.7, ignore_index=0))  # no class
    assert masked.verdict == "ok" and masked.observed.startswith("2 classes, 50 %")
    assert ask("class_imbalance", signals=signals([300, 300], calls=9) | {"loop": {"backwards": 0}}).verdict == "ok"
    column, pixels = ({"shape": [32, *more], "min": 0, "max": 2} for more in ([1], [8, 8]))
    assert ask("class_imbalance", signals=signals([1900, 50, 50], target=column)).verdict == "warn"
    found = ask("class_imbalance", signals=signals([1900, 50, 50], target=pixels))
    assert found.verdict == "not observed" and "exactly one class label per sample" in found.observed


def test_the_labels_of_the_data_are_not_those_of_a_contrastive_loss(ask):
    square = {"input": {"shape": [60, 60]}, "target": {"shape": [60], "min": 0, "max": 59}, "classes": 60}
    signals = {"losses": (classifier(**square),), "prints": (epoch([0] * 900 + [1] * 9),)}
    assert ask("class_imbalance", signals=signals).verdict == "not observed"


@in_one_test(
    ("share", "fields", "loss", "verdict"),
    [
        (0.03125, {}, {}, "warn"),
        (0.03125, {"shape": [64, 1]}, {}, "warn"),
        (0.03125, {}, {"weight": True}, "ok"),
        (0.5, {}, {}, "ok"),
        (0.03125, {"shape": [64, 4]}, {}, "not observed"),
        (0.03125, {"zero": 0.2}, {}, "not observed"),
        (0.03125, {}, {"fn": "mse_loss"}, "not observed"),
    ],
)
def test_imbalance_of_binary_targets_in_floating_point(ask, share, fields, loss, verdict):
    recorded = {"shape": [64], "integer": False, "min": 0.0, "max": 1.0, "mean": share, "zero": 1 - share, **fields}
    looked = batches(samples=64, path="target", role="label", **recorded)
    signals = {**looked, "losses": (classifier(**{"fn": "bce_with_logits", **loss}),)}
    found = ask("class_imbalance", signals=signals)
    assert found.verdict == verdict, found
    if verdict == "warn":
        assert found.observed.startswith("2 classes, 3 % to 97 % of ")
    assert "too few labels" not in str(found.observed)


def test_batches_sorted_by_label(ask):
    mixed = list(range(10)) * 64
    random.Random(0).shuffle(mixed)
    assert ask("batches_sorted_by_label", signals={"prints": (epoch(sorted(mixed)),)}).verdict == "fail"
    assert ask("batches_sorted_by_label", signals={"prints": (epoch(mixed),)}).verdict == "ok"


def test_batches_of_few_classes_at_random_are_metric_learning(ask):
    random_, labels = random.Random(1), []
    for _ in range(40):
        labels += [c for c in random_.sample(range(20), 4) for _ in range(8)]
    assert ask("batches_sorted_by_label", signals={"prints": (epoch(labels),)}).verdict == "ok"


def test_shuffled_labels(ask):
    samples = [f"s{i}" for i in range(60)]
    leaf = {"role": "input", "shape": [32, 8]}
    seen = {"batches": ({"step": 1, "phase": "train", "leaves": [leaf]},)}

    def signals(again):
        return {**seen, "prints": tuple(epoch([0, 1] * 30, e, rows=again(e)) for e in (0, 1))}

    random_ = random.Random(2)
    apart = signals(lambda e: [[s, random_.randint(0, 9)] for s in samples])
    assert ask("conflicting_labels", signals=apart).verdict == "fail"
    assert ask("conflicting_labels", signals=signals(lambda e: [[s, i % 10] for i, s in enumerate(samples)])) is None
    tasks = tuple(
        epoch([0, 1] * 30, rows=[[s, i % (2 + 8 * t)] for i, s in enumerate(samples)], loader=t) for t in (0, 1)
    )
    assert ask("conflicting_labels", signals={**seen, "prints": tasks}) is None


def test_classes_only_in_validation(ask):
    def signals(classes, *more):
        held_out = epoch([0, 1, 2, *classes] * 10, phase="eval", loader=1)
        return {"losses": (classifier(),), "prints": (epoch([0, 1, 2] * 50), held_out, *more)}

    assert "1 class only in validation: 7" in ask("new_labels_in_val", signals=signals([7])).observed
    ids = {**signals([7]), "losses": ({"fn": "bce_with_logits", "calls": 50},)}
    assert ask("new_labels_in_val", signals=ids) is None, "a binary loss has no third class: these are ids of items"
    later = {**signals([7]), "losses": (classifier() | {"target": {"shape": [32], "min": 0, "max": 9}},)}
    assert ask("new_labels_in_val", signals=later) is None, "a later phase of the training has these classes"
    assert ask("new_labels_in_val", signals=signals([], epoch([0, 1, 16] * 30, phase="eval", loader=None))) is None


LOADER = {"index": 0, "batch_size": 32, "length": 640, "batches": 20, "shuffle": True, "sampler": "RandomSampler"}


def test_the_same_order_in_each_epoch(ask):
    def signals(**loader):
        return {"prints": tuple({**epoch([0] * 640), "epoch": e} for e in range(3)), "loaders": ({**LOADER, **loader},)}

    assert ask("order_identical_each_epoch", signals=signals()).verdict == "fail"
    assert (
        ask("order_identical_each_epoch", signals=signals(sampler="DistributedSampler", shuffle=False)).verdict
        == "fail"
    )
    assert ask("order_identical_each_epoch", signals=signals(sampler="SequentialSampler", shuffle=False)) is None
    assert ask("order_identical_each_epoch", signals=signals(sampler="ByLength")).verdict == "note"
    anew = {"prints": tuple(epoch([0] * 640, e) for e in range(3)), "loaders": (LOADER,)}
    assert ask("order_identical_each_epoch", signals=anew).verdict == "ok"


def test_samples_in_training_and_validation(ask):
    def signals(*held_out):
        trained = epoch([0] * 640, rows=[[f"t{i}"] for i in range(80)])
        return {
            **batches(zero=0.0),
            "loaders": tuple({"index": i, "t": 5.0 * i} for i in range(1 + len(held_out))),
            "prints": (trained, *(epoch([0] * 64, phase="eval", loader=i + 1, rows=r) for i, r in enumerate(held_out))),
        }

    shared = [[f"t{i}"] for i in range(20)] + [[f"v{i}"] for i in range(20)]
    new = [[f"v{i}"] for i in range(40)]
    assert ask("train_val_overlap", signals=signals(shared)).verdict == "fail"
    assert ask("train_val_overlap", signals=signals(new)).verdict == "ok"
    trained = [[f"t{i}"] for i in range(40)]
    assert ask("train_val_overlap", signals=signals(trained, new)).verdict == "ok"
    assert ask("train_val_overlap", signals=signals(trained, new[:16])).verdict == "ok"
    assert ask("train_val_overlap", signals=signals(shared, new)).verdict == "fail"  # does not measure training
    assert ask("train_val_overlap", signals=signals(shared, shared[:10])).verdict == "fail"
    assert ask("train_val_overlap", signals={**signals(shared), **batches(zero=0.9)}) is None
    seen_in_part = [[f"t{i}"] for i in range(3)] + [[f"u{i}"] for i in range(37)]
    assert ask("train_val_overlap", signals=signals(seen_in_part)).verdict == "fail"
    # The rows before a split of three to one, as `predict(x)` of a net that keeps a part of `x` for its validation.
    lengths = {"loaders": tuple({"index": i, "t": 5.0 * i, "length": n} for i, n in enumerate((120, 160, 40)))}
    undivided = trained[:30] + [[f"w{i}"] for i in range(10)]
    assert ask("train_val_overlap", signals={**signals(undivided, new), **lengths}).verdict == "ok"
    assert ask("train_val_overlap", signals=signals(undivided, new)).verdict == "fail"
    equal_by_chance = [[f"t{i}"] for i in range(2)] + [[f"u{i}"] for i in range(38)]
    assert ask("train_val_overlap", signals=signals(equal_by_chance)).verdict == "ok"


@pytest.mark.parametrize(("equal", "rows", "verdict"), [(0, 320, "fail"), (1, 320, None), (0, 200, None)])
def test_sparse_samples_are_compared_where_no_two_of_an_epoch_look_alike(ask, equal, rows, verdict):
    trained = [[f"t{max(i, equal)}"] for i in range(rows)]
    held_out = epoch([0] * 64, phase="eval", loader=1, rows=trained[10:40])
    prints = (epoch([0] * 640, rows=trained), held_out)
    signals = {**batches(zero=0.8), "loaders": tuple({"index": i, "t": 5.0 * i} for i in range(2)), "prints": prints}
    found = ask("train_val_overlap", signals=signals)
    assert (found and found.verdict) == verdict


@in_one_test("evaluated", [9, 0, 5], ids=["after", "before", "within"])
@in_one_test("unseen", [None, 2])
@in_one_test(("leaks", "verdict"), [(False, "ok"), (True, "fail")])
def test_the_validation_of_one_fold_may_train_the_model_of_another(ask, leaks, verdict, unseen, evaluated):
    """Also where a fold is evaluated before its first step, and where the batches of one were not looked at."""
    rows = [[[f"r{fold}.{n}"] for n in range(24)] for fold in range(3)]
    prints, loaders = [], []
    for fold in range(3):
        trained = [row for other in range(3) if leaks or other != fold for row in rows[other]]
        if fold != unseen:
            prints.append({"loader": 2 * fold, "phase": "train", "rows": trained, "samples": len(trained)})
        prints.append({"loader": 2 * fold + 1, "phase": "eval", "rows": rows[fold]})
        loaders += [{"index": 2 * fold, "t": 10.0 * fold}, {"index": 2 * fold + 1, "t": 10.0 * fold + evaluated}]
    trainings = tuple((10.0 * fold + 1, 10.0 * fold + 8) for fold in range(3))
    signals = {"prints": tuple(prints), "loaders": tuple(loaders), "trainings": trainings, **batches()}
    assert ask("train_val_overlap", signals=signals).verdict == verdict


def test_a_tiny_last_batch_under_batch_norm(ask, make_model):
    signals = {"loaders": ({**LOADER, "length": 641},), "prints": (epoch([0] * 641),)}
    assert ask("batch_size_irregular", signals={**signals, "models": (make_model("BatchNorm1d"),)}).verdict == "note"
    assert ask("batch_size_irregular", signals={**signals, "models": (make_model("Linear"),)}) is None
