"""Steps that are not followed go a short way: what is recorded of them, and when they are looked at, stays the same."""

from __future__ import annotations

import threading
from math import inf
from types import SimpleNamespace

import pytest

from labbook.probe.training.fast_path import RARE, FastPath
from labbook.probe.training.loop_follower import Training
from labbook.probe.training.process_memory import ProcessMemory
from labbook.probe.training.sampling_schedule import Schedule
from labbook.probe.training.step_recorder import ONE_BY_ONE
from labbook.probe.training.step_sampling import ROUND, StepSampler


class Optimizer:
    """An optimizer that nobody asks for more than its identity."""


class Program:
    """A loop of very short steps, on the slow path until `monitor.skipping`."""

    def __init__(self):
        self.events = []
        nothing = lambda *given: None  # noqa: E731
        self.probe = SimpleNamespace(
            settings={"budget": 0.01},
            requests=None,
            step=None,
            totals={},
            role="python",
            add_overhead=nothing,
            mark_warm=nothing,
            watchdog=SimpleNamespace(follow=nothing),
        )
        self.probe.at_steps = self.probe.begin_optimizer = self.probe.at_exit = self.probe.after_fork = (
            self.probe.before_reading
        ) = nothing
        self.probe.event = lambda kind, **fields: self.events.append((kind, fields))
        self.probe.guard = lambda where: _Open()
        self.now = 0.0
        self.training = Training(self.probe, "torch", lambda optimizer, closure: {"type": "Optimizer"})
        self.training.clock = self.clock
        self.turns = []
        self.monitor = SimpleNamespace(
            skipping=False,
            thread=threading.get_ident(),
            inside=None,
            loop=SimpleNamespace(steps=0, backwards=0, train_grad=0),
            inspector=SimpleNamespace(
                release=nothing, flight_recorder=SimpleNamespace(release=nothing, keep_call=nothing)
            ),
            normal_loss=SimpleNamespace(highest_usual=lambda: self.highest),
            phases=SimpleNamespace(skip_step=nothing),
            step_sampler=StepSampler(0.0),
            schedule=Schedule("normal", 0.0),
            memory=ProcessMemory(nothing, "torch", 0.0),
            next_step=self.next_step,
            on_values=nothing,
            step_losses=SimpleNamespace(wants_look=lambda loop: False, not_looked=nothing, select_losses=nothing),
        )
        self.monitor.schedule._next = 10**6
        self.monitor.schedule._next_s = 10**6
        self.training.monitor = self.monitor
        self.norm, self.highest = 2.0, inf
        self.steady = 0
        adapter = SimpleNamespace(
            training=self.training,
            monitor=self.monitor,
            rates=lambda optimizer: [0.1],
            measure=lambda *given: self.norm,
        )
        self.fast_path = FastPath(adapter)
        self.optimizer = Optimizer()
        self.recorder = self.training.recorder(self.optimizer)
        self.recorder.step = ONE_BY_ONE
        self.recorder.budget.interval = 64

    def clock(self):
        return self.now

    def next_step(self, now):
        self.monitor.step_sampler.end_of_step(now, 0.0)
        self.turns.append(self.monitor.step_sampler.steps)

    def backward(self, loss):
        if self.fast_path.steady is not None and self.fast_path.accept_backward(loss):
            return True
        self.training.on_backward([loss])
        return self.fast_path.accept_unfollowed_backward([loss])

    def step(self, loss):
        """Takes a step as the hooks of a framework do; true when it took the fast path."""
        self.now += 0.0004
        self.backward(loss)
        local = self.training.local
        if self.fast_path.steady is self.optimizer and self.fast_path.begin_step(self.optimizer):
            self.steady += 1
            assert self.fast_path.finish_step(self.optimizer)
            return True
        if self.fast_path.begin_unfollowed_step(self.optimizer, local):
            assert self.fast_path.finish_unfollowed_step(self.optimizer, local)
            return True
        losses, backwards, _ = local.take(self.recorder)
        if self.monitor.step_sampler.is_leading(self.recorder):
            self.next_step(self.now)
        norm = self.norm if self.recorder.budget.is_due(self.recorder.step + 1) else None
        self.training.step(self.recorder, losses, [0.1], norm, backwards, None, None)
        return False

    def seen(self):
        self.fast_path.catch_up()
        self.recorder.flush()
        return [fields for kind, fields in self.events if kind == "step"]


class _Open:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def test_both_paths_record_the_same_steps():
    seen = []
    for resting in (False, True):
        program = Program()
        program.monitor.skipping = resting
        ways = [program.step(1.0 / step) for step in range(1, 1200)]
        assert sum(ways) == (1199 if resting else 0)
        assert (program.steady > 900) == resting
        assert program.monitor.step_sampler.steps == program.training.steps == program.probe.step - ONE_BY_ONE == 1199
        seen.append(program.seen())
    assert seen[0] == seen[1]
    norms = [record["agg"]["grad_norm"][3] if "agg" in record else 1 for record in seen[0] if "grad_norm" in record]
    assert sum(norms) == 19
    assert sum(record["n"] for record in seen[0]) == sum(record["backwards"] for record in seen[0]) == 1199


def test_the_schedule_is_evaluated_at_the_end_of_a_round_and_before_a_sample():
    program = Program()
    program.monitor.skipping = True
    program.monitor.schedule._next = 700
    program.monitor.memory.next_step = 10**6
    for _ in range(4 * ROUND):
        program.step(1.0)
    for end in (ROUND, 2 * ROUND, 3 * ROUND, 699):
        assert end in program.turns
    assert len([turn for turn in program.turns if turn < 690]) < 30


def test_the_schedule_is_evaluated_when_a_sample_is_due():
    program = Program()
    program.monitor.skipping = True
    program.monitor.schedule._next, program.monitor.schedule._next_s = 10**6, 0.0404
    program.monitor.memory.next_step = 10**6
    for _ in range(110):
        program.step(1.0)
    assert not {turn for turn in program.turns if 90 <= turn < 100}
    assert {turn for turn in program.turns if 100 <= turn < 103}


@pytest.mark.parametrize(
    "odd",
    [
        lambda program, local: setattr(local, "in_step", 1),
        lambda program, local: setattr(local, "in_backward", 1),
        lambda program, local: setattr(local, "clips", ["a clip"]),
        lambda program, local: setattr(local, "scaling", "a scaler"),
        lambda program, local: setattr(local, "losses", ["a value on a device"]),
        lambda program, local: setattr(program.recorder, "waiting", ["a step"]),
        lambda program, local: setattr(program.probe, "requests", "a condition"),
        lambda program, local: setattr(program.monitor, "thread", -1),
        lambda program, local: setattr(program.monitor, "skipping", False),
        lambda program, local: setattr(program, "optimizer", Optimizer()),
    ],
)
def test_unusual_steps_use_the_slow_path(odd):
    program = Program()
    program.monitor.skipping = True
    assert program.step(1.0)
    assert program.fast_path.steady is program.optimizer
    odd(program, program.training.local)
    assert program.fast_path.steady is not program.optimizer or not program.fast_path.begin_step(program.optimizer)
    assert not program.fast_path.begin_unfollowed_step(program.optimizer, program.training.local)
    assert program.training.local.fast_step is None


@pytest.mark.parametrize("norm", [None, float("inf"), "a value on a device"])
def test_a_norm_that_is_no_ordinary_number_is_taken_on_the_long_way(norm):
    program = Program()
    program.monitor.skipping = True
    program.recorder.budget.interval = 1
    program.recorder.step = 100 * RARE - 1
    program.norm = norm
    program.backward(1.0)
    assert not program.fast_path.begin_unfollowed_step(program.optimizer, program.training.local)


def test_a_value_that_is_not_finite_is_looked_for_on_the_long_way():
    program = Program()
    program.monitor.skipping = True
    assert program.backward(1.0)
    assert not program.backward(float("nan"))
    assert program.monitor.loop.backwards == 1


def test_a_step_inside_a_step_ends_with_the_outer_one():
    program = Program()
    program.monitor.skipping = True
    local = program.training.local
    program.backward(1.0)
    assert program.fast_path.begin_unfollowed_step(program.optimizer, local)
    assert not program.fast_path.begin_unfollowed_step(program.optimizer, local)
    local.in_step = 2
    assert not program.fast_path.finish_unfollowed_step(program.optimizer, local)
    local.in_step = 1
    assert program.fast_path.finish_unfollowed_step(program.optimizer, local)
    assert program.training.steps == 1


def test_a_loop_with_steps_inside_steps_is_never_steady():
    program = Program()
    program.monitor.skipping = True
    local = program.training.local
    for _ in range(3):
        program.backward(1.0)
        assert program.fast_path.begin_unfollowed_step(program.optimizer, local)
        assert not program.fast_path.begin_unfollowed_step(program.optimizer, local)
        assert program.fast_path.finish_unfollowed_step(program.optimizer, local)
        assert program.fast_path.steady is None
    assert program.training.steps == 3


def test_a_step_of_a_steady_loop_that_raised_is_no_step():
    program = Program()
    program.monitor.skipping = True
    program.step(1.0)
    program.backward(1.0)
    assert program.fast_path.begin_step(program.optimizer)
    program.backward(1.0)  # the program has caught its error and goes on
    assert not program.fast_path.begin_step(program.optimizer)
    assert program.fast_path.steady is None
    assert program.training.steps == 1


def test_a_step_that_grew_out_of_the_ordinary_meanwhile_ends_on_the_short_way_as_it_began():
    program = Program()
    program.monitor.skipping = True
    program.step(1.0)
    program.backward(1.0)
    assert program.fast_path.begin_step(program.optimizer)
    program.training.local.losses.append(2.0)
    assert not program.fast_path.finish_step(program.optimizer)
    assert program.fast_path.finish_unfollowed_step(program.optimizer, program.training.local)
    assert program.training.steps == 2


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), -float("inf"), 5.1])
def test_a_loss_that_is_out_of_the_ordinary_is_met_at_once_in_a_steady_loop(loss):
    program = Program()
    program.monitor.skipping = True
    program.highest = 5.0
    for _ in range(3):
        program.step(1.0)
    assert program.fast_path.steady is program.optimizer
    assert program.training.steps == 1  # the others are put aside
    assert not program.fast_path.accept_backward(loss)
    assert program.fast_path.steady is None
    assert program.training.steps == program.monitor.loop.steps == program.training.backwards == 3
    assert program.training.local.losses == []


def test_whoever_asks_for_the_step_gets_the_last_one():
    program = Program()
    program.monitor.skipping = True
    for _ in range(5):
        program.step(1.0)
    assert program.training.steps < 5
    program.training.finish()
    assert program.training.steps == 5
    assert program.probe.step == program.recorder.step == ONE_BY_ONE + 5


def test_steps_are_put_aside_no_longer_than_they_may_be_lost():
    program = Program()
    program.monitor.skipping = True
    for _ in range(40):
        before = program.now
        program.step(1.0)
        program.now += 0.02
        if program.fast_path._held:
            assert program.now - before < 0.06
    assert len(program.fast_path._held) <= 3


def test_deferred_steps_are_those_of_the_training_thread():
    program = Program()
    program.monitor.skipping = True
    for _ in range(4):
        program.step(1.0)
    held = len(program.fast_path._held)
    other = threading.Thread(
        target=lambda: (program.fast_path.catch_up(), program.fast_path.stop(), program.fast_path.accept_backward(1.0))
    )
    other.start()
    other.join()
    assert held == len(program.fast_path._held) == 3
    assert program.fast_path.steady is program.optimizer


def test_a_forked_child_does_not_tell_the_steps_of_its_parent():
    program = Program()
    program.monitor.skipping = True
    for _ in range(4):
        program.step(1.0)
    program.fast_path.forget()
    program.fast_path.catch_up()
    assert program.training.steps == 1
    assert program.fast_path.steady is None


def test_a_norm_is_taken_rarely_in_a_steady_loop():
    program = Program()
    program.monitor.skipping = True
    program.recorder.budget.interval = 1
    for _ in range(10 * RARE):
        assert program.step(1.0)
    norms = [
        record["agg"]["grad_norm"][3] if "agg" in record else 1 for record in program.seen() if "grad_norm" in record
    ]
    assert sum(norms) == 10


def test_reported_time_counts_as_overhead():
    program = Program()
    program.training.overhead_s = 0.25
    program.training._settle(512)
    program.training.overhead_s = 0.5
    assert program.training.total_overhead_s() == 0.75


def test_memory_is_measured_at_its_step():
    program = Program()
    program.monitor.skipping = True
    program.monitor.schedule._next = program.monitor.memory.next_step = 60
    for _ in range(58):
        program.step(1.0)
    counted = len(program.turns)
    program.monitor.memory.next_step = 10**6
    program.step(1.0)
    program.step(1.0)
    assert counted < 5 and max(program.turns) >= 59
