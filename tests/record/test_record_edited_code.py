"""Code that is edited while its run goes on: the entry is about the code that ran."""

import json
import os
import sys

import pytest

PROGRAM = """
import os, pathlib, sys, time
here = pathlib.Path(__file__)
best = 0.0
for epoch, (matched, cost) in enumerate([(0.50, 0.7), (0.75, 0.6), (0.70, 0.5)]):
    print(f"epoch {epoch} matched {matched:.2f} cost {cost:.2f}")
    if matched > best:
        best = matched
        pathlib.Path("best.txt").write_text(str(epoch))
while not list(pathlib.Path(os.environ["BOOK"]).glob(".labbook/**/before.json")):
    time.sleep(0.05)  # the code is captured while the command runs
here.write_text("# Edited\\n" + here.read_text().replace("matched > best", "-cost > best").replace("int(", "float("))
if len(sys.argv) > 1:
    int(sys.argv[1]), "--token=ghp_Q2w9ZxT7uLk3VbN8mEr5YpA1sDf6GhJ4cXoI"
"""
PLACES = {
    "committed": lambda folder, git: (git(folder, "add", "train.py"), git(folder, "commit", "-qm", "run")),
    "uncommitted": lambda folder, git: None,
    "new": lambda folder, git: (git(folder, "rm", "-q", "--cached", "train.py"), git(folder, "commit", "-qm", "gone")),
}


def record(book, *words: str) -> dict:
    """The facts of a run."""
    book.record(sys.executable, *words, check=False, env={**os.environ, "BOOK": str(book.folder)})
    return json.loads((book.folder / book.run()["entry"]).with_suffix("").joinpath("run.json").read_text())


@pytest.mark.parametrize("place", PLACES)
def test_the_metric_is_the_one_that_the_code_at_the_start_watched(place, project, git):
    (project.folder / "train.py").write_text(PROGRAM)
    PLACES[place](project.folder, git)
    run = record(project, "train.py")
    assert "-cost > best" in (project.folder / "train.py").read_text()
    assert (run["primary"], run["captured"]["watched"]["direction"]) == ("matched", "max")


def test_the_failing_line_is_the_one_that_ran(project):
    (project.folder / "train.py").write_text(PROGRAM)
    [raised] = record(project, "train.py", "seven")["exceptions"]
    assert raised["frames"][-1]["source"].startswith("int(sys.argv[1]), ")
    assert "ghp_Q2w9" not in raised["frames"][-1]["source"]


def test_code_outside_of_git_is_read_as_it_was_at_the_start(book, tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    record(book, str(folder / "train.py"))
    assert book.run()["primary"] == "matched"
