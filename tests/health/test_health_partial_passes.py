"""Epochs that leave the loader of the training early."""

import pytest

from labbook.model.run import Arguments

LIMITED = (Arguments("lightning", "Trainer", {"limit_train_batches": 0.1, "max_epochs": 15}),)


@pytest.mark.parametrize(
    ("passes", "shuffle", "batches", "verdict"),
    [
        ({"5": 14}, True, 54, "warn"),
        ({"5": 14}, False, 54, "warn"),
        ({"54": 14}, True, 54, None),
        ({"53": 14}, True, 54, None),
        ({"5": 200}, True, 54, "note"),  # the order changes: all is used
        ({"1": 500}, True, 54, None),  # a batch at a time, as for a GAN
        ({"500": 4}, True, 20_000, "note"),  # an epoch is a number of steps
        ({"5": 1}, True, 54, None),  # one validation within an epoch
        ({"5": 3, "9": 3, "54": 1}, True, 54, None),  # left by a condition
    ],
)
def test_epochs_that_end_early(ask, passes, shuffle, batches, verdict):
    loaders = ({"index": 1, "shuffle": shuffle, "batches": batches, "iterable": False},)
    signals = {"loaders": loaders, "prints": ({"loader": 1, "phase": "train"},), "loop": {"passes": {"1": passes}}}
    found = ask("loop_left_early", signals=signals)
    assert (found and found.verdict) == verdict
    if verdict == "warn":
        named = ask("loop_left_early", signals=signals, arguments=LIMITED)
        assert "limit_train_batches 0.1" in str(named.evidence[0]) and "limit_train_batches" in str(named.advice)
        # Unlabelled samples run beside the labelled ones and end with them.
        beside = {"index": 2, "shuffle": True, "batches": 5, "iterable": False}
        both = ({"loader": 1, "phase": "train"}, {"loader": 2, "phase": "train"})
        assert ask("loop_left_early", signals={**signals, "loaders": (*loaders, beside), "prints": both}) is None


def test_a_model_without_gradients_beside_another_one_is_named(ask, make_model, looks):
    loop = {"never_grad_n": 1, "trainable_n": 2, "judged": 50, "steps": 50}
    loop["steps_without_gradient"] = {"1": {"checked": 30, "none": 30, "zero": 0, "streak": 30}}
    models = tuple({**make_model("Linear"), "model": n, "variable": name} for n, name in enumerate(("netD", "netG")))
    trained, silent = looks(params=lambda _: [{"i": 0, "g": 1.0}]), looks(params=lambda _: [{"i": 0}])
    tensors = (*trained, *({**look, "model": 1} for look in silent))
    optimizers = tuple({"index": n, "tensors": 1, "trainable": 16} for n in (0, 1))
    signals = {"loop": loop, "models": models, "tensors": tensors, "optimizers": optimizers}
    known = models[0]["parameters"][0]["name"]
    loop["never_grad"] = [known]
    assert ask("param_never_gets_grad", signals=signals).where["parameter"] == f"netG.{known}"
    assert "30 of 30 steps of optimizer 1" in ask("step_with_no_gradient", signals=signals).observed
    alone = {**signals, "models": models[:1], "tensors": trained, "optimizers": optimizers[:1]}
    assert "of optimizer" not in ask("step_with_no_gradient", signals=alone).observed
