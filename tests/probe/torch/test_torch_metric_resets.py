"""Metric objects of torchmetrics that collect several passes without a reset, and those that are right."""

from types import SimpleNamespace

import pytest

from labbook.probe.torch.metric_resets import MetricObjects

pytestmark = pytest.mark.pure


def make_module():
    """The part of `torchmetrics.metric` that is watched."""

    class Metric:
        def __init__(self):
            self._update_count = 0
            self.update, self.compute = self._wrap_update(self.update), self._wrap_compute(self.compute)

        def _wrap_update(self, update):
            def counted(*args):
                self._update_count += 1
                update(*args)

            return counted

        def _wrap_compute(self, compute):
            return lambda: compute()

        def update(self, *_): ...

        def compute(self):
            return 0.5

        def reset(self):
            self._update_count = 0

        def forward(self, batch):
            kept = self._update_count
            self.reset()
            self.update(batch)
            self.compute()
            self._update_count = kept + 1

    return SimpleNamespace(Metric=Metric)


@pytest.mark.parametrize("way", ["update", "forward"])
@pytest.mark.parametrize(("use", "carried"), [("never", 4), ("reset", 0), ("running", 0), ("one pass", 0)])
def test_values_of_several_passes(way, use, carried):
    loaders = SimpleNamespace(current=None, monitor=SimpleNamespace(loop=SimpleNamespace(facts={})))
    adapter = SimpleNamespace(probe=SimpleNamespace(guard=lambda _: Failing()))
    objects, module = MetricObjects(SimpleNamespace(adapter=adapter, loaders=loaders)), make_module()
    objects.install(module)
    metric, passes = module.Metric(), 1 if use == "one pass" else 5
    for epoch in range(passes):
        loaders.current = (0, epoch)
        for batch in range(6 + epoch):
            getattr(metric, way)(batch)
            if use == "running":
                metric.compute()
        metric.compute()
        if use in ("reset", "running"):
            metric.reset()
    assert loaders.monitor.loop.facts.get("metrics_carried", {}).get("count", 0) == carried


class Failing:
    """A guard that lets failures through."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False
