from __future__ import annotations

import posixpath
import re
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labbook.model.entry import Entry
from labbook.publish.pages.generated_pages import experiment_runs, neighbours, site_pages
from labbook.publish.pages.month_pages import ONE_PAGE
from labbook.publish.pages.page import SiteSource, link, run_cells
from labbook.report.run_row import RunRow
from labbook.store.text.templates import Templates

NOW = datetime(2026, 11, 21, 12).timestamp()
EVIL = "<script>alert(1)</script> | [x](javascript:y) {{ 7*7 }} `a` **b** -->"


def row(number: int, day: int, month: int = 11, **more) -> RunRow:
    run_id = f"2026{month:02d}{day:02d}-1200{number:02d}-aaaa"
    facts = {"status": "finished", "title": f"train.py: run {number}", "script": "train.py", "duration_s": 60.0, **more}
    path = f"notes/runs/2026/{month:02d}/{day:02d}/{run_id}.md"
    return RunRow(run_id, path, started=datetime(2026, month, day, 12).timestamp(), **facts)


def pages(rows=(), language="en", **more) -> dict[str, str]:
    source = SiteSource(rows, now=NOW, **more)
    return {page.path: page.text() for page in site_pages(source, Templates(None, language))}


def test_the_pages_of_a_notebook():
    made = pages([row(2, 20), row(1, 3, 10)])

    assert set(made) == {
        "index.md",
        "runs/index.md",
        "compare/index.md",
        "runs/2026/11/index.md",
        "runs/2026/10/index.md",
        "experiments/index.md",
        "reports/index.md",
        "symptoms/index.md",
        "fixes/index.md",
    }
    assert "[2026-11-20 12:00](2026/11/20/20261120-120002-aaaa.md)" in made["runs/index.md"]
    assert "(20/20261120-120002-aaaa.md)" in made["runs/2026/11/index.md"]
    assert "(../../index.md)" in made["runs/2026/11/index.md"]
    assert "(runs/2026/11/20/20261120-120002-aaaa.md)" in made["index.md"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_empty_notebook_says_how_to_begin(language):
    made = pages(language=language)

    assert "labbook record -- python train.py" in made["index.md"]
    assert "labbook report --week" in made["reports/index.md"]
    assert all(text.startswith("# ") for text in made.values())


def test_every_table_has_as_many_cells_in_each_row():
    rows = [
        row(3, 20, metric="loss", best=0.1, last=0.2, author="Wei", experiment="e", fix="x", symptoms=("oom",)),
        row(2, 19, status="failed", author=EVIL, experiment=EVIL, metric=EVIL, best=1.0),
    ]
    experiments = [Entry("notes/experiments/e.md", {"title": EVIL}, "## Conclusion\n\n" + EVIL)]
    reports = [Entry("notes/reports/2026-W47.md", {"title": EVIL, "date": EVIL, "runs": "x"})]

    for path, text in pages(rows, experiments=experiments, reports=reports, problems=[("a.md", EVIL)]).items():
        widths: list[int] = []
        for line in [*text.splitlines(), ""]:
            if line.startswith("|"):
                widths.append(line.count("|"))
            else:
                assert len(set(widths)) <= 1, (path, widths)
                widths = []
        assert "<script" not in text and "{{" not in text and "](javascript" not in text


def test_the_home_page_tells_the_week():
    failed = row(3, 20, status="failed", verdict="failed", symptoms=("cuda_oom",))
    rows = [failed, row(2, 19, metric="loss", best=0.5, verdict="healthy"), row(1, 12)]

    home = pages(rows)["index.md"]

    assert "2026-W47" in home and "<b>2</b><span>runs</span><small>1 at this point of the previous week</small>" in home
    assert "cuda_oom" in home and "loss **0.5**" in home
    assert len(re.findall('<rect class="l[0-4]"', home)) == 52 * 7 + 6
    assert re.search(r'<rect class="l1" [^>]*><title>2026-11-20: 1 run, 1 failed</title>', home)
    assert "(runs/index.md#status=failed,killed,lost&since=2026-11-16)" in home
    assert 'aria-label="healthy 1, failed 1"' in home and '<rect class="lb-part-failed" x="500"' in home


def test_the_home_page_has_what_is_running_and_the_course_of_each_experiment():
    values = (0.5, 0.9, 0.4, 0.7)
    rows = [
        row(9 - n, 19, metric="acc", best=best, direction="max", experiment="exp001_a", verdict="healthy")
        for n, best in enumerate(values)
    ]
    broken = row(1, 18, metric="acc", best=99.0, experiment="exp001_a", status="failed", verdict="failed")
    alone = row(2, 18, metric="loss", best=1.0, experiment="exp002_b", verdict="healthy")
    running = row(1, 20, status="running", experiment="exp002_b", host="gpu-07", title=f"train.py: {EVIL}", script="")

    made = pages([running, *rows, broken, alone], experiments=[])

    home = made["index.md"]
    now = home[home.index("Running now") : home.index("Latest runs")]
    assert "gpu-07" in now and f'data-run="{running.id}"' in now and now.count("- <span") == 1 and "<script" not in now
    for page in (home, made["experiments/index.md"]):
        (drawn,) = re.findall(r'<path d="M([^"]*)"', page)
        heights = [float(point.split()[1]) for point in drawn.split("L")]
        assert [heights.index(y) for y in sorted(heights)] == [2, 0, 3, 1], "oldest first, the best on top"
    assert "Running now" not in pages(rows)["index.md"]


def test_a_first_week_is_not_compared_and_a_title_is_not_repeated():
    failed = row(3, 20, status="failed", verdict="failed", symptoms=("cuda_oom",), title="train.py: cuda_oom at step 3")

    home = pages([failed, row(2, 19, verdict="healthy")])["index.md"]

    assert "previous week" not in home and "<em>cuda_oom</em>" not in home


def test_only_the_newest_runs_are_on_the_first_page():
    rows = [row(n, 20) for n in range(60)] + [row(n, 19) for n in range(60)]

    made = pages(rows)

    assert made["runs/index.md"].count(".lb-when") == 100
    assert made["runs/2026/11/index.md"].count(".lb-when") == 120


def test_a_month_of_many_runs_lists_its_days():
    lost = RunRow("lost", "notes/runs/2026/11/lost.md", "finished", "beside the days")
    failed = [row(n, 20, status="failed") for n in range(2)]

    made = pages([lost, *failed, *(row(n % 60, 19, duration_s=6.0) for n in range(ONE_PAGE))])

    month, day = made["runs/2026/11/index.md"], made["runs/2026/11/19/index.md"]
    assert "| [2026-11-20](20/index.md) | 2 | 2 | 2 min |" in month and "(19/index.md) | 300 | 0 | 30 min |" in month
    assert "303" in month and month.count(".lb-when") == 1 and "(lost.md)" in month
    assert day.count(".lb-when") == ONE_PAGE and "[2026-11](../index.md)" in day and "(../../../index.md)" in day
    assert made["runs/2026/11/20/index.md"].count(".lb-when") == 2


def test_the_runs_of_an_experiment():
    rows = [row(2, 20, experiment="e", metric="loss", best=0.5), row(1, 19, experiment="e", metric="loss", best=0.1)]
    rows.append(row(3, 18, experiment="other"))

    table = experiment_runs("e", SiteSource(rows, now=NOW), Templates(None, "en"))

    assert table.count(".lb-when") == 2
    (best,) = [line for line in table.splitlines() if "lb-best" in line]
    assert "run 1" in best and "(../runs/2026/11/19/" in best
    assert "No runs yet" in experiment_runs("nothing", SiteSource(rows, now=NOW), Templates(None, "en"))


def test_runs_know_their_neighbours():
    rows = [row(3, 20), row(2, 19), row(1, 18)]
    around = neighbours(rows)

    assert around[rows[1].path] == (rows[2], rows[0])
    assert around[rows[0].path] == (rows[1], None) and around[rows[2].path] == (None, rows[1])


def test_a_run_without_a_time_or_month_is_listed():
    odd = RunRow("odd", "notes/runs/odd.md", "lost", "odd")

    made = pages([odd])

    assert "[odd](odd.md)" in made["runs/index.md"] and set(made) & {"runs/odd/index.md"} == set()
    assert run_cells(odd, "runs/index.md")["day"] == ""


def test_generated_pages_leave_no_gap():
    for text in pages([row(1, 20, author="Wei", metric="loss", best=0.1)]).values():
        assert not re.search(r"\|\n\n+\|", text), "a table in two parts"


@pytest.mark.parametrize(("heading", "end"), [("Goal", "Conclusion"), ("目标", "结论")])
def test_experiments_are_listed_with_what_people_wrote(heading, end):
    body = f"# e\n\n## {heading}\n\n<!-- hint -->\nDoes *warm-up* help?\n\n## {end}\n\n<!-- yours -->\nIt does.\n"

    (line,) = [
        line
        for line in pages([row(1, 20, experiment="e")], experiments=[Entry("notes/experiments/e.md", {}, body)])[
            "experiments/index.md"
        ].splitlines()
        if line.startswith("| [e]")
    ]
    assert "<small>Does &#42;warm-up&#42; help?</small>" in line and line.endswith("| It does. |")


def test_an_experiment_without_a_note_is_listed_by_its_runs():
    runs = [row(1, 20, experiment="lost", status="failed"), row(2, 21, experiment="")]
    text = pages(runs)["experiments/index.md"]
    assert "| lost | 1 | 1 |" in text and text.count("| lost") == 1
    assert "](lost" not in text


_NAMES = st.lists(st.sampled_from(["a", "b", "a.md"]), min_size=1, max_size=5).map("/".join)


@given(_NAMES, _NAMES)
def test_an_address_from_a_page_is_the_relative_path(path, page):
    if f"{page}/".startswith(f"{path}/") and page != path:
        return  # a file is no folder
    assert link(path, page) == posixpath.relpath(path, posixpath.dirname(page) or ".")
