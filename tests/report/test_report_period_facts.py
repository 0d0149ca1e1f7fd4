"""The facts at the head of a report: what improved and by what, what failed, what was learnt."""

from __future__ import annotations

import pytest
from report_rows import at, facts, row, story

from labbook.model.entry import Entry
from labbook.model.run import Change
from labbook.report.period_costs import Cost


def test_first_results_are_one_fact_and_the_best_are_named():
    rows = [
        row(n, 17, experiment=f"exp{n:03d}", metric=metric, best=best, direction=direction, status=status, symptoms=why)
        for n, (metric, best, direction, status, why) in enumerate(
            [
                ("acc", 0.7, "max", "finished", ()),
                ("loss", 0.3, "min", "finished", ()),
                ("acc", 0.9, "max", "finished", ()),
                ("acc", 0.8, "max", "finished", ()),
                ("acc", 0.6, "max", "finished", ()),
                ("acc", 0.5, "max", "finished", ("loss_not_decreasing",)),
            ]
        )
    ]
    rows.append(row(7, 18, "failed", symptoms=("zero_division",), duration_s=600.0))
    data = story(rows)

    assert facts(data)[:2] == [
        "First results of acc: exp002 0.9, exp003 0.8, exp000 0.7 and 2 more.",
        "First result of loss: exp001 0.3.",
    ]
    assert [failure["kind"] for failure in data["failures"]] == ["zero_division", "loss_not_decreasing"]


def test_first_results_of_many_metrics_are_counted():
    names = ("auc", "bleu", "iou", "ppl", "wer")
    rows = [row(n, 17, experiment=f"exp{n}", metric=name, best=0.5, direction="max") for n, name in enumerate(names)]
    found = [fact for fact in facts(story(rows)) if fact.startswith("First")]
    assert len(found) == 4 and found[-1] == "First results of 2 more metrics are in the table below."


def test_the_head_of_a_report_says_what_matters():
    accuracy = {"metric": "val_acc", "direction": "max"}
    repeats = [row(n, 2, best=0.94 + 0.001 * n, configuration="same", seed=str(n), **accuracy) for n in range(3)]
    oom = {"symptoms": ("cuda_oom",)}
    rows = [*repeats, row(4, 16, best=0.98, **accuracy)]
    rows += [row(5, 17, "failed", **oom), row(6, 17, "failed", fix="x", fix_text="batch size 64 → 32", **oom)]
    change = [Change("argument", "--lr", "0.1", "0.05"), Change("metric", "val_acc", "0.94", "0.98")]

    data = story(rows, title={"cuda_oom": "CUDA out of memory"}.get, gained_by=lambda before, now: change)

    assert facts(data) == [
        "exp001_x_dynamic: val_acc improved from 0.942 to 0.98, with --lr 0.1 → 0.05.",
        "CUDA out of memory: 2 runs, 2 min; 1 fixed, by: batch size 64 → 32",
        "1 failure is open: the program has not finished since.",
    ]
    assert all(sentence for sentence in facts(data, "zh"))
    assert [(one["what"], one["text"]) for one in data["learnt"]] == [("fix", "batch size 64 → 32")]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [(("a", "b"), "2 fixed, the last one by: b"), (("a", "a", "b"), "3 fixed, most often by: a")],
)
def test_most_often_is_said_of_what_was_confirmed_more_than_once(texts, expected):
    rows = [row(n, 16 + n, "failed", symptoms=("cuda_oom",), fix="x", fix_text=text) for n, text in enumerate(texts)]

    assert facts(story(rows, title={"cuda_oom": "CUDA out of memory"}.get))[0].endswith(expected)


def test_noise_is_no_news():
    accuracy = {"metric": "val_acc", "direction": "max"}
    rows = [row(n, 2, best=0.9 + 0.02 * n, configuration="same", seed=str(n), **accuracy) for n in range(3)]
    assert facts(story([*rows, row(4, 16, best=0.95, **accuracy)])) == ["Nothing failed."]
    unknown = facts(story([row(1, 2, best=0.9, **accuracy), row(4, 16, best=0.95, **accuracy)]))
    assert "the noise is not known" in unknown[0]


def test_many_differences_are_no_cause():
    accuracy = {"metric": "val_acc", "direction": "max"}
    rows = [row(1, 2, best=0.9, **accuracy), row(4, 16, best=0.95, **accuracy)]
    many = [Change("argument", f"--a{n}", "1", "2") for n in range(3)]
    assert story(rows, gained_by=lambda before, now: many)["results"][0]["by"] == ""


def test_equal_lengths_of_time_are_compared():
    rows = [row(1, 10), row(2, 12), row(3, 17)]
    wednesday_noon = at(18)
    assert story(rows)["before"]["runs"] == 2
    assert story(rows, now=wednesday_noon)["before"]["runs"] == 1, "only up to the Wednesday before"


def test_a_step_that_takes_longer_is_told_with_what_changed():
    rows = [row(1, 10), row(2, 16, previous=row(1, 10).id)]
    costs = {rows[0].id: Cost("a", 0.010), rows[1].id: Cost("a", 0.020, 2**30)}
    changes = {rows[1].id: [Change("argument", "--workers", "4", "0")]}
    slower = "exp001_x_dynamic on a: a step takes 20 ms instead of 10 ms, with --workers 4 → 0."
    assert slower in facts(story(rows, costs=costs, changes=changes))
    costs[rows[0].id] = Cost("b", 0.010)
    assert slower not in facts(story(rows, costs=costs, changes=changes)), "on another machine"


def test_what_did_not_help_is_kept():
    body = "## Tried, did not help\n\n<!-- what? -->\n\n- dropout 0.5\n- label smoothing\n\n## Conclusion\n\nNo.\n"
    learnt = story([row(1, 16)], [Entry("notes/experiments/exp001_x_dynamic.md", {}, body)])["learnt"]
    assert [(one["what"], one["text"]) for one in learnt] == [
        ("conclusion", "No."),
        ("tried", "dropout 0.5"),
        ("tried", "label smoothing"),
    ]


def test_the_same_fix_is_learnt_once():
    failed = {"status": "failed", "symptoms": ("loss_nan",)}
    texts = ["lr 0.1", "lr 0.01", "lr 0.1"]
    rows = [row(n, 16 + n, fix=f"run{n}", fix_text=text, **failed) for n, text in enumerate(texts)]
    learnt = story(rows)["learnt"]
    assert [(one["text"], one["url"]) for one in learnt] == [
        ("lr 0.1", f"../{rows[2].path}"),
        ("lr 0.01", f"../{rows[1].path}"),
    ]
