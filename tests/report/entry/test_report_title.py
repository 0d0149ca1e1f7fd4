"""One true sentence for every kind of run, in both languages."""

import dataclasses
import math

import pytest
from order_of_tests import in_one_test

from labbook.model.finding import Finding
from labbook.model.run import CaughtException, Frame, Framework, Process, Run
from labbook.model.series import Series
from labbook.report.entry.title import run_title, verdict_line
from labbook.report.series_choice import primary_series


@pytest.mark.parametrize(
    ("name", "title", "verdict"),
    [
        (
            "finished",
            "train.py: finished, val/accuracy 0.71 → 0.97 in 240 steps",
            "val/accuracy 0.71 → 0.97 in 240 steps",
        ),
        (
            "crashed",
            "train.py: RuntimeError: mat1 and mat2 shapes cannot be multiplied, at model.py:18",
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied, at model.py:18",
        ),
        ("interrupted", "train.py: interrupted after 12 s", "val/accuracy 0.71 → 0.97 in 240 steps"),
        ("running", "train.py: running", "no metric recorded"),
        ("probeless", "run.sh: failed, exit code 2", "exit code 2"),
    ],
)
def test_titles(runs, name, title, verdict):
    run = runs[name]()
    assert (run_title(run), verdict_line(run)) == (title, verdict)
    assert run_title(run, "zh") != title


def test_the_title_of_several_trials_counts_those_that_failed():
    rows = [{"number": 0, "state": "complete"}, {"number": 1, "state": "failed"}, {"number": 2, "state": "pruned"}]
    run = run_with(captured={"trials": {"rows": rows, "best": 0, "metric": "accuracy", "value": 1.0}})
    assert verdict_line(run) == "3 trials, best accuracy 1 (trial 0); 1 failed"
    assert verdict_line(run, "zh") == "共 3 次试验，最佳 accuracy 为 1（试验 0）；1 次失败"
    rows = [{"number": number, "state": "failed", "error": "TypeError: no width"} for number in range(2)]
    run = run_with(captured={"trials": {"rows": rows}})
    assert verdict_line(run) == "2 trials; 2 failed alike: TypeError: no width"


def run_with(*series, **fields):
    return Run(
        "i",
        fields.pop("status", "finished"),
        ("python", "a.py"),
        "/w",
        0.0,
        ended=12.0,
        script="a.py",
        series=series,
        **fields,
    )


def test_one_of_several_losses_has_the_name_of_the_program():
    losses = [Series(name, "probe", (1, 2), (2.0, 1.0)) for name in ("loss", "loss.opt1")]
    optimizers = ({"type": "Adam", "losses": ["lossD"]}, {"type": "Adam", "index": 1, "losses": ["lossG"]})
    run = run_with(*losses, frameworks=(Framework("torch", "2.13", optimizers=optimizers),))
    assert run_title(run) == "a.py: finished, lossD 2 → 1 in 2 steps"
    phases = {"phases": {"count": 2}}
    assert run_title(dataclasses.replace(run, captured=phases)).startswith("a.py: finished, loss ")
    printed = Series("student/acc", "text", (1, 2), (0.4, 0.9))
    process = Process(1, 0, ("python", "a.py"), "main", steps=4)
    run = run_with(*losses, printed, primary=printed.name, processes=(process,))
    assert run_title(run) == "a.py: finished, student/acc 0.4 → 0.9 in 4 steps"
    assert run_title(dataclasses.replace(run, captured=phases)) == "a.py: finished, student/acc 0.4 → 0.9"


@pytest.mark.parametrize(("other", "title"), [(4, "loss 2 → 1 in 4 steps"), (2, "loss 2 → 1")])
def test_steps_of_one_of_several_optimizers_are_not_those_of_the_run(other, title):
    losses = [Series(name, "probe", (1, steps), (2.0, 1.0)) for name, steps in (("loss", 4), ("loss.opt1", other))]
    process = Process(1, 0, ("python", "a.py"), "main", steps=4)
    assert run_title(run_with(*losses, processes=(process,))) == f"a.py: finished, {title}"


def test_steps_without_a_loss_that_compares_count():
    series = (Series("loss", "probe", (1, 3), (2.0, 1.0)), Series("lr", "probe", (1, 2, 3, 4), (0.1,) * 4))
    assert run_title(run_with(*series)) == "a.py: finished, loss 2 → 1 in 4 steps"


def test_a_loss_that_is_no_number_is_the_news():
    loss = Series("loss", "probe", (1, 2, 3, 4), (2.0, math.nan, 1.0, math.nan))
    assert run_title(run_with(loss)) == "a.py: finished, loss is NaN since step 4"
    assert run_title(run_with(loss, status="failed", exit_code=1)) == "a.py: loss is NaN since step 4"
    printed = Series("val_loss", "text", (3, 6), (2.0, math.nan), axis="epoch")
    assert run_title(run_with(printed)) == "a.py: finished, val_loss NaN"


@pytest.mark.parametrize(
    ("steps", "title"),
    [(424, "a.py: finished, reward 30.8 → 15.7 in 424 steps"), (0, "a.py: finished, reward 30.8 → 15.7")],
)
def test_the_steps_are_those_of_the_run_and_no_episodes(steps, title):
    reward = Series("reward", "text", (20, 100), (30.8, 15.7))
    process = Process(1, 0, ("python", "a.py"), "main", steps=steps)
    assert run_title(run_with(reward, primary="reward", processes=(process,))) == title


def test_a_best_value_that_is_printed_twice_is_one():
    best = Series("Best_Test_Accuracy", "text", (1, 2), (0.81, 0.81))
    assert run_title(run_with(best, primary=best.name)) == "a.py: finished, Best_Test_Accuracy 0.81"
    better = dataclasses.replace(best, values=(0.7, 0.81))
    assert "0.7 → 0.81" in run_title(run_with(better, primary=best.name))


def finding(**fields):
    seen = {"symptom": "loss_negative", "family": "numeric", "class_": "numeric", "tier": 1, "severity": "error"}
    return Finding(**{**seen, "title": "Loss is negative (cross entropy, BCE or squared error)", **fields})


def test_what_is_certainly_wrong_in_a_run_that_ended_well_is_the_news():
    loss = Series("loss", "probe", (1, 2), (2.0, -3.0))
    assert run_title(run_with(loss, findings=(finding(),))) == (
        "a.py: finished, but loss is negative (cross entropy, BCE or squared error)"
    )
    for one in (finding(tier=3), finding(severity="warning")):
        assert run_title(run_with(loss, findings=(one,))) == "a.py: finished, loss 2 → -3 in 2 steps"
    dead = finding(symptom="dead_relu", title="Most units of a layer give 0", tier=2)
    assert run_title(run_with(loss, findings=(finding(severity="warning"), dead))).endswith(
        "but most units of a layer give 0"
    )
    follows = finding(follows_from="dead_relu")
    assert run_title(run_with(loss, findings=(dead, follows))).endswith("but most units of a layer give 0")
    assert run_title(run_with(loss, findings=(dead, finding()))).endswith(
        "but loss is negative (cross entropy, BCE or squared error)"
    )
    loss = Series("loss", "probe", (1, 2), (2.0, math.nan))
    assert run_title(run_with(loss, findings=(finding(),))) == "a.py: finished, loss is NaN since step 2"


@in_one_test(
    ("symptom_title", "shown"),
    [
        ("Exploding gradient", "exploding gradient"),
        ("GPU out of memory", "GPU out of memory"),
        ("DataLoader: too many open files", "DataLoader: too many open files"),
        ("NaN gradient in the backward pass", "NaN gradient in the backward pass"),
        ("`optimizer.step()` missing after `backward()`", "optimizer.step() missing after backward()"),
        ("`TypeError`: arguments do not match", "TypeError: arguments do not match"),
    ],
)
def test_symptom_titles_lose_code_marks_and_keep_the_case_of_names(symptom_title, shown):
    loss = Series("loss", "probe", (1, 2), (2.0, -3.0))
    title = run_title(run_with(loss, findings=(finding(title=symptom_title),)))
    assert title == f"a.py: finished, but {shown}"


def test_other_ends():
    assert run_title(run_with(status="killed", signal="SIGKILL")) == "a.py: killed by SIGKILL after 12 s"
    assert run_title(run_with(status="failed", signal="SIGSEGV")) == "a.py: failed, killed by SIGSEGV"
    assert run_title(run_with(status="lost")) == "a.py: lost, the recorder was killed"
    assert run_title(run_with()) == "a.py: finished"
    assert run_title(run_with(Series("acc", "text", (1,), (0.9,)))) == "a.py: finished, acc 0.9"


def test_names_of_the_program_are_made_harmless():
    run = dataclasses.replace(run_with(), script="<b>{{x}}\n" + "y" * 200 + ".py")
    title = run_title(run)
    assert not set("<>{}\n") & set(title) and len(title) < 90 and title.endswith("y.py: finished")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("no", "ValueError: no, at cell 3:2"),
        *(("", "ValueError at cell 3:2"), ("password=[REDACTED:password] is wrong", "ValueError at cell 3:2")),
        ("--------\nthe table is empty. See the docs", "ValueError: the table is empty, at cell 3:2"),
        ("<part {7}> of `a` (of 9)", "ValueError: part 7 of a, at cell 3:2"),
        ("word " * 40, "ValueError: word word word word word word word word word word word..., at cell 3:2"),
        ("标签超出范围。请检查", "ValueError: 标签超出范围, at cell 3:2"),
    ],
)
def test_an_exception_without_a_page_is_named_by_the_first_words_of_its_message(message, shown):
    frame = Frame("In[3]", 2, "<module>", "f()", user=True)
    raised = CaughtException("main", "ValueError", "builtins", message, (frame,), ended_process=True)
    assert verdict_line(run_with(status="failed", exceptions=(raised,))) == shown


def test_validation_stands_for_the_run_else_its_loss():
    def of(*names):
        return primary_series(run_with(*(Series(n, s, (1,), (1.0,)) for n, s in names)))

    assert of(("val_loss", "tensorboard"), ("acc", "text"), ("train_loss", "wandb")) == "val_loss"
    assert of(("policy_loss", "text"), ("loss", "probe"), ("SPS", "text"), ("reward", "text")) == "reward"
    assert of(("policy_loss", "text"), ("SPS", "text")) == "policy_loss", "no value is the best one"
    assert of(("lr", "probe"), ("loss", "text"), ("loss", "probe")) == "loss"
    assert of(("lr", "probe"), ("step_time_s", "probe")) == ""
    assert (
        of(
            ("eval/acc", "mlflow"),
        )
        == "eval/acc"
    )


@pytest.mark.parametrize(
    ("odd", "title"),
    [
        (
            {"signal": "SIGSEGV", "where": {"file": "/w/a.py", "line": 70}},
            "a.py: rank 1 failed first, SIGSEGV at a.py:70",
        ),
        (
            {"error": "KeyError: 'x'", "where": {"file": "/w/a.py", "line": 7}},
            "a.py: rank 1 failed first, KeyError at a.py:7",
        ),
        ({"code": 3}, "a.py: rank 1 failed first, exit code 3"),
        ({"kind": "killed", "signal": "SIGKILL"}, "a.py: rank 1 failed first, SIGKILL"),
        ({"kind": "apart", "signal": "SIGABRT"}, "a.py: connection closed, at a.py:5"),
        ({"ranks": [2], "code": 1}, "a.py: connection closed, at a.py:5"),
        ({"ranks": [0, 1], "code": 1}, "a.py: connection closed, at a.py:5"),
        ({}, "a.py: connection closed, at a.py:5"),
    ],
)
def test_the_rank_that_failed_first_is_the_news_not_what_the_others_lost(odd, title):
    lost = finding(
        symptom="peer_process_died", family="nccl_or_collective", title="Connection closed",
        where={"file": "/w/a.py", "line": 5, "rank": 2},
    )  # fmt: skip
    ranks = {"odd": {"kind": "failed", "ranks": [1], **odd}} if odd else {}
    failed = {"status": "failed", "exit_code": 1, "cwd": "/w", "captured": {"ranks": ranks}}
    loss = Series("loss", "probe", (1, 2), (2.0, 1.0))
    assert run_title(dataclasses.replace(run_with(loss, findings=(lost,)), **failed)) == title
    label = dataclasses.replace(lost, family="indexing", title="Label out of range")
    assert (
        run_title(dataclasses.replace(run_with(loss, findings=(label,)), **failed))
        == "a.py: label out of range, at a.py:5"
    )
