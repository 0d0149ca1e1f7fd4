"""The host never waits for a device on an ordinary step, and stays out of graphs that are being captured."""

import types

import pytest

pytestmark = pytest.mark.torch


def test_nothing_is_read_from_a_device_on_ordinary_steps(run, healthy):
    outcome = healthy(run("health_torch_device.py", "ordinary", fork="torch"))
    dense, reads, ordinary, _, evaluated = outcome.result
    assert ordinary == []
    assert evaluated <= 100, "inputs of the first phases, and parts of 8 weights at each of at most 16 evaluations"
    assert dense < 60
    assert reads > 100, "the counter counts: dense steps do read"
    steps = outcome.steps()
    assert len(steps) == 200
    assert all("loss" in step and "grad_norm" in step for step in steps)


def test_a_batch_that_is_not_finite_is_found_although_its_loss_arrives_steps_later(run, healthy):
    (flight,) = healthy(run("health_torch_device.py", "nan", fork="torch")).of("flight")
    assert (flight["finding"], flight["step"], flight["trigger"]) == ("bad batch", 133, "loss")


def test_at_level_deep_the_step_is_replayed_before_its_weights_are_gone(run, healthy):
    outcome = healthy(run("health_torch_device.py", "log", fork="torch", settings={"level": "deep"}))
    (flight,) = outcome.of("flight")
    assert (flight["finding"], flight["step"], flight["trigger"]) == ("loss expression", 133, "loss")
    assert "Log" in flight["op"] and flight["source"] == "loss = loss + torch.log(loss * 0 + (step != NAN_AT))"


@pytest.mark.long
def test_nothing_is_read_or_computed_while_a_graph_is_captured(run, healthy):
    outcome = healthy(run("health_torch_device.py", "capture"))
    _, reads, _, captured, _ = outcome.result
    assert captured == []
    assert reads > 100
    assert any("captured" in event["reason"] for event in outcome.of("unobserved"))


def test_a_build_without_cuda_is_never_asked_and_one_with_cuda_only_once_it_is_awake():
    from labbook.probe.torch.tensor_stats import capturing_of

    cuda = types.SimpleNamespace(is_initialized=lambda: False, is_current_stream_capturing=lambda: pytest.fail("woken"))
    for version in (None, "12.6"):
        torch = types.SimpleNamespace(version=types.SimpleNamespace(cuda=version), cuda=cuda)
        assert not capturing_of(torch)()
    cuda.is_initialized, cuda.is_current_stream_capturing = lambda: True, lambda: True
    assert capturing_of(torch)()
