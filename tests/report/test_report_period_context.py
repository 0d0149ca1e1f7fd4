from __future__ import annotations

from dataclasses import replace

import pytest
from order_of_tests import in_one_test
from report_rows import WEEK, at, row, story

from labbook.model.entry import Entry
from labbook.model.metric_kinds import MetricGoal
from labbook.model.run import Change
from labbook.publish.reports import _all_runs
from labbook.report.best_runs import best_run, least_difference
from labbook.report.period_context import PeriodSource, failure_kind, period_context, read_conclusion
from labbook.report.progress_svg import progress_svg
from labbook.report.report_page import experiment_runs_markdown, report_markdown
from labbook.report.run_row import RunRow, run_row
from labbook.store.text.entry_text import split_parts
from labbook.store.text.frontmatter import parse
from labbook.store.text.sentences import Sentences
from labbook.store.text.templates import Templates


def page_of(source, language="en", existing=None, people=False) -> str:
    data = period_context(source) | {"figures": [], "people": people}
    page, trouble = report_markdown(data, Templates(None, language), Sentences(language), existing)
    assert trouble == ""
    return page


def test_the_row_of_an_entry():
    meta = {
        "id": "20261121-153012-k3f9",
        "title": "train.py: loss is NaN since step 412",
        "status": "failed",
        "started": "2026-11-21T15:30:12Z",
        "duration_s": 84.2,
        "metrics": {"loss": {"first": 2.31, "best": 1.87, "last": "nan", "steps": 412}, "acc": {"best": 1}},
        "tags": ["torch", 3],
        "fix": None,
    }
    found = run_row(Entry("notes/runs/2026/11/21/20261121-153012-k3f9.md", meta))

    assert (found.metric, found.best, found.metric_text) == ("acc", 1.0, "acc 1"), "the loss was of single batches"
    assert (found.verdict, found.direction) == ("failed", "max")
    assert found.script == "train.py" and found.subject == "loss is NaN since step 412"
    assert found.started == 1795275012.0 and found.tags == ("torch", "3") and found.fix == ""


@in_one_test(
    "meta",
    [
        {},
        {"metrics": [1]},
        {"metrics": {"a": "x"}},
        {"started": "soon", "duration_s": "long"},
        {"title": ["x"], "tags": {"a": 1}},
    ],
)
def test_odd_front_matter_gives_an_empty_row(meta):
    found = run_row(Entry("notes/runs/x.md", meta))

    assert found.id == "x" and found.status == "lost" and found.metric_text == "" and found.started == 0.0


def test_totals_count_this_week_and_the_one_before():
    data = story([row(1, 16), row(2, 17, "failed"), row(3, 22, "interrupted"), row(4, 15), row(5, 23)])

    assert data["totals"]["runs"] == 3 and data["before"]["runs"] == 1
    assert data["totals"]["by_status"] == [("finished", 1), ("failed", 1), ("interrupted", 1)]
    assert data["totals"]["time"] == "3 min" and data["totals"]["lost_time"] == "60 s"
    assert [day["runs"] for day in data["days"]] == [1, 1, 0, 0, 0, 0, 1]


def test_the_time_of_trials_is_part_of_that_of_their_run():
    whole, alone = replace(row(1, 16), id="20261116-100000-abcd"), replace(row(2, 16), id="20261116-100001-efght0001")
    trials = [replace(row(3, 16), id=f"{whole.id}t{n:04d}") for n in (1, 2)]
    assert story([whole, *trials, alone])["totals"]["time"] == "2 min"


def test_the_best_is_compared_with_the_week_before():
    loss = {"metric": "val_loss", "direction": "min"}
    rows = [row(1, 10, best=0.5, **loss), row(2, 16, best=0.4, **loss), row(3, 17, best=0.3, **loss)]
    rows += [row(4, 18, "failed", best=0.1, **loss), row(5, 18, best=0.0, verdict="unhealthy", **loss)]

    (result,) = story(rows)["results"]

    assert (result["best"], result["before"]) == ("0.3", "0.5")
    assert result["trend"] == "", "the noise is not known"
    assert result["run"]["id"] == rows[2].id and result["broken"] == 1


@pytest.mark.parametrize(
    ("repeats", "trend"), [((0.5, 0.5001, 0.4999), "better"), ((0.5, 0.8, 0.2), "noise"), ((0.5, 0.5, 0.5), "better")]
)
def test_better_is_said_beyond_the_noise_of_repeats(repeats, trend):
    loss = {"metric": "val_loss", "direction": "min"}
    rows = [row(1, 10, best=0.5, **loss), row(2, 16, best=0.3, **loss)]
    rows += [row(3, 1 + n, best=best, configuration="same", seed=str(n), **loss) for n, best in enumerate(repeats)]
    (result,) = story(rows)["results"]
    assert result["trend"] == trend


@pytest.mark.parametrize("seed", ["1", ""])
def test_the_same_seed_again_is_no_repeat(seed):
    loss = {"metric": "val_loss", "direction": "min", "configuration": "same", "seed": seed}
    assert least_difference([row(1, 10, best=0.5, **loss), row(2, 10, best=0.5, **loss)], "val_loss") is None


def test_more_is_better_where_it_is():
    accuracy = {"metric": "val_accuracy", "direction": "max"}
    rows = [row(1, 16, best=0.8, **accuracy), row(2, 17, best=0.9, **accuracy)]
    assert best_run(rows) == rows[1]
    tie = [row(number, 15 + number, best=0.9, last=last, **accuracy) for number, last in ((1, 0.8), (2, 0.9), (3, 0.9))]
    for order in (tie, tie[::-1]):
        assert best_run(order).id == tie[1].id, "the first that ended with it"
    assert best_run([row(1, 16)]) is None
    assert best_run([row(1, 16, metric="loss", best=0.2), *rows]) == rows[1], "the metric that most of them have"
    assert best_run([row(1, 16, best=0.9, verdict="unhealthy", **accuracy)]) is None


def test_the_goal_of_an_experiment_decides_on_metric_and_direction():
    metrics = {"loss": {"best": 0.1, "last": 0.2, "steps": 9}, "gap": {"best": None, "last": 3.0, "steps": 9}}
    entry = Entry("notes/runs/x.md", {"metric": "loss", "direction": "min", "metrics": metrics, "experiment": "a"})
    found = run_row(entry)
    assert (found.metric, found.direction, found.best) == ("loss", "min", 0.1)
    found = run_row(entry, {"a": MetricGoal("gap", "max")}.__getitem__)
    assert (found.metric, found.direction, found.best) == ("gap", "max", 3.0)
    found = run_row(entry, {"a": MetricGoal("missing", "max")}.__getitem__)
    assert (found.metric, found.direction, found.best) == ("loss", "min", 0.1)


def test_failures_are_grouped_by_symptom_or_by_what_happened():
    rows = [row(1, 16, "failed", symptoms=("cuda_oom",)), row(2, 17, "failed", symptoms=("cuda_oom",), fix="x")]
    rows += [row(3, 18, "killed"), row(4, 18, "killed")]

    data = story(rows)

    assert [(f["kind"], f["count"], f["fixed"]) for f in data["failures"]] == [("cuda_oom", 2, 1), ("run N", 2, 0)]
    assert data["failures"][1]["title"] == "run 4"  # not the key of the group
    assert failure_kind(row(1, 16)) == ""


def test_open_is_what_nobody_has_cured():
    rows = [
        row(1, 16, "failed", script="a.py"),
        row(2, 17, "finished", script="a.py"),
        row(3, 17, "failed", script="b.py"),
        row(4, 18, "failed", script="b.py"),
        row(5, 18, "failed", script="c.py", fix="20261119-120000-aaaa"),
        row(6, 24, "finished", script="b.py", experiment="other"),
    ]
    assert [(r["id"], r["count"]) for r in story(rows)["open_runs"]] == [(rows[3].id, 2)]
    rows.append(row(7, 24, "finished", script="b.py"))
    assert story(rows)["open_runs"] == [], "cured after the end of the week"


def test_experiments_without_a_conclusion_are_open():
    empty = "## Conclusion\n\n<!-- What was\nlearned? -->\n\n## Next\n\nmore\n"
    pages = [
        Entry("notes/experiments/exp001_x_dynamic.md", {}, empty),
        Entry("notes/experiments/exp002_y_static.md", {}, empty),
        Entry("notes/experiments/exp003_z_static.md", {}, "## 结论\n\n有效。\n"),
    ]
    rows = [row(1, 16), row(2, 16, experiment="exp003_z_static")]

    assert [e["experiment"] for e in story(rows, pages)["open_experiments"]] == ["exp001_x_dynamic"]
    assert read_conclusion(pages[2].body) == "有效。"


def test_what_people_turned():
    rows = [row(1, 16), row(2, 17)]
    changes = {
        rows[0].id: [Change("argument", "--lr", "0.1", "0.2"), Change("metric", "loss", "1", "2")],
        rows[1].id: [Change("argument", "--lr", "0.2", "0.3"), Change("code", "model.py", "", "", "+3 -1 lines")],
    }
    found = story(rows, changes=changes)["changes"]

    assert [(c["what"], c["before"], c["values"], c["count"]) for c in found] == [
        ("--lr", "0.1", "0.2, 0.3", 2),
        ("model.py", "", "+3 -1 lines", 1),
    ]


@pytest.mark.parametrize(
    ("values", "tried"),
    [
        (["1", "", "1"], ""),
        (["0.1", "0.2", "0.1", "0.3"], "0.2, 0.3"),
        (["", "new, uncommitted", "changed, uncommitted"], "new, uncommitted; changed, uncommitted"),
    ],
)
def test_a_value_from_before_is_none_that_was_tried(values, tried):
    rows = [row(number, 16) for number in range(1, len(values))]
    steps = zip(rows, values, values[1:], strict=False)
    changes = {one.id: [Change("environment", "OMP_NUM_THREADS", before, now)] for one, before, now in steps}
    (found,) = story(rows, changes=changes)["changes"]
    assert (found["before"], found["values"]) == (values[0], tried)


def test_a_flag_that_one_run_had_is_no_change():
    rows = [row(number, 16) for number in range(1, 6)]
    toggles = ["", "nan", "dead", "", ""]
    changes = {
        one.id: [Change("argument", "--fault", before, now)] if before != now else []
        for one, before, now in zip(rows, ["", *toggles], toggles, strict=False)
    }
    changes[rows[1].id] += [Change("argument", "--optimizer", "sgd", "adam"), Change("code", "a.py", "", "", "+1 -1")]
    changes[rows[4].id] += [Change("argument", "--lr", "0.1", "0.2"), Change("argument", "--amp", "", "yes")]

    found = story(rows, changes=changes)["changes"]
    assert sorted(each["what"] for each in found) == ["--lr", "--optimizer", "a.py"]


@pytest.mark.parametrize(("language", "heading"), [("en", "## Results"), ("zh", "## 结果")])
def test_the_page_of_a_week(language, heading):
    rows = [row(1, 16, best=0.3, metric="loss"), row(2, 17, "failed", author="")]
    source = PeriodSource(WEEK, rows, (), {}, lambda path: f"../{path}")

    page = page_of(source, language, people=True)

    meta, body = parse(page, "report")
    assert meta["week"] == "2026-W47" and meta["runs"] == 2
    assert heading in body and "2026-W47" in body and rows[1].path in body
    assert "\n\n\n" not in body
    assert {p.name for p in split_parts(body)} >= {"summary", "results", "failures", "open", "people"}


def test_an_empty_week_has_a_page():
    page = page_of(PeriodSource(WEEK, (), (), {}, str))
    assert "No runs." in page and "## Results" not in page


def test_what_people_wrote_in_a_report_stays():
    source = PeriodSource(WEEK, [row(1, 16)], (), {}, str)
    page = page_of(source)
    mine = page.replace("## Highlights\n", "## Highlights\n\nWe beat the baseline!\n").replace(
        "runs: 1", "runs: 1\nmood: good"
    )

    again = page_of(PeriodSource(WEEK, [row(1, 16), row(2, 17)], (), {}, str), existing=mine)

    assert "We beat the baseline!" in again and "mood: good" in again and "**2 runs**" in again
    assert page_of(source, existing=page) == page, "writing it again changes nothing"


def test_hostile_names_are_text_in_a_report():
    evil = "<script>alert(1)</script> | [x](javascript:y) {{ 7*7 }} <!-- labbook:end results -->"
    rows = [row(1, 16, "failed", author=evil, script=evil, experiment=evil, metric=evil, best=1.0)]
    rows[0] = RunRow(**{**rows[0].__dict__, "title": evil})

    page = page_of(PeriodSource(WEEK, rows, (), {rows[0].id: [Change("argument", evil, evil, evil)]}, str), people=True)

    assert "<script" not in page and "{{" not in page and "](javascript" not in page
    assert [p.name for p in split_parts(parse(page, "")[1]) if p.name].count("results") == 1


def test_people_are_not_counted_unless_asked():
    source = PeriodSource(WEEK, [row(1, 16)], (), {}, str)
    assert "Wei" not in page_of(source) and "Wei" in page_of(source, people=True)


def test_the_figure_of_an_experiment_has_a_dot_for_each_run():
    accuracy = {"metric": "val_acc", "direction": "max"}
    rows = [row(n, 10 + n, best=0.9 - 0.01 * n, **accuracy) for n in range(8)]
    picture = progress_svg(rows, at(16, 0), ("run", "best so far"))
    assert picture.count('r="3"') == 9 and picture.count('opacity=".35"') == 6, "and one in the legend"
    assert progress_svg(rows[:2], at(10), ("run", "best")) == ""


def test_the_page_of_an_experiment_lists_its_runs():
    accuracy = {"metric": "val_acc", "direction": "max"}
    rows = [row(n, 10 + n, best=0.9 - 0.01 * n, last=0.5, **accuracy) for n in range(4)]
    text = experiment_runs_markdown("exp001_x_dynamic", rows, "../reports/w.svg", Templates(None, "en"))
    assert "[train.py: run 0](../runs/2026/11/10/" in text and "../reports/w.svg" in text
    assert [line.count("run 3") for line in text.splitlines() if line.startswith("| [")] == [1, 0, 0, 0]
    options = {one.id: {"lr": n / 10, "epochs": 3} for n, one in enumerate(rows[:3])}
    text = experiment_runs_markdown("exp001_x_dynamic", rows, "", Templates(None, "en"), options)
    shown = [line.split(" | ")[3] for line in text.splitlines() if line.startswith("| ")]
    assert shown == ["options that differ", "", "lr 0.2", "lr 0.1", "lr 0.0"]


def test_runs_of_a_bisection_count_as_time_only():
    loss = {"metric": "val_loss", "direction": "min"}
    searched = row(2, 17, "failed", best=0.1, tags=("bisect",), rerun_of="x", symptoms=("loss_nonfinite",), **loss)
    seen = story([row(1, 16, best=0.5, **loss), searched])
    assert seen["totals"]["runs"] == 2 and not seen["failures"]
    (result,) = seen["results"]
    assert (result["runs"], result["best"]) == (1, "0.5")
    own = replace(searched, rerun_of="")
    assert story([own])["failures"], "a run that a person has given this tag"


def test_the_report_of_an_experiment_has_its_name_and_ends_today():
    rows = [row(1, 16), row(2, 17)]
    period = _all_runs(WEEK, "exp001_x_dynamic", rows, at(18))
    assert (period.begin.day, period.end.day) == (16, 18)
    page = page_of(PeriodSource(period, rows, [], {}, lambda path: f"../{path}"))
    assert "\n# Report on exp001_x_dynamic\n" in page and "\nexperiment: exp001_x_dynamic\n" in page
