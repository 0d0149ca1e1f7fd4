"""Totals of the calls of a loss function from one line."""

import pytest

from labbook.probe.training.loss_calls import LossCallSite

pytestmark = pytest.mark.pure


def facts(items):
    return {"input": {"shape": [items, 4]}, "target": {"shape": [items]}, "reduction": "sum", "items": items}


def test_the_targets_of_the_first_value_are_told_although_the_last_batch_is_smaller():
    site = LossCallSite(0, "cross_entropy", "train.py:3", True, 1)
    site.add_call(facts(0), None)
    for items, value in ((32, 48.1), (32, 40.0), (4, 3.3)):
        site.add_call(facts(items), value)
    seen = site.site_fields("torch")
    assert (seen["items"], seen["value_first"], seen["value_last"]) == (32, 48.1, 3.3)
    assert (seen["input"]["shape"], seen["target"]["shape"]) == ([32, 4], [32])
