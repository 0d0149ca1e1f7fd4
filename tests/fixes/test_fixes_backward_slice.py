"""What reaches the failing line of a run, and what earlier runs say about a difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from labbook.fixes.backward_slice import is_in_loop, slice_backward
from labbook.fixes.fix_background import HARMLESS, NEW_SINCE_HEALTHY, NO_CURE, UNKNOWN, Background, slice_failure
from labbook.fixes.fix_candidates import find_cured, is_same_place
from labbook.fixes.fix_ranking import order_candidates
from labbook.model.run import CaughtException, Change, Frame, Process, Run

DATA = '''
def make_items(n, scale):
    """Items."""
    rows = [scale * k for k in range(n)]
    return rows


def unused(n):
    return n + 7
'''
NET = """
class Net:
    def __init__(self, width, depth=2):
        self.layer = Linear(width, 3)
        self.other = Linear(depth, 3)

    def forward(self, x):
        y = x + 1
        return self.layer(y)
"""
MAIN = """
import os
from data import make_items
from net import Net

parser.add_argument("--width", default=4)
parser.add_argument("--epochs", default=4)
args = parser.parse_args()
rate = os.environ.get("RATE")
net = Net(args.width)
items = make_items(3, args.scale)
for epoch in range(args.epochs):
    if args.clip:
        items = clip(items)
    out = net(items)
    log(rate)
save(out, args.folder)
"""
CODE = {"data.py": DATA, "net.py": NET, "main.py": MAIN}
FAILING = [("net.py", 9), ("main.py", 15)]  # in `forward`, called by `net(items)`


@pytest.mark.parametrize(
    ("file", "line", "reaches"),
    [
        ("net.py", "self.layer = Linear(width, 3)", True),
        ("net.py", "self.other = Linear(depth, 3)", False),
        ("net.py", "y = x + 1", True),
        ("main.py", 'parser.add_argument("--width", default=4)', True),
        ("main.py", "if args.clip:", True),
        ("main.py", "log(rate)", False),
        ("main.py", "save(out, args.folder)", False),
        ("data.py", "rows = [scale * k for k in range(n)]", True),
        ("data.py", "return n + 7", False),
    ],
)
def test_a_line_reaches_the_failing_one_through_names_calls_and_conditions(file, line, reaches):
    assert (slice_backward(CODE, FAILING).find_line(file, line) is not None) == reaches


def test_options_variables_and_keys_reach_it_by_name_the_nearest_with_the_fewest_steps():
    names = slice_backward(CODE, FAILING).names
    assert names["width"] < names["epochs"] and "folder" not in names and "RATE" not in names
    assert slice_backward({"broken.py": "def ("}, [("broken.py", 1)]).lines == {}


@pytest.mark.parametrize(("line", "inside"), [(15, True), (17, False), (9, False)])
def test_a_line_is_in_a_loop_of_its_own_function(line, inside):
    assert is_in_loop(MAIN, line) == inside
    assert not is_in_loop("for n in (1, 2):\n    def f():\n        return n\n", 3)


def code(removed="", added="", what="main.py"):
    rows = [f"-{line}" for line in removed.splitlines()] + [f"+{line}" for line in added.splitlines()]
    return Change("code", what, "", "lines", "\n".join(["", "@@ @@", *rows]))


RATE, SIZE = Change("argument", "--rate", "9", "0.1"), Change("argument", "--size", "8", "16")


@pytest.mark.parametrize(
    ("since", "attempts", "change", "verdict"),
    [
        ([Change("argument", "--rate", "0.3", "9")], (), RATE, NEW_SINCE_HEALTHY),
        ([Change("argument", "--rate", "0.3", "9")], (), SIZE, HARMLESS),
        ([code("a = 1", "a = 2")], (), code("a = 2", "a = 3"), NEW_SINCE_HEALTHY),
        ([code("opt.clear()", "")], (), code("show(n)", "opt.clear()\nshow(n + 1)"), NEW_SINCE_HEALTHY),
        ([code("a = 1", "a = 2")], (), code("b = 2", "b = 3"), HARMLESS),
        ([code("a = 1", "a = 2")], (), code("", "c = 3"), UNKNOWN),
        (None, ([Change("argument", "--rate", "0.1", "9")],), RATE, NO_CURE),
        (None, ([code("back()", "back(keep=True)")],), code("back(keep=True)", "back()"), NO_CURE),
        (None, ([Change("argument", "--rate", "5", "9")],), RATE, UNKNOWN),
    ],
)
def test_what_came_since_the_last_healthy_run_is_suspected_and_what_an_attempt_had_is_not(
    since, attempts, change, verdict
):
    assert Background(since, attempts).judge(change) == verdict


def run(status="finished", **facts):
    return Run("20261121-100000-aaaa", status, ("python", "main.py"), "/work", 0.0, **facts)


def crash(*frames, source="", step=None, **facts):
    rows = tuple(Frame(f"/work/{file}", line, "f", source, True) for file, line in frames)
    raised = CaughtException("main", "ValueError", "builtins", "no", frames=rows, step=step, ended_process=True)
    return run("failed", exceptions=(raised,), **facts)


@pytest.mark.parametrize(
    ("since", "changes", "shown"),
    [
        (None, [SIZE, Change("argument", "--width", "4", "5"), Change("argument", "--folder", "a", "b")], "--width"),
        (None, [code("return n + 7", "return n", "data.py"), code("y = x + 1", "y = x", "net.py")], "net.py"),
        ([RATE], [SIZE, RATE], "--rate"),
        (None, [SIZE, RATE], ""),
    ],
)
def test_the_difference_that_reaches_the_failing_line_or_is_new_is_first_and_without_one_none_is_claimed(
    since, changes, shown
):
    failed = crash(*reversed(FAILING))
    background = Background(since, (), *slice_failure(failed, CODE, CODE))
    ordered, count = order_candidates(changes, failed, run(), (), {}, background)

    assert count == bool(shown)
    assert not shown or ordered[0].what == shown


def test_a_crash_behind_the_loop_is_passed_in_fewer_steps_and_a_refusal_without_a_name_is_gone_too():
    processes = (Process(1, 0, ("python", "main.py"), "main", steps=5),)
    failed, now = crash(("main.py", 17), step=9, fingerprints=("v1:a",)), run(processes=processes)
    assert find_cured(failed, now) is None
    assert find_cured(failed, now, is_after_loop=lambda: True) == ((), ("v1:a",))
    assert find_cured(run("failed"), run()) == ((), ())


def test_an_attempt_failed_at_the_same_call_whatever_its_arguments():
    first, second = (crash(("main.py", 5), source=source) for source in ("loss.back()", "loss.back(keep=True)"))
    assert is_same_place(first, second)
    assert not is_same_place(replace(first, exceptions=()), second)


def test_the_code_of_a_run_is_read_from_its_patch(tmp_path):
    from labbook.compare.code_diff import read_code

    patch = "diff --git a/a.py b/a.py\nnew file mode 100644\n--- /dev/null\n+++ b/a.py\n@@ -0,0 +1,1 @@\n+x = 1\n"
    (tmp_path / "changes.patch").write_text(patch)
    facts = {"repository": False, "top": "/w", "commit": ""}
    assert read_code(facts, Path(tmp_path), ["/w/a.py", "/else/b.py", "/w/c.txt"]) == {"a.py": "x = 1"}
