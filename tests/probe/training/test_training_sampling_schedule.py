"""When steps are looked at: densely at first, thinner later, inside the budget, again where something is abnormal."""

from __future__ import annotations

import importlib.util
import itertools
import random
import sys
from pathlib import Path

import pytest

PROBE = Path(__file__).resolve().parents[3] / "labbook" / "probe"


@pytest.fixture(scope="module")
def schedules():
    """The module, loaded from its file as the probe is: it imports nothing of labbook."""
    spec = importlib.util.spec_from_file_location(
        "_sampling_schedule_under_test", PROBE / "training" / "sampling_schedule.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def looks(schedule, steps, step_s, cost):
    """The numbers of the steps that were looked at."""
    found, now = [], 0.0
    for step in range(1, steps + 1):
        dense = schedule.is_due(step, now)
        now += step_s
        if dense:
            now += cost
            schedule.looked(step, now, cost)
            found.append(step)
    return found


def test_first_steps_are_dense_and_later_ones_thin_out(schedules):
    found = looks(schedules.Schedule("normal", 0.0), 2000, 0.05, 0.001)
    assert found[:5] == [1, 2, 3, 4, 5]
    assert 15 <= len(found) <= 40
    gaps = [b - a for a, b in itertools.pairwise(found)]
    assert gaps[5:] == sorted(gaps[5:])


@pytest.mark.parametrize("level", ["light", "normal", "deep"])
def test_a_million_cheap_steps_cost_their_share_and_no_more(schedules, level):
    schedule = schedules.Schedule(level, 0.0)
    found = looks(schedule, 1_000_000, 0.0003, 0.002)
    assert len(found) <= schedules.MOST[level]
    assert schedule.spent <= schedules.FREE_S[level] + schedules.SHARE[level] * 1.1 * 300


def test_deep_looks_more_often_than_normal_and_light_less(schedules):
    count = {level: len(looks(schedules.Schedule(level, 0.0), 500, 0.05, 0.001)) for level in schedules.SHARE}
    assert count["light"] < count["normal"] < count["deep"]


def test_a_dear_look_is_put_off_until_it_is_affordable(schedules):
    schedule = schedules.Schedule("normal", 0.0)
    found = looks(schedule, 3000, 0.001, 0.5)
    assert len(found) <= 5
    assert "time budget" in schedule.left_out()[1]


def test_looks_that_are_dear_are_spread_over_the_run(schedules):
    found = looks(schedules.Schedule("normal", 0.0), 250, 0.08, 0.02)
    assert found[:3] == [1, 2, 3]
    assert 6 <= len(found) <= 14
    assert max(found) > 100
    assert schedules.FREE_S["normal"] * 0.8 < 0.02 * len(found) < schedules.FREE_S["normal"] + 0.008 * 25


@pytest.mark.parametrize("level", ["light", "normal", "deep"])
@pytest.mark.parametrize("share", [0.0025, 0.015, 0.075, 0.2])
def test_a_busy_machine_changes_none_of_the_looks_that_a_short_run_is_judged_by(schedules, level, share):
    """Nine looks of ten are slowed down, the second or third one is not: the cheapest look decides on the pattern."""
    cost = share * schedules.FREE_S[level]
    wanted = looks(schedules.Schedule(level, 0.0), 400, 0.05, cost)[: schedules.SURE]
    for seed in range(20):
        dice = random.Random(seed)
        schedule, found, now = schedules.Schedule(level, 0.0), [], 0.0
        quiet = dice.choice([2, 3])
        for step in range(1, 401):
            if schedule.is_due(step, now):
                found.append(step)
                slow = 1.0 if len(found) == quiet else dice.choice([1.0, 1.5, 2.0])
                schedule.looked(step, now + slow * cost, slow * cost)
            now += 0.05 * dice.uniform(1.0, 3.0)
        assert found[: schedules.SURE] == wanted


def test_something_abnormal_is_looked_at_for_a_few_steps(schedules):
    schedule = schedules.Schedule("normal", 0.0)
    looks(schedule, 300, 0.05, 0.001)
    assert schedule.alarm(300)
    now, found = 20.0, []
    for step in range(301, 320):
        if schedule.is_due(step, now):
            schedule.looked(step, now, 0.001)
            found.append(step)
        now += 0.05
    assert found[: schedules.AGAIN] == list(range(301, 301 + schedules.AGAIN))
    assert not schedule.alarm(310), "a second alarm comes too soon"


def test_alarms_are_bounded(schedules):
    schedule = schedules.Schedule("normal", 0.0)
    raised = 0
    for step in range(1, 100_000, 60):
        raised += schedule.alarm(step)
        for later in range(step + 1, step + 6):
            if schedule.is_due(later, 0.0):
                schedule.looked(later, 0.0, 0.0)
    assert raised == schedules.ALARMS


def test_normal_values_are_distinguished_from_abnormal_ones(schedules):
    normal = schedules.UsualRange()
    values = [1.0 + 0.1 * ((7 * at) % 13 - 6) / 6 for at in range(200)]
    assert all(normal.accepts(value) for value in values)
    assert not normal.accepts(50.0)
    assert not normal.accepts(float("nan"))
    assert not normal.accepts(float("inf"))


def test_a_falling_and_a_noisy_series_are_normal(schedules):
    falling, noisy = schedules.UsualRange(), schedules.UsualRange()
    assert all(falling.accepts(2.5 / (1 + at / 20)) for at in range(500))
    assert sum(not noisy.accepts(1.0 + (at * 2654435761 % 97) / 20) for at in range(2000)) == 0


def tolls():
    """The class that tells what looks really cost."""
    spec = importlib.util.spec_from_file_location("_overhead_under_test", PROBE / "training" / "overhead.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Processor:
    """The processor's time, as the test sets it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_the_cost_of_a_sample_is_the_extra_time_of_its_step():
    module, clock = tolls(), Processor()
    overhead, costs = module.ProbeOverhead(clock), []
    for step in range(1, 60):
        dense, evaluates = step % 6 == 0 or step < 3, step % 7 == 0
        clock.now += 0.1 + 0.024 * dense + 5.0 * evaluates
        if dense:
            costs.append(overhead.looked(step, 0.01, usual=not evaluates))
        else:
            overhead.on_ordinary_step(step, usual=not evaluates)
    assert costs[:2] == [pytest.approx(0.01), pytest.approx(0.01 * module.UNKNOWN)]
    assert costs[-1] == pytest.approx(0.024)
    assert overhead.counted == pytest.approx(0.01 * len(costs))


def test_the_cost_of_samples_is_bounded():
    module, clock = tolls(), Processor()
    overhead = module.ProbeOverhead(clock)
    for step in range(1, 20):
        clock.now += 0.1
        overhead.on_ordinary_step(step)
    clock.now += 50.0
    assert overhead.looked(20, 0.01, usual=False) == pytest.approx(0.01 * module.UNKNOWN)
    clock.now += 50.0
    assert overhead.looked(21, 0.01) == pytest.approx(0.01 * module.DEAREST)
    for step in range(22, 40):  # on a busy machine the clock goes on while nothing is done
        clock.now += 0.1
        cost = overhead.looked(step, 0.01)
    assert cost == pytest.approx(0.01 * module.LEAST)


@pytest.fixture(scope="module")
def paces():
    """The module that says which very short steps are followed."""
    spec = importlib.util.spec_from_file_location("_step_sampling_under_test", PROBE / "training" / "step_sampling.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Owned:
    """A meter whose optimizer exists."""

    def owner(self):
        return self


def followed(paces, steps, step_s, follow_s, look=lambda step: 0.0):
    """How many of the steps were followed."""
    step_sampler, recorder, now, spent, count = paces.StepSampler(0.0), Owned(), 0.0, 0.0, 0
    for step in range(1, steps + 1):
        awake = not (step_sampler.fast and step_sampler.is_skipped())
        count += awake
        spent += follow_s * awake + look(step)
        now += step_s
        assert step_sampler.is_leading(recorder)
        step_sampler.end_of_step(now, spent)
    return count


def test_steps_that_are_dear_to_follow_are_mostly_not_followed(paces):
    rested = followed(paces, 12_800, 0.0004, 0.00006)
    assert rested < 12_800 * 0.2
    assert followed(paces, 12_800, 0.004, 0.00006) == 12_800


def test_steps_that_are_very_dear_to_follow_are_soon_not_followed(paces):
    assert followed(paces, 256, 0.0004, 0.00006) == 256
    assert followed(paces, 256, 0.0008, 0.0003) == paces.EARLY[1]
    assert followed(paces, 1000, 0.0008, 0.0003) < 250


def test_one_look_among_them_does_not_make_them_dear(paces):
    assert followed(paces, 12_800, 0.004, 0.00006, look=lambda step: 0.05 * (step == 6400)) == 12_800


def test_a_look_among_the_steps_that_are_measured_does_not_make_following_cheap(paces):
    step_sampler, now, spent, resting = paces.StepSampler(0.0), 0.0, 0.0, 0
    for step in range(1, 256 * 12):
        looked = step % 256 == 9  # part of what a look costs is not counted among what is spent
        spent += 0.0001 * (not (step_sampler.fast and step_sampler.is_skipped())) - 0.004 * looked
        now += 0.0004 + 0.004 * looked
        step_sampler.end_of_step(now, spent, looked)
        resting += step_sampler.fast and step_sampler.is_skipped()
    assert resting > 2000


def test_another_optimizer_leads_when_the_first_one_has_stopped(paces):
    step_sampler, first, second = paces.StepSampler(0.0), Owned(), Owned()
    assert step_sampler.is_leading(first)
    led = [step_sampler.is_leading(second) for _ in range(40)]
    assert led.index(True) == paces.PATIENCE + 1
    assert all(led[led.index(True) :])
    assert not step_sampler.is_leading(first)
