"""Loops in which a simple probe sees the wrong number: the right one is recorded, and the wrong one is nowhere."""

import pytest
from pytest import approx

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def scenes(play):
    return {**play("traps_torch.py", fork="torch"), **play("traps_torch_kinds.py", fork="torch")}


def assert_norms(scene, which=0):
    assert scene.norms(which) == approx(scene.truth["norms"], rel=1e-5)
    for wrong in scene.truth.get("wrong", []):
        if wrong not in scene.truth["norms"]:
            assert wrong != approx(scene.norms(which)[-1], rel=1e-4)
            assert all(wrong != approx(norm, rel=1e-4) for norm in scene.norms(which))


@pytest.mark.parametrize(
    "name",
    [
        "closure_without_clipping",
        "nesterov_foreach",
        "nesterov_foreach_closure",
        "step_calls_super",
        "step_raises_once",
        "inside_backward",
        "sparse",
        "sparse_and_dense",
        "complex_numbers",
        "half_precision",
        "double_precision",
        "second_derivatives",
        "not_a_scalar",
        "default_device",
        "interrupted",
    ],
)
def test_the_norm_before_the_step_is_recorded_once_a_step(scenes, name):
    assert_norms(scenes[name])


def test_a_closure_tells_the_norm_before_clipping_over_all_micro_batches(scenes):
    scene = scenes["closure_accumulates_and_clips"]
    assert_norms(scene)
    assert [len(losses) for losses in scene.losses()] == [2, 2, 2]
    assert scene.of("optimizer")[0]["closure"] is True


@pytest.mark.parametrize(
    "name",
    [
        "scaler_unfused",
        "scaler_fused",
        "scaler_fused_sgd",
        "scaler_unscaled_and_clipped",
        "scaler_clipped_while_scaled",
    ],
)
def test_a_gradient_scaler_leaves_no_factor_and_its_skips_are_no_steps(scenes, name):
    scene = scenes[name]
    assert scene.norms() == approx(scene.truth["norms"], rel=1e-4)
    assert scene.losses() == approx(scene.truth["losses"])
    assert [event["scale"] for event in scene.of("step")] == scene.truth["scale"]
    assert [event["step"] for event in scene.of("step")] == [1, 2, 3]
    assert sum(event.get("skipped", 0) for event in scene.of("step")) == 1


def test_a_loss_divided_after_scaling_is_unscaled_too(scenes):
    assert scenes["scaler_divided_after_scaling"].losses() == approx(
        scenes["scaler_divided_after_scaling"].truth["losses"]
    )


def test_optimizers_that_step_inside_backward_are_one(scenes):
    scene = scenes["inside_backward"]
    assert len(scene.optimizers) == 1
    assert scene.losses() == approx(scene.truth["losses"])
    assert [event["type"] for event in scene.of("optimizer")] == ["SGD inside backward"]


def test_backward_inside_backward_is_no_loss(scenes):
    scene = scenes["reentrant_checkpoint"]
    assert scene.losses() == approx(scene.truth["losses"])
    assert [event["backwards"] for event in scene.of("step")] == [1, 1, 1]


def test_each_optimizer_of_a_gan_has_its_own_loss(scenes):
    scene = scenes["generative_adversarial"]
    for which, name in enumerate(("judge", "maker")):
        assert scene.losses(which) == approx([loss for loss, _ in scene.truth[name]])
        assert scene.norms(which) == approx([norm for _, norm in scene.truth[name]], rel=1e-5)


def test_two_optimizers_after_one_backward_share_its_loss_but_not_the_clipped_norm(scenes):
    scene = scenes["two_optimizers_one_backward"]
    for which in (0, 1):
        assert scene.losses(which) == approx(scene.truth["losses"])
    joint = sum(norms[-1] ** 2 for norms in (scene.norms(0), scene.norms(1))) ** 0.5
    assert joint == approx(scene.truth["wrong"], rel=1e-3)


def test_lbfgs_tells_all_its_evaluations(scenes):
    scene = scenes["lbfgs"]
    seen = [loss for losses in scene.losses() for loss in (losses if isinstance(losses, list) else [losses])]
    assert seen == approx(scene.truth["losses"])
    assert [event["backwards"] for event in scene.of("step")] == scene.truth["calls"]
    assert scene.norms()[-1] == approx(scene.truth["last_norm"], rel=1e-5)


def test_accumulated_losses_stay_apart(scenes):
    scene = scenes["accumulation"]
    assert [event["backwards"] for event in scene.of("step")] == [4, 4]
    for seen, truth in zip(scene.losses(), scene.truth["losses"], strict=True):
        assert seen == approx(truth)


def test_several_roots_of_one_backward_are_all_losses(scenes):
    assert scenes["several_roots"].losses()[0] == approx(scenes["several_roots"].truth["losses"])


def test_a_backward_of_many_values_is_no_loss(scenes):
    assert scenes["not_a_scalar"].losses() == []


@pytest.mark.parametrize("name", ["groups", "tensor_rate"])
def test_learning_rates(scenes, name):
    assert scenes[name].of("step")[0]["lr"] == approx(scenes[name].truth["rates"])


def test_threads_keep_their_losses_apart(scenes):
    scene = scenes["threads"]
    rates = {event["index"]: event["options"]["lr"] for event in scene.of("optimizer")}
    for which, index in enumerate(scene.optimizers):
        assert scene.losses(which) == approx(scene.truth[str(rates[index])])


def test_tensors_without_values_are_survived(scenes):
    steps = scenes["meta_tensors"].of("step")
    assert len(steps) == 1
    assert "grad_norm" not in steps[0] and "loss" not in steps[0]


def test_a_new_optimizer_for_each_fold_is_followed(scenes):
    scene = scenes["new_optimizer_each_fold"]
    assert len(scene.optimizers) == scene.truth["optimizers"]
    assert scene.merged().get("parameters", 81) == 81


def test_an_interrupt_passes_through(scenes):
    assert scenes["interrupted"].truth["kind"] == "KeyboardInterrupt"
    assert scenes["interrupted"].losses()[-1][-1] == approx(scenes["interrupted"].truth["losses"][-1])


def test_what_is_not_finite_is_written_as_it_is(scenes):
    last = scenes["becomes_nan"].of("step")[-1]
    assert last["loss"] == "nan" and last["grad_norm"] == "nan" and last["step"] == 3
