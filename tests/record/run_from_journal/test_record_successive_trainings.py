"""Several trainings in a row are distinguished from one training with several optimizers, phases or models."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labbook.compare.comparison import metric_table
from labbook.model.run import Console, Run
from labbook.model.series import Series
from labbook.record.run_entry import add_findings
from labbook.record.run_from_journal.journal_reader import build_run
from labbook.record.run_from_journal.successive_trainings import (
    successive_trainings,
    training_phases,
    trainings_as_trials,
)
from labbook.report.entry.entry_front_matter import entry_meta
from labbook.report.entry.entry_page import entry_markdown
from labbook.report.entry.title import run_title
from labbook.report.series_choice import is_of_batches
from labbook.store.config import Config
from labbook.store.journal import ProcessEvents
from labbook.store.notebook import Notebook
from labbook.store.paths import NotebookPaths


def events(text):
    """`O1`: first step of optimizer 1, which trains model 1; `O1:0`: model 0, `O1:0:Net`: of that class; `s1`: a step;
    `s1=0.5`: one with that loss; `L`: a state was loaded into a model; `L1`: a part of it."""
    made = []
    for t, word in enumerate(text.split()):
        word, _, loss = word.partition("=")
        word, _, root = word.partition(":")
        number = int(word[1:] or 0)
        model, _, name = root.partition(":")
        event = {
            "O": {
                "k": "optimizer",
                "index": number,
                "type": "SGD",
                "options": {"lr": 0.1**number, "momentum": 0},
                "trains": int(model or number),
                "root": name or "Net",
                "tensors": 4,
            },
            "s": {"k": "step", "opt": number, "step": t, **({"loss": float(loss)} if loss else {})},
            "L": {"k": "loaded", "what": "model", "matched": 4, "missing_n": number},
        }[word[0]]
        made.append({**event, "t": float(t)})
    return [ProcessEvents("0.jsonl", ({"k": "hello", "t": 0.0}, *made))]


def without_options(processes):
    return [ProcessEvents("0", tuple({**e, "options": {}} if "options" in e else e for e in processes[0].events))]


def run_of(*last):
    steps = tuple(range(1, 31))
    series = tuple(
        Series(f"loss.opt{at}" if at else "loss", "probe", steps, *[(value,) * 30] * 3, 30, 0)
        for at, value in enumerate(last)
    )
    return Run(
        id="20261126-101010-abcd", status="finished", script="train.py", series=series, argv=(), cwd="/", started=0.0
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("O0 s0 s0 O1 s1 s1 O2 s2", 3),
        ("O0 s0 O1 s1 s0 s1 s0 s1", 0),  # a GAN, an agent that joins later
        ("O0 s0 O1 s1 s0 O2 s2 s1", 3),  # queued steps are written when another optimizer is made
        ("O0:0 s0 O1:0 s1", 0),  # fine-tuning of the same model
        ("O0:0 s0 O1:0 s1 O2:1 s2 O3:1 s3", 2),  # two phases each
        ("O0:0:G s0 O1:1:D s1 s0 s1 s0 s1 O2:2:G s2 O3:3:D s3 s2 s3 s2 s3", 2),  # two GANs
        ("O0:0 s0 O1:1 s1 O2:0 s2", 0),  # the first model again
        ("O0:0:Teacher s0 O1:1:Student s1", 0),
        ("O0 s0=2 s0=1 L O1 s1=1.1 s1=0.9", 0),  # the second model goes on where the first one ended
        ("O0 s0=2 s0=1 L O1 s1=2.1 s1=0.9", 2),  # each begins from the same state
        ("O0 s0=2 s0=1 L1 O1 s1=2.1 s1=0.9", 0),  # fine-tuning with another head
        ("L1 O0 s0=2 s0=1 L1 O1 s1=2.1 s1=0.9", 2),
        ("O0 s0 O1" + 40 * " s1", 0),  # a test of the installation
        ("", 0),
    ],
)
def test_only_new_models_one_after_another_are_several_trainings(text, count):
    assert len(successive_trainings(run_of(), events(text)).get("rows", ())) == count


@pytest.mark.parametrize(("sizes", "others", "count"), [((9, 5), 2, 0), ((9, 5), 1, 2), ((9, 5), 0, 2), ((9, 9), 3, 2)])
def test_a_student_of_another_size_is_no_repeated_training(sizes, others, count):
    process = events("O0 s0 s0 s0 O1 s1 s1 s1")[0]  # a teacher is called in most steps, the best model again at the end
    made = [{**e, "parameters": sizes[e["index"]]} if e["k"] == "optimizer" else e for e in process.events]
    made.append({"k": "loop", "t": 9.0, "forwards": {"of_others": others}})
    assert len(successive_trainings(run_of(), [ProcessEvents("0.jsonl", tuple(made))]).get("rows", ())) == count


@pytest.mark.parametrize(("lines", "others", "count"), [((), 0, 0), ((7,), 0, 2), ((7,), 3, 0), ((7, 9), 0, 0)])
def test_models_of_other_classes_are_compared_where_one_function_trains_them(lines, others, count):
    adam = {"type": "Adam", "options": {"lr": 0.1, "eps": 1e-8}}
    made = [{**e, **adam} if e.get("index") == 1 else e for e in events("O0:0:Net s0 O1:1:Deep s1")[0].events]
    made += [{"k": "loss_call", "t": 9.0, "line": f"train.py:{line}", "training": True} for line in lines]
    made.append({"k": "loop", "t": 9.0, "forwards": {"of_others": others}})
    rows = successive_trainings(run_of(2.0, 1.0), [ProcessEvents("0.jsonl", tuple(made))]).get("rows", ())
    assert [row["params"].get("model") for row in rows] == ["Net", "Deep"][:count]
    assert all(set(row["params"]) == {"model", "optimizer", "lr"} for row in rows)  # eps is of one kind of optimizer


@pytest.mark.parametrize(("starts", "title"), [((0, 3, 6), "AUC 0.7 at the end"), ((0, 3), "lowest median loss")])
def test_repeats_have_the_last_values_of_a_metric_printed_in_their_epochs(starts, title):
    values = (0.5, 0.9, 0.6, 0.5, 0.6, 0.7, 0.7, 0.7, 0.8)
    auc = Series("AUC", "text", tuple(range(1, 10)), values, starts=starts)
    run = run_of(3.0, 1.0, 2.0)
    run = replace(run, series=(*run.series, auc), primary="AUC")
    facts = successive_trainings(run, without_options(events("O0 s0 O1 s1 O2 s2")))
    assert f"3 trainings, {title}" in run_title(replace(run, captured={"trainings": facts}))
    assert len(starts) < 3 or [row["best"] for row in facts["rows"]] == [0.9, 0.7, 0.8]


@pytest.mark.parametrize(("tensors", "count"), [(1, 0), (4, 2)])
def test_models_that_were_not_found_are_alike_by_their_parameters(tensors, count):
    made = [{**event, "root": "", "tensors": tensors} for event in events("O0 s0 O1 s1")[0].events]
    assert len(successive_trainings(run_of(), [ProcessEvents("0.jsonl", tuple(made))]).get("rows", ())) == count


def test_the_loss_of_a_run_with_phases_is_that_of_the_last_one():
    run, process = run_of(3.0, 0.5), events("O0:0 s0 O1:0 s1")
    assert training_phases(process) == {"count": 2, "series": "loss.opt1", "several": False}
    assert training_phases(events("O0:0 s0 O1:1 s1 s0 s1 s0 s1")) == {}
    run = Run(**{**vars(run), "captured": {"phases": training_phases(process)}, "primary": "loss"})
    assert run_title(run) == "train.py: finished, loss 0.5 → 0.5 in 30 steps (phase 2 of 2)"
    assert {name: each["last"] for name, each in entry_meta(run, "", {})["metrics"].items()} == {
        "loss": 0.5,
        "loss.opt0": 3.0,
    }


def test_the_best_of_them_is_in_the_title():
    run = run_of(3.0, 0.5, 2.0)
    facts = successive_trainings(run, events("O0 s0 O1 s1 O2 s2"))
    assert [row["params"] for row in facts["rows"]] == [{"lr": 0.1**n} for n in range(3)]
    assert [row["last"] for row in facts["rows"]] == [3.0, 0.5, 2.0] and facts["best"] == 1
    title = run_title(Run(**{**vars(run), "captured": {"trainings": facts}}))
    assert title.startswith("train.py: finished, 3 trainings, best loss ") and title.endswith("(training 2: lr=0.1)")


@pytest.mark.parametrize(
    ("last", "named"),
    [
        ((3.0, 0.5, 2.0), {"loss.opt0": 3.0, "loss": 0.5, "loss.opt2": 2.0}),
        ((0.5, 3.0, 2.0), {"loss": 0.5, "loss.opt1": 3.0, "loss.opt2": 2.0}),
    ],
)
def test_the_loss_of_the_run_is_that_of_the_best_training(last, named):
    run = run_of(*last)
    facts = successive_trainings(run, events("O0 s0 O1 s1 O2 s2"))
    run = Run(**{**vars(run), "captured": {"trainings": facts}, "primary": "loss"})
    metrics = entry_meta(run, "", {})["metrics"]
    assert {name: each["last"] for name, each in metrics.items()} == named and next(iter(metrics)) == "loss"
    assert metric_table([run])[0].values == (0.5,)


def test_first_best_and_last_of_folds_are_their_means():
    run = run_of(3.0, 0.5, 2.5)
    facts = successive_trainings(run, without_options(events("O0 s0 O1 s1 O2 s2")))
    run = replace(run, captured={"trainings": facts}, primary="loss")
    loss = entry_meta(run, "", {})["metrics"]["loss"]
    assert [loss[part] for part in ("first", "best", "last")] == [2.0] * 3


def test_step_times_are_compared_by_their_median():
    run = run_of(1.0)
    times = replace(run.series[0], name="step_time_s", steps=(1, 2, 3), values=(9.0, 0.2, 0.1))
    (row,) = metric_table([replace(run, series=(times,))])
    assert (row.what, row.values) == ("median", (0.2,))


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ((0.5, 0.75, 0.7), "3 trainings, RMSE 0.65 on average (0.5 to 0.75)"),
        (
            (0.5, 0.75, 0.7, 0.6499),
            "3 trainings, RMSE 0.6499 on average (0.5 to 0.75)",
        ),  # the program prints the mean, too
        ((0.5, 0.75), "3 trainings, lowest median loss 2 on average (1 to 3)"),
    ],
)
def test_repeats_are_told_by_what_the_program_reports_of_each(values, title, tmp_path):
    run = run_of(3.0, 1.0, 2.0)
    reported = Series("RMSE", "text", tuple(range(len(values))), *[tuple(values)] * 3, len(values), 0)
    run = Run(**{**vars(run), "series": (*run.series, reported)})
    facts = successive_trainings(run, without_options(events("O0 s0 O1 s1 O2 s2")))
    assert "best" not in facts and [row["params"] for row in facts["rows"]] == [{}] * 3
    shown = Run(**{**vars(run), "captured": {"trainings": facts}})
    assert run_title(shown) == f"train.py: finished, {title}"
    assert not is_of_batches(reported, shown)  # the best of one value a training is no median
    # One value a training is a result: whether it is the best of its epochs is not known.
    page = entry_markdown(shown, Notebook(NotebookPaths(tmp_path), Config(language="en")))
    (header,) = [line for line in page.splitlines() if line.startswith("| Training |")]
    assert (header.count("|") == 5) == facts["once"] == (facts["metric"] == "RMSE")


@pytest.mark.parametrize(("epochs", "end"), [("val_acc", "val/accuracy"), ("acc", "best_acc")])
def test_repeats_are_told_by_what_is_printed_at_their_end(epochs, end, tmp_path):
    """Each fold prints its accuracy in three epochs, and once more when it is done."""
    each = Series(epochs, "text", tuple(range(9)), *[(0.5, 0.6, 0.7) * 3] * 3, 9, 0)
    done = Series(end, "text", (1, 2, 3), *[(0.7, 0.8, 0.9)] * 3, 3, 0)
    run = Run(**{**vars(run_of(3.0, 1.0, 2.0)), "series": (*run_of(3.0, 1.0, 2.0).series, each, done)})
    facts = successive_trainings(run, without_options(events("O0 s0 O1 s1 O2 s2")))
    assert facts["metric"] == end and [row["last"] for row in facts["rows"]] == [0.7, 0.8, 0.9]
    notebook = Notebook(NotebookPaths(tmp_path), Config(language="en"))
    known = add_findings(notebook, replace(run, captured={"trainings": facts}))
    assert (known.primary, known.title.partition(" on ")[0]) == (end, f"train.py: finished, 3 trainings, {end} 0.8")


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("O0 s0 s0 s0 O1 s1 s1", 5),
        ("O0 O1 s0 s1 s0 s1 s0 s1", 3),
        ("O0 s0 s0 O1 s1 s1 s0", 5),  # the last record of an optimizer may be written at the exit
    ],
)
def test_steps_of_trainings_one_after_another_are_added(text, steps):
    counts: dict[int, int] = {}
    numbered = []
    for event in events(text)[0].events:
        if event["k"] == "step":
            counts[event["opt"]] = counts.get(event["opt"], 0) + 1
            event = {**event, "step": counts[event["opt"]]}
        numbered.append(event)
    run = build_run({"id": "r"}, {"code": 0}, [ProcessEvents("p", tuple(numbered))], Console())
    assert run.processes[0].steps == steps


def scalars(t, **values):
    return {"k": "scalars", "t": t, "source": "labbook", "values": values}


def trials_of(text, *more, status="finished", options=None):
    process = events(text)[0]
    made = [{**e, "options": options} if options is not None and e["k"] == "optimizer" else e for e in process.events]
    counts: dict[int, int] = {}
    for at, event in enumerate(made):
        if event["k"] == "step":
            counts[event["opt"]] = counts.get(event["opt"], 0) + 1
            made[at] = {**event, "step": counts[event["opt"]]}
    parts = [ProcessEvents("0.jsonl", tuple(sorted((*made, *more), key=lambda event: event["t"])))]
    run = Run(**{**vars(run_of(3.0, 0.5, 2.0)), "status": status})
    run = Run(**{**vars(run), "captured": {"trainings": successive_trainings(run, parts)}})
    return trainings_as_trials(run, parts)


def test_trainings_with_other_options_are_trials_with_their_own_steps_and_numbers():
    """What was also logged before the first training may be the state in which each one begins."""
    text = "O0 s0=3 s0=2 O1 s1=1 s1=0.5 O2 s2=4 s2=2"
    more = [scalars(-1.0, start=1.0), *(scalars(t, start=1.0, early=t) for t in (2.5, 5.5)), scalars(1.5, start=7.0)]
    more += [scalars(t, val=t) for t in (2.6, 5.6, 8.6)]
    trials = trials_of(text, *more)
    assert [(trial.key[2], trial.state) for trial in trials] == [(1, "complete"), (2, "complete"), (3, "complete")]
    assert [trial.params["lr"] for trial in trials] == [1.0, 0.1, pytest.approx(0.01)]
    for trial, losses, val in zip(trials, ([3, 2], [1, 0.5], [4, 2]), (2.6, 5.6, 8.6), strict=True):
        [part] = trial.processes
        steps = [event for event in part.events if event["k"] == "step"]
        assert [step["loss"] for step in steps] == losses and {step["opt"] for step in steps} == {0}
        logged = [event["values"] for event in part.events if event["k"] == "scalars"]
        assert logged == ([{"start": 7.0}] if trial is trials[0] else []) + [{"val": val}]


@pytest.mark.parametrize(("steps", "state", "errors"), [(1, "", 1), (2, "complete", 0)])
def test_an_error_is_of_the_last_training_if_that_made_fewer_steps(steps, state, errors):
    error = {"k": "exception", "t": 99.0, "type": "ValueError", "message": "planted"}
    *_, last = trials_of("O0 s0 s0 O1 s1 s1 O2" + " s2" * steps, error, status="failed")
    found = [event for event in last.processes[0].events if event["k"] == "exception"]
    assert (last.state, len(found)) == (state, errors)


def test_folds_are_no_trials():
    assert trials_of("O0 s0 O1 s1 O2 s2", options={"lr": 0.1}) == []


@pytest.mark.parametrize(
    ("sizes", "params"), [((100, 102, 101), [{}] * 3), ((100, 200, 400), [{"parameters": n} for n in (100, 200, 400)])]
)
def test_models_of_other_sizes_are_tried_and_those_of_folds_are_not(sizes, params):
    process = events("O0 s0 O1 s1 O2 s2")[0]
    made = [
        {**e, "options": {}, "parameters": sizes[e["index"]]} if e["k"] == "optimizer" else e for e in process.events
    ]
    facts = successive_trainings(run_of(3.0, 0.5, 2.0), [ProcessEvents("0.jsonl", tuple(made))])
    assert [row["params"] for row in facts["rows"]] == params and ("mean" in facts) == (not params[0])


@pytest.mark.parametrize(
    ("rates", "params"),
    [
        (([0.1], [0.3], [0.5]), [{"dropout": rate} for rate in (0.1, 0.3, 0.5)]),
        (([0.1], [], [0.1, 0.5]), [{"dropout": 0.1}, {}, {"dropout": "0.1, 0.5"}]),
        (([0.1], [0.1], [0.1]), [{}] * 3),
    ],
)
def test_models_with_other_dropout_are_tried(rates, params):
    process = events("O0 s0 O1 s1 O2 s2")[0]
    made = [{**e, "options": {}, "dropout": rates[e["index"]]} if "index" in e else e for e in process.events]
    facts = successive_trainings(run_of(3.0, 0.5, 2.0), [ProcessEvents("0.jsonl", tuple(made))])
    assert [row["params"] for row in facts["rows"]] == params


def pool_of(texts, *, ppid=1, begins=(2.0, 3.0), options=True, program="train.py"):
    """The main program, process 1, and workers that each did some trainings."""
    workers = []
    for pid, (text, begin) in enumerate(zip(texts, begins, strict=True), 2):
        (one,) = events(text)
        hello = {"k": "hello", "t": begin, "pid": pid, "ppid": ppid, "argv": ["python", program]}
        shift = [{**e, "t": e["t"] + begin} for e in one.events[1:]]
        if not options:
            shift = [{**e, "options": {"lr": 0.1}} if e["k"] == "optimizer" else e for e in shift]
        workers.append(ProcessEvents(f"{pid}.jsonl", (hello, *shift)))
    main = ProcessEvents("1.jsonl", ({"k": "hello", "t": 0.0, "pid": 1, "ppid": 0, "argv": ["python", "train.py"]},))
    return [main, *workers]


@pytest.mark.parametrize("workers", [{}, {"ppid": 77, "program": "ray/default_worker.py"}])
def test_workers_of_a_pool_that_try_options_are_trainings_of_one_run(workers):
    processes = pool_of(["O0 s0=1 s0=0.5 O1 s1=1 s1=0.4", "O0 s0=1 s0=0.3"], **workers)
    run = build_run({"id": "r", "started": 0.0}, {"code": 0, "ended": 20.0}, processes, Console())
    facts = successive_trainings(run, processes)
    assert [round(row["params"]["lr"], 4) for row in facts["rows"]] == [1.0, 1.0, 0.1]
    assert [row["last"] for row in facts["rows"]] == [0.5, 0.3, 0.4]

    trials = trainings_as_trials(Run(**{**vars(run), "captured": {"trainings": facts}}), processes)
    assert [trial.state for trial in trials] == ["complete"] * 3
    steps = [[e["loss"] for p in trial.processes for e in p.events if e["k"] == "step"] for trial in trials]
    assert steps == [[1, 0.5], [1, 0.3], [1, 0.4]]


@pytest.mark.parametrize(
    "other",
    [
        {"ppid": 9},  # two commands of a shell script
        {"begins": (2.0, 30.0)},  # one after another
        {"options": False},  # they may train one model together
    ],
)
def test_other_processes_that_train_are_no_trainings_of_a_pool(other):
    processes = pool_of(["O1 s1=1 s1=0.5", "O3 s3=1 s3=0.3"], **other)
    assert successive_trainings(run_of(0.5), processes) == {}


def threads_of(rows, loaded=False):
    """Steps that alternate; a row is (thread, model, learning rate) of each optimizer."""
    made = [
        {
            "k": "optimizer",
            "index": at,
            "type": "SGD",
            "options": {"lr": lr},
            "trains": model,
            "root": "Net",
            "t": 1.0 + at,
        }
        | ({"thread": thread} if thread else {})
        for at, (thread, model, lr) in enumerate(rows)
    ]
    steps = [
        {"k": "step", "opt": at, "step": step, "loss": 1.0 / step, "t": 2.0 + 10 * (at // 2) + step + at / 10}
        for step in (1, 2, 3)
        for at in range(len(rows))
    ]
    steps = sorted(steps, key=lambda event: event["t"])
    loads = [{"k": "loaded", "what": "model", "matched": 2, "t": 1.5}] if loaded else []
    return [ProcessEvents("0.jsonl", ({"k": "hello", "t": 0.0}, *made, *loads, *steps))]


@pytest.mark.parametrize(
    ("rows", "loaded", "rates"),
    [
        ([(7, 0, 0.1), (8, 1, 0.01)], False, [0.1, 0.01]),
        ([(7, 0, 0.1), (8, 1, 0.01), (7, 2, 0.001), (8, 3, 0.2)], False, [0.1, 0.01, 0.001, 0.2]),
        ([(7, 0, 0.1), (8, 0, 0.01)], False, []),  # one model
        ([(7, 0, 0.1), (8, 1, 0.1)], False, []),  # equal options: clients of a federation
        ([(7, 0, 0.1), (8, 1, 0.01)], True, []),  # models get the state of others
        ([(0, 0, 0.1), (8, 1, 0.01)], False, []),  # the main thread trains, too
        ([(7, 0, 0.1)], False, []),
    ],
)
def test_threads_that_train_a_model_each_are_trials(rows, loaded, rates):
    processes = threads_of(rows, loaded)
    run = run_of(*[0.3] * len(rows))
    run = replace(run, captured={"trainings": successive_trainings(run, processes)})
    trials = trainings_as_trials(run, processes)
    assert [trial.params["lr"] for trial in trials] == rates
    assert all(trial.together for trial in trials)
    steps = [[e["step"] for e in trial.processes[0].events if e["k"] == "step"] for trial in trials]
    assert steps == [[1, 2, 3]] * len(rates)
