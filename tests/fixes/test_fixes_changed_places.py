"""Each changed place of a file as a difference of its own, and the proposals of loops of trials."""

from __future__ import annotations

import difflib
from dataclasses import replace

import pytest
from order_of_tests import in_one_test

from labbook.fixes import propose_fix
from labbook.fixes.fix_applicability import Circumstances, can_apply
from labbook.fixes.fix_candidates import drop_doubles, split_changes
from labbook.fixes.fix_judge import FixJudge
from labbook.fixes.fix_ranking import order_candidates
from labbook.model.confirmed_fix import Proposal, describe_changes
from labbook.model.finding import EarlierRun, Finding
from labbook.model.run import CaughtException, Change, CheckResult, Frame, Run
from labbook.model.run_files import FileUse
from labbook.model.symptom import Symptom, Wording
from labbook.report import run_data
from labbook.store.text.sentences import Sentences

LR, EPOCHS = Change("argument", "--lr", "3.0", "0.1"), Change("argument", "--epochs", "4", "5")


def run(status="finished", **facts):
    return Run("20261121-100000-aaaa", status, ("python", "train.py"), "/work", 0.0, **facts)


def symptom(id_, *cured_by):
    return Symptom(id_, "other", "x", 1, "error", (), {"en": Wording(id_)}, cured_by=cured_by)


def crash(type_, message, source=""):
    frames = (Frame("/work/train.py", 9, "<module>", source, True),)
    raised = CaughtException("main", type_, "builtins", message, frames=frames, ended_process=True)
    return run("failed", symptoms=("s",), exceptions=(raised,))


def diff(what, removed, added):
    return Change("code", what, "", "+1 -1 lines", f"--- {what}\n+++ {what}\n@@ -1 +1 @@\n-{removed}\n+{added}")


STEP = diff("lm.py", "h += 1", "h = h + 1")


def rewritten(kind, what, *pairs):
    """Returns a change of a file whose lines were replaced, each in a place of its own."""
    hunks = "".join(f"\n@@ -1,2 +1,2 @@\n x{n} = y{n}\n-{old}\n+{new}" for n, (old, new) in enumerate(pairs))
    return Change(kind, what, "", f"+{len(pairs)} -{len(pairs)} lines", f"--- {what}\n+++ {what}{hunks}")


CONFIG = rewritten(
    "config",
    "conf.yaml",
    ("seed: 4", "seed: 5"),
    ("  lr: 1.0e-3", "  lr: 0.01"),
    ("  root: sets/v2", "  root: ./sets"),
    ("  batch_size: 1", "  batch_size: 4"),
)
HOST = Change("environment", "torch seeds.torch", "4", "5")
ROOT, RATE = Change("environment", "ROOT", "../daten", "./data"), Change("environment", "RATE", "", "0.1")
LAYERS, BLOCK = Change("argument", "--layers", "2", "1"), Change("argument", "--block", "96", "48")
READ = Change("input", "sets/blobs.npz", "", "3 kB")
DOC = diff("features.py", "def f(a):", '"""Mean 0."""').detail.replace("-def f(a):\n", "")
FEATURES = Change("code", "features.py", "", "+1 -0 lines", DOC)
TABLE = diff("houses.csv", "98,11,n/a", "98,11,529.3")
TOML = rewritten("config", "run.toml", ('stats = "stats.yaml"', 'stats = "stats.json"'))
STATS, SEQLIB = Change("config", "stats.json", "", "read"), Change("package", "seqlib", "2.0.0", "1.4.2")
EPS, STEPS = Change("environment", "LOG_EPS", "0", "1e-4"), Change("argument", "steps", "8", "9")
BLOB, SET = Change("input", "blob.npy", "285 bytes", ""), Change("environment", "SET", "blob.npy", "./img.npy")
WIDE = Change("argument", "--ch", "6", "8")
RATE_OPTION = Change("argument", "--base-learning-rate", "9", "0.1")
SIZE_64 = Change("argument", "--size", "64", "32")
CAST = rewritten("code", "a.ipynb", ("opt = Adam(lr=0.02)", "opt = Adam(lr=0.01)"), ("y = t.float()", "y = t.long()"))
INPLACE = rewritten("code", "a.py", ("for e in range(n)", "for e in range(1, n)"), ("h += f(h)", "h = h + f(h)"))
LAYER = rewritten("code", "model.py", ("drop = nn.Dropout(p)", "drop = nn.Dropout(p=p)"),
                   ("self.fc1 = nn.Linear(4, n)", "self.fc1 = nn.Linear(16, n)"))  # fmt: skip


@in_one_test(
    ("failed", "cured_by", "changes", "first", "count"),
    [
        (crash("ValueError", "Expected more than 1 value, got torch.Size([1, 12])"), ("option:*batch*", "code"),
         [HOST, CONFIG, STEP], "+  batch_size: 4", 2),
        (crash("FileNotFoundError", "No such file: 'sets/v2/blobs.npz'"), (), [READ, CONFIG], "+  root: ./sets", 1),
        (crash("FileNotFoundError", "No such file: '../daten/houses.csv'"), (), [RATE, ROOT], ROOT, 1),
        (crash("ValueError", "could not convert string to float: 'n/a'"), ("code",), [FEATURES, TABLE], "+98,11", 1),
        (run("failed", symptoms=("s",), findings=(Finding("s", "f", "f", 1, "fail", "t", evidence=("ids: [16, 96]",)),),
             exceptions=crash("IndexError", "index out of range").exceptions), ("code",), [LAYERS, BLOCK], BLOCK, 1),
        (crash("RuntimeError", "shapes differ: x, fc1.weight"), ("code",), [LAYER], "+self.fc1", 2),
        (crash("RuntimeError", "expected input[64, 3] to have 8 channels"), ("code",), [SIZE_64, CAST], "Adam", 3),
        (crash("RuntimeError", "expected Long but found Float"), ("code",), [CAST], "+y = t.long()", 2),
        (crash("FileNotFoundError", "No such file: 'stats.yaml'"), ("input",), [STATS, TOML], "+stats", 1),
        (crash("TypeError", "center() got an unexpected keyword", "x = seqlib.center(x, dim=1)"), ("code",),
         [LAYER, SEQLIB], SEQLIB, 3),
        (run(symptoms=("s",)), ("input", "environment:*_eps*"), [STEPS, EPS], EPS, 1),
        (replace(crash("ValueError", "no"), files=(FileUse("blob.npy", "read", 285),)), (), [EPOCHS, BLOB, SET],
         SET, 1),
        (run(symptoms=("s",), findings=(Finding("s", "f", "f", 1, "fail", "t", message="6 of 6 values"),)),
         ("option:*lr*",), [WIDE, LR], LR, 2),
        (crash("ValueError", "8 of 8 values"), ("environment:*_eps*",), [STEPS, EPS], EPS, 1),
        (crash("RuntimeError", "no"), (), [STEPS, replace(STEPS, what="--steps")], replace(STEPS, what="--steps"), 1),
        (crash("RuntimeError", "no"), ("option:*lr*",), [EPOCHS, RATE_OPTION], RATE_OPTION, 1),
    ],
)  # fmt: skip
def test_each_place_of_a_file_is_a_difference_and_the_one_that_the_failure_names_is_first(
    failed, cured_by, changes, first, count
):
    pieces = drop_doubles(split_changes(drop_doubles(changes, failed)), failed)
    ordered, touching = order_candidates(pieces, failed, run(), ("s",), {"s": symptom("s", *cured_by)})

    assert ordered[0] == first if isinstance(first, Change) else first in ordered[0].detail
    assert touching == count


def test_an_option_that_the_message_and_the_failing_line_name_is_shown_alone():
    failed = crash("RuntimeError", "no such device: cuda", "net = Net(args.width).to(args.device)")
    device, width = Change("argument", "--device", "cuda", "cpu"), Change("argument", "--width", "64", "80")
    assert order_candidates([width, device], failed, run(), (), {}) == ((device, width), 1)


@pytest.mark.parametrize(("before", "first"), [("0.1", "code"), ("SGDD", "config")])
def test_another_value_cures_no_missing_attribute_unless_it_is_its_name(before, first):
    failed = crash("AttributeError", "'Table' object has no attribute 'SGDD'", "base = self.SGDD * 2")
    value = replace(rewritten("config", "c.yaml", (f"SGDD: {before}", "SGDD: 0.2")), before=before, now="0.2")
    ordered, _ = order_candidates(
        [value, diff("t.py", "base = self.SGDD * 2", "base = SGDD * 2")], failed, run(), (), {}
    )
    assert ordered[0].kind == first


def test_code_that_the_page_of_the_symptom_shows_is_before_other_code():
    page = replace(symptom("s", "code"), wording={"en": Wording("s", why=("`x += y` changed it.",))})
    pieces = split_changes([INPLACE])
    ordered, _ = order_candidates(pieces, crash("RuntimeError", "modified"), run(), ("s",), {"s": page})
    assert "-h += f(h)" in ordered[0].detail


@pytest.mark.parametrize(
    ("old", "new", "is_kept"),
    [
        ("torch.manual_seed(5)", "torch.manual_seed(6)", False),
        ("net = Net(seed=3, width=4)", "net = Net(seed=3, width=5)", True),
    ],
)
def test_a_line_that_sets_another_seed_is_no_fix(old, new, is_kept):
    line = rewritten("code", "a.py", (old, new))
    assert drop_doubles([line, LR], crash("RuntimeError", "no")) == ([line, LR] if is_kept else [LR])


LOOP = """import os
for epoch in range(3):
    for x in data:
        loss = model(x)
        opt.zero_grad()
        loss.backward()
        clip(model)
        opt.step()
    print("epoch", epoch)
"""


def moved(text, line, before, also=("", "")):
    """Returns a text in which a line is before another one, and another difference."""
    rows = [row for row in text.splitlines() if row.strip() != line.strip()]
    at = next(n for n, row in enumerate(rows) if row.strip() == before)
    return "\n".join([*rows[:at], line, *rows[at:], ""]).replace(*also)


@in_one_test(("old", "new", "english", "chinese"), [
    (moved(LOOP, "        loss.backward()", "opt.zero_grad()"), LOOP,
     "t.py: opt.zero_grad() moved above loss.backward()", "t.py：opt.zero_grad() 移到 loss.backward() 之前"),
    (moved(LOOP, "        clip(model)", "loss.backward()"), LOOP,
     "t.py: loss.backward() moved above clip(model)", "t.py：loss.backward() 移到 clip(model) 之前"),
    (LOOP, moved(LOOP, "os.makedirs(out)", "import os"), "t.py: os.makedirs(out) added", "t.py：新增 os.makedirs(out)"),
    (moved(LOOP, "    opt = SGD(model)", "for x in data:", ("3", "4")), moved(LOOP, "opt = SGD(model)", "import os"),
     "t.py: opt = SGD(model) moved above import os; t.py: for epoch in range(4): → for epoch in range(3):",
     "t.py：opt = SGD(model) 移到 import os 之前；t.py：for epoch in range(4): → for epoch in range(3):"),
    (LOOP.replace("    print", "        print"), LOOP, 't.py: print("epoch", epoch) indented by 4 instead of 8',
     't.py：print("epoch", epoch) 的缩进由 8 改为 4'),
    ("with f:\n    pass\nx = read(f)\n", "with f:\n    x = read(f)\n", "t.py: x = read(f) indented by 4 instead of 0",
     "t.py：x = read(f) 的缩进由 0 改为 4"),
    ("  a: 1\n   lr: 2\n  c: 3\n", "  a: 1\n  lr: 2\n  c: 4\n",
     "t.py: lr: 2 indented by 2 instead of 3; t.py: c: 3 → c: 4", "t.py：lr: 2 的缩进由 3 改为 2；t.py：c: 3 → c: 4"),
    ("a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\n", "d = 4\ne = 5\nf = 6\na = 1\nb = 2\nc = 3\n",
     "t.py: d = 4; e = 5; … moved above a = 1", "t.py：d = 4; e = 5; … 移到 a = 1 之前"),
])  # fmt: skip
def test_a_line_that_moved_is_one_difference_that_fits_code_in_the_old_order_only(old, new, english, chinese):
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "a/t.py", "b/t.py", lineterm="", n=2)
    pieces = split_changes([Change("code", "t.py", "", "+1 -1 lines", "\n".join(lines))])

    assert Sentences("en")(describe_changes(pieces)) == english
    assert Sentences("zh")(describe_changes(pieces)) == chinese
    failed = Finding("s", "f", "f", 1, "fail", "t", exception="ValueError")
    for text, fits in ((old, True), (new, False)):
        here = Circumstances({}, {}, {}, (), text)
        assert all(can_apply(piece, here, failed) is fits for piece in pieces)


@in_one_test(("message", "first", "count"), [
    ("no", "t.py: x = f(a) → x = g(a)", 1),
    ("name 'go' is not defined", "t.py: def go(): … moved above import os", 1),
])  # fmt: skip
def test_imports_and_functions_in_another_order_are_only_counted_unless_they_are_named(message, first, count):
    text = "import os\nimport json\nimport torch\n\n\nx = f(a)\ndef go():\n    return 1\n"
    now = "def go():\n    return 1\nimport json\nimport os\nimport torch\n\n\nx = g(a)\n"
    lines = difflib.unified_diff(text.splitlines(), now.splitlines(), "a/t.py", "b/t.py", lineterm="", n=2)
    pieces = split_changes([Change("code", "t.py", "", "", "\n".join(lines))])
    ordered, touching = order_candidates(pieces, crash("NameError", message), run(), (), {})
    assert Sentences("en")(describe_changes(ordered[:1])) == first
    assert (touching, len(ordered)) == (count, 3)


def test_a_line_that_moved_past_the_failing_one_or_has_the_quoted_name_is_the_cure():
    diff = "\n@@ @@\n+{0}\n for epoch in epochs:\n-{0}"
    made, other = (Change("code", "t.py", "", "", diff.format(line)) for line in ("os.makedirs(out)", "loss = MSE()"))
    for failed, first in (
        (crash("RuntimeError", "no such folder", "for epoch in epochs:"), None),
        (crash("NameError", "name 'loss' is not defined", "x = loss(a)"), other),
    ):
        ordered, count = order_candidates([made, LAYERS, other], failed, run(), (), {})
        assert first is None or ordered[0] == first
        assert count == (2 if first is None else 1)


@pytest.mark.parametrize(
    ("states", "goals", "pair"),
    [
        (("failed", "failed", "finished", "finished"), [], (1, 2)),
        (("finished", "failed"), [], None),
        (("failed", "finished"), ["min"], None),
    ],
)
def test_the_first_trial_of_a_loop_that_ran_well_may_be_the_fix_of_the_one_before(monkeypatch, states, goals, pair):
    written = []
    monkeypatch.setattr(
        propose_fix, "find_cured_failure", lambda _, name, now: Proposal(name, now.id, changes=(LR,))
        if name in failed else None,
    )  # fmt: skip
    monkeypatch.setattr(propose_fix, "write_proposal", lambda _, proposal: written.append(proposal))
    trials = [replace(run(s), id=f"t{n}", captured={"trial": {"goals": goals}}) for n, s in enumerate(states)]
    failed = {trial.id for trial in trials if trial.status == "failed"}
    proposal = propose_fix.propose_trial_fix(None, trials)
    assert written == ([proposal] if pair else []) and (proposal is not None) == (pair is not None)
    if pair:
        assert (proposal.failed, proposal.by) == tuple(f"t{n}" for n in pair)


@pytest.mark.parametrize(("drop", "fits"), [("1.0", True), ("0.2", False)])
def test_what_cured_a_run_is_the_fix_of_each_finding_of_it_and_no_other_difference_is(notes, monkeypatch, drop, fits):
    changes = [Change("argument", "--drop", "1.0", "0.2"), Change("argument", "--lr", "0.02", "0.03")]
    found = [
        Finding(name, "f", "f", 1, "fail", "t", message=text)
        for name, text in (("activation_collapse", "the same output"), ("dropout_too_high", "drop 100 %"))
    ]
    checks = tuple(CheckResult(one.symptom, "", "", "", "fail") for one in found)
    facts = {"findings": tuple(found), "checks": checks, "symptoms": tuple(one.symptom for one in found)}
    runs = {"a": replace(run(**facts), id="a"), "b": replace(run(), id="b")}
    monkeypatch.setattr(run_data, "load_run", lambda _, name: runs[name])
    monkeypatch.setattr(FixJudge, "_list_changes", lambda *_: changes)
    now = replace(run(**facts), argv=("python", "train.py", "--drop", drop, "--lr", "0.02"))
    (seen,) = FixJudge(notes.notebook, now).judge(found[0], [EarlierRun("a", "--drop 1.0 → 0.2; and 1 more", "b")])
    assert seen.fits == fits
    assert not fits or seen.fix == "--drop 1.0 → 0.2"


@pytest.mark.parametrize(
    ("change", "options", "code", "fits"),
    [
        ("code", {}, "loss.backward()", True),
        ("code", {}, "h = h.detach()\nloss.backward()", False),
        ("block", {}, "with no_grad():\n    y = f(x)", True),
        ("block", {}, "y = f(x)", False),
        ("option", {"k": "9"}, "", True),
        ("option", {"k": "2"}, "", False),
    ],
)
def test_a_fix_in_words_fits_the_very_failure_unless_what_was_done_then_is_there(
    notes, monkeypatch, change, options, code, fits
):
    failed = Finding("s", "f", "f", 1, "fail", "t", exception="RuntimeError", message="no", fingerprint="1")
    runs = {"a": replace(crash("RuntimeError", "no"), id="a", findings=(failed,)), "b": replace(run(), id="b")}
    monkeypatch.setattr(run_data, "load_run", lambda _, name: runs[name])
    lines = "--- train.py\n+++ train.py\n@@ -1 +1,2 @@\n+h = h.detach()\n loss.backward()"
    block = "--- train.py\n+++ train.py\n@@ -1,2 +1 @@\n-with no_grad():\n-    y = f(x)\n+y = f(x)"
    made = {name: Change("code", "train.py", "", "", one) for name, one in (("code", lines), ("block", block))}
    made["option"] = Change("argument", "--k", "9", "2")
    monkeypatch.setattr(FixJudge, "_list_changes", lambda *_: [made[change]])
    judge = FixJudge(notes.notebook, runs["a"])
    judge._here = Circumstances(options, {}, {}, (), code)
    (seen,) = judge.judge(failed, [EarlierRun("a", "detach the state", "b")])
    assert seen.fits is fits
