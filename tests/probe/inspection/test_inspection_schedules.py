"""What is known of the length of a schedule."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest

from labbook.probe.inspection.checkpoints import _options


def _linear(step, *, num_warmup_steps, num_training_steps):
    return max(0.0, 1 - step / num_training_steps) if step > num_warmup_steps else step / num_warmup_steps


def _closure(**values):
    max_steps, unset = values["max_steps"], values["other"]
    return lambda step: unset - step / max_steps


@pytest.mark.parametrize(
    ("function", "planned"),
    [
        (partial(_linear, num_warmup_steps=3, num_training_steps=40), 40),
        (_closure(max_steps=50, other=1), 50),
        (_closure(max_steps="all", other=1), None),
        (lambda step: 0.9**step, None),
        (_linear, None),
    ],
    ids=["partial", "closure", "no number", "nothing kept", "not given"],
)
def test_the_function_of_a_schedule_knows_its_length(function, planned):
    for scheduler in (SimpleNamespace(lr_lambdas=[function, function]), SimpleNamespace(lr_lambda=function)):
        assert _options(scheduler).get("total_steps") == planned
