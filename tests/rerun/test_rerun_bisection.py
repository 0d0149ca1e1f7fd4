from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labbook.errors import UsageError
from labbook.rerun.bisect_runs import bisection_lines, fix_command
from labbook.rerun.bisection import Bisection, add_required, bisect, likelihood, make_judge
from labbook.rerun.run_differences import (
    Difference,
    apply_code,
    code_differences,
    command_with,
    required_hunks,
    setting_differences,
    split_lines,
)
from labbook.store.text.sentences import Sentences


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
    # One that fails where neither of the two did is no evidence.
    assert judge(run("failed", exceptions=[{"type": "NameError"}])) is None
    judge = make_judge(run(loss=0.1), run(loss=0.9))
    assert judge(run("failed", loss=0.2)) is None
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


@pytest.mark.process
def test_lines_of_a_hunk_together_are_the_hunk_and_one_alone_is_one_line(tmp_path, git):
    good, bad = tmp_path / "good", tmp_path / "bad"
    shapes = [(2, 2), (0, 3), (3, 0), (1, 3), (3, 1)]
    texts = {
        f"{removed}_{added}.txt": [
            ["x = 0", *(f"{side} = {number}" for number in range(count)), "y = 0"]
            for side, count in (("old", removed), ("new", added))
        ]
        for removed, added in shapes
    }

    def write(folder, side: int) -> None:
        for name, lines in texts.items():
            (folder / name).write_text("\n".join([*lines[side], ""]))

    good.mkdir()
    git(good, "init", "-q")
    write(good, 0)
    git(good, "add", "-A")
    git(good, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "good")
    git(good, "worktree", "add", "-q", "--detach", str(bad))
    write(bad, 1)
    parts = [split_lines(one, (good / one.name.rpartition(":")[0]).read_text()) for one in code_differences(good, bad)]
    assert sorted(map(len, parts)) == [2, 3, 3, 3, 3]

    apply_code(good, [line for lines in parts for line in lines])
    assert {name: (good / name).read_text() for name in texts} == {name: (bad / name).read_text() for name in texts}
    for place in range(3):
        write(good, 0)
        alone = [lines[place] for lines in parts if place < len(lines)]
        apply_code(good, alone)
        for line in alone:
            name = line.name.rpartition(":")[0]
            now = (good / name).read_text().splitlines()
            assert len(now) == len(texts[name][0]) + bool(line.now) - bool(line.before)
            assert (not line.now or line.now in now) and line.before not in now


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
    assert add_required([use], required) == [use, definition] and add_required([definition], required) == [definition]


@pytest.mark.parametrize(
    ("definition", "use"),
    [
        (("total, seen = 0, 0", "total = 0"), ("seen += 1", "")),
        (("def step(net, x, *, clip: float = 1.0):", "def step(net, x):"), ("norm(clip)", "norm()")),
        (("", "rows = []"), ("rows = [f(x) for x in file]", "for x in file: rows.append(f(x))")),
        (("import math", ""), ("y = math.sqrt(2)", "y = 2 ** 0.5")),
        (("self.dropout = D(dropout)", "self.norm = D(dropout)"), ("y = self.dropout(x)", "y = x")),
        (("def scale(self, x):", ""), ("y = self.scale(x)", "y = x")),
    ],
)
def test_what_a_use_needs_is_found_in_assignments_and_signatures(definition, use):
    """A variable of several, a parameter, and a variable that the other hunk fills no more."""
    one, other = hunk("a.py", *definition), hunk("b.py", *use)
    innocent = hunk("c.py", "def show(x, width): return x", "")
    assert list(required_hunks([one, other, innocent, hunk("d.py", "width = 3", "width = 2")]).values()) in (
        [{one}],
        [{other}],
    )


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


@pytest.mark.parametrize(
    ("good", "bad", "name", "count"),
    [
        ("a = 1\nb = 2\n", "a = 3\nb = 4\n", "m.py", 2),
        ("a: 1\nb: 2\nc: 3\n", "a: 3\nb: 2\nc: 4\n", "m.yaml", 2),
        ("f(1,\n  2)\n", "g(1, 2)\nh()\n", "m.py", 0),  # neither line alone compiles
        ("a = 1\nb = 2\n", "a = 1; b = 3\n", "m.py", 2),
        ("", "a = 1\nb = 3\nc = 4\n", "m.py", 3),
        ("a = 1\nb = 2\n", "", "m.py", 2),
        ("", "def f():\n    return 1\n", "m.py", 0),
        ("a = 1\nb = 2", "a = 3\nb = 4", "m.py", 0),
        ("a = 1\n" * 9, "a = 2\n" * 9, "m.py", 0),
    ],
)
def test_lines_of_a_hunk_are_tried_alone_if_each_compiles(good, bad, name, count):
    old, new = good.splitlines(), bad.splitlines()
    end = "\\ No newline at end of file\n" if good and not good.endswith("\n") else ""
    text = "".join([*(f"-{line}\n" for line in old), end, *(f"+{line}\n" for line in new), end])
    head = f"@@ -{int(bool(old))},{len(old)} +{int(bool(new))},{len(new)} @@\n"
    lines = split_lines(Difference("code", f"{name}:1", patch=("head", head + text)), good)
    assert len(lines) == count
    assert all(line.before in [*old, ""] and line.now in [*new, ""] and line.patch[0] == "head" for line in lines)


def test_the_result_of_lines_that_act_together_is_the_hunk():
    found = bisect(["a", "b"], lambda chosen: len(chosen) == 2, 8)
    assert not found.proven and set(found.guilty) == {"a", "b"}


def test_the_fix_of_a_bisection_is_a_later_run_or_what_has_to_be_undone():
    guilty = [Difference("code", "config.yaml:1", "lr: 0.1", "lr: 8"), Difference("code", "a.py:3", "x\ny", "")]
    say = Sentences("en")
    assert fix_command("2", "1", guilty, say) == "labbook fix 1 --by 2"
    assert fix_command("1", "2", guilty, say) == "labbook fix 2 -m 'config.yaml:1: lr: 8 → lr: 0.1; a.py:3: as in 1'"


@pytest.mark.parametrize(
    ("before", "now", "shown"),
    [
        ("", "--lr 3", "added --lr 3"),
        ("--amp", "", "removed --amp"),
        ("--lr 0.1", "--lr 3", "--lr 0.1 → --lr 3"),
    ],
)
def test_an_option_is_named_once(before, now, shown):
    found = Bisection((Difference("argument", "lr", before, now),), proven=True, runs=1, candidates=2)
    assert Sentences("en")(bisection_lines(found)[1]).strip() == shown
