"""Several trainings in a row are told from one training with several optimizers, phases or models."""

from __future__ import annotations

import pytest

from labbook.compare.comparison import metric_table
from labbook.model.run import Console, Run
from labbook.model.series import Series
from labbook.record.run_from_journal.journal_reader import build_run
from labbook.record.run_from_journal.successive_trainings import successive_trainings
from labbook.report.entry.entry_front_matter import entry_meta
from labbook.report.entry.title import run_title
from labbook.report.series_choice import is_of_batches
from labbook.store.journal import ProcessEvents


def events(text):
    """`M0`: model 0 was seen; `O1`: first step of optimizer 1; `s1`: a step of it."""
    made = []
    for t, word in enumerate(text.split()):
        word, _, root = word.partition(":")
        number = int(word[1:])
        event = {
            "M": {"k": "model", "model": number, "root": root},
            "O": {"k": "optimizer", "index": number, "type": "SGD", "options": {"lr": 0.1**number, "momentum": 0}},
            "s": {"k": "step", "opt": number, "step": t},
        }[word[0]]
        made.append({**event, "t": float(t)})
    return [ProcessEvents("0.jsonl", ({"k": "hello", "t": 0.0}, *made))]


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
        ("M0 O0 s0 s0 M1 O1 s1 s1 M2 O2 s2", 3),
        ("M0 O0 s0 M1 s0 O1 s1", 2),  # the window of the last steps is written at the next optimizer
        ("M0 O0 s0 s0", 0),
        ("M0 M1 O0 s0 O1 s1 s0 s1 s0 s1", 0),  # a GAN
        ("M0 O0 s0 M1 O1 s1 s0 s1 s0 s1", 0),  # an agent that joins later
        ("M0 O0 s0 M1 O1 s1 s0 M2 O2 s2 s1", 3),  # queued steps are written when another optimizer is made
        ("M0 O0 s0 O1 s1", 0),  # fine-tuning of the same model
        ("M0 O0 s0 M0 O1 s1", 0),  # the same model with other parameters frozen
        ("M0 O0 s0 M1 O1 s1 O2 s2", 0),  # two optimizers for one of them
        ("M0 O0 s0 O1 M1 s1 s1", 2),  # the description of a model may follow the first step of its optimizer
        ("O0 M0 s0 O1 s1 M1 s1", 2),
        ("M0:Teacher O0 s0 M1:Student O1 s1", 0),
        ("", 0),
    ],
)
def test_only_new_models_with_new_optimizers_one_after_another_are_several_trainings(text, count):
    assert len(successive_trainings(run_of(), events(text)).get("rows", ())) == count


def test_the_best_of_them_is_in_the_title():
    run = run_of(3.0, 0.5, 2.0)
    facts = successive_trainings(run, events("M0 O0 s0 M1 O1 s1 M2 O2 s2"))
    assert [row["params"] for row in facts["rows"]] == [{"lr": 0.1**n} for n in range(3)]
    assert [row["last"] for row in facts["rows"]] == [3.0, 0.5, 2.0] and facts["best"] == 1
    title = run_title(Run(**{**vars(run), "captured": {"trainings": facts}}))
    assert title.startswith("train.py: finished, 3 trainings, best loss ") and title.endswith("(training 1: lr=0.1)")


@pytest.mark.parametrize(
    ("last", "named"),
    [
        ((3.0, 0.5, 2.0), {"loss.opt0": 3.0, "loss": 0.5, "loss.opt2": 2.0}),
        ((0.5, 3.0, 2.0), {"loss": 0.5, "loss.opt1": 3.0, "loss.opt2": 2.0}),
    ],
)
def test_the_loss_of_the_run_is_that_of_the_best_training(last, named):
    run = run_of(*last)
    facts = successive_trainings(run, events("M0 O0 s0 M1 O1 s1 M2 O2 s2"))
    run = Run(**{**vars(run), "captured": {"trainings": facts}, "primary": "loss"})
    metrics = entry_meta(run, "", {})["metrics"]
    assert {name: each["last"] for name, each in metrics.items()} == named and next(iter(metrics)) == "loss"
    assert metric_table([run])[0].values == (0.5,)


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ((0.5, 0.75, 0.7), "3 trainings, RMSE 0.65 on average (0.5 to 0.75)"),
        (
            (0.5, 0.75, 0.7, 0.6499),
            "3 trainings, RMSE 0.6499 on average (0.5 to 0.75)",
        ),  # the program prints the mean, too
        ((0.5, 0.75), "3 trainings, lowest loss 2 on average (1 to 3)"),
    ],
)
def test_repeats_are_told_by_what_the_program_reports_of_each(values, title):
    run = run_of(3.0, 1.0, 2.0)
    reported = Series("RMSE", "text", tuple(range(len(values))), *[tuple(values)] * 3, len(values), 0)
    run = Run(**{**vars(run), "series": (*run.series, reported)})
    process = events("M0 O0 s0 M1 O1 s1 M2 O2 s2")
    alike = ProcessEvents(
        "0.jsonl", tuple({**e, "options": {}} if e["k"] == "optimizer" else e for e in process[0].events)
    )
    facts = successive_trainings(run, [alike])
    assert "best" not in facts and [row["params"] for row in facts["rows"]] == [{}] * 3
    shown = Run(**{**vars(run), "captured": {"trainings": facts}})
    assert run_title(shown) == f"train.py: finished, {title}"
    assert not is_of_batches(reported, shown)  # the best of one value a training is no median


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
