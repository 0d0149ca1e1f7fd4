"""Gradients and wiring: each check fires on its fault, stays silent on the healthy twin, and says what it lacks."""

import math

import pytest
from order_of_tests import in_one_test

LOOP = {"steps": 100, "backwards": 100, "optimizers": 1, "trainable_n": 6, "never_grad": [], "outside": []}


def loop(**fields):
    return {"loop": {**LOOP, **fields}}


CUT = {"op": "detach", "file": "train.py", "line": 12, "function": "forward", "source": "h = h.detach()"}

CASES = [
    (
        "grad_not_cleared",
        loop(cleared={"0": {"checked": 99, "not_cleared": 99, "streak": 99, "largest": 31.5}}),
        loop(cleared={"0": {"checked": 99, "not_cleared": 2, "streak": 1, "largest": 0.1}}),
        "in 99 of 99 steps, norm up to 31.5",
    ),
    (
        "step_with_no_gradient",
        loop(steps_without_gradient={"0": {"none": 100, "zero": 0, "streak": 100}}),
        loop(steps_without_gradient={"0": {"none": 2, "zero": 1, "streak": 1}}),
        "no gradient in 100 of 100 steps",
    ),
    (
        "step_with_no_gradient",  # Short steps: a part of them is looked at.
        loop(steps=400, steps_without_gradient={"0": {"checked": 194, "none": 194, "zero": 0, "streak": 194}}),
        loop(steps=400, steps_without_gradient={"0": {"checked": 194, "none": 9, "zero": 0, "streak": 9}}),
        "no gradient in 194 of 194 steps",
    ),
    (
        "param_never_gets_grad",
        loop(never_grad=["a.weight"], never_grad_n=1, never_called=[]) | {"graphs": ({"cut": CUT},)},
        loop(),
        "1 of 6 parameters never got a gradient",
    ),
    (
        "detached_graph",
        {"graphs": ({"step": 1, "reachable": 0, "unreachable": ["a.w"], "unreachable_n": 1, "cut": CUT},)},
        {"graphs": ({"step": 1, "reachable": 6, "unreachable": [], "cut": CUT},)},
        "reaches none of 1 parameters",
    ),
    (
        "detached_graph",
        loop(steps_without_gradient={"0": {"none": 9}})
        | {"graphs": ({"step": 2, "reachable": 0, "held": 4, "cut": CUT},)},
        loop(steps_without_gradient={"0": {"none": 2}}) | {"graphs": ({"step": 2, "reachable": 0, "held": 4},)},
        "backward was called on a loss without a graph",
    ),
    (
        "grad_param_not_in_optimizer",
        loop(outside=["head.weight"], outside_n=1),
        loop(),
        "1 parameter gets gradients that no optimizer uses",
    ),
    (
        "optimizer_params_stale",
        loop(stale={"0": {"tensors": 4, "held": 4, "elements": 100}}),
        loop(),
        "4 of 4 parameters in the optimizer",
    ),
    (
        "unregistered_parameters",
        {"graphs": ({"foreign": [{"shape": [3, 4], "parameter": True}]},), "optimizers": ({"index": 0},)},
        {"graphs": ({"foreign": [{"shape": [3, 4], "parameter": False}]},), "optimizers": ({"index": 0},)},
        "1 parameter gets gradients but is in no module",
    ),
    (
        "step_changed_nothing",
        loop(unchanged={"0": {"checked": 20, "unchanged": 20, "streak": 20}}),
        loop(unchanged={"0": {"checked": 20, "unchanged": 1, "streak": 1}}),
        "no parameter changed in 20 of 20 steps",
    ),
    (
        "partial_state_load",
        {"loaded": ({"what": "model", "keys": 10, "matched": 0, "missing": ["a"], "missing_n": 10, "line": "t.py:3"},)},
        {"loaded": ({"what": "model", "keys": 10, "matched": 10, "missing_n": 0},)},
        "0 of 10 keys matched",
    ),
    (
        "best_checkpoint_alias",
        {"loaded": ({"what": "model", "step": 50, "alias": True, "line": "t.py:9"},)},
        {"loaded": ({"what": "model", "step": 50, "alias": False, "line": "t.py:9"},)},
        "loaded after step 50",
    ),
]


@in_one_test(("check", "faulty", "healthy", "words"), CASES, ids=[case[0] for case in CASES])
def test_fires_on_the_fault_only(ask, check, faulty, healthy, words):
    found = ask(check, signals=faulty)
    assert found.verdict == "fail" and words in found.observed
    twin = ask(check, signals=healthy)
    assert twin is None or twin.verdict in ("ok", "note")
    missing = ask(check)
    assert missing is None or (missing.verdict == "not observed" and ": " in missing.observed)
    assert missing is not None or check in ("partial_state_load", "best_checkpoint_alias")


@in_one_test(("steps", "fires"), [([50], True), ([50, 300, 310], True), ([100, 200, 300], False)])
def test_weights_that_are_synchronised_at_an_interval_are_not_the_best_ones(ask, steps, fires):
    loaded = tuple({"what": "model", "step": step, "alias": True, "line": "t.py:9"} for step in steps)
    assert (ask("best_checkpoint_alias", signals={"loaded": loaded}) is not None) is fires


@in_one_test(("trains", "idle", "fires"), [(0, 0, False), (4, 0, True), (0, 90, True)])
def test_an_optimizer_of_master_weights(ask, trains, idle, fires):
    counts = {"outside": list("abcd"), "outside_n": 4, "trainable_n": 4, "elements": 641, "optimizers": 1}
    cleared = {"0": {"checked": 60, "not_cleared": 60, "streak": 60}}
    empty = {"0": {"none": idle, "zero": 0}}
    signals = loop(**counts, steps=100, cleared=cleared, steps_without_gradient=empty)
    signals["optimizers"] = ({"index": 0, "type": "AdamW", "trains": trains, "tensors": 4, "parameters": 641},)
    for check in ("grad_param_not_in_optimizer", "grad_not_cleared"):
        assert (ask(check, signals=signals).verdict == "fail") is fires, check
    # Without an optimizer, as where Keras applies gradients itself, nothing holds copies.
    by_hand = {**signals, "loop": {**signals["loop"], "optimizers": 0}}
    assert ask("grad_not_cleared", signals=by_hand).verdict == "fail"


@in_one_test(("kind", "still", "verdict"), [("LBFGS", 4, "ok"), ("LBFGS", 7, "fail"), ("SGD", 4, "fail")])
def test_steps_after_the_end_of_lbfgs(ask, kind, still, verdict):
    signals = loop(unchanged={"0": {"checked": 7, "unchanged": still, "streak": still}})
    signals["optimizers"] = ({"index": 0, "type": kind},)
    assert ask("step_changed_nothing", signals=signals).verdict == verdict


def test_matrices_that_stand_still_are_not_told_as_changes_by_nothing(ask):
    weights = [{"i": n, "name": f"{n}.weight", "shape": [4, 4], "trainable": True, "module": 0} for n in (0, 1)]
    looks = [[{"i": 0, "ratio": ratio, "g": 0.5}, {"i": 1, "ratio": 0}] for ratio in (0.1, 0, 0)]  # one has no gradient
    model = {"model": 0, "modules": [{"i": 0, "type": "Linear"}], "parameters": weights}
    tensors = tuple({"model": 0, "step": n, "params": params} for n, params in enumerate(looks))
    signals = loop(unchanged={"0": {"checked": 3, "unchanged": 0}}) | {"models": (model,), "tensors": tensors}
    found = ask("step_changed_nothing", signals=signals)
    assert found.observed.endswith("rate above 0; 67 % of the inspected matrices did not change")


def test_a_cut_is_told_with_its_line(ask):
    signals = loop(never_grad=["enc.weight", "enc.bias"], never_grad_n=2) | {"graphs": ({"cut": CUT},)}
    found = ask("param_never_gets_grad", signals=signals)
    assert "detach at train.py:12: h = h.detach()" in found.evidence[1]
    assert found.where == {
        "parameter": "enc.weight",
        "file": "train.py",
        "line": 12,
        "function": "forward",
        "source": "h = h.detach()",
    }


def test_frozen_parameters_are_not_behind_a_cut(ask):
    signals = loop(steps_without_gradient={"0": {"none": 9}}) | {"graphs": ({"step": 2, "reachable": 0, "held": 0},)}
    assert ask("detached_graph", signals=signals) is None


@pytest.mark.parametrize(
    ("trainable", "words"), [(120, "all 2 parameters"), (220, "all 2 parameters that were followed, of 6")]
)
def test_parameters_of_an_optimizer_that_belong_to_no_model_are_not_counted_as_seen(ask, trainable, words):
    counts = loop(trainable_n=2, never_grad=[], elements=130, frozen=10)
    signals = {**counts, "optimizers": ({"index": 0, "tensors": 6, "trainable": trainable},)}
    found = ask("param_never_gets_grad", signals=signals).observed
    assert found.startswith(words) and ("followed" in found) == ("followed" in words)
    two = {**counts, "optimizers": (*signals["optimizers"], {"index": 1, "tensors": 2, "trainable": 120})}
    assert ("all of them" in ask("param_never_gets_grad", signals=two).observed) == (trainable > 120)
    turns = tuple({"index": n, "trains": n, "tensors": 2, "trainable": 60} for n in (0, 1))  # frozen in turn
    assert ask("param_never_gets_grad", signals={**counts, "optimizers": turns}).observed == "all of them"


def test_a_spare_module_is_no_failure(ask):
    spare = loop(never_grad=["pooler.weight"], never_called=["pooler.weight"], never_grad_n=1, trainable_n=100)
    assert ask("param_never_gets_grad", signals=spare).verdict == "note"


@pytest.mark.parametrize(
    ("package", "of", "verdict"),
    [("transformers", 100, "note"), ("transformers", 5, "fail"), ("", 100, "fail"), ("torch", 100, "fail")],
)
def test_an_output_that_a_librarys_model_has_to_spare_is_no_failure(ask, package, of, verdict):
    """The pooler of an encoder runs although the program averages the tokens; a user's own layer is cut off."""
    modules = [
        {"i": 0, "name": "", "type": "Net", "package": ""},
        {"i": 1, "name": "pooler", "type": "Pooler", "package": package},
        {"i": 2, "name": "pooler.dense", "type": "Linear", "package": "torch"},
    ]
    signals = loop(never_grad=["pooler.dense.weight"], never_grad_n=1, trainable_n=of) | {
        "models": ({"model": 0, "modules": modules, "parameters": []},)
    }
    assert ask("param_never_gets_grad", signals=signals).verdict == verdict


@pytest.mark.parametrize(("package", "verdict"), [("smp", "note"), ("", "warn"), ("torch", "warn")])
def test_a_stage_that_a_librarys_model_leaves_out_is_no_finding(ask, package, verdict):
    """Whoever leaves a stage out decides: an encoder of a library, or a class that forgets its backbone."""
    modules = [
        {"i": 0, "name": "", "type": "Net", "package": "", "order": 9},
        {"i": 1, "name": "encoder", "type": "Encoder", "package": package, "order": 8},
        {"i": 2, "name": "encoder.layer4", "type": "Stage", "package": "torchvision"},
        {"i": 3, "name": "encoder.layer4.conv", "type": "Conv2d", "package": "torch"},
    ]
    name = "encoder.layer4.conv.weight"
    signals = loop(never_grad=[name], never_called=[name], never_grad_n=1, trainable_n=3) | {
        "models": ({"model": 0, "modules": modules, "parameters": []},)
    }
    assert ask("param_never_gets_grad", signals=signals).verdict == verdict


def test_a_satisfied_hinge_has_no_gradient(ask, make_series):
    signals = loop(steps_without_gradient={"0": {"none": 0, "zero": 80, "streak": 60}})
    hinge = make_series("loss", [1.0] * 20 + [0.0] * 80)
    assert ask("step_with_no_gradient", hinge, signals=signals).verdict == "ok"
    norm = make_series("grad_norm", [1.0] * 20 + [0.0] * 80)
    assert ask("gradient_all_zero", hinge, norm, signals={}).verdict == "ok"


def test_a_gradient_of_zero_from_the_first_step_to_the_last_is_a_failure_whatever_the_loss_is(ask, make_series):
    loss, norm = make_series("loss", [0.0] * 40), make_series("grad_norm", [0.0] * 40)
    assert ask("gradient_all_zero", loss, norm, signals={}).verdict == "fail"


def test_zero_gradients_under_a_loss_are_a_failure(ask, make_series):
    found = ask("gradient_all_zero", make_series("loss", [0.7] * 9), make_series("grad_norm", [1, 0, 0, 0] + [1] * 5))
    assert found.verdict == "fail" and "exactly 0 for 3 points from step 2" in found.observed


def test_an_unfrozen_backbone_is_only_noted(ask, make_model):
    model = make_model("Conv2d", "Conv2d", "Conv2d", "Linear")
    backbone = [f"layer{i}.weight" for i in (1, 2, 3)]
    signals = loop(outside=backbone, outside_n=3) | {"models": (model,)}
    assert ask("grad_param_not_in_optimizer", signals=signals).verdict == "warn"
    loaded = {"loaded": ({"what": "model", "matched": 9, "step": 0},)}
    assert ask("grad_param_not_in_optimizer", signals=signals | loaded).verdict == "note"
    head = loop(outside=["layer4.weight"], outside_n=1) | {"models": (model,)}
    assert ask("grad_param_not_in_optimizer", signals=head).verdict == "fail"


@pytest.mark.parametrize(("stale", "named"), [({}, True), ({"0": {"tensors": 2, "held": 2}}, False)])
def test_a_model_that_no_optimizer_was_given_is_named(ask, stale, named):
    """An optimizer that holds an older copy of the model was made too early: that is another fault."""
    signals = loop(outside=["net.0.weight"], outside_n=1, models_left_out=["Encoder"], stale=stale)
    found = ask("grad_param_not_in_optimizer", signals=signals)
    assert found.verdict == "fail"
    assert ("no optimizer holds a parameter of Encoder" in found.evidence) == named
    assert list(found.where) == (["module"] if named else ["parameter"])


@pytest.mark.parametrize(("last", "verdict"), [(1e-16, "ok"), (0.9, "fail")])
def test_steps_that_have_nothing_left_to_learn_may_change_nothing(ask, make_series, last, verdict):
    signals = loop(unchanged={"0": {"checked": 12, "unchanged": 6, "streak": 6}})
    assert ask("step_changed_nothing", make_series("loss", [1.0, 0.1, last]), signals=signals).verdict == verdict


@pytest.mark.parametrize(("falls", "later", "verdict"), [(10.0, 10.0, "fail"), (1.3, 1.3, "ok"), (10.0, 1.3, "ok")])
def test_vanishing_gradients(ask, make_model, looks, falls, later, verdict):
    def rows(step):
        return [{"i": i, "g": 0.1 * (falls if step < 60 else later) ** (i - 7), "w": 1.0} for i in range(8)]

    seen = looks(params=rows, steps=(1, 2, 3, 5, 8, 12, 20, 30, 40, 60, 80, 100, 120, 140, 160, 180))
    signals = {"models": (make_model(*["Linear"] * 8),), "tensors": seen}
    assert ask("vanishing_gradient", signals=signals).verdict == verdict


@in_one_test("names", ["query key", "q_proj k_proj", "to_q to_k", "wq wk"])
def test_queries_and_keys_do_not_make_a_profile(ask, make_model, looks, names):
    model = make_model(*["Linear"] * 8)
    for i, name in enumerate(names.split() * 2):
        model["parameters"][i]["name"] = f"layers.{i // 2}.attention.{name}.weight"
    rows = [{"i": i, "g": 1e-5 * (1 + i) if i < 4 else 0.005 * (i - 3), "w": 1.0, "ratio": 1e-3} for i in range(8)]
    signals = {"models": (model,), "tensors": looks(params=lambda _: rows)}
    assert ask("vanishing_gradient", signals=signals).verdict == "ok"


def test_embeddings_and_norms_are_no_layers_of_the_profile(ask, make_model, looks):
    model = make_model("Embedding", "Linear", "Linear", "Linear", "Linear")
    rows = [{"i": i, "g": 0.1, "w": 1.0} for i in range(4)]
    found = ask("vanishing_gradient", signals={"models": (model,), "tensors": looks(params=lambda _: rows)})
    assert found.verdict == "ok"


def test_exploding_gradients(ask, make_series):
    calm = [1.0 + 0.1 * math.sin(i) for i in range(60)]
    lost = make_series("grad_norm", calm + [50.0 * 2**i for i in range(10)])
    loss = make_series("loss", [1.0] * 60 + [2.0 + i for i in range(10)])
    found = ask("exploding_gradient", lost, loss)
    assert found.verdict == "fail" and found.where["step"] == 61


def test_gradients_that_grow_while_the_loss_falls_are_no_explosion(ask, make_series):
    norm = make_series("grad_norm", [0.01 + 1e-4 * math.sin(i) for i in range(60)] + [0.5] * 40)
    loss = make_series("loss", [2.3] * 60 + [2.3 * 0.9**i for i in range(40)])
    assert ask("exploding_gradient", norm, loss).verdict == "ok"


@pytest.mark.parametrize(("begin", "end", "verdict"), [(1.0, -3.0, "ok"), (2.0, 1.0, "fail")])
def test_gradients_of_a_density_that_narrows_are_no_explosion(ask, make_series, begin, end, verdict):
    norm = make_series(
        "grad_norm", [1.0 + 0.1 * math.sin(i) for i in range(60)] + [40.0 + 9 * (-1) ** i for i in range(180)]
    )
    loss = make_series("loss", [begin] * 60 + [end + (begin - end) * 0.9**i for i in range(180)])
    assert ask("exploding_gradient", norm, loss).verdict == verdict


def test_spikes_of_a_converged_run_are_no_explosion(ask, make_series):
    values = [1.0] * 20 + [1e-4] * 50 + [1e-2] * 6 + [1e-4] * 30
    assert ask("exploding_gradient", make_series("grad_norm", values), make_series("loss", [1.0] * 106)).verdict == "ok"


def test_clipping_that_sets_every_step_is_noted(ask, make_series):
    own = {"optimizers": ({"index": 0, "options": {"grad_clip": "ClipGradByGlobalNorm 0.01"}},)}
    for clip in (loop(clip={"calls": 300, "clipped": 300, "limit": 0.01}), own | loop()):
        assert ask("clip_always_active", make_series("grad_norm", [1.0] * 300), signals=clip).verdict == "note"
        assert ask("clip_always_active", make_series("grad_norm", [0.02] * 300), signals=clip) is None


def test_two_optimizers_of_which_one_keeps_its_gradients(ask):
    cleared = {
        "0": {"checked": 50, "not_cleared": 0, "streak": 0},
        "1": {"checked": 50, "not_cleared": 50, "streak": 50, "largest": 2.0},
    }
    assert "of optimizer 1 not cleared" in ask("grad_not_cleared", signals=loop(cleared=cleared)).observed


@pytest.mark.parametrize(("bad", "sentences"), [(52, 1), (57, 0), (58, 0)])
def test_gradients_that_are_cleared_less_often_than_stepped_on(ask, bad, sentences):
    looks = {"checked": 58, "not_cleared": bad, "streak": bad}
    found = ask("grad_not_cleared", signals={"loop": {"cleared": {"0": looks}}})
    assert len(found.evidence) == sentences and all("the call is there" in one for one in found.evidence)


@in_one_test(
    ("more", "verdict"),
    [
        ({"outside_models": True}, "note"),
        ({}, "fail"),
        ({"outside_models": True, "held_twice": 4}, "fail"),
        ({"outside_models": True, "steps_without_gradient": {"1": {"none": 0, "zero": 90}}}, "fail"),
        ({"outside_models": True, "stale": {"0": {"tensors": 2, "held": 2}}}, "fail"),
    ],
)
def test_gradients_in_a_network_that_judges_are_a_note(ask, more, verdict):
    loop = {"optimizers": 1, "steps": 100, "outside": ["weight", "bias"], "outside_n": 2, **more}
    assert ask("grad_param_not_in_optimizer", signals={"loop": loop}, framework="paddle").verdict == verdict


def test_terms_without_gradient(ask):
    term = {"line": "train.py:9", "number": True, "values": [0.5, 0.25, 0.125]}
    found = ask("loss_term_without_gradient", signals={"graphs": ({"constant": [term]},)})
    assert found.verdict == "warn" and found.where == {"file": "train.py", "line": 9}
    assert found.observed == "a Python number is added to the loss: 0.5, 0.25, 0.125 in three steps"
    assert ask("loss_term_without_gradient", signals={"graphs": ({"constant": None},)}) is None


def test_a_copy_that_is_left_behind(ask):
    def asked(**fields):
        copy = {"type": "Net", "calls": 8, "steps": 8, "last": 190, "changed": False, **fields}
        return ask("averaged_copy_never_updated", signals={"loop": {"steps": 200, "copies": [copy]}})

    assert asked(last=201).where == {"step": 200}, "called behind the last step"
    assert [asked().verdict, asked(type="AveragedModel").verdict, asked(changed=True).verdict] == ["warn", "fail", "ok"]
    assert asked(steps=200) is None and asked(steps=1) is None and asked(last=40) is None


@in_one_test(
    ("norms", "weight", "name", "verdict"),
    [
        ([0.0, 1.0, 1.0], 1.0, "layer1", "warn"),
        ([0.0, 1.0, 1.0], 1.0, "experts.1", "note"),
        ([0.0, 0.0, 1.0], 1.0, "layer1", None),
        ([0.0, 0.0, 1.0], 0.0, "layer1", "warn"),
        ([0.0, 0.0, 0.0], 1.0, "layer1", None),
        ([1e-9, 1.0, 1.0], 1.0, "layer1", None),
        ([0.0, 1.0, 1.0], 1.0, "cell.weight_hh", "warn"),
    ],
)
def test_layers_with_a_gradient_of_exactly_zero(ask, make_model, looks, norms, weight, name, verdict):
    model = make_model("Linear", "Linear", "Linear")
    model["parameters"][0]["name"] = f"{name}.weight"
    tensors = looks(params=lambda _: [{"i": i, "w": weight, "g": norm} for i, norm in enumerate(norms)])
    found = ask("gradient_zero_in_part", signals={"models": (model,), "tensors": tensors})
    assert (found and found.verdict) == verdict
    assert found is None or ("state of the step before" in (found.advice or "")) == ("weight_hh" in name)


@in_one_test(("bias", "is_input"), [(0.5, True), (0.0, False)])
def test_a_layer_that_is_given_zeros(ask, make_model, looks, bias, is_input):
    model = make_model("Linear", "Linear", "Linear")
    names = ("target.weight", "target.bias", "layer2.weight", "layer3.weight")
    weight = model["parameters"][0]
    model["parameters"] = [{**weight, "i": i, "name": name} for i, name in enumerate(names)]
    model["parameters"][1]["shape"] = [16]
    norms = (0.0, bias, 1.0, 1.0)
    tensors = looks(params=lambda _: [{"i": i, "w": 1.0, "g": norm} for i, norm in enumerate(norms)])
    found = ask("gradient_zero_in_part", signals={"models": (model,), "tensors": tensors})
    assert ("the input of target is 0" in found.observed) is is_input
