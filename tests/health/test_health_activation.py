"""Layers: dead, saturated and collapsed units, order of layers."""

import pytest
from order_of_tests import in_one_test


def looked(make_model, looks, *kinds, root=None, **rows):
    """Signals of a chain of layers; `rows` are the facts of the first layer at every dense step."""
    model = make_model(*kinds)
    tensors = looks(modules=lambda _: [{"i": 0, **(root or {})}, {"i": 1, **rows}, {"i": 2, "mean": 0.0}])
    return {"models": (model,), "tensors": tensors}


CASES = [
    ("dead_relu", {"dead": 0.8, "dead_n": 1024}, {"dead": 0.2, "dead_n": 1024}, "80 % of the units of layer1 (ReLU)"),
    ("saturated_activation", {"sat": 0.9}, {"sat": 0.2}, "90 % of the inputs of layer1 (ReLU) are beyond 5"),
]


@pytest.mark.parametrize(("check", "faulty", "healthy", "words"), CASES, ids=[case[0] for case in CASES])
def test_fires_on_the_fault_only(ask, make_model, looks, check, faulty, healthy, words):
    found = ask(check, signals=looked(make_model, looks, "ReLU", "Linear", **faulty))
    assert found.verdict == "fail" and words in found.observed and found.where["module"] == "layer1"
    assert ask(check, signals=looked(make_model, looks, "ReLU", "Linear", **healthy)).verdict == "ok"
    assert ask(check).verdict == "not observed"


def test_dead_units_need_512_samples(ask, make_model, looks):
    assert ask("dead_relu", signals=looked(make_model, looks, "ReLU", "Linear", dead=0.9, dead_n=128)) is None


@in_one_test(
    ("first_looked", "zero", "layer_max", "initial"),
    [(1, 1.0, 0.5, True), (1, 0.5, 0.5, False), (2, 1.0, -48.0, True), (2, 1.0, 3.0, False), (2, 0.5, -48.0, False)],
)
def test_units_that_begin_dead_are_no_fault_of_the_learning_rate(
    ask, make_model, looks, first_looked, zero, layer_max, initial
):
    def rows(step):
        row = {"fn": "relu", "line": "net.py:8", "dead": 1.0, "dead_n": 2048, "zero": zero if step <= 2 else 1.0}
        return [row] if step >= first_looked else []

    signals = looked(make_model, looks, "Linear", max=layer_max)
    tensors = looks(functions=rows)
    signals["tensors"] = tuple(
        {**one, "functions": f["functions"]} for one, f in zip(signals["tensors"], tensors, strict=True)
    )
    found = ask("dead_relu", signals=signals)
    assert (found.where.get("step") == 1) == initial


@in_one_test(("zero", "dead"), [(1.0, True), (0.999, False), (None, False)])
def test_a_model_that_returns_only_zeros_ends_in_a_dead_relu(ask, make_model, looks, zero, dead):
    found = ask("dead_relu", signals=looked(make_model, looks, "Linear", "Linear", root={"zero": zero}))
    assert (found is not None and "at the end of the model" in str(found.advice)) == dead


def test_dead_units_of_a_function(ask, looks):
    tensors = looks(functions=lambda _: [{"fn": "relu", "line": "net.py:8", "dead": 0.7, "dead_n": 2048}])
    found = ask("dead_relu", signals={"tensors": tuple({**t, "modules": [{"i": 9}]} for t in tensors)})
    assert found.verdict == "fail" and "70 % of the units of relu in net.py:8" in found.observed


@in_one_test(
    ("last", "dead", "verdict"), [(0.03, 0.85, "note"), (0.6, 0.85, "fail"), (0.03, 1.0, "fail"), (None, 0.85, "fail")]
)
def test_dead_units_of_a_model_that_learns_are_a_note(ask, make_model, looks, make_series, last, dead, verdict):
    signals = looked(make_model, looks, "ReLU", "Linear", dead=dead, dead_n=2048)
    series = [make_series("loss", [0.7] * 20 + [last] * 20)] if last is not None else []
    assert ask("dead_relu", *series, signals=signals).verdict == verdict


def test_the_last_activation_may_saturate(ask, make_model, looks):
    assert ask("saturated_activation", signals=looked(make_model, looks, "Sigmoid", sat=0.9)) is None


@in_one_test(
    ("first", "last", "begins", "verdict"),
    [(0.7, 0.03, 0.0, "note"), (0.7, 0.6, 0.0, "fail"), (0.7, 0.03, 0.9, "fail")],
)
def test_units_that_saturate_while_the_loss_falls_are_a_note(
    ask, make_model, looks, make_series, first, last, begins, verdict
):
    signals = looked(make_model, looks, "Sigmoid", "Linear", sat=0.9)
    rows = [
        {**t, "modules": [dict(r, sat=begins) if "sat" in r and t["step"] == 1 else r for r in t["modules"]]}
        for t in signals["tensors"]
    ]
    loss = make_series("loss", [first] * 20 + [last] * 20)
    assert ask("saturated_activation", loss, signals={**signals, "tensors": tuple(rows)}).verdict == verdict


@in_one_test(("across", "verdict"), [(1e-9, "fail"), (0.0, "fail"), (0.4, "ok"), (1e-4, "ok")])
def test_collapsed_outputs(ask, make_model, looks, across, verdict):
    signals = looked(make_model, looks, "Linear", "Linear", root={"across": across}, across=across)
    found = ask("activation_collapse", signals=signals)
    assert found.verdict == verdict
    if verdict == "fail":
        assert found.evidence == ("first collapsed layer in forward order: layer1 (Linear)",)


def test_a_head_may_begin_at_zero(ask, make_model, looks):
    model = make_model("Linear", "Linear")
    tensors = looks(modules=lambda step: [{"i": 0, "across": 0.0 if step <= 2 else 0.5}])
    assert ask("activation_collapse", signals={"models": (model,), "tensors": tensors}).verdict == "ok"


@in_one_test(
    ("shape", "deviation", "target", "verdict"),
    [
        ([32], lambda step: 0.3 / step**2, {}, "warn"),
        ([32, 1], lambda step: 0.3 / step**2, {}, "warn"),
        ([32], lambda step: 0.0, {}, "warn"),
        ([32], lambda step: 0.3, {}, "ok"),
        # A target in large units, towards which the outputs grow.
        ([32], lambda step: 0.001 * step, {"std": 9000.0, "mean": 80000.0}, "ok"),
        # The same where nothing is learnt: the outputs differ as they did.
        ([32], lambda step: 0.06, {"std": 76.0}, "ok"),
        # Its last look comes early: it may still begin.
        ([32], lambda step: 0.3 / step**2 if step <= 40 else None, {"std": 300.0}, "ok"),
        # There is nothing to tell apart.
        ([32], lambda step: 0.0, {"std": 0.0, "mean": 0.0}, "not observed"),
        # Rare positives, none in most batches.
        ([32], lambda step: 0.02, {"std": 0.03, "mean": 0.001}, "ok"),
        ([32, 8], lambda step: 0.0, {}, "not observed"),
    ],
)
def test_one_number_a_sample_is_measured_by_its_targets(ask, make_model, looks, shape, deviation, target, verdict):
    leaf = {"path": "target", "role": "label", "shape": [32], "integer": False, "mean": 0.5, "std": 0.5, **target}
    tensors = looks(modules=lambda step: [{"i": 0, "shape": shape, "std": deviation(step), "mean": 0.1}])
    batches = tuple({"step": t["step"], "phase": "train", "samples": 32, "leaves": [leaf]} for t in tensors)
    signals = {"models": (make_model("Linear"),), "tensors": tensors, "batches": batches}
    found = ask("activation_collapse", signals=signals)
    assert found.verdict == verdict, found


def test_equal_inputs_have_equal_outputs(ask, make_model, looks):
    signals = looked(make_model, looks, "Linear", "Linear", root={"across": 0.0})
    leaf = {"path": "0", "role": "input", "std": 0.0, "shape": [8, 4]}
    signals["batches"] = ({"step": 1, "phase": "train", "leaves": [leaf]},)
    assert ask("activation_collapse", signals=signals).verdict == "ok"


def test_looks_at_equal_inputs_say_nothing_of_the_outputs(ask, make_model, looks):
    signals = looked(make_model, looks, "Linear", "Linear", root={"across": 0.0, "alike": True})
    assert ask("activation_collapse", signals=signals).verdict == "not observed"


@pytest.mark.parametrize(
    ("bn", "verdict"),
    [({"n": 2, "ratio": 1.0}, "warn"), ({"n": 8, "ratio": 1.0}, "ok"), ({"n": 512, "ratio": 0.01}, "warn")],
)
def test_batch_norms(ask, make_model, looks, bn, verdict):
    steps = (1, 2, 50, 100, 150, 200, 300)
    tensors = looks(steps=steps, modules=lambda _: [{"i": 1, "bn": bn}])
    signals = {"models": (make_model("BatchNorm1d"),), "tensors": tensors}
    assert ask("batchnorm_frozen_or_tiny_batch", signals=signals).verdict == verdict


@in_one_test(
    ("momentum", "ratios", "verdict"),
    [
        (0.0005, (13, 1.2, 0.2), "warn"),
        (0.1, (23, 20, 8), "ok"),
        (0.0005, (23, 20, 1.5), "ok"),
        (0.0005, (1, 3, 3), "ok"),
    ],
)
def test_batch_norm_that_keeps_its_initial_statistics(ask, make_model, looks, momentum, ratios, verdict):
    """The running variance is judged by what the momentum leaves of its initial value, where it never fitted."""
    by_step = dict(zip((1, 50, 130), ratios, strict=True))
    tensors = looks(steps=by_step, modules=lambda step: [{"i": 1, "bn": {"n": 512, "ratio": by_step[step]}}])
    model = make_model("BatchNorm1d", options={1: {"momentum": momentum}})
    found = ask("batchnorm_frozen_or_tiny_batch", signals={"models": (model,), "tensors": tensors})
    assert found.verdict == verdict


@in_one_test(("trainable", "verdict"), [(0, "note"), (32, "ok")])
def test_a_frozen_batch_norm_in_training_mode(ask, make_model, looks, trainable, verdict):
    model = make_model("BatchNorm1d")
    model["modules"][-1].update(parameters=32, trainable=trainable)
    tensors = looks(modules=lambda _: [{"i": 1, "bn": {"n": 64, "ratio": 1.0}}])
    assert ask("batchnorm_frozen_or_tiny_batch", signals={"models": (model,), "tensors": tensors}).verdict == verdict


def test_softmax_over_one(ask, looks):
    def signals(size):
        return {"tensors": looks(functions=lambda _: [{"fn": "softmax", "line": "net.py:4", "dim": 1, "size": size}])}

    found = ask("softmax_wrong_axis", signals=signals(1))
    assert found.verdict == "fail" and found.where == {"file": "net.py", "line": 4}
    assert ask("softmax_wrong_axis", signals=signals(10)) is None


@in_one_test(
    ("dim", "rows", "fails"), [(0, 0.0, True), (1, 0.0, False), (0, 1.0, False)], ids=["nodes", "classes", "proper"]
)
def test_log_softmax_over_the_samples(ask, looks, dim, rows, fails):
    row = {"fn": "log_softmax", "line": "net.py:4", "dim": dim, "size": 300, "shape": [300, 4]}
    losses = ({"fn": "nll_loss", "training": True, "calls": 9, "observed": 9, "classes": 4, "logprob_rows": rows},)
    found = ask("softmax_wrong_axis", signals={"tensors": looks(functions=lambda _: [row]), "losses": losses})
    assert (found is not None and found.verdict == "fail") is fails


@in_one_test(
    ("shape", "axis", "last", "verdict"),
    [
        *[([16, 3, 20, 20], -1, "Conv2D", "warn"), ([16, 3, 20, 20], 1, "Conv2D", None)],
        *[([16, 1, 20, 20], -1, "Conv2D", None), ([16, 4, 20, 20], -1, "Linear", None), ([16, 20], -1, "Conv1D", None)],
    ],
)
def test_a_softmax_over_the_width_of_a_picture(ask, make_model, looks, shape, axis, last, verdict):
    model = make_model(last, "Softmax", options={2: {"axis": axis}})
    tensors = looks(modules=lambda _: [{"i": 1, "shape": shape}, {"i": 2, "shape": shape}])
    found = ask("softmax_wrong_axis", signals={"models": (model,), "tensors": tensors})
    assert (found.verdict if found else None) == verdict
    row = {"fn": "softmax", "line": "net.py:4", "dim": axis % len(shape), "size": 20, "shape": shape, "of_output": True}
    tensors = looks(modules=lambda _: [{"i": 1, "shape": shape}], functions=lambda _: [row])
    found = ask("softmax_wrong_axis", signals={"models": (make_model(last),), "tensors": tensors})
    assert (found.verdict if found else None) == verdict


def test_softmax_module_over_one(ask, make_model, looks):
    model = make_model("Linear", "Softmax", options={2: {"dim": 1}})
    tensors = looks(modules=lambda _: [{"i": 2, "shape": [32, 1]}])
    assert ask("softmax_wrong_axis", signals={"models": (model,), "tensors": tensors}).verdict == "fail"


@pytest.mark.parametrize(
    ("middle", "feeds", "verdict"),
    [
        (400, [[1, 2], [2, 3], [1, 3]], "warn"),
        (400, [[1, 3], [1, 4]], "note"),  # another layer reads the wide one, too
        (100, [[1, 3]], "note"),
        (40, [[1, 3]], None),
        (400, [[1, 2], [2, 3]], None),
    ],
)
def test_a_wide_layer_between_linear_ones(ask, make_model, middle, feeds, verdict):
    widths = {1: (100, middle), 3: (middle, 100), 4: (middle, 100)}
    options = {i: {"in_features": a, "out_features": b} for i, (a, b) in widths.items()}
    model = make_model("Linear", "Dropout", "Linear", "Linear", options=options, feeds=feeds)
    answer = ask("missing_nonlinearity", signals={"models": (model,)})
    assert (answer and answer.verdict) == verdict


@pytest.mark.parametrize(
    ("widths", "verdict"),
    [((2, 16, 16, 1), "warn"), ((10, 64, 64, 10), "warn"), ((16, 16, 16, 16), "note"), ((64, 8, 8, 64), "note")],
)
def test_a_chain_of_linear_layers(ask, make_model, widths, verdict):
    options = {i + 1: {"in_features": widths[i], "out_features": widths[i + 1]} for i in range(3)}
    model = make_model("Linear", "Linear", "Linear", options=options, feeds=[[1, 2], [2, 3]])
    assert ask("missing_nonlinearity", signals={"models": (model,)}).verdict == verdict


def test_order_of_layers(ask, make_model):
    wide = {i: {"in_features": 100, "out_features": 100} for i in (1, 2)}
    model = make_model("Linear", "Linear", options=wide, feeds=[[1, 2]])
    assert ask("missing_nonlinearity", signals={"models": (model,)}).verdict == "note"
    block = make_model("ConvBlock", "ConvBlock", options=wide, feeds=[[1, 2]])  # holds an activation of its own
    assert ask("missing_nonlinearity", signals={"models": (block,)}) is None
    low = {1: {"in_features": 100, "out_features": 4}, 2: {"in_features": 4, "out_features": 100}}
    assert (
        ask("missing_nonlinearity", signals={"models": (make_model("Linear", "Linear", options=low, feeds=[[1, 2]]),)})
        is None
    )
    assert (
        ask("double_activation", signals={"models": (make_model("Softmax", "ReLU", feeds=[[1, 2]]),)}).verdict == "note"
    )
    assert ask("double_activation", signals={"models": (make_model("ReLU", "ReLU", feeds=[[1, 2]]),)}) is None


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("Mean", "Log", "Softmax", "View", "Softmax", "Addmm"), True),
        (("NllLoss", "Log", "Softmax", "Softmax"), True),
        (("NllLoss", "LogSoftmax", "Softmax"), False),  # a check of its own
        (("Mean", "Softmax", "Div", "Softmax"), False),  # sharpened
        (("Mean", "LogSoftmax", "LogSoftmax"), False),  # rows and columns in turn
    ],
)
def test_a_softmax_of_a_softmax_in_the_graph(ask, make_model, names, found):
    rows = [[name, [at + 1] if at + 1 < len(names) else [], None] for at, name in enumerate(names)]
    answer = ask("double_activation", signals={"models": (make_model("Linear"),), "graphs": ({"operations": rows},)})
    assert (answer is not None) is found
    mixed = make_model("Dropout", "BatchNorm1d", options={1: {"p": 0.2}}, feeds=[[1, 2]])
    assert ask("dropout_before_norm", signals={"models": (mixed,)}).verdict == "note"
    assert (
        ask("dropout_too_high", signals={"models": (make_model("Dropout", options={1: {"p": 0.8}}),)}).verdict == "note"
    )
    assert ask("dropout_too_high", signals={"models": (make_model("Dropout", options={1: {"p": 0.5}}),)}) is None
    one = make_model("Linear", "Dropout", "Linear", options={2: {"p": 0.2}})
    one["modules"][2]["input"] = [{"shape": [32, 1]}]
    assert "one value a sample" in ask("dropout_too_high", signals={"models": (one,)}).observed
    one["modules"][2]["input"] = [{"shape": [32, 1, 8]}]
    assert ask("dropout_too_high", signals={"models": (one,)}) is None
    most = {"models": (make_model("Dropout", options={1: {"p": 0.9}}),)}
    assert ask("dropout_too_high", signals=most).verdict == "warn"


def test_old_spectral_norm(ask, make_model):
    early = make_model("Conv2d", spectral_eval_first=["layer1"])
    assert ask("spectral_norm_uninitialised", signals={"models": (early,)}).verdict == "fail"
    assert ask("spectral_norm_uninitialised", signals={"models": (make_model("Conv2d"),)}) is None


@in_one_test(
    ("form", "dim", "of_output", "labels", "found"),
    [
        ([45, 10], 0, True, [], True),
        ([45, 10], 1, True, [], False),
        ([45, 45], 0, True, [], False),  # similarities, compared along both axes
        ([45, 1], 0, True, [], False),  # a score for each sample: listwise ranking
        ([45, 10], 0, False, [], False),
        ([30, 10], 0, True, [], False),  # 30 parts of 45 samples
        ([45, 12, 12], 0, False, [], True),  # scores of an attention
        ([45, 4, 12, 12], 3, False, [], False),
        ([45, 12, 8], 0, False, [], False),
        ([45, 12, 1], 0, False, [45], True),  # weights of a pooling over positions
        ([45, 12, 1], 0, False, [1], False),  # the instances of one bag
        ([12, 45, 1], 0, False, [45], False),  # the first axis is time
        ([30, 12, 12], 0, False, [], False),
    ],
)
def test_a_softmax_of_the_output_over_the_batch(ask, form, dim, of_output, labels, found):
    row = {"fn": "softmax", "line": "a.py:3", "shape": form, "dim": dim, "size": form[dim], "of_output": of_output}
    signals = {
        "tensors": [{"step": step, "model": 0, "modules": [{"i": 0}], "functions": [row]} for step in (1, 2, 3)],
        "batches": [{"step": step, "phase": "train", "samples": 45} for step in (1, 2, 3)],
        "models": [{"model": 0, "modules": [{"i": 0, "name": "", "type": "Net", "options": {}}], "parameters": []}],
        "losses": [{"fn": "cross_entropy", "training": True, "target": {"shape": labels}}],
    }
    answer = ask("softmax_wrong_axis", signals=signals, framework="paddle")
    assert (answer is not None and answer.verdict == "warn") == found


def test_autocast_that_a_cpu_ignores_is_no_more_than_noted(ask):
    signals = {
        "loop": {"cast_ignored": {"level": "O1", "dtype": "bfloat16"}},
        "tensors": [{"step": 1, "modules": [{}]}],
    }
    assert ask("autocast_ineffective", signals=signals, framework="paddle").verdict == "note"
