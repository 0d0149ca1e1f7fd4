"""What the totals of a loop say of schedulers, whichever way the steps of the optimizer were counted."""

from types import SimpleNamespace

import pytest

from labbook.probe.inspection.run_totals import note_schedulers

pytestmark = pytest.mark.pure


def test_steps_that_were_processed_together_count_for_the_scheduler():
    optimizer, counts = object(), SimpleNamespace(steps=192, scheduler=None)
    loading = SimpleNamespace(
        schedulers=lambda index_of, steps_of: {index_of(optimizer): {"optimizer_steps": steps_of(index_of(optimizer))}},
        idle_schedulers=lambda owners: [],
    )
    loop = SimpleNamespace(of={0: counts}, facts={}, optimizer=lambda index: counts)
    note_schedulers(SimpleNamespace(loading=loading), loop, [(SimpleNamespace(index=0, step=200), optimizer)])
    assert counts.scheduler == {"optimizer_steps": 200}
