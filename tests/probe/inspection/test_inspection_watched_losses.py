"""What is looked at of losses and attentions: labels that count, hidden positions, the functions of Keras."""

from __future__ import annotations

import types
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from labbook.probe.inspection.loss_wrappers import LossFunctions
from labbook.probe.torch.loss_wrappers import LossFunctions as TorchLosses


@pytest.mark.pure
@pytest.mark.parametrize(
    ("labels", "ends"), [([0, 0, 255, 0], (0.0, 0.0)), ([0, 1, 255, 1], (0.0, 1.0)), ([255] * 4, (255.0, 255.0))]
)
def test_the_extremes_of_labels_are_of_those_that_count(labels, ends):
    losses = LossFunctions.__new__(LossFunctions)
    losses._is_soft, losses._class_axis, losses._table = lambda *_: False, lambda *_: 1, lambda _: None
    losses._count = lambda values: values.size
    losses._describe = lambda _, values: {"min": float(values.min()), "max": float(values.max())}
    values, inputs = np.array(labels), np.zeros((4, 2))
    known = {"target": losses._describe(None, values)}
    facts = {**known, **losses._inspect_classes("cross_entropy", {"ignore_index": 255}, inputs, values, values)}
    assert (facts["target"]["min"], facts["target"]["max"]) == ends
    assert facts["ignored"] == labels.count(255)


@pytest.mark.torch
@pytest.mark.parametrize(("fill", "seen"), [(-1e4, [True, False]), (-1.0, [False, False]), (-1e9, [True, False])])
def test_a_position_is_hidden_by_minus_ten_thousand(fill, seen):
    import torch

    from labbook.probe.torch.functional_calls import FunctionalCalls

    given = []
    calls = FunctionalCalls.__new__(FunctionalCalls)
    calls.torch = torch
    calls.inspector = SimpleNamespace(
        stats=SimpleNamespace(is_plain=lambda _: True),
        batches=SimpleNamespace(is_padding_all=lambda shape, hidden: given.append(hidden)),
    )
    calls.inspector.without_modes = nullcontext()
    calls.inspector.without_modes.is_possible = lambda: True
    calls._is_padding_all(torch.tensor([[fill, 0.0]]), attends=True)
    assert given == [seen]


@pytest.mark.pure
def test_the_functions_of_keras_are_watched_in_its_losses_only():
    module = types.ModuleType("losses")
    exec(
        "def mean_squared_error(y_true, y_pred): return y_true - y_pred\n"
        "def categorical_crossentropy(y_true, y_pred): return 0\n"
        "class LossFunctionWrapper:\n    def __init__(self, fn, name=None, **options): self.fn, self.name = fn, name\n",
        vars(module),
    )
    original, seen = module.mean_squared_error, []
    losses = TorchLosses.__new__(TorchLosses)

    def wrap(fn, function, parameters, is_compiling):
        return lambda *args: (seen.append((function, parameters)), fn(*args))[1]

    losses._wrap = wrap
    losses.install_in_keras(module, lambda: False)
    made = module.LossFunctionWrapper(original, name="mse")
    assert (made.fn(3, 1), made.name, seen) == (2, "mse", [("mse_loss", ["target", "input"])])
    assert module.mean_squared_error is original, "metrics call it as well"
    own = module.LossFunctionWrapper(lambda y_true, y_pred: 5)
    assert own.fn(3, 1) == 5 and len(seen) == 1
    for options, extra in (({}, ["from_logits"]), ({"from_logits": True}, [])):
        module.LossFunctionWrapper(module.categorical_crossentropy, **options).fn(3, 1)
        assert seen[-1] == ("cross_entropy", ["target", "input", *extra])


def test_losses_of_keras_take_probabilities_by_default():
    torch = pytest.importorskip("torch")
    losses = TorchLosses.__new__(TorchLosses)
    losses.stats = SimpleNamespace(is_tensor=torch.is_tensor)
    scores, numbers = torch.zeros(4, 3), torch.tensor([0.0, 2.0, 1.0, 1.0])
    given = losses._named_arguments((numbers, scores), {}, ["target", "input", "from_logits"])
    assert given["use_softmax"] is False and not given["target"].is_floating_point()
    given = losses._named_arguments((scores, scores), {}, ["target", "input"])
    assert "use_softmax" not in given and given["target"] is scores
