"""Many steps become few records without losing a value; measuring stays inside its budget."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labbook.probe.training import step_recorder


class Journal:
    def __init__(self):
        self.records = []

    def __call__(self, kind, **fields):
        assert kind == "step"
        self.records.append(json.loads(json.dumps(fields)))

    @property
    def size(self):
        return sum(len(json.dumps(record)) + 60 for record in self.records)


def recorder():
    journal = Journal()
    return step_recorder.StepRecorder(journal, "torch", 0), journal


def test_the_first_thousand_steps_are_written_one_by_one():
    one, journal = recorder()
    for step in range(1000):
        one.add([float(step)], [0.1], 2.0, step * 1e-3, 1)
    one.flush()
    assert [record["step"] for record in journal.records] == list(range(1, 1001))
    assert [record["loss"] for record in journal.records] == [float(step) for step in range(1000)]
    assert all("agg" not in record for record in journal.records)


@pytest.mark.parametrize("step_s", [1e-4, 1e-2, 0.5])
def test_many_steps_are_few_records_and_every_step_counts(step_s):
    one, journal = recorder()
    count = 200_000 if step_s < 0.1 else 20_000
    for step in range(count):
        one.add([math.sin(step)], [0.1], abs(math.cos(step)), step * step_s, 2)
    one.flush()
    assert sum(record["n"] for record in journal.records) == count
    assert sum(record["backwards"] for record in journal.records) == 2 * count
    assert [record["step"] for record in journal.records] == sorted({record["step"] for record in journal.records})
    windows = [record for record in journal.records if record["n"] > 1]
    assert all(record["agg"]["loss"][3] == record["n"] for record in windows)
    assert all(
        record["agg"]["loss"][0] <= record["loss"] + 1e-6 <= record["agg"]["loss"][1] + 2e-6 for record in windows
    )
    seconds = count * step_s
    assert len(journal.records) < 1000 + 500 * 8 + seconds / 1.0 + 10


def test_a_million_cheap_steps_stay_in_a_few_megabytes():
    one, journal = recorder()
    for step in range(1_000_000):
        one.add([0.123456789], [0.1], 0.987654321, step * 4e-4, 1)
    one.flush()
    assert journal.size < 4e6
    assert sum(record["n"] for record in journal.records) == 1_000_000


def test_a_norm_that_was_measured_before_the_last_step_of_a_window_keeps_its_own():
    one, journal = recorder()
    for step in range(1, 3001):
        one.add([1.0], [0.1], float(step) if step % 7 == 0 else None, step * 1e-3, 1)
    one.flush()
    measured = [record for record in journal.records if "grad_norm" in record]
    assert all(record["grad_norm"] == record.get("norm_step", record["step"]) for record in measured)
    assert {record["n"] > 1 for record in measured if "norm_step" in record} == {True}


def test_a_window_is_not_older_than_two_seconds_when_a_step_is_taken():
    one, journal = recorder()
    now, last, counted = 0.0, 0, 0
    for step in range(20_000):
        now += 0.3
        one.add([1.0], [0.1], None, now, 1)
        last, counted = last + sum(record["n"] for record in journal.records[counted:]), len(journal.records)
        if step > 1000:
            assert (step + 1 - last) * 0.3 <= 2.3


def test_the_first_value_that_is_not_finite_is_written_at_once_but_not_each_of_many():
    one, journal = recorder()
    for step in range(3000):
        one.add([1.0], [0.1], 1.0, step * 1e-4, 1)
    one.add([float("nan")], [0.1], 1.0, 0.3, 1)
    assert journal.records[-1]["step"] == 3001
    assert math.isnan(journal.records[-1]["loss"])
    before = len(journal.records)
    for step in range(3000):
        one.add([float("nan")], [0.1], float("inf"), 0.3 + step * 1e-4, 1)
    one.flush()
    assert len(journal.records) - before < 200
    assert sum(record["agg"]["loss"][4] for record in journal.records[before:] if "agg" in record) > 2900


@pytest.mark.parametrize("step_s", [1e-5, 4e-4, 9e-3])
def test_very_short_steps_are_put_aside_for_a_twentieth_of_a_second_at_most(step_s):
    one, journal = recorder()
    for step in range(900):
        one.add([float(step)], [0.1], 2.0, step * step_s, 1)
        assert (one.step - len(journal.records)) * step_s <= step_recorder.SHORTEST_S + step_s
    assert len(journal.records) >= 1
    one.flush()
    assert [record["loss"] for record in journal.records] == [float(step) for step in range(900)]
    assert [record.get("dt") for record in journal.records[1:]] == pytest.approx([step_s] * 899, abs=1e-6)


def test_the_first_steps_are_never_put_aside():
    one, journal = recorder()
    for step in range(200):
        one.add([1.0], [0.1], 2.0, step * 1e-5, 1)
        assert step >= step_recorder.AT_ONCE or len(journal.records) == step + 1
    assert len(journal.records) < 200


def test_a_slow_step_is_written_immediately():
    one, journal = recorder()
    for step in range(5):
        one.add([1.0], [0.1], 2.0, step * 0.06, 1)
        assert len(journal.records) == step + 1


def test_deferred_events_are_written_before_a_nonfinite_value():
    one, journal = recorder()
    for step in range(10):
        one.add([1.0 if step < 9 else math.inf], [0.1], 2.0, step * 1e-4, 1)
    assert [record["step"] for record in journal.records] == list(range(1, 11))


def test_skipped_steps_are_counted_apart():
    one, journal = recorder()
    one.add([1.0], [0.1], 1.0, 0.0, 1)
    one.skip()
    one.add([1.0], [0.1], 1.0, 0.1, 1)
    one.skip()
    one.flush()
    assert [record["n"] for record in journal.records] == [1, 1, 0]
    assert [record.get("skipped", 0) for record in journal.records] == [0, 1, 1]
    assert journal.records[-1]["step"] == 2


def test_many_losses_of_one_step_are_recorded_as_their_aggregate():
    one, journal = recorder()
    one.add([float(value) for value in range(100)], [0.1], None, 0.0, 100)
    assert len(journal.records[0]["loss"]) == step_recorder.MAX_LOSSES
    assert journal.records[0]["agg"]["loss"] == [0.0, 99.0, 49.5, 100, 0]


@given(st.lists(st.floats(width=32), min_size=1))
def test_aggregates(values):
    low, high, mean, finite, others = step_recorder.aggregate(values)
    good = [value for value in values if math.isfinite(value)]
    assert (finite, others) == (len(good), len(values) - len(good))
    if good:
        assert low == pytest.approx(min(good), rel=1e-6) and high == pytest.approx(max(good), rel=1e-6)
        assert low - abs(low) * 1e-6 <= mean <= high + abs(high) * 1e-6 or math.isclose(
            mean, math.fsum(good) / len(good)
        )
    else:
        assert low is high is mean is None


def drive(budget, cost, step_s, steps):
    now, measured = 0.0, 0
    for step in range(1, steps + 1):
        if budget.is_due(step):
            budget.cost(cost)
            measured += 1
        now += step_s
        budget.on_steps(now)
    return measured


def test_cheap_measurements_are_made_at_every_step():
    assert drive(step_recorder.Budget(0.01), 1e-5, 1e-2, 5000) == 5000


def test_expensive_measurements_are_made_less_often():
    budget = step_recorder.Budget(0.01)
    measured = drive(budget, 3e-4, 1e-2, 11_000)
    assert budget.interval == 4
    assert measured == pytest.approx(1000 + 10_000 / 4, abs=2)


def test_the_interval_is_bounded_and_decreases_again():
    budget = step_recorder.Budget(0.01)
    drive(budget, 1e-2, 1e-3, 2000)
    assert budget.interval == budget.WIDEST
    budget._since = None
    drive(budget, 1e-6, 1e-2, 3000)
    assert budget.interval == 1


def test_the_first_steps_are_always_measured():
    assert drive(step_recorder.Budget(0.01), 1.0, 1e-3, 1000) == 1000
