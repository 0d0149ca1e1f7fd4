"""Numbers that are not finite, out of range or in the wrong precision."""

import math

import pytest
from order_of_tests import in_one_test

NAN = math.nan


def loss_call(**fields):
    recorded = {"fn": "cross_entropy", "line": "t.py:7", "training": True, "calls": 50, "observed": 20, "classes": 10}
    return {"losses": ({**recorded, "reduction": "mean", "step": 1, "value_first": 2.3, "value_last": 1.0, **fields},)}


def batch(**leaf):
    recorded = {
        "path": "0",
        "role": "input",
        "shape": [32, 8],
        "dtype": "float32",
        "bad": 0,
        "nan": 0,
        "mean": 0.0,
        "std": 1.0,
    }
    return {"batches": ({"step": 3, "phase": "train", "samples": 32, "leaves": [{**recorded, **leaf}]},)}


FLIGHT = {
    "step": 7, "trigger": "loss", "finding": "forward", "module": {"name": "block.2", "type": "LayerNorm"}, "op": "log",
    "file": "model.py", "line": 31, "function": "forward", "source": "h = torch.log(h)", "value": "nan",
    "batch": {"indices": [4, 9, 12]}, "recent": [{"step": i, "grad_norm": float(i)} for i in range(1, 7)],
}  # fmt: skip


def test_the_flight_recorder_names_module_line_and_samples(ask, make_series):
    loss = make_series("loss", [1.0] * 6 + [NAN] * 4)
    found = ask("loss_nonfinite", loss, signals={"flight": FLIGHT})
    assert found.verdict == "fail" and found.observed == "4 of 10 values not finite, first in step 7"
    recorded = " ".join(found.evidence)
    assert "step 7: produced by log in the forward pass of block.2 (LayerNorm)" in recorded
    assert "at model.py:31: h = torch.log(h)" in recorded and "samples of that batch: 4, 9, 12" in recorded
    assert found.where["line"] == 31 and found.where["module"] == "block.2"


@in_one_test(
    ("name", "written", "verdict"),
    [
        ("loss", [0.7, 0.4, NAN], "fail"),  # the program left its loop before the backward pass
        ("objective", [0.7, 0.4, NAN], "fail"),
        ("train_loss", [0.7, -math.inf], "fail"),
        ("loss", [NAN, 0.7, 0.4], "ok"),
        ("val_loss", [NAN, NAN], "ok"),  # the mean of no batch
        ("accuracy", [0.7, NAN], "ok"),
    ],
)
def test_the_last_loss_that_a_program_writes_is_finite(ask, make_series, name, written, verdict):
    seen = make_series("loss", [0.7, 0.4])
    found = ask("loss_nonfinite", seen, printed=(make_series(name, written, source="text"),))
    assert found.verdict == verdict
    assert (
        verdict == "ok"
        or found.observed
        == f"the last {name} that the program wrote is {'-infinity' if name == 'train_loss' else 'NaN'}"
    )


MADE = {"op": "Log", "nan": 0, "inf": 3, "of": 64, "low": 0.0, "high": 0.9999999, "zeros": None, "exponent": None}
MADE |= {"then": {"op": "Mul", "nan": 2}}
LINES = [
    {"op": op, "file": "model.py", "line": line, "source": f"a = {op}(b)"} for op, line in (("Log", 4), ("P_norm", 5))
]


@in_one_test(
    ("made", "recorded"),
    [
        (
            MADE,
            "log returned 3 infinite of 64 values, arguments from 0 to 0.9999999; mul turned the infinities into NaN",
        ),
        (
            MADE | {"op": "Pow", "exponent": 1.5, "nan": 9, "then": None},
            "pow by 1.5 returned 9 NaN and 3 infinite of 64",
        ),
        (MADE | {"op": "Div", "zeros": 2}, "div divided by 0 (2 of its divisors)"),
        (MADE | {"op": "Sub", "given": True}, "sub received a non-finite value from an argument without a"),
        (MADE | {"op": "Mean"}, "mean of an empty tensor"),
        (MADE | {"op": "NllLoss2D"}, "cross entropy (nll_loss) over no label"),
    ],
)
def test_the_operation_of_a_loss_is_told_with_its_numbers(ask, make_series, made, recorded):
    flight = FLIGHT | {"finding": "loss expression", "module": None, "made": made, "may": []}
    found = ask("loss_nonfinite", make_series("loss", [1.0, NAN]), signals={"flight": flight})
    assert found.observed.startswith(f"1 of 2 values not finite, first in step 2: {recorded}")
    assert found.where["line"] == 31


def test_operations_that_may_have_made_it_are_told_with_their_lines(ask, make_series):
    flight = FLIGHT | {"finding": "loss expression", "module": None, "made": None, "may": LINES[:1]}
    loss = make_series("loss", [1.0, NAN])
    (*_, one) = ask("loss_nonfinite", loss, signals={"flight": flight}).evidence[:2]
    assert one == "log is the only operation of the loss that can turn finite values into non-finite ones"
    found = ask("loss_nonfinite", loss, signals={"flight": flight | {"may": LINES, "trigger": "gradient"}})
    assert found.evidence[1:4] == (
        "operations of the loss whose derivative can be infinite: log, p_norm",
        "at model.py:4: a = Log(b)",
        "at model.py:5: a = P_norm(b)",
    )


def test_the_module_that_bears_a_nan(ask, make_model, looks):
    def rows(bad_from):
        return lambda step: [
            {"i": i, "bad": 5 * (step >= bad_from and i >= 2), "nan": 5 * (step >= bad_from and i >= 2),
             "in_bad": 5 * (step >= bad_from and i > 2)}
            for i in (1, 2, 3)
        ]  # fmt: skip

    model = make_model("Linear", "LayerNorm", "Linear")
    found = ask("nonfinite_activation", signals={"models": (model,), "tensors": looks(modules=rows(20))})
    assert found.verdict == "fail" and "layer2 (LayerNorm) in step 20, with finite inputs" in found.observed
    assert (
        ask("nonfinite_activation", signals={"models": (model,), "tensors": looks(modules=rows(999))}).verdict == "ok"
    )
    assert ask("nonfinite_activation").verdict == "not observed"


def test_infinities_of_a_mask_are_no_nan(ask, make_model, looks):
    tensors = looks(modules=lambda step: [{"i": 1, "bad": 9, "nan": 0, "in_bad": 0}])
    assert ask("nonfinite_activation", signals={"models": (make_model("Linear"),), "tensors": tensors}).verdict == "ok"


def test_inputs(ask, make_series):
    poisoned = batch(bad=3, nan=3)
    found = ask("nonfinite_input", make_series("loss", [1.0, NAN]), signals=poisoned)
    assert found.verdict == "fail" and "3 NaN in the inputs of step 3" in found.observed
    assert ask("nonfinite_input", make_series("loss", [1.0, 0.5]), signals=poisoned).verdict == "note"
    assert ask("nonfinite_input", make_series("loss", [1.0, 0.5]), signals=batch()).verdict == "ok"
    assert ask("nonfinite_input").verdict == "not observed"


def test_the_flight_recorder_tells_a_bad_batch_that_was_not_looked_at(ask, make_series):
    leaf = {"path": "0", "role": "input", "shape": [64, 8], "bad": 8, "nan": True}
    flight = {"step": 18, "finding": "bad batch", "value": "nan", "batch": {"leaves": [leaf], "indices": [3, 5]}}
    found = ask("nonfinite_input", make_series("loss", [1.0, NAN]), signals={**batch(), "flight": flight})
    assert found.verdict == "fail" and found.observed == "NaN in the inputs of step 18 (8 values)"
    assert found.where == {"step": 18} and "samples of that batch: 3, 5" in found.evidence


@in_one_test(
    ("fields", "value"),
    [
        ({"value": "nan"}, "NaN"),
        ({"value": "inf"}, "infinity"),
        ({"value": "-inf"}, "-infinity"),
        ({"value": "nan", "trigger": "parameter"}, "a non-finite value"),
        ({}, "a non-finite value"),
    ],
)
def test_the_first_value_is_told_as_it_was(ask, make_series, fields, value):
    flight = {"step": 18, "trigger": "loss", "finding": "forward", "module": {"name": "a", "type": "Linear"}, **fields}
    found = ask("nonfinite_activation", signals={"flight": flight, "tensors": ({"step": 1, "modules": [{"i": 0}]},)})
    assert found.observed.lower().startswith(f"{value} appears first in the output of".lower())
    leaf = {"path": "0", "role": "input", "bad": 8, "nan": False}
    flight |= {"finding": "bad batch", "batch": {"leaves": [leaf]}}
    recorded = "a non-finite value" if value == "NaN" else value
    found = ask("nonfinite_input", signals={**batch(), "flight": flight})
    assert found.observed.lower().startswith(f"{recorded} in the inputs of step 18")


def test_what_comes_after_the_first_bad_step_was_not_born_there(ask, make_model, looks):
    rows = looks(modules=lambda step: [{"i": 1, "nan": 9 if step > 12 else 0, "bad": 9, "in_bad": 0, "shape": [4]}])
    signals = {"models": (make_model("Linear"),), "tensors": rows}
    assert ask("nonfinite_activation", signals=signals).verdict == "fail"
    assert ask("nonfinite_activation", signals={**signals, "flight": {"step": 15}}).verdict == "ok"


def test_parameters(ask, make_model, looks):
    model = make_model("Linear", "Linear")

    def rows(step):
        return [{"i": 0, "w": 1.0, "bad": 0}, {"i": 1, "w": NAN if step > 8 else 1.0, "bad": int(step > 8)}]

    found = ask("nonfinite_parameter", signals={"models": (model,), "tensors": looks(params=rows)})
    assert found.verdict == "fail" and found.where == {"step": 12, "parameter": "layer2.weight"}
    fine = looks(params=lambda step: [{"i": 0, "w": 1.0, "bad": 0}])
    assert ask("nonfinite_parameter", signals={"models": (model,), "tensors": fine}).verdict == "ok"


@pytest.mark.parametrize(("bad", "verdicts"), [(0, ("ok", "note")), (9, ("fail", "warn"))])
def test_a_norm_that_overflows_is_not_a_weight_or_gradient_that_is_not_finite(
    ask, make_model, make_series, looks, bad, verdicts
):
    """The norm of weights of 1e20 is infinite in float32."""
    rows = looks(params=lambda step: [{"i": 0, "w": math.inf, "bad": bad, "g": math.inf, "g_bad": bad}])
    signals = {"models": (make_model("Linear"),), "tensors": rows}
    norm = make_series("grad_norm", [1.0, math.inf, 9.0])
    found = (ask("nonfinite_parameter", signals=signals), ask("nonfinite_gradient", norm, signals=signals))
    assert tuple(one.verdict for one in found) == verdicts


def test_a_logger_that_hides_nan(ask, make_series):
    loss = make_series("loss", [1.0] * 20 + [NAN] * 40)
    assert (
        ask("nan_hidden_by_logger", loss, make_series("train/loss", [1.0, 0.9, 0.8] * 20, "tensorboard")).verdict
        == "fail"
    )
    assert ask("nan_hidden_by_logger", loss, make_series("train/loss", [1.0] * 20 + [NAN] * 40, "tensorboard")) is None
    assert ask("nan_hidden_by_logger", loss, make_series("val_loss", [1.0, 0.9, 0.8] * 20, "tensorboard")) is None


@in_one_test(
    ("fields", "values", "verdict"),
    [
        ({"fn": "binary_cross_entropy", "negative": 4, "value_min": -3.0}, [1.0] * 9, "fail"),
        ({"fn": "cross_entropy", "value_first": 2.3}, [-2.3 - i for i in range(9)], "fail"),
        ({"fn": "cross_entropy", "value_first": 2.3}, [2.3] * 9, "ok"),
        ({"fn": "mse_loss", "value_first": 2.3}, [-5.0 - i for i in range(9)], "ok"),
        ({"fn": "gaussian_nll", "negative": 9, "value_min": -3.0}, [-3.0] * 9, "ok"),
    ],
)
def test_range_of_the_loss(ask, make_series, fields, values, verdict):
    assert ask("loss_negative", make_series("loss", values), signals=loss_call(**fields)).verdict == verdict


@in_one_test(
    ("names", "lowest", "fails"),
    [
        (("Rsub", "Div"), -3.0, True),
        (("Mean", "Rsub", "Mean", "Div"), -3.0, True),
        (("Rsub", "Div"), -1e-6, False),
        (("Div", "Rsub"), -3.0, False),
        (("Rsub", "Sum", "Div"), -3.0, False),
    ],
)
def test_a_loss_of_one_minus_a_ratio_is_not_negative(ask, make_series, names, lowest, fails):
    """A chain of operations from the loss backwards; a sum of ratios may be above 1."""
    operations = [[name, [at + 1], None] for at, name in enumerate([*names, "Sigmoid"])]
    found = ask(
        "loss_negative", make_series("loss", [0.5, 0.1, lowest]), signals={"graphs": ({"operations": operations},)}
    )
    assert (found is not None and found.verdict == "fail") is fails


@in_one_test(
    ("fields", "verdict"),
    [
        ({"all_ignored": 20}, "fail"),
        ({"all_ignored": 6}, "warn"),
        ({"classes": 1}, "fail"),
        ({}, "ok"),
        ({"all_ignored": 1}, "ok"),
    ],
)
def test_nothing_to_compare(ask, fields, verdict):
    found = ask("loss_exactly_zero", signals=loss_call(**fields))
    assert found.verdict == verdict
    assert ("BCEWithLogitsLoss" in str(found.advice)) == ("classes" in fields)


def test_batches_of_an_evaluation_without_a_label(ask):
    (trained,) = loss_call()["losses"]
    held_out = {**trained, "training": False, "observed": 10, "all_ignored": 5}
    found = ask("loss_exactly_zero", signals={"losses": (held_out, trained)})
    assert found.verdict == "warn" and "in evaluation" in str(found.observed)
    assert ask("loss_exactly_zero", signals={"losses": ({**held_out, "all_ignored": 1}, trained)}).verdict == "ok"


def test_half_precision(ask, make_model, looks):
    def signals(dtype, top, cast=None):
        tensors = looks(modules=lambda _: [{"i": 1, "dtype": dtype, "max": top, "min": 0.0, "cast": cast}])
        return {"models": (make_model("Linear"),), "tensors": tensors}

    assert ask("fp16_range_pressure", signals=signals("float16", 5e4)).verdict == "note"
    assert ask("fp16_range_pressure", signals=signals("bfloat16", 5e4)) is None
    assert ask("autocast_ineffective", signals=signals("float32", 1.0, "float16")).verdict == "fail"
    assert ask("autocast_ineffective", signals=signals("bfloat16", 1.0, "bfloat16")).verdict == "ok"
    assert ask("autocast_ineffective", signals=signals("float32", 1.0)) is None


@pytest.mark.parametrize(
    ("scales", "verdict"),
    [([2.0**i for i in range(16, -1, -1)], "warn"), ([1.0] * 50, "ok"), ([65536.0, 32768.0, 65536.0], "ok")],
)
def test_scaler(ask, make_series, scales, verdict):
    assert ask("amp_scale_collapse", make_series("grad_scale", scales)).verdict == verdict


def test_clipping_with_the_factor_of_the_scaler(ask):
    def loop(scaled, **scaler):
        return {"loop": {"clip": {"calls": 100, "scaled": scaled, "limit": 1.0}, "scaler": scaler}}

    found = ask("clip_before_unscale", signals=loop(100, scale_last=65536.0))
    assert found.verdict == "fail" and "65536 times" in found.evidence[0]
    assert ask("clip_before_unscale", signals=loop(1, scale_last=65536.0)).verdict == "ok"
    assert ask("clip_before_unscale", signals=loop(0)) is None


@in_one_test(("eps", "deviation", "verdict"), [(10.0, 0.3, "warn"), (1e-5, 0.3, None), (0.1, 0.98, None)])
def test_an_eps_above_the_variance_of_the_inputs(ask, make_model, looks, eps, deviation, verdict):
    model = make_model("LayerNorm", options={1: {"eps": eps}})
    tensors = looks(
        modules=lambda _: [{"i": 1, "training": True, "std": deviation}],
        params=lambda _: [{"i": 0, "w": 4.0, "g": 1.0}],
    )
    found = ask("norm_eps_dominates", signals={"models": (model,), "tensors": tensors})
    assert (found and found.verdict) == verdict


@in_one_test(
    ("kind", "deviation", "variance", "weight", "verdict"),
    [
        ("Norm", 0.1, 0.5, 4.0, "warn"),
        ("Norm", 0.1, 0.001, 4.0, None),  # a small input, beside which the usual eps counts
        ("Norm", 0.1, 0.5, 0.0, None),  # begins at 0 on purpose
        ("Norm", 0.98, 0.5, 4.0, None),
        ("BatchNorm", 0.1, 0.5, 4.0, None),
    ],
)
def test_an_eps_of_the_program_that_shrinks(ask, make_model, looks, kind, deviation, variance, weight, verdict):
    model = make_model("Linear", kind)
    model["modules"][2]["package"] = ""
    model["parameters"][0] |= {"name": "layer2.gain", "shape": [16]}
    row = {"i": 2, "training": True, "mean": 0.0, "std": deviation, "row_var": variance, "shape": [8, 16]}
    tensors = looks(modules=lambda _: [row], params=lambda _: [{"i": 0, "w": weight, "g": 1.0}])
    found = ask("norm_output_wrong", signals={"models": (model,), "tensors": tensors})
    assert (found and found.verdict) == verdict


@in_one_test(("kind", "width", "verdict"), [("LayerNorm", 1, "warn"), ("LayerNorm", 2, None), ("BatchNorm1d", 1, None)])
def test_a_normalisation_over_one_value(ask, make_model, looks, kind, width, verdict):
    model = make_model("Linear", kind)
    model["modules"][2]["package"] = "torch"
    model["parameters"][0] |= {"name": "layer2.weight", "shape": [width]}
    tensors = looks(
        modules=lambda _: [{"i": 2, "training": True, "mean": 0.0, "std": 0.0}],
        params=lambda _: [{"i": 0, "w": 1.0, "g": 0.0}],
    )
    found = ask("norm_output_wrong", signals={"models": (model,), "tensors": tensors})
    assert (found and found.verdict) == verdict


@in_one_test(
    ("kind", "package", "mean", "weight", "verdict"),
    [
        ("LayerNorm", "", 1.4, 4.0, "warn"),
        ("LayerNorm", "", 0.0, 4.0, None),
        ("LayerNorm", "", 1.4, 9.0, None),  # trained, or made with larger weights
        ("LayerNorm", "torch", 1.4, 4.0, None),
        ("BatchNorm", "", 1.4, 4.0, None),
    ],
)
def test_a_normalisation_of_the_program_that_shifts(ask, make_model, looks, kind, package, mean, weight, verdict):
    model = make_model("Linear", kind)
    model["modules"][2]["package"] = package
    model["parameters"][0] |= {"name": "layer2.gain", "shape": [16]}
    tensors = looks(
        modules=lambda _: [{"i": 2, "training": True, "mean": mean, "std": 1.0}],
        params=lambda _: [{"i": 0, "w": weight, "g": 1.0}],
    )
    found = ask("norm_output_wrong", signals={"models": (model,), "tensors": tensors})
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(("last", "first"), [(0.7, "nonfinite_gradient"), (math.nan, "loss_nonfinite")])
def test_a_loss_that_was_only_written_explains_no_gradient(rows_of, make_run, make_series, last, first):
    measured = [make_series("loss", [0.7, 0.7, 0.7, last]), make_series("grad_norm", [0.5, 0.5, 0.5, math.nan])]
    rows = rows_of(make_run(*measured, make_series("train_loss", [0.7, math.nan], "console")))
    other = {"loss_nonfinite", "nonfinite_gradient"} - {first}
    assert rows[first].verdict == "fail" and rows[other.pop()].explained_by == first
