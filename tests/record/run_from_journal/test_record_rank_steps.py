"""What a rank measured of its steps: its own time, without waiting for other ranks."""

from __future__ import annotations

import pytest

from labbook.probe.training.step_phases import StepPhases
from labbook.record.run_from_journal.rank_steps import collective_calls, own_step_s
from labbook.store.journal import ProcessEvents


def process(framework="torch", device="cpu", **more):
    phases = {"data": 0.01, "forward": 0.02, "backward": 0.5, "optimizer": 0.1, "other": 0.3}
    events = [{"k": "state", "device": [device]}]
    events += [{"k": "step", "framework": framework, "step": n, "n": 1, "ph": phases, **more} for n in range(1, 9)]
    return ProcessEvents("host-1-1.jsonl", tuple(events))


@pytest.mark.parametrize(
    ("facts", "seconds"),
    [
        ({}, 0.33),
        ({"collective": 0.25}, 0.08),
        ({"collective": float("nan")}, None),
        ({"framework": "paddle"}, 0.03),
        ({"device": "cuda:0", "collective": 0.25}, 0.01),
    ],
)
def test_own_time_of_a_step_is_without_waiting_for_other_ranks(facts, seconds):
    assert own_step_s(process(**facts)) == (None if seconds is None else pytest.approx(seconds))


def test_collective_calls_are_timed_for_each_step_and_a_handle_makes_it_unknown():
    now = iter(range(100))
    phases = StepPhases(lambda: next(now))
    phases.skip_step(0.0)
    assert "collective" not in phases.step(1.0)
    phases.waited(0.25, is_known=True)
    phases.waited(0.25, is_known=True)
    assert phases.step(2.0)["collective"] == 0.5 and phases.step(3.0)["collective"] == 0.0
    phases.waited(0.0, is_known=False)
    assert phases.step(4.0)["collective"] != 0.0


def test_the_work_of_the_probe_is_no_part_of_the_rest_of_a_step():
    spent = iter([1.0, 1.5, 9.5])
    phases = StepPhases(lambda: 0.0, lambda: next(spent))
    phases.skip_step(0.0)
    phases.forward = 0.25
    assert phases.step(1.0)["ph"] == (0.0, 0.25, 0.0, 0.0, 0.25, 0.5)
    assert phases.step(2.0)["ph"][-2:] == (0.0, 8.0)


def test_what_was_measured_before_a_step_without_times_is_no_part_of_the_next_one():
    phases = StepPhases(lambda: 0.0)
    phases.samples, phases.forward, phases.backward = 200, 0.5, 0.5
    phases.skip_step(0.0)
    phases.samples, phases.forward = 100, 0.25
    assert phases.step(1.0) == {"ph": (0.0, 0.25, 0.0, 0.0, 0.75, 0.0), "samples": 100}


def test_calls_are_counted_for_each_step():
    assert collective_calls(process(calls=4)) == dict.fromkeys(range(1, 9), 4)
