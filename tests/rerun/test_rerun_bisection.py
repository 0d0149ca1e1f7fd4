from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labbook.errors import UsageError
from labbook.rerun.bisection import bisect, likelihood, make_judge, with_required
from labbook.rerun.run_differences import (
    Difference,
    apply_code,
    code_differences,
    command_with,
    required_hunks,
    setting_differences,
)


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


@pytest.mark.process
def test_some_hunks_land_where_the_whole_change_has_them(tmp_path, git):
    good, bad = tmp_path / "good", tmp_path / "bad"
    lines = [f"line {number}\n" for number in range(10)]
    changed = [*lines[:2], "first\n", *lines[2:5], "other 5\n", *lines[6:7], "second\n", *lines[7:9]]
    good.mkdir()
    git(good, "init", "-q")
    (good / "a.txt").write_text("".join(lines))
    git(good, "add", "-A")
    git(good, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "good")
    git(good, "worktree", "add", "-q", "--detach", str(bad))
    (bad / "a.txt").write_text("".join(changed))
    hunks = code_differences(good, bad)
    assert len(hunks) == 4
    wanted = {
        (2,): [*lines[:7], "second\n", *lines[7:]],
        (3,): lines[:9],
        (1, 2): [*lines[:5], "other 5\n", lines[6], "second\n", *lines[7:]],
        (0, 3): [*lines[:2], "first\n", *lines[2:9]],
        (0, 1, 2, 3): changed,
    }
    for chosen, text in wanted.items():
        (good / "a.txt").write_text("".join(lines))
        apply_code(good, [hunks[number] for number in chosen])
        assert (good / "a.txt").read_text() == "".join(text), chosen


def hunk(name, added="", removed="", line=1):
    text = "@@ -1 +1 @@\n" + "".join(f"-{removed}\n" * bool(removed) + f"+{added}\n" * bool(added))
    return Difference("code", f"{name}:{line}", removed, added, ("head", text))


def test_a_use_is_tried_with_its_definition_and_a_definition_alone():
    definition, use = hunk("a.py", "def describe(x): return x"), hunk("b.py", "describe(1)")
    gone, last_use = hunk("c.py", "", "old = 1"), hunk("d.py", "", "print(old)")
    required = required_hunks(
        [definition, use, gone, last_use, hunk("e.py", "lr = 2", "lr = 1"), hunk("f.py", "f(lr)")]
    )
    assert required == {use: {definition}, gone: {last_use}}
    assert with_required([use], required) == [use, definition] and with_required([definition], required) == [definition]


def test_code_in_the_traceback_is_likelier_than_comments_and_texts():
    frames = [{"frames": [{"file": "~/project/model.py", "line": 12}]}]
    bad = run("failed", exceptions=frames)
    rows = [
        hunk("model.py", "x = y", line=11),
        hunk("model.py", "x = y", line=40),
        Difference("argument", "--note", "", "--note a"),
        hunk("model.py", "# x", line=12),
    ]
    known = [likelihood(row, bad) for row in rows]
    assert known == sorted(known, reverse=True) and len(set(known)) == 4
