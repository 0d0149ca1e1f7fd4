"""`list`, `show`, `search`, `report`, `site` and `watch` as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from labbook.model.run import Run
from labbook.model.run_json import run_to_json

NAN, GOOD = "20261119-100000-aaaa", "20261121-100000-cccc"


@pytest.fixture
def team(notes):
    """A notebook with two runs, and the command line."""
    notes.run(NAN, "损失变成了 NaN。", title="train.py: loss is NaN", status="failed", author="Wei", fix=GOOD)
    notes.run(
        GOOD, "all is well \x1b[31mred\x1b]0;t\x07", experiment="exp001_x_dynamic", metrics={"loss": {"last": 0.5}}
    )
    return notes.labbook


def test_list_shows_the_newest_first(team):
    lines = team("list").stdout.splitlines()

    assert [line.split()[0] for line in lines] == ["run", GOOD, NAN]
    assert "loss 0.5" in lines[1] and "exp001_x_dynamic" in lines[1] and "Wei" in lines[2]


def test_list_groups_runs_by_any_name(team, notes):
    for number, lr, status in ((1, 0.5, "finished"), (2, 0.05, "finished"), (3, 0.5, "failed")):
        name = f"20261122-10000{number}-dddd"
        values = {"metrics": {"val_acc": {"best": lr, "last": lr}}, "params": {"lr": lr}}
        notes.run(name, status=status, tags=["a", "b"], experiment="exp002_y_dynamic", **values)

    lines = [line.split() for line in team("list", "--group-by", "lr").stdout.splitlines()]
    assert [line[:2] for line in lines[1:]] == [["0.05", "1"], ["0.5", "2"], ["–", "2"]]
    assert "20261122-100001-dddd" in lines[2], "the best run of a group is one that did not fail"
    groups = json.loads(team("list", "--group-by", "tag", "experiment:exp002", "--json").stdout)
    assert [(group["value"], group["runs"]) for group in groups] == [("a", 3), ("b", 3)]
    refused = team("list", "--group-by", "lrr", check=False)
    assert refused.returncode == 2 and "lr" in refused.stderr.splitlines()[1]


def test_show_brief_fits_a_screen_and_names_finding_changes_and_best(team, notes):
    from labbook.model.finding import Finding
    from labbook.model.run import Change, CheckResult

    long = "x" * 300
    changes = (Change("metric", "loss (last)", "1", "2"), *(Change("argument", f"--o{n}", "1", long) for n in range(9)))
    checks = tuple(CheckResult(f"check_{n}", f"check {n}", long, long, "fail") for n in range(9))
    finding = Finding("cuda_out_of_memory", "cuda_oom", "system", 1, "error", "GPU out of memory", evidence=(long,) * 9)
    for number, status in ((1, "failed"), (2, "finished")):
        name = f"20261122-10000{number}-dddd"
        metrics = {f"val_acc{n or ''}": {"first": 1.0, "best": 1.25, "last": 0.5} for n in range(12)}
        notes.run(name, experiment="exp001_x_dynamic", metrics=metrics, status=status, command=f"python {long}")
        run = Run(name, status, ("python",), "/w", 0.0, checks=checks, changes=changes, findings=(finding,))
        folder = notes.folder / f"notes/runs/2026/11/22/{name}"
        folder.mkdir(exist_ok=True)
        (folder / "run.json").write_text(json.dumps(run_to_json(run)))
        shown = team("show", name, "--brief").stdout
        assert len(shown.splitlines()) <= 24 and "--o0 1" in shown and "and 6 more" in shown
        assert "loss (last)" not in shown
        assert ("GPU out of memory" if status == "failed" else "check 0") in shown
        assert "1.25" in shown and name + ".md" in shown
    assert "best" in team("show", GOOD, "--brief").stdout and NAN in team("show", NAN, "--brief").stdout


def test_list_as_data(team):
    listed = json.loads(team("list", "status:failed", "--json").stdout)

    assert [(run["id"], run["status"], run["fix"]) for run in listed] == [(NAN, "failed", GOOD)]
    assert listed[0]["entry"] == f"notes/runs/2026/11/19/{NAN}.md"


def test_list_with_filters_and_limit(team):
    assert NAN not in team("list", "-n", "1").stdout
    assert "1 of 2 runs" in team("list", "-n", "1").stderr
    assert GOOD not in team("list", "-status:finished").stdout
    assert GOOD in team("list", "well", "since:2026-11-20").stdout


@pytest.mark.parametrize(
    "arguments", [["list", "status:lost"], ["list", "status:lost", "--json"], ["search", "qqqq"], ["show", "zzzz"]]
)
def test_nothing_found_ends_with_one(team, arguments):
    done = team(*arguments, check=False)

    assert done.returncode == 1
    assert "labbook: " in done.stderr and "Traceback" not in done.stderr
    assert done.stdout.strip() in ("", "[]")


def test_a_mistyped_filter_gets_the_nearest(team):
    done = team("list", "staus:failed", check=False)
    assert done.returncode == 2 and "did you mean status:failed?" in done.stderr
    assert "did you mean status:finished?" in team("search", "status:finishd", check=False).stderr


def test_conditions_options_and_negations_are_no_options_of_labbook(team, notes):
    notes.run("20261122-100000-dddd", params={"lr": 0.5}, command="python train.py --lr 0.5", author="Wei")

    shown = team("list", "lr>0.1").stdout
    assert "20261122-100000-dddd" in shown and GOOD not in shown and "lr" in shown.splitlines()[0]
    for arguments in (["--lr"], ["--lr=0.5"], ["--lr 0.5"], ["--lr", "-status:failed", "-n", "5"]):
        assert "20261122-100000-dddd" in team("list", *arguments).stdout, arguments
    assert team("list", "-lr>0.1", check=False).stdout.count("dddd") == 0
    done = team("list", "--jsn", check=False)
    assert done.returncode == 2 and "--json" in done.stderr


def test_an_empty_notebook_says_how_to_begin(notes):
    done = notes.labbook("list", check=False)

    assert done.returncode == 1 and "labbook record" in done.stderr


def test_search_answers_with_place_passage_and_fix(team):
    out = team("search", "loss", "变成", "NaN").stdout

    path, _, line = next(line.strip() for line in out.splitlines() if ".md:" in line).rpartition(":")
    assert path == f"notes/runs/2026/11/19/{NAN}.md"
    assert (team.folder / path).read_text().splitlines()[int(line) - 1]
    assert f"fixed by {GOOD}" in out and "train.py: loss is NaN" in out


@pytest.mark.parametrize("question", ["No module named 'mylib'", "ModuleNotFoundError: No module named 'mylib'"])
def test_the_failure_with_the_name_of_a_pasted_message_comes_before_others_of_its_kind(notes, question):
    failed = {"status": "failed", "families": ["missing_dependency"]}
    other, own = "20261121-100000-eeee", "20261119-100000-ffff"
    notes.run(other, "No module named 'yourlib'", symptoms=["import_module_missing"], fix="pip install it", **failed)
    notes.run(own, "No module named 'mylib'", symptoms=["import_path_wrong"], fix="PYTHONPATH src", **failed)

    found = json.loads(notes.labbook("search", question, "--json").stdout)
    assert own in found[0]["path"]


def test_search_as_data(team):
    (hit,) = json.loads(team("search", "变成", "--json").stdout)

    assert hit["title"] == "train.py: loss is NaN" and hit["fix"] == GOOD and hit["line"] > 1
    assert "损失变成了 NaN" in hit["snippet"]


def test_search_needs_a_question(team):
    assert team("search", check=False).returncode == 2
    assert team("search", "!!!", check=False).returncode == 2


def test_a_broken_note_is_named_and_the_rest_works(team, notes):
    notes.page("broken.md", "---\nid: [\n---\n")

    done = team("list")

    assert GOOD in done.stdout and "notes/broken.md" in done.stderr and "line" in done.stderr


@pytest.mark.parametrize("which", [[], ["last"], [GOOD], ["20261121"], ["cccc"]])
def test_show_prints_the_entry_without_escapes(team, which):
    out = team("show", *which).stdout

    assert f"id: {GOOD}" in out and "all is well red" in out and "\x1b" not in out and "\x07" not in out


def test_show_prints_a_section_or_names_those_that_are_there(team, notes):
    notes.page(
        "runs/2026/11/21/more.md",
        f"---\nid: {GOOD[:-4]}dddd\n---\n\n## Health\n\n```\n## no heading\n```\n\n## Data\n\nrows\n",
    )

    assert team("show", "dddd", "--section", "heal").stdout == "## Health\n\n```\n## no heading\n```\n\n"
    refused = team("show", "dddd", "--section", "x", check=False)
    assert refused.returncode == 1 and "Health, Data" in refused.stderr


def test_show_as_data(team, notes):
    run = Run(GOOD, "finished", ("python", "train.py"), "/x", 1.0, ended=2.0, exit_code=0)
    folder = notes.notebook.paths.attachments(GOOD)
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(run_to_json(run)))

    data = json.loads(team("show", "--json").stdout)

    assert data["id"] == GOOD and data["command"] == ["python", "train.py"] and data["duration_s"] == 1.0
    assert data["entry"] == f"notes/runs/2026/11/21/{GOOD}.md" and data["commit"] == ""


def test_show_finds_the_commit_in_git(team, notes, git):
    git(team.folder, "init", "-q", "-b", "main")
    git(team.folder, "-c", "user.name=W", "-c", "user.email=w@x", "add", "-A")
    git(team.folder, "-c", "user.name=W", "-c", "user.email=w@x", "commit", "-qm", "entries")

    assert json.loads(team("show", "--json").stdout)["commit"] == git(team.folder, "rev-parse", "HEAD")


def test_a_mistyped_id_gets_the_nearest(team):
    assert NAN in team("show", "20261119-100000-aaab", check=False).stderr


def test_the_shell_completes_ids(team):
    code = (
        "from click.shell_completion import ShellComplete\nfrom labbook.cli import labbook\n"
        "found = ShellComplete(labbook, {}, 'labbook', '_X').get_completions(['show'], '2026')\n"
        "print([item.value for item in found])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=team.folder, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == str([GOOD, NAN])


def test_another_notebook_can_be_named(team, tmp_path):
    assert GOOD in team("list", "--notebook", str(team.folder), cwd=tmp_path).stdout
    assert team("list", "--notebook", str(tmp_path / "no"), cwd=tmp_path, check=False).returncode == 3


def test_the_report_of_a_week_is_written_and_committed(book, git):
    book.record("sh", "-c", "echo hi; exit 3", check=False)

    done = book("report", "--week")

    week = time.strftime("%G-W%V")
    path = book.folder / "notes" / "reports" / f"{week}.md"
    assert week in done.stdout and "1 run (1 failed)" in done.stdout and "committed as" in done.stdout
    assert f"notes/reports/{week}.md" in git(book.folder, "ls-tree", "-r", "--name-only", "HEAD")
    assert git(book.folder, "status", "--porcelain") == ""
    path.write_text(path.read_text().replace("## Highlights\n", "## Highlights\n\nMine.\n"))
    assert "Mine." in (book("report"), path.read_text())[1]
    assert json.loads(book("report", "--week", week, "--json").stdout)["totals"]["runs"] == 1


def test_a_week_that_is_none(team):
    done = team("report", "--week", "2026-W60", check=False)

    assert done.returncode == 2 and "2026-W60" in done.stderr


def test_the_site_is_built(book):
    book.record("sh", "-c", "echo hi")

    done = book("site", "build")

    assert (book.folder / "site" / "index.html").is_file() and "pages in" in done.stdout
    run = book.run()["entry"].removeprefix("notes/").replace(".md", ".html")
    assert (book.folder / "site" / run).is_file()
    assert "MkDocs" not in done.stderr and "Zensical" not in done.stderr and done.stderr == ""
    assert "pages" in book("site", "build", "--executor", "threads").stdout
    refused = book("site", "build", "--executor", "nowhere", check=False)
    assert refused.returncode == 2 and "nowhere" in refused.stderr


@pytest.mark.long
def test_watch_builds_again(book):
    book.record("sh", "-c", "echo hi")
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "labbook", "watch"], cwd=book.folder, stdout=subprocess.PIPE, text=True
    )
    try:
        assert "pages in" in process.stdout.readline()
        assert "watching" in process.stdout.readline()
        (book.folder / "notes" / "ideas.md").write_text("# Ideas\n")
        assert "changed: notes/ideas.md" in process.stdout.readline()
        assert "pages in" in process.stdout.readline()
    finally:
        process.terminate()
        process.wait(90)
        process.stdout.close()
    assert (book.folder / "site" / "ideas.html").is_file()


@pytest.mark.parametrize("verb", ["list", "show", "search", "report", "site", "watch"])
def test_help_has_examples(book, verb):
    out = book(verb, "--help").stdout

    assert f"labbook {verb}" in out and "Example" in out
