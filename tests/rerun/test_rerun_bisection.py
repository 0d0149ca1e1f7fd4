from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labbook.errors import UsageError
from labbook.rerun.bisection import bisect, make_judge
from labbook.rerun.run_differences import Difference, command_with, setting_differences


def differences(count):
    return [Difference("argument", f"--a{n}", "0", "1") for n in range(count)]


@given(st.integers(1, 16), st.data())
def test_one_guilty_difference_is_found_and_proven_with_few_runs(count, data):
    all_of_them = differences(count)
    guilty = data.draw(st.sampled_from(all_of_them))
    found = bisect(all_of_them, lambda chosen: guilty in chosen, 20)
    assert found.guilty == (guilty,) and found.proven and found.runs <= 5


@given(st.integers(2, 12), st.data())
def test_differences_that_act_together_are_found_together(count, data):
    all_of_them = differences(count)
    guilty = set(data.draw(st.lists(st.sampled_from(all_of_them), min_size=2, max_size=2, unique=True)))
    found = bisect(all_of_them, lambda chosen: guilty <= set(chosen), 200)
    assert guilty <= set(found.guilty)
    assert len(found.guilty) <= max(2, count - 1) or not found.proven


def test_halves_that_do_not_run_alone_are_no_evidence():
    all_of_them = differences(4)
    definition, use = all_of_them[0], all_of_them[3]

    def attempt(chosen):
        if (definition in chosen) != (use in chosen):
            return None
        return definition in chosen

    found = bisect(all_of_them, attempt, 30)
    assert {definition, use} <= set(found.guilty)


def run(status="finished", loss=0.5, symptoms=(), exceptions=(), **more):
    series = [{"name": "loss", "steps": [1], "values": [loss]}]
    return {
        "status": status,
        "primary": "loss",
        "series": series,
        "symptoms": symptoms,
        "exceptions": exceptions,
        **more,
    }


def test_bad_is_what_fails_alike_or_comes_nearer():
    crash = run("failed", exceptions=[{"type": "ValueError"}])
    judge = make_judge(run(), crash)
    assert (judge(crash), judge(run()), judge(run("failed", exceptions=[{"type": "KeyError"}]))) == (True, False, None)
    judge = make_judge(run(), run(symptoms=["loss_nan"]))
    assert (judge(run(symptoms=["loss_nan"])), judge(run())) == (True, False)
    judge = make_judge(run(loss=0.1), run(loss=0.9))
    assert (judge(run(loss=0.8)), judge(run(loss=0.2)), judge(run(loss="nan"))) == (True, False, None)
    with pytest.raises(UsageError, match="do not differ"):
        make_judge(run(id="a"), run(id="b"))


def test_options_of_both_styles_are_exchanged_one_by_one():
    good = {"argv": ["python", "train.py", "--lr", "0.1", "--layers=2", "data.path=/a", "--fast"]}
    bad = {"argv": ["python", "train.py", "--lr", "3.0", "--layers=2", "data.path=/b", "--seed", "1"]}
    found = {one.name: one for one in setting_differences(good, bad)}
    assert set(found) == {"lr", "data.path", "fast", "seed"}
    assert command_with(good["argv"], bad["argv"], [found["lr"], found["seed"]]) == [
        *("python", "train.py", "--lr", "3.0", "--layers=2", "data.path=/a", "--fast", "--seed", "1"),
    ]
