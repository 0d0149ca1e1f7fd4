"""The operators of a profile have the time of the program alone."""

from __future__ import annotations

import pytest

from labbook.probe.training.profiling import _TorchSession


@pytest.mark.torch
def test_ranges_that_are_open_at_the_stop_do_not_have_its_time():
    torch = pytest.importorskip("torch")
    session = _TorchSession(torch)
    weight = torch.zeros(3, requires_grad=True)
    weight.grad = torch.ones(3)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.register_step_post_hook(lambda *_: session.stop())
    session.start()
    with torch.profiler.record_function("epoch"):
        optimizer.step()

    def times():
        return {row["name"]: row["total_ms"] for row in session.rows()}

    before = times()
    session._stopped_ns -= 5_000  # as if the stop had taken 5 us longer
    after = times()
    for name in ("epoch", "Optimizer.step#SGD.step"):
        assert before[name] - after[name] == pytest.approx(0.005, abs=0.0003)
    assert before["aten::add_"] == after["aten::add_"]
