"""What cured a failure: proposed after a run, confirmed, given other words, rejected; two entries and a page."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from labbook.errors import EntryError, LabbookError, NothingFoundError, UsageError
from labbook.fixes.confirm_fix import confirm, reject
from labbook.fixes.fix_history import find_earlier_runs
from labbook.fixes.propose_fix import find_proposal, propose_fix, write_proposal
from labbook.model.finding import Finding
from labbook.model.run import Arguments, CaughtException, Frame, Framework, Process, Run
from labbook.model.run_json import run_to_json
from labbook.report.entry.entry_page import entry_markdown
from labbook.store.text import frontmatter
from labbook.store.text.entry_text import block

FAILED, STOPPED, CURED, LATER = (f"2026112{n}-100000-aaaa" for n in range(1, 5))
SYMPTOM = "shape_mismatch_linear"
PATCH = """diff --git a/train.py b/train.py
new file mode 100644
index {zeros}..{blob}
--- /dev/null
+++ b/train.py
@@ -0,0 +1,3 @@
+import torch
+model = torch.nn.Linear({width}, 10)
+print(model)
"""


def run(id_, status="finished", steps=20, width=64, previous="", **more):
    facts = {
        "frameworks": (Framework("torch", "2.13.0"),),
        "processes": (Process(1, 0, ("python", "train.py"), "main", steps=steps),),
        "arguments": (Arguments("argparse", "args", {"lr": 0.1, "width": width}),),
        "captured": {"code": {"repository": False, "top": "/w", "commit": "", "blobs": {"train.py": f"blob{width}"},
                              "untracked": ["train.py"]}},
        "script": "train.py",
        "title": f"train.py: {status}",
        "started": float(id_[6:8]),
        "previous": previous,
    }  # fmt: skip
    return Run(id_, status, ("python", "train.py"), "/w", **{**facts, **more})


CRASH = CaughtException(
    "main", "RuntimeError", "builtins", "mat1 and mat2", (Frame("/w/train.py", 2, "<module>", "model(x)", True),),
    step=None, ended_process=True,
)  # fmt: skip
CRASHED = run(
    FAILED, "failed", 0, 32, symptoms=(SYMPTOM,), families=("shape_mismatch",), fingerprints=("v1:aa",),
    exceptions=(CRASH,),
)  # fmt: skip


def put(notes, one, body="", **meta):
    """Writes an entry with its `run.json` and the patch that holds its code."""
    facts = {"title": one.title, "status": one.status, "symptoms": list(one.symptoms), "families": list(one.families),
             "fingerprints": list(one.fingerprints), "fix": None, "previous": one.previous or None, **meta}  # fmt: skip
    entry = notes.run(one.id, body or block("title", f"# {one.title}") + "\n## Goal\n\nmine\n", **facts)
    folder = entry.with_suffix("")
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(json.dumps(run_to_json(one)))
    width = one.arguments[0].values["width"] if one.arguments else 0
    (folder / "changes.patch").write_text(PATCH.format(zeros="0" * 40, blob=f"{width:040d}", width=width))
    return entry


def meta_of(notes, run_id):
    path = notes.notebook.paths.entry(run_id)
    return frontmatter.parse(path.read_text(), "x")[0]


def text_of(notes, run_id):
    return notes.notebook.paths.entry(run_id).read_text()


@pytest.fixture
def team(notes):
    """A run that failed, one that was interrupted, and one that came past the failure."""
    put(notes, CRASHED)
    put(notes, run(STOPPED, "interrupted", 3, previous=FAILED))
    put(notes, run(CURED, previous=STOPPED))
    return notes


def test_a_run_that_came_past_a_failure_proposes_its_differences(team):
    found = find_proposal(team.notebook, run(CURED, previous=STOPPED))

    assert (found.failed, found.by, found.symptoms, found.confirmed) == (FAILED, CURED, (SYMPTOM,), False)
    assert {change.what for change in found.changes} == {"train.py", "width"}
    code = next(change for change in found.changes if change.kind == "code")
    assert "-model = torch.nn.Linear(32, 10)\n+model = torch.nn.Linear(64, 10)" in code.detail


@pytest.mark.parametrize(
    "later",
    [
        run(LATER, "failed", previous=CURED),
        run(LATER, previous=CURED),
        run(LATER, previous="20260101-100000-zzzz"),
        run(LATER),
        run(LATER, previous=FAILED, symptoms=(SYMPTOM,), fingerprints=("v1:aa",)),
        run(LATER, previous=FAILED, width=32),
    ],
    ids=["failed", "after a good one", "unknown", "first", "the same", "no difference"],
)
def test_no_proposal(team, later):
    assert find_proposal(team.notebook, later) is None


def test_a_finding_that_disappears_is_proposed_too(notes):
    from labbook.model.run import CheckResult

    def checked(verdict):
        return (CheckResult("loss_nonfinite", "loss", "", "", verdict),)

    put(notes, run(FAILED, symptoms=("loss_nonfinite",), fingerprints=("v1:nn",), checks=checked("fail"), width=9))

    assert find_proposal(notes.notebook, run(CURED, previous=FAILED, checks=checked("ok"))).symptoms == (
        "loss_nonfinite",
    )
    assert find_proposal(notes.notebook, run(CURED, previous=FAILED, checks=checked("not observed"))) is None


@pytest.mark.parametrize(("verdict", "failed"), [("unhealthy", STOPPED), ("failed", STOPPED), ("unknown", FAILED)])
def test_a_run_that_was_interrupted_in_a_failure_is_one_that_was_fixed(team, verdict, failed):
    """A hang, or a loss of NaN, ends with Ctrl-C."""
    stopped = run(STOPPED, "interrupted", 3, 32, FAILED, symptoms=("collate_ragged",), fingerprints=("v1:hang",))
    put(team, stopped, verdict=verdict)

    assert find_proposal(team.notebook, run(CURED, previous=STOPPED)).failed == failed


def test_another_script_of_the_experiment_may_be_the_cure(notes):
    put(notes, replace(CRASHED, experiment="exp001_digits"), experiment="exp001_digits")
    cured = run(CURED, script="train2.py", experiment="exp001_digits", started=1e12)

    assert find_proposal(notes.notebook, cured).failed == FAILED


def test_the_entry_of_the_cure_names_the_proposal(team):
    team_run = run(CURED, previous=STOPPED)
    found = propose_fix(team.notebook, team_run)
    page = text_of(team, CURED)

    assert f"labbook fix {FAILED}" in page and "torch.nn.Linear" in page and "## Goal\n\nmine" in page
    assert meta_of(team, CURED)["may_cure"] == FAILED
    write_proposal(team.notebook, found)
    assert text_of(team, CURED) == page
    # The whole entry written again keeps it.
    assert f"labbook fix {FAILED}" in entry_markdown(team_run, team.notebook, page)


def test_confirming_writes_both_entries_and_the_page_of_the_symptom(team):
    propose_fix(team.notebook, run(CURED, previous=STOPPED))
    written = confirm(team.notebook, "last")

    meta = meta_of(team, FAILED)
    assert (meta["fix"], meta["fix_text"]) == (CURED, written.fix.text)
    assert "width 32 → 64" in written.fix.text and written.fix.symptoms == (SYMPTOM,)
    page = text_of(team, FAILED)
    assert "## Fix" in page and "+model = torch.nn.Linear(64, 10)" in page and "## Goal\n\nmine" in page
    cure = meta_of(team, CURED)
    assert cure["cures"] == [FAILED] and cure["may_cure"] is None and "confirmed fix of" in text_of(team, CURED)
    symptom = team.folder / "notes" / "symptoms" / f"{SYMPTOM}.md"
    assert FAILED in symptom.read_text() and {*written.files} == {
        team.notebook.paths.entry(FAILED), team.notebook.paths.entry(CURED), symptom
    }  # fmt: skip
    # A failing entry that is written again keeps its fix; the proposal of the cure is known to be confirmed.
    assert "## Fix" in entry_markdown(CRASHED, team.notebook, page)
    assert find_proposal(team.notebook, run(CURED, previous=STOPPED)).confirmed


def test_last_is_the_open_proposal_also_after_further_runs(team):
    propose_fix(team.notebook, run(CURED, previous=STOPPED))
    put(team, run(LATER, previous=CURED))
    written = confirm(team.notebook, "last")

    assert (written.fix.run, written.fix.by) == (FAILED, CURED)
    with pytest.raises(UsageError, match="did not fail"):
        confirm(team.notebook, "last")


@pytest.mark.parametrize("later", ["running", "failed"])
def test_last_is_of_the_project_of_the_working_folder(team, tmp_path, monkeypatch, later):
    (tmp_path / "mine").mkdir()
    mine = str(tmp_path / "mine")
    put(team, replace(run(CURED, previous=STOPPED), project=mine), project=mine, may_cure=FAILED)
    put(team, run(LATER, later, width=32, symptoms=CRASHED.symptoms * (later == "failed"), project="/other"),
        project="/other")  # fmt: skip
    monkeypatch.chdir(mine)

    assert confirm(team.notebook, "last").fix.by == CURED


def test_last_is_no_proposal_of_another_project(team, tmp_path, monkeypatch):
    propose_fix(team.notebook, run(CURED, previous=STOPPED))
    (tmp_path / "mine").mkdir()
    put(team, run(LATER, project=str(tmp_path / "mine")), project=str(tmp_path / "mine"))
    monkeypatch.chdir(tmp_path / "mine")

    with pytest.raises(UsageError, match="did not fail"):
        confirm(team.notebook, "last")


def test_the_same_failure_elsewhere_is_shown_the_fix_and_whether_it_held(team):
    confirm(team.notebook, FAILED)
    put(team, run(LATER, previous=CURED))
    other = Finding(SYMPTOM, "shape_mismatch", "shape", 1, "error", "", fingerprint="v1:zz")
    (seen,) = find_earlier_runs(team.notebook, [other])[SYMPTOM]

    assert (seen.run, seen.by, seen.same, seen.held) == (FAILED, CURED, "symptom", 1)
    assert "width 32 → 64" in seen.fix


@pytest.mark.parametrize(("text", "shown"), [
    ("", "width 32 → 64"), ("width 32 → 64, as Wei said", "width 32 → 64, as Wei said"),
    ("width 32 → 64; and 12 more", "width 32 → 64"),
])  # fmt: skip
def test_of_a_fix_only_the_differences_are_shown_that_are_one_here(notes, text, shown):
    said = "size of width must be 64, but got 32"
    crash = Finding(
        "", "shape_mismatch", "shape", 1, "error", "", fingerprint="v1:aa", message=said, exception="ValueError"
    )
    put(notes, replace(CRASHED, findings=(crash,)))
    put(notes, run(CURED, previous=FAILED))
    confirm(notes.notebook, FAILED, text=text)
    now = run(LATER, "failed", width=32, findings=(crash,))

    (seen,) = find_earlier_runs(notes.notebook, [crash], now=now)["shape_mismatch"]
    assert (seen.fits, seen.fix) == (True, shown)


def test_words_of_people_are_kept_byte_for_byte(team):
    path = team.folder / "notes" / "symptoms" / f"{SYMPTOM}.md"
    path.parent.mkdir(parents=True)
    own = "---\ntitle: Widths\nmine: true  # kept\n---\n\n# Widths\n\nAsk Wei.   \n"
    path.write_text(own)
    confirm(team.notebook, FAILED, text="the head takes\n  what the body gives")
    first = path.read_text()

    assert first.startswith(own) and "the head takes what the body gives" in first
    confirm(team.notebook, FAILED, text="other words")
    assert meta_of(team, FAILED)["fix_text"] == "other words"
    assert path.read_text() == first.replace("the head takes what the body gives", "other words")
    reject(team.notebook, FAILED)
    assert path.read_text().rstrip("\n") == own.rstrip("\n")


def test_a_fix_by_a_run_of_another_machine_that_seems_earlier_because_a_clock_is_wrong(team):
    put(team, replace(CRASHED, id=LATER, started=24.0), host="clock-ahead")
    put(team, run(CURED), host="right-clock")
    confirm(team.notebook, LATER, by=CURED)

    assert meta_of(team, LATER)["fix"] == CURED and meta_of(team, CURED)["cures"] == [LATER]


def test_rejecting_is_remembered(team):
    propose_fix(team.notebook, run(CURED, previous=STOPPED))
    reject(team.notebook, "last")

    assert meta_of(team, FAILED)["fix_rejected"] == [CURED] and meta_of(team, CURED)["may_cure"] is None
    assert "labbook fix" not in text_of(team, CURED)
    assert find_proposal(team.notebook, run(CURED, previous=STOPPED)) is None
    with pytest.raises(NothingFoundError, match="no later run"):
        confirm(team.notebook, FAILED)
    with pytest.raises(UsageError, match="rejected"):
        reject(team.notebook, FAILED, by=CURED)


def test_a_confirmed_fix_is_taken_back(team):
    confirm(team.notebook, FAILED)
    written = reject(team.notebook, FAILED)

    assert meta_of(team, FAILED)["fix"] is None and "## Fix" not in text_of(team, FAILED)
    assert meta_of(team, CURED)["cures"] == [] and "confirmed" not in text_of(team, CURED)
    # Nothing is left on the page, and nobody wrote on it.
    assert not (team.folder / "notes" / "symptoms" / f"{SYMPTOM}.md").exists()
    assert written.fix.by == CURED


@pytest.mark.parametrize(("text", "next_cure"), [("a newer driver", ""), ("", LATER), ("a wider layer", LATER)])
def test_a_fix_by_a_run_that_was_removed_can_be_replaced(team, text, next_cure):
    confirm(team.notebook, FAILED)
    removed = team.notebook.paths.entry(CURED)
    shutil.rmtree(removed.with_suffix(""))
    removed.unlink()
    if next_cure:
        put(team, run(LATER, width=48, previous=STOPPED))
    confirm(team.notebook, FAILED, text=text)

    assert meta_of(team, FAILED)["fix"] == (next_cure or text)
    assert text in meta_of(team, FAILED)["fix_text"]
    reject(team.notebook, FAILED)
    assert meta_of(team, FAILED)["fix"] is None


def test_a_fix_without_a_run(notes):
    put(notes, CRASHED)
    written = confirm(notes.notebook, FAILED, text="a newer driver")

    assert (written.fix.by, meta_of(notes, FAILED)["fix"]) == ("", "a newer driver")
    assert "a newer driver" in text_of(notes, FAILED)
    reject(notes.notebook, FAILED)
    assert meta_of(notes, FAILED)["fix"] is None


def test_another_cure_takes_the_place_of_the_first(team):
    confirm(team.notebook, FAILED)
    put(team, run(LATER, width=48, previous=CURED))
    confirm(team.notebook, FAILED, by=LATER)

    assert meta_of(team, FAILED)["fix"] == LATER
    assert meta_of(team, CURED)["cures"] == [] and meta_of(team, LATER)["cures"] == [FAILED]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((FAILED, FAILED), "cannot fix itself"),
        ((FAILED, "zzzz"), "no run"),
        (("zzzz",), "no run"),
        ((CURED,), "did not fail"),
        ((FAILED, STOPPED), "did not finish"),
        ((LATER, FAILED), "started before"),
        ((FAILED, LATER), "shows the same"),
        ((FAILED, "", "password=hunter2hunter2"), "secret"),
    ],
)
def test_what_cannot_be_noted_is_said_in_one_line(team, arguments, says):
    put(team, replace(CRASHED, id=LATER, started=24.0, previous=CURED))
    put(team, run(STOPPED, "killed", 3, previous=FAILED))
    before = text_of(team, FAILED)

    with pytest.raises(LabbookError) as caught:
        confirm(team.notebook, *arguments)
    assert says in caught.value.message and "\n" not in caught.value.message
    assert text_of(team, FAILED) == before


def test_a_fix_twice(team):
    confirm(team.notebook, FAILED)
    for arguments in ((FAILED,), (FAILED, CURED), (CURED,)):
        with pytest.raises(UsageError, match="already recorded"):
            confirm(team.notebook, *arguments)


def test_a_broken_entry_is_named(team):
    path = team.notebook.paths.entry(FAILED)
    path.write_text(path.read_text().replace("status: failed", "status: [failed"))

    with pytest.raises(EntryError):
        confirm(team.notebook, FAILED, by=CURED)


def test_a_proposal_that_cannot_be_made_costs_only_itself(team):
    (team.notebook.paths.attachments(FAILED) / "run.json").write_text(json.dumps({"id": FAILED, "captured": 3}))

    assert propose_fix(team.notebook, run(CURED, previous=STOPPED)) is None
