from __future__ import annotations

import pytest

from labbook.rerun.recorded_code import RecordedCode
from labbook.rerun.reproduction import compare_results
from labbook.rerun.reproduction_report import reproduction_lines
from labbook.rerun.varying_code import varying_code
from labbook.store.text.sentences import Sentences


def run(values, name="a", status="finished", files=(), **more):
    steps = list(range(1, len(values) + 1))
    series = [
        {"name": "loss", "source": "probe", "steps": steps, "values": values, "rank": None},
        {"name": "step_time_s", "source": "probe", "steps": steps, "values": [hash((name, s)) for s in steps]},
    ]
    return {"id": name, "status": status, "exit_code": 0, "primary": "loss", "series": series, "files": files, **more}


def test_equal_values_are_identical_whatever_the_clock_says():
    found = compare_results(run([1.0, 0.5, "nan"]), run([1.0, 0.5, "nan"], "b"))
    assert (found.verdict, found.values, found.series) == ("identical", 3, ("loss",))


@pytest.mark.parametrize(
    ("source", "head"), [("text", "Identical in all printed digits."), ("probe", "Bitwise identical.")]
)
def test_equal_printed_numbers_are_not_called_bitwise_identical(source, head):
    before, now = run([1.0, 0.5]), run([1.0, 0.5], "b")
    before["series"][0]["source"] = now["series"][0]["source"] = source
    found = compare_results(before, now)
    assert found.verdict == "identical" and Sentences("en")(reproduction_lines(found)[0]) == head


@pytest.mark.parametrize(("missing", "verdict"), [("x", "identical"), ("y", "unknown")])
def test_a_failure_without_results_is_reproduced_by_the_same_exception(missing, verdict):
    def failed(name, cwd, file):
        raised = {"type": "OSError", "message": f"no file {cwd}/{file}", "ended_process": True}
        return run([], name, "failed", exceptions=[raised], cwd=cwd)

    found = compare_results(failed("a", "/home/a", "x"), failed("b", "/tmp/rerun", missing))
    assert found.verdict == verdict
    said = [Sentences("en")(line) for line in reproduction_lines(found)]
    assert verdict == "unknown" or said == ["Fails in the same way: OSError: no file x"]


def test_the_first_difference_is_named_with_what_changed():
    data = {"path": "x.txt", "mode": "read", "fingerprint": "sha256:1"}
    before = run([1.0, 0.5, 0.25], files=[data])
    found = compare_results(before, run([1.0, 0.5000000001, 0.2], "b", files=[{**data, "fingerprint": "sha256:2"}]))
    assert (found.verdict, found.first.series, found.first.step) == ("different", "loss", 2)
    assert found.first.relative == pytest.approx(2e-10, rel=1e-3)
    said = [Sentences(language)(line) for language in ("en", "zh") for line in reproduction_lines(found)]
    assert "Another input: x.txt" in said and "输入不同：x.txt" in said


@pytest.mark.parametrize(("losses", "first"), [([1.0, 0.4], ("loss", 2)), ([1.0, 0.5], ("val_acc", 0))])
def test_epochs_that_count_from_0_are_not_before_the_first_step(losses, first):
    sides = [run([1.0, 0.5]), run(losses, "b")]
    for side, value in zip(sides, (0.7, 0.8), strict=True):
        side["series"].append({"name": "val_acc", "source": "text", "steps": [0], "values": [value]})
    found = compare_results(*sides)
    assert (found.first.series, found.first.step) == first


def test_data_under_another_path_is_the_same_data():
    data = {"path": "x.txt", "mode": "read", "fingerprint": "sha256:1"}
    found = compare_results(run([1.0], files=[data]), run([2.0], "b", files=[{**data, "path": "/elsewhere/x.txt"}]))
    assert [one.key for one in found.reasons] == ["rerun.reason_unknown"]


@pytest.mark.parametrize(
    ("repeats", "verdict"),
    [([0.2, 0.3, 0.25], "within_noise"), ([0.2, 0.3], "different"), ([0.2, 0.2, 0.2], "different")],
)
def test_noise_is_measured_by_three_repeats(repeats, verdict):
    found = compare_results(run([1.0, 0.25]), run([1.0, 0.26], "b"), [run([1.0, last]) for last in repeats])
    assert found.verdict == verdict


@pytest.mark.parametrize("now", [run([1.0, 0.5], "b", "failed"), run([1.0], "b"), {**run([], "b"), "series": []}])
def test_a_rerun_that_ends_otherwise_is_not_the_same(now):
    assert compare_results(run([1.0, 0.5]), now).verdict in ("different", "unknown")


def test_steps_that_the_probe_did_not_look_at_are_no_difference():
    ratio = {"name": "update_ratio", "source": "probe", "rank": None}
    before, now = run([1.0, 0.5]), run([1.0, 0.5], "b")
    before["series"].append({**ratio, "steps": [1], "values": [0.1]})
    now["series"].append({**ratio, "steps": [1, 2], "values": [0.1, 0.2]})
    assert compare_results(before, now).verdict == "identical"
    before["series"].append({**ratio, "source": "text", "steps": [1], "values": [0.1]})
    assert compare_results(before, now).verdict == "different"


@pytest.mark.parametrize("now", [run([], "b", "failed", symptoms=["cuda_oom"]), run([1.0], "b", "failed")])
def test_another_end_is_told_with_both_ends(now):
    found = compare_results(run([1.0]), now)
    assert found.verdict == "different" and found.end.key == "rerun.other_end"
    assert "recorded: finished" in Sentences("en")(reproduction_lines(found)[1])


VARYING = """
import os, random, time, numpy as np
from glob import glob
names = {"a", "b"}
for name in names: pass
for name in sorted(names): pass
values = np.random.randn(3), np.random.default_rng(1).normal(), random.Random(2).random()
order = random.sample(range(3), 3)
files = os.listdir("."), sorted(glob("*")), len(os.listdir("."))
end = time.time() + 5
while time.time() < end: pass
print(time.time() - end)
"""


@pytest.mark.parametrize(
    ("seeds", "variables", "kinds"),
    [
        ({}, {}, ["file_order", "numpy", "python", "set_order", "clock"]),
        ({"numpy": 1, "python": 2}, {"PYTHONHASHSEED": "0"}, ["file_order", "clock"]),
        ({"numpy": None, "python": 2}, {}, ["file_order", "numpy", "set_order", "clock"]),
    ],
)
def test_code_that_varies_is_named_with_its_places(tmp_path, seeds, variables, kinds):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(VARYING)
    code = RecordedCode(tmp_path / "code", tmp_path / "code", tmp_path / "before")
    facts = {"sources": [str(tmp_path / "before" / "train.py")], "frameworks": [{"state": {"seeds": seeds}}]}
    facts["captured"] = {"command": {"environment": variables}}
    found = varying_code(facts, code)
    assert sorted(one.key for one in found) == sorted(f"rerun.reason_{kind}" for kind in kinds)
    assert Sentences("en")(next(one for one in found if "file" in one.key)).endswith("train.py:9")


def test_programs_without_seeds_are_told():
    state = [{"name": "torch", "state": {"seeds": {}}}]
    found = compare_results(run([1.0], frameworks=state), run([2.0], "b", frameworks=state))
    assert [one.key for one in found.reasons] == ["rerun.reason_seed"]


def test_a_rerun_that_failed_early_has_no_other_input_and_seed():
    """As where a module is missing: it came neither to the data nor to the seed."""
    data = {"path": "data/a.csv", "mode": "read", "fingerprint": "sha256:11"}
    state = [{"name": "torch", "state": {"seeds": seeds}} for seeds in ({"torch": 3}, {})]
    before = run([1.0], files=[data], frameworks=state[:1])
    early = run([], status="failed", frameworks=state[1:])
    assert {one.key for one in compare_results(before, early).reasons} == {"rerun.reason_unknown"}
    other = run([], status="failed", files=[{**data, "fingerprint": "sha256:22"}], frameworks=state[1:])
    assert "rerun.reason_difference" in [one.key for one in compare_results(before, other).reasons]
