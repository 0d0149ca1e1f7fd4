"""Which difference is proposed as the cure, and when none is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from order_of_tests import in_one_test

from labbook.fixes.difference_names import matches_cure
from labbook.fixes.fix_candidates import drop_doubles, find_cured, find_new_inputs, keep_used
from labbook.fixes.fix_judge import _differ_in_cause
from labbook.fixes.fix_ranking import focus_lines, order_candidates, rank_changes
from labbook.model.confirmed_fix import changed_lines
from labbook.model.finding import Finding
from labbook.model.run import Arguments, CaughtException, Change, CheckResult, Frame, Framework, Process, Run
from labbook.model.run_files import FileUse
from labbook.model.symptom import Symptom, Wording

TORCH = Framework("torch", "2.13.0")


def process(steps):
    return Process(1, 0, ("python", "train.py"), "main", steps=steps)


def run(status="finished", steps=100, **more):
    facts = {"frameworks": (TORCH,), "processes": (process(steps),), **more}
    return Run("20261121-100000-aaaa", status, ("python", "train.py"), "/work", 0.0, **facts)


def check(id_, verdict):
    return CheckResult(id_, id_, "", "", verdict)


def symptom(id_, *cured_by):
    return Symptom(id_, "other", "x", 1, "error", (), {"en": Wording(id_)}, cured_by=cured_by)


CRASHED = run(
    "failed",
    12,
    symptoms=("shape_mismatch_linear",),
    fingerprints=("v1:a",),
    exceptions=(
        CaughtException(
            "main",
            "RuntimeError",
            "builtins",
            "mat1 and mat2",
            frames=(
                Frame("/work/train.py", 9, "<module>", "main()", True),
                Frame("/work/net/model.py", 31, "forward", "return self.head(x)", True),
                Frame("/usr/lib/torch/linear.py", 1, "forward"),
            ),
            step=12,
            ended_process=True,
        ),
    ),
)


def test_a_crash_is_gone_when_a_later_run_came_past_it():
    assert find_cured(CRASHED, run()) == (("shape_mismatch_linear",), ("v1:a",))


@in_one_test(
    "later",
    [
        run("failed"),
        run("interrupted"),
        run(steps=11),
        run(steps=0),
        run(frameworks=()),
        replace(run(), argv=("python", "train.py", "--help")),
        run(symptoms=("shape_mismatch_linear",), fingerprints=("v1:a",)),
    ],
    ids=["failed", "interrupted", "not as far", "no step", "no framework", "help", "the same"],
)
def test_a_run_that_says_nothing_of_the_crash_is_no_cure(later):
    assert find_cured(CRASHED, later) is None


def test_a_finding_is_gone_only_when_the_check_was_made_and_is_fine():
    before = run(
        symptoms=("loss_nonfinite", "dead_relu"), checks=(check("loss_nonfinite", "fail"), check("dead_relu", "warn"))
    )
    after = run(checks=(check("loss_nonfinite", "ok"), check("dead_relu", "not observed")))

    assert find_cured(before, after)[0] == ("loss_nonfinite",)
    assert find_cured(before, run()) is None
    assert find_cured(run(), run()) is None


def test_a_failure_without_a_name_is_gone_too():
    killed = run("killed", 3, fingerprints=("v1:b",))

    assert find_cured(killed, run()) == ((), ("v1:b",))


LR = Change("argument", "--lr", "3.0", "0.1")
SEED = Change("argument", "--seed", "1", "2")
MODEL = Change("code", "net/model.py", "", "+1 -1 lines")
TRAIN = Change("code", "train.py", "", "+9 -2 lines")
COMMIT = Change("code", "commit", "1111111", "2222222")
TORCH_UP = Change("package", "torch", "2.12.0", "2.13.0")
SIZES = Change("config", "conf.yaml", "", "+2 -2 lines", "--- before\n+++ now\n-hidden_size: 64\n+hidden_size: 128")
LOSS = Change("metric", "loss (last)", "nan", "0.1")
EVERY = (LOSS, TORCH_UP, COMMIT, TRAIN, MODEL, SEED, LR, SIZES)


@in_one_test(
    ("cured_by", "first"),
    [
        (("argument:lr", "code"), LR),
        (("argument:learning_rate", "argument:lr*"), LR),
        (("config:*size*", "code"), SIZES),
        (("option:*size*", "code"), SIZES),
        (("option:*lr*", "code"), LR),
        (("package:torch*",), TORCH_UP),
        (("code",), TRAIN),
        (("hardware", "code"), TRAIN),
        ((), SEED),
    ],
)
def test_the_page_of_the_symptom_says_what_cures(cured_by, first):
    found = rank_changes(EVERY, ("s",), {"s": symptom("s", *cured_by)})

    assert found[0] == first
    assert LOSS not in found and len(found) == len(EVERY) - 1
    assert found.index(COMMIT) > found.index(TRAIN)


def test_without_a_page_what_people_change_most_comes_first():
    assert rank_changes(EVERY, (), {})[:3] == (SEED, LR, SIZES)


def test_names_are_compared_without_dashes_and_case():
    assert matches_cure(Change("argument", "--batch-size", "64", "32"), "argument:batch_size")
    assert matches_cure(Change("argument", "optimizer.lr", "1", "2"), "argument:lr")
    assert matches_cure(Change("argument", "command", "train.py lr=3", "train.py lr=0.1"), "argument:lr")
    assert matches_cure(Change("package", "Torch", "1", "2"), "package:torch")
    assert not matches_cure(LR, "argument:l") and not matches_cure(LR, "code") and not matches_cure(LR, "config:lr")


def test_files_of_the_notebook_and_of_git_are_no_cure():
    own = [
        Change("code", path, "", "+3 -0 lines")
        for path in (".gitignore", "templates/.gitkeep", "labbook.toml", "notes/ideas.md", "book/mkdocs.yml")
    ]
    train = Change("code", "train.py", "9", "10")

    assert rank_changes([*own, train], ("s",), {}) == (train,)


def test_an_unhealthy_run_is_no_cure():
    assert find_cured(CRASHED, run(checks=(check("loss_nonfinite", "fail"),))) is None
    assert find_cured(CRASHED, run(checks=(check("class_imbalance", "warn"),)))[0] == CRASHED.symptoms


def test_a_check_without_a_row_of_its_own_is_gone_when_it_was_counted_as_passed():
    before = run(symptoms=("softmax_before_cross_entropy",), checks=(check("softmax_before_cross_entropy", "fail"),))
    rest = replace(check("other_checks", "ok"), passed=("softmax_before_cross_entropy",))

    assert find_cured(before, run(checks=(rest,)))[0] == before.symptoms
    assert find_cured(before, run(checks=(check("other_checks", "ok"),))) is None


def test_a_crash_behind_the_loop_is_passed_by_a_run_of_as_many_steps_unless_it_is_shorter_on_purpose():
    def epochs(count):
        return (Arguments("argparse", "train.py", {"epochs": count}),)

    crashed = replace(CRASHED, arguments=epochs(3))
    assert find_cured(crashed, run(steps=12, arguments=epochs(3)))[0] == CRASHED.symptoms
    assert find_cured(crashed, run(steps=12, arguments=epochs(1))) is None


def test_files_that_neither_run_used_are_no_cure():
    own = ("/work/train.py", "/work/net/model.py")
    failed, now = run("failed", sources=own[:1]), run(sources=own)
    readme, tools = Change("code", "README.md", "", "+1 -1 lines"), Change("code", "tools.py", "", "+3 -1 lines")

    assert keep_used([readme, MODEL, tools, TRAIN, LR, COMMIT], failed, now) == (MODEL, TRAIN, LR, COMMIT)
    assert keep_used([readme, tools], run("failed"), now) == (readme, tools)
    read = replace(now, files=(FileUse("data/README.md", "read", 3), FileUse("README.md", "read", 3)))
    assert keep_used([readme, tools], failed, read) == (readme,)
    # Many projects have a `tools/train.py`.
    namesake = replace(TRAIN, what="other/train.py")
    assert keep_used([namesake, TRAIN], replace(failed, script="train.py"), replace(now, script="train.py")) == (TRAIN,)


def test_a_file_of_which_only_the_name_is_known_is_no_cure_unless_the_failure_names_it():
    seen = Change("input", "data/x.bin", "", "size unknown")
    raised = CaughtException("main", "FileNotFoundError", "builtins", "No such file: 'data/x.bin'")
    assert keep_used([seen, LR], run("failed"), run()) == (LR,)
    assert keep_used([seen], run("failed", exceptions=(raised,)), run()) == (seen,)


def test_what_the_failure_names_comes_first_of_equal_ones_the_smallest():
    raised = CaughtException("main", "ModuleNotFoundError", "builtins", "No module named 'net'", ended_process=True)
    new = Change("code", "net.py", "", "new")
    assert order_candidates([LR, TRAIN, new], run("failed", exceptions=(raised,)), run(), (), {})[0][0] == new

    long, short = (
        replace(TRAIN, what=name, detail="@@ -1 +1 @@\n" + "\n".join(["+x"] * count))
        for name, count in (("long.py", 9), ("short.py", 1))
    )
    assert rank_changes([long, short], ("unknown",), {})[0] == short


def test_a_line_that_prints_is_the_fix_if_it_is_on_the_way_to_the_failing_line():
    frames = [Frame("run.py", 3, "main", "print(mean(a))", user=True), Frame("core.py", 2, "mean", "x / n", user=True)]
    raised = CaughtException(
        "main", "ZeroDivisionError", "builtins", "division by zero", frames=tuple(frames), ended_process=True
    )
    crashed = run("failed", exceptions=(raised,))
    printed, other = (
        replace(TRAIN, what="run.py", detail=f"\n@@ @@\n-print({name})\n+print({name} or 1)")
        for name in ("mean(a)", "len(b)")
    )
    assert order_candidates([other, SEED, printed], crashed, run(), (), {}) == ((printed, SEED, other), 1)


def test_a_missing_file_that_is_there_now_is_a_difference():
    raised = CaughtException("main", "FileNotFoundError", "builtins", "No such file: 'data/vocab.txt'")
    failed = run("failed", exceptions=(raised,))
    now = run(files=(FileUse("data/vocab.txt", "read", 3), FileUse("other.txt", "read", 3)))
    assert [change.what for change in find_new_inputs(failed, now)] == ["data/vocab.txt"]


@pytest.mark.parametrize(("status", "message", "is_kept"), [
    ("failed", "'CORPUS_DIR'", False), ("failed", "No such file: 'data/train.tsv'", True), ("finished", "", True),
    ("failed", "No such file: '/mnt/old/data/train.tsv'", False), ("failed", "No file: '/work/data/train.tsv'", True),
    ("failed", "No such file: './data/train.tsv'", True),
])  # fmt: skip
def test_a_file_that_the_failure_came_before_is_no_difference(status, message, is_kept):
    raised = CaughtException("main", "KeyError", "builtins", message, ended_process=True)
    read = Change("input", "data/train.tsv", "", "64 KiB")
    kept = keep_used([read, LR], run(status, exceptions=(raised,) * bool(message)), run())

    assert kept == ((read, LR) if is_kept else (LR,))
    new = find_new_inputs(run(status, exceptions=(raised,)), run(files=(FileUse("data/train.tsv", "read", 3),)))
    assert bool(new) is (is_kept and bool(message))


def test_an_option_that_a_configuration_file_sets_is_no_other_difference():
    parsed = Change("argument", "model.hidden_size", "64", "128")
    typed = Change("argument", "--hidden-size", "64", "128")
    other = Change("argument", "model.depth", "2", "3")
    assert drop_doubles([SIZES, parsed, typed, other], CRASHED) == [SIZES, typed, other]
    assert drop_doubles([parsed, other], CRASHED) == [parsed, other]


def test_an_option_is_named_by_the_value_that_the_failure_names():
    raised = CaughtException("main", "FileNotFoundError", "builtins", "No such file: 'data/x.pt'", ended_process=True)
    changes = [Change("argument", "--lr", "0.1", "0.2"), Change("argument", "--input", "data/x.pt", "")]
    failed = run("failed", exceptions=(raised,))
    assert order_candidates(changes, failed, run(), (), {}) == ((changes[1], changes[0]), 1)
    other = [changes[0], Change("argument", "--k", "2", "")]
    assert order_candidates(other, failed, run(), (), {}) == (tuple(other), 0)  # nothing shows which


def test_a_seed_is_a_fix_only_where_nothing_else_differs():
    seeds = [Change("argument", "--random-seed", "0", "3"), Change("environment", "torch seeds.torch", "0", "3")]
    seeded = Change("argument", "--seeded", "no", "yes")
    assert drop_doubles([*seeds, TRAIN, seeded], CRASHED) == [TRAIN, seeded]
    assert drop_doubles(seeds, CRASHED) == seeds
    ended = Change("metric", "status", "failed", "finished")
    assert drop_doubles([*seeds, ended], CRASHED) == [*seeds, ended]


def _crash(type_, message, source="", **facts):
    frames = (Frame("/work/train.py", 9, "<module>", source, True),)
    raised = CaughtException("main", type_, "builtins", message, frames=frames, ended_process=True)
    return run("failed", symptoms=("s",), exceptions=(raised,), **facts)


def _diff(what, removed, added):
    return Change("code", what, "", "+1 -1 lines", f"--- {what}\n+++ {what}\n@@ -1 +1 @@\n-{removed}\n+{added}")


UPGRADES = [Change("package", f"lib-{n:02}", "0.1", "0.2") for n in range(40)]
CACHE, BATCH = Change("argument", "--cache_gb", "400", "0"), Change("argument", "--batch_size", "32", "16")
REFUSED, RENAMED = Change("argument", "--learning_rate", "0.05", ""), Change("argument", "--lr", "0.1", "0.05")
EPOCHS, SEED_VARIABLE = Change("argument", "--epochs", "4", "5"), Change("environment", "RUN_SEED", "", "1")
DECAY = Change("argument", "--wd", "30", "0.1")
OPENCV = Change("package", "opencv-python", "", "4.9.0")
STEP, PRINT = _diff("lm.py", "h += 1", "h = h + 1"), _diff("train.py", 'print("epoch", n)', 'print("epoch", n + 1)')
READ, WORDING = (
    _diff("train.py", 'print("x", made[name])', line) for line in ('print("x", made)', 'print("y", made[name])')
)
CONFIG = Change("config", "c.json", "sgd", "adam", '\n@@ @@\n-{"n": 3, "opt": "sgd"}\n+{"n": 3, "opt": "adam"}')


@in_one_test(
    ("failed", "cured_by", "changes", "first", "touching"),
    [
        (_crash("ModuleNotFoundError", "No module named 'cv2'"), ("package:*",), [*UPGRADES, OPENCV], [OPENCV], 1),
        (_crash("ImportError", "cannot import name 'x' from 'lib_07' (/site-packages/lib_07/__init__.py)"), (),
         UPGRADES, [UPGRADES[7]], 1),
        (_crash("SystemExit", "unrecognized arguments: --learning_rate 0.05"), ("argument:*",),
         [EPOCHS, RENAMED, REFUSED], [REFUSED, RENAMED], 2),
        (_crash("RuntimeError", "can't allocate memory", "x = torch.empty(args.cache_gb * 2**28)"),
         ("option:*batch*", "code"), [BATCH, CACHE, EPOCHS], [CACHE, BATCH], 2),
        (_crash("KeyError", "'RUN_SEED'"), ("code",), [EPOCHS, SEED_VARIABLE], [SEED_VARIABLE], 1),
        (_crash("RuntimeError", "modified by an inplace operation", "loss.backward()"), ("code",),
         [EPOCHS, LR, PRINT, STEP], [STEP], 1),
        (_crash("RuntimeError", "no", 'print("epoch", n)'), (), [STEP, PRINT], [PRINT], 1),
        (_crash("KeyError", "'sgd'", 'print("x", made[name])'), (), [WORDING, CONFIG], [CONFIG], 1),
        (_crash("TypeError", "no", 'print("x", made[name])'), (), [STEP, READ], [READ], 1),
        (_crash("RuntimeError", "no"), (), [EPOCHS, LR], [EPOCHS, LR], 0),
        (run(symptoms=("s",), checks=(check("s", "fail"),)), ("code",), [*UPGRADES, EPOCHS, STEP], [STEP, EPOCHS], 2),
        (run(symptoms=("s",), checks=(check("s", "fail"),)), ("option:*lr*",), [EPOCHS, LR], [LR], 1),
        (run(symptoms=("s",), findings=(Finding("s", "f", "f", 1, "fail", "t", message="weight decay 30"),)), ("code",),
         [EPOCHS, DECAY], [DECAY], 1),
        (_crash("RuntimeError", "[torch.FloatTensor [8]] was modified"), ("code",), [TORCH_UP, STEP], [STEP], 1),
    ],
)  # fmt: skip
def test_what_can_touch_the_failure_comes_first_and_the_rest_is_only_counted(
    failed, cured_by, changes, first, touching
):
    later = run(captured={"python": {"modules": {"cv2": "opencv-python"}, "loaded": ["opencv-python"]}})
    kept = keep_used(drop_doubles(changes, failed), replace(failed, sources=("train.py", "lm.py")),
                     replace(later, sources=("train.py", "lm.py"), packages=("cv2",)))  # fmt: skip
    ordered, count = order_candidates(kept, failed, later, ("s",), {"s": symptom("s", *cured_by)})

    assert list(ordered[: len(first)]) == first and count == touching
    assert len(ordered) == len(changes)


@in_one_test(
    ("removed", "added", "shown"),
    [
        (
            ("lr: 1e-3", "epochs: 4", "batch: 24"),
            ("lr: 0.001", "epochs: 5", "batch: 12"),
            (["lr: 1e-3"], ["lr: 0.001"]),
        ),
        (("net.body.freeze()", "net.head.freeze()", "net.tail.freeze()"), (), (["net.head.freeze()"], [])),
        (("a = 1", "b = 2", "c = 3"), ("a = 2",), (["a = 1"], ["a = 2"])),
        (("x = f(a)", 'print("a")'), ("x = g(a)", 'print("b")'), (["x = f(a)"], ["x = g(a)"])),
        (("a = 1", "b = 2", "c = 3", "d = 1"), ("a = 2", "b = 3", "c = 4"), None),
        (("lr: 1",), ("lr: 2",), None),
    ],
)
def test_of_many_lines_that_one_is_shown_that_has_the_words_of_the_failure(removed, added, shown):
    failed = _crash(
        "TypeError", "'<' between str and float", 'opt = SGD(net.head.parameters(), lr=cfg["lrate"], lr: 1)'
    )
    lines = [*(f"-{line}" for line in removed), *(f"+{line}" for line in added)]
    change = Change("code", "c.yaml", "", "", "\n".join(["--- before", "+++ now", "@@ -1,3 +1,3 @@", *lines]))
    (focused,), rest = focus_lines([change], failed)

    assert changed_lines(focused.detail) == (shown or changed_lines(change.detail))
    assert rest == (max(len(removed), len(added)) - 1 if shown else 0)


def test_a_setting_that_a_line_of_code_gives_alone_is_no_other_difference():
    line = _diff("fit.py", "gpus=0,", "devices=1,")
    taken, given = Change("argument", "gpus", "0", ""), Change("argument", "devices", "", "1")
    other = Change("argument", "devices_per_node", "", "1")
    assert drop_doubles([taken, line, given, other], CRASHED) == [line, other]
    head, set_there = Change("argument", "HEAD", "2", "3"), _diff("seg.py", "HEAD = 2", "HEAD = 3")
    assert drop_doubles([head, set_there], CRASHED) == [set_there]
    assert drop_doubles([replace(head, now="4"), set_there], CRASHED) == [replace(head, now="4"), set_there]


@pytest.mark.parametrize(("states", "is_gone"), [(("complete", "complete"), True), (("complete", "failed"), False)])
def test_a_run_with_trials_came_past_a_crash_if_all_of_them_ended_well(states, is_gone):
    """The steps of its trials are in their own entries."""
    rows = [{"number": n, "state": state} for n, state in enumerate(states)]
    assert find_cured(CRASHED, run(steps=0, captured={"trials": {"rows": rows}})) == (
        (CRASHED.symptoms, CRASHED.fingerprints) if is_gone else None
    )


@pytest.mark.parametrize(
    ("there", "here", "differ"),
    [("nonfinite_input", "update_too_large", True), ("nonfinite_input", "nonfinite_input", False), ("", "", False),
     ("", "update_too_large", True), ("nonfinite_input", "", True)],
)  # fmt: skip
def test_a_silent_fault_with_another_cause_is_another_one(there, here, differ):
    before, now = (run(checks=(replace(check("nan", "fail"), explained_by=cause),)) for cause in (there, here))
    assert _differ_in_cause("nan", before, replace(now, symptoms=("nan", here))) is differ
