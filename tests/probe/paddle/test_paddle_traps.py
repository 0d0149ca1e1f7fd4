"""Loops of PaddlePaddle in which a simple probe sees the wrong number: the right one is recorded, and only it."""

import pytest
from pytest import approx

pytestmark = pytest.mark.paddle


@pytest.fixture(scope="module")
def scenes(play):
    return play("traps_paddle.py", fork="paddle")


@pytest.mark.parametrize(
    "name",
    [
        "step",
        "minimize",
        "momentum_nesterov",
        "clipped_in_the_optimizer",
        "clipped_by_function",
        "clipped_by_value",
        "step_calls_super",
        "groups",
        "schedule",
        "scaler_switched_off",
        "sparse",
        "half_precision",
        "large_gradients",
        "step_raises_once",
    ],
)
def test_the_norm_before_clipping_is_recorded_once_a_step(scenes, name):
    scene = scenes[name]
    assert scene.norms() == approx(scene.truth["norms"], rel=1e-4)
    for wrong in scene.truth.get("wrong", []):
        assert all(norm != approx(wrong, rel=1e-3) for norm in scene.norms())


@pytest.mark.parametrize(
    "name", ["step", "minimize", "groups", "scaler_switched_off", "mixed_precision", "clipped_by_value"]
)
def test_the_loss_is_what_was_passed_to_backward(scenes, name):
    assert scenes[name].losses() == approx(scenes[name].truth["losses"])


def test_learning_rates_follow_groups_and_schedule(scenes):
    assert scenes["groups"].of("step")[0]["lr"] == approx(scenes["groups"].truth["rates"])
    assert [event["lr"][0] for event in scenes["schedule"].of("step")] == approx(scenes["schedule"].truth["rates"])


def test_the_options_have_the_rate_of_a_schedule_and_the_limit_of_a_clip(scenes):
    options = scenes["schedule"].of("optimizer")[0]["options"]
    assert (options["learning_rate"], options["schedule"]) == (0.1, "StepDecay")
    assert scenes["clipped_in_the_optimizer"].of("optimizer")[0]["options"]["grad_clip"] == "ClipGradByGlobalNorm 0.01"


@pytest.mark.parametrize("name", ["scaler_adam", "scaler_sgd_minimize"])
def test_a_gradient_scaler_leaves_no_factor_and_its_skips_are_no_steps(scenes, name):
    scene = scenes[name]
    assert scene.norms() == approx(scene.truth["norms"], rel=1e-4)
    assert scene.losses() == approx(scene.truth["losses"])
    assert [event["scale"] for event in scene.of("step")] == scene.truth["scale"]
    assert [event["step"] for event in scene.of("step")] == [1, 2, 3]
    assert sum(event.get("skipped", 0) for event in scene.of("step")) == 1


def test_lbfgs_tells_all_its_evaluations(scenes):
    scene = scenes["lbfgs"]
    assert [loss for losses in scene.losses() for loss in losses] == approx(scene.truth["losses"])
    assert [event["backwards"] for event in scene.of("step")] == scene.truth["calls"]
    assert scene.norms()[-1] == approx(scene.truth["last_norm"], rel=1e-4)
    assert scene.of("optimizer")[0]["closure"] is True


def test_each_optimizer_of_a_gan_has_its_own_loss(scenes):
    scene = scenes["generative_adversarial"]
    for which, name in enumerate(("judge", "maker")):
        assert scene.losses(which) == approx([loss for loss, _ in scene.truth[name]])
        assert scene.norms(which) == approx([norm for _, norm in scene.truth[name]], rel=1e-4)


def test_accumulated_losses_and_several_roots_stay_apart(scenes):
    for seen, truth in zip(scenes["accumulation"].losses(), scenes["accumulation"].truth["losses"], strict=True):
        assert seen == approx(truth)
    assert scenes["several_roots"].losses()[0] == approx(scenes["several_roots"].truth["losses"])


def test_mixed_precision_that_has_no_effect_on_a_cpu_is_not_claimed(scenes):
    assert not [event for scene in scenes.values() for event in scene.of("state") if event.get("amp")]


def test_what_is_not_finite_is_written_as_it_is(scenes):
    last = scenes["becomes_nan"].of("step")[-1]
    assert last["loss"] == "nan" and last["grad_norm"] == "nan" and last["step"] == 3


REFUSED = """
import json, traceback, paddle
from paddle.nn import functional as F
import paddle.nn as nn

metric, tensor, twice = paddle.metric.Accuracy(), paddle.ones([2]), paddle.ones([2]).mean()
compiled = paddle.jit.to_static(nn.Linear(3, 4))
rate = nn.Linear(3, 3)
calls = {
    "softmax": lambda: F.softmax(tensor, axis=5),
    "cross_entropy": lambda: F.cross_entropy(paddle.ones([5, 3]), paddle.ones([4], "int64")),
    "dropout": lambda: F.dropout(tensor, p=5),
    "embedding": lambda: nn.Embedding(4, 3)(paddle.to_tensor([9])),
    "grad": lambda: paddle.grad(tensor, paddle.ones([2])),
    "metric": lambda: metric.update("text"),
    "compiled": lambda: compiled(paddle.ones([2, 9])),
    "index": lambda: tensor["text"],
    "layer": lambda: rate(paddle.ones([2, 7])),
}
found = {}
for name, call in calls.items():
    try:
        call()
    except Exception as error:
        found[name] = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
print(json.dumps(found))
"""


def test_errors_that_a_program_catches_have_no_frame_of_the_probe(run):
    found = run(REFUSED, fork="paddle").result
    assert len(found) == 9
    wrong = {
        name: [one for one in files if "probe" in one or one.startswith("<frozen")] for name, files in found.items()
    }
    assert not any(wrong.values()), wrong
