"""A program without an optimizer: a step is a change of its parameters after `backward`, whatever way it is made."""

from __future__ import annotations

import pytest
from pytest import approx

TORCH = """
import json, torch
torch.manual_seed(0)
net, x, truth = torch.nn.Linear(4, 1), torch.randn(24, 4), []
weights = list(net.parameters())
def clear():
    for p in weights:
        p.grad = None
def loss_of(part):
    return (net(part) - part.sum(1, keepdim=True)).pow(2).mean()
def by_data():
    for p in weights:
        p.data -= 0.1 * p.grad
def in_place():
    with torch.no_grad():
        for p in weights:
            p -= 0.1 * p.grad
def new_data():
    for p in weights:
        p.data = p.data - 0.1 * p.grad
def gradients(loss):
    return torch.autograd.grad(loss, weights)
def apply(found):
    with torch.no_grad():
        for p, g in zip(weights, found):
            p -= 0.1 * g
def attacked():
    noise = torch.zeros_like(x, requires_grad=True)
    loss_of(x + noise).backward()
"""

PADDLE = """
import json, paddle
paddle.seed(0)
net, x, truth = paddle.nn.Linear(4, 1), paddle.randn([24, 4]), []
weights = list(net.parameters())
def clear():
    for p in weights:
        p.clear_gradient(False)
def loss_of(part):
    return (net(part) - part.sum(1, keepdim=True)).pow(2).mean()
def by_data():
    with paddle.no_grad():
        for p in weights:
            p.set_value(p - 0.1 * p.grad)
def in_place():
    with paddle.no_grad():
        for p in weights:
            p.subtract_(0.1 * p.grad)
def new_data():
    with paddle.no_grad():
        for p in weights:
            paddle.assign(p - 0.1 * p.grad, p)
def gradients(loss):
    return paddle.grad(loss, weights)
def apply(found):
    with paddle.no_grad():
        for p, g in zip(weights, found):
            p.subtract_(0.1 * g)
def attacked():
    noise = paddle.zeros_like(x)
    noise.stop_gradient = False
    loss_of(x + noise).backward()
"""

LOOP = """
def train(update, parts):
    for _ in range(7):
        clear()
        total = 0.0
        for at in range(parts):
            loss = loss_of(x[8 * at : 8 * at + 8]) / parts
            loss.backward()
            total += float(loss)
        truth.append(total)
        update()
def by_returned_gradients():
    for _ in range(7):
        loss = loss_of(x)
        found = gradients(loss)
        truth.append(float(loss))
        apply(found)
"""

frameworks = pytest.mark.parametrize(
    ("framework", "start"),
    [
        pytest.param("torch", TORCH, marks=pytest.mark.torch),
        pytest.param("paddle", PADDLE, marks=pytest.mark.paddle),
    ],
)


@frameworks
@pytest.mark.parametrize(
    ("call", "parts"),
    [("train(by_data, 1)", 1), ("train(in_place, 3)", 3), ("train(new_data, 2)", 2), ("by_returned_gradients()", 1)],
)
def test_each_change_of_the_parameters_is_a_step(run, healthy, framework, start, call, parts):
    outcome = healthy(run(f"{start}{LOOP}{call}\nprint(json.dumps(truth))", fork=framework))
    steps = outcome.of("step")
    assert [step["step"] for step in steps] == list(range(1, 8))
    assert [step.get("step_loss", step["loss"]) for step in steps] == approx(outcome.result)
    assert [step["backwards"] for step in steps] == [parts] * 7
    assert all(step["grad_norm"] > 0 for step in steps)
    optimizer = outcome.merged("optimizer")
    assert optimizer["type"].startswith("none") and optimizer["tensors"] == 2 and optimizer["root"] == "Linear"
    ratios = [p["ratio"] for event in outcome.of("tensors") for p in event["params"] if "ratio" in p]
    assert ratios and all(ratio > 0 for ratio in ratios)
    assert "learning rate" in {event["what"] for event in outcome.of("unobserved")}


@pytest.mark.torch
def test_each_model_of_several_is_trained_by_updates_of_its_own(run, healthy):
    """As each fit of a Bayesian optimisation, after which an acquisition function is optimised over its input."""
    again = "attacked(); attacked()\nnet = torch.nn.Linear(4, 1); weights = list(net.parameters())\n"
    script = f"{TORCH}{LOOP}train(by_data, 1)\n{again}train(by_data, 1)\nprint(json.dumps(truth))"
    outcome = healthy(run(script, fork="torch"))
    assert [(step["opt"], step["step"]) for step in outcome.of("step")] == [(o, n) for o in (0, 1) for n in range(1, 8)]
    assert [step["loss"] for step in outcome.of("step")] == approx(outcome.result)


@frameworks
def test_gradients_that_change_no_parameter_are_no_steps(run, healthy, framework, start):
    outcome = healthy(run(f"{start}\nfor _ in range(70):\n    clear()\n    attacked()", fork=framework))
    assert outcome.of("step") == []
    assert [event["reason"] for event in outcome.of("unobserved")] == ["64 calls of backward changed no parameter"]
