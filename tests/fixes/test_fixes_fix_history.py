"""Earlier runs with the same failure, what cured them, whether that held; and an index that looks at what changed."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from labbook.fixes.fix_history import (
    count_symptoms,
    find_earlier_runs,
    find_later_runs,
    find_newest_run,
    list_fixed_runs,
)
from labbook.fixes.fix_judge import FixJudge
from labbook.index import build
from labbook.index.build import query_index, query_without_refresh, refresh
from labbook.model.finding import Finding

FP = "v1:00000000000000aa"


def run_id(day, tail="aaaa"):
    return f"202611{day:02d}-100000-{tail}"


def failed(notes, day, *, fix=None, text=None, symptom="cuda_oom", fingerprint=FP, script="train.py", **more):
    facts = {
        "status": "failed",
        "title": f"{script}: failed",
        "symptoms": [symptom],
        "families": ["memory"],
        "fingerprints": [fingerprint],
        "fix": fix,
        "fix_text": text,
        **more,
    }
    return notes.run(run_id(day), **facts)


def finding(symptom="cuda_oom", fingerprint=FP, family="memory", **more):
    return Finding(symptom, family, "memory", 1, "error", "t", fingerprint=fingerprint, **more)


@pytest.fixture
def book(notes):
    failed(notes, 1, fix=run_id(2), text="--batch-size 64 → 32")
    notes.run(run_id(2))
    notes.run(run_id(3))
    failed(notes, 4, fingerprint="v1:bb", script="tune.py")
    failed(notes, 5, fingerprint="v1:cc", script="tune.py", fix="a smaller image")
    failed(notes, 6, symptom="host_oom", fingerprint="v1:dd", fix=run_id(7))
    failed(notes, 8, symptom="loss_nonfinite", fingerprint="v1:ee", families=["nan_or_inf"])
    notes.run(run_id(9))
    return notes.notebook


def test_the_same_failure_comes_first_then_the_symptom_then_a_fix_of_the_family(book):
    seen = find_earlier_runs(book, [finding(exception="OutOfMemoryError")])["cuda_oom"]

    assert [(one.run, one.same) for one in seen] == [
        (run_id(1), "fingerprint"),
        (run_id(5), "symptom"),
        (run_id(4), "symptom"),
        (run_id(6), "family"),
    ]
    assert (seen[0].fix, seen[0].by) == ("--batch-size 64 → 32", run_id(2))
    assert (seen[1].fix, seen[1].by) == ("a smaller image", "")
    assert seen[2].fix == "" and seen[2].held is None


def test_a_crash_of_another_cause_is_no_earlier_one_of_its_consequence(notes):
    symptoms = ["trainer_setup_incomplete", "key_missing"]
    failed(notes, 1, symptoms=symptoms, verdict_reason=symptoms[0])
    failed(notes, 2, symptoms=["key_missing"], verdict_reason="key_missing")
    found = finding("key_missing", "v1:ff", exception="KeyError")
    for follows_from, runs in (("", [2]), ("trainer_setup_incomplete", [2, 1])):
        seen = find_earlier_runs(notes.notebook, [replace(found, follows_from=follows_from)])["key_missing"]
        assert [one.run for one in seen if one.same == "symptom"] == [run_id(day) for day in runs]


def test_in_another_script_only_the_symptom_of_a_silent_fault_is_the_same(notes):
    failed(notes, 1, symptom="dead_relu", script="train.py", command="python train.py")
    silent = finding("dead_relu")
    same = {
        script: [one.same for one in find_earlier_runs(notes.notebook, [silent], script=script)["dead_relu"]]
        for script in ("train.py", "tune.py")
    }
    assert same == {"train.py": ["fingerprint"], "tune.py": ["symptom"]}


def test_a_run_has_not_seen_itself(book):
    seen = find_earlier_runs(book, [finding()], run=run_id(1))["cuda_oom"]

    assert run_id(1) not in [one.run for one in seen]
    assert find_earlier_runs(book, []) == {}
    assert find_earlier_runs(book, [finding("other_thing", "v1:zz", "")]) == {"other_thing": ()}


def test_a_finding_with_only_a_family_has_earlier_runs_too(notes):
    failed(notes, 1, fingerprint="v1:ff")
    of_family = finding("", "v1:ff", "shape_mismatch", exception="ValueError")
    assert [one.run for one in find_earlier_runs(notes.notebook, [of_family])["shape_mismatch"]] == [run_id(1)]


def test_a_fix_held_in_the_runs_that_finished_until_the_failure_came_back(notes, book):
    assert find_earlier_runs(book, [finding()])["cuda_oom"][0].held == 2  # the ones of the third and the ninth

    failed(notes, 8, symptom="cuda_oom")
    seen = find_earlier_runs(book, [finding()])["cuda_oom"]

    assert next(one for one in seen if one.run == run_id(1)).held == 1


def test_another_failure_of_the_script_is_no_return(notes, book):
    failed(notes, 4, symptom="cuda_oom", fingerprint="v1:zz", script="train.py")

    assert find_earlier_runs(book, [finding()])["cuda_oom"][0].held == 2


def test_counts(book):
    counts = count_symptoms(book)

    assert (counts["cuda_oom"].runs, counts["cuda_oom"].fixed, counts["cuda_oom"].last) == (3, 2, run_id(5))
    assert [name for name, _ in list_fixed_runs(book, "cuda_oom")] == [run_id(5), run_id(1)]


def test_later_and_earlier_runs(notes, book):
    notes.run(run_id(10), experiment="exp001_x", title="other.py: finished")

    assert find_later_runs(book, run_id(1)) == [run_id(2), run_id(3), run_id(9)]
    assert find_newest_run(book, "experiment", "exp001_x", before=time.time() + 1e9) == run_id(10)
    assert find_newest_run(book, "experiment", "exp001_x", before=0.0) == ""


def names(book, quickly=True):
    question = lambda index: [row[0] for row in index.execute("SELECT name FROM notes ORDER BY name")]  # noqa: E731
    return query_without_refresh(book, question) if quickly else query_index(book, question)[0]


def aged(folder):
    """Makes files and folders old, so that nothing counts as changed just now."""
    past = time.time() - 3600
    for place in sorted(folder.rglob("*"), reverse=True):
        os.utime(place, (past, past))
    os.utime(folder, (past, past))


def test_a_quick_look_finds_new_replaced_and_removed_files(notes):
    notes.run(run_id(1))
    second = notes.run(run_id(2))
    aged(notes.folder / "notes")
    refresh(notes.notebook)
    assert names(notes.notebook) == [run_id(1), run_id(2)]

    notes.run(run_id(2, "bbbb"))
    notes.run("20270101-100000-cccc")
    assert names(notes.notebook) == [run_id(1), run_id(2), run_id(2, "bbbb"), "20270101-100000-cccc"]

    draft = second.with_suffix(".tmp")
    draft.write_text(second.read_text().replace(run_id(2), run_id(2, "dddd")))
    draft.replace(second)
    (notes.folder / f"notes/runs/2026/11/01/{run_id(1)}.md").unlink()
    assert names(notes.notebook) == [run_id(2, "bbbb"), run_id(2, "dddd"), "20270101-100000-cccc"]


def test_a_quick_look_forgets_a_folder_that_is_gone(notes):
    path = notes.run(run_id(1))
    notes.run(run_id(2))
    aged(notes.folder / "notes")
    refresh(notes.notebook)
    path.unlink()
    path.parent.rmdir()

    assert names(notes.notebook) == [run_id(2)]


def test_large_notebooks_are_looked_at_by_folder_and_now_and_then_in_full(notes, monkeypatch):
    first = notes.run(run_id(1))
    aged(notes.folder / "notes")
    refresh(notes.notebook)
    text = first.read_text().replace(run_id(1), run_id(1, "zzzz"))

    def written_in_place():
        with first.open("r+") as stream:
            stream.write(text)

    monkeypatch.setattr(build, "_MANY", 0)
    written_in_place()
    assert names(notes.notebook, quickly=False) == [run_id(1)]

    monkeypatch.setattr(build, "_FULL_LOOK_NS", 0)
    assert names(notes.notebook, quickly=False) == [run_id(1, "zzzz")]


def test_a_long_first_look_is_gone_on_with_by_the_next_question(notes, monkeypatch):
    for day in range(1, 8):
        notes.run(run_id(day))
    aged(notes.folder / "notes")
    monkeypatch.setattr(build, "_BATCH", 3)
    clock = iter(range(100))
    monkeypatch.setattr(build.time, "monotonic", lambda: float(next(clock)))

    def known():
        question = lambda index: [row[0] for row in index.execute("SELECT name FROM notes ORDER BY name")]  # noqa: E731
        return query_without_refresh(notes.notebook, question, patience_s=1.5)

    assert known() == [run_id(5), run_id(6), run_id(7)]
    assert [len(known()) for _ in range(3)] == [6, 7, 7]


def test_a_fix_of_the_consequence_is_one_of_the_cause_in_the_same_earlier_run(notes, monkeypatch):
    both = {"symptoms": ["label_out_of_head", "label_out_of_range"], "fingerprints": [FP, "v1:bb"]}
    failed(notes, 1, fix=run_id(2), text="--classes 3 → 4", **both)
    failed(notes, 3, fix=run_id(4), text="shuffle", symptom="label_out_of_head")
    notes.run(run_id(2))
    notes.run(run_id(4))
    is_consequence = lambda _, finding, seen: replace(seen, fits=finding.symptom == "label_out_of_range")  # noqa: E731
    monkeypatch.setattr(FixJudge, "_judge", is_consequence)
    cause = finding("label_out_of_head", FP)
    consequence = finding("label_out_of_range", "v1:bb", follows_from="label_out_of_head")

    def fitting(*findings):
        seen = find_earlier_runs(notes.notebook, findings)["label_out_of_head"]
        return [one.run for one in seen if one.fits]

    assert fitting(cause, consequence) == [run_id(1)]
    assert fitting(cause, replace(consequence, follows_from="")) == []
