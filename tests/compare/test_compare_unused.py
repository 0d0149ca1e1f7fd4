"""What neither of two runs used is no change between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from labbook.compare.run_changes import compare_runs
from labbook.model.confirmed_fix import describe_changes
from labbook.model.message import as_data
from labbook.store.text.sentences import Sentences

CODE = {"commit": "a" * 40, "top": "/work", "blobs": {}, "repository": True}


def run(**fields: Any) -> dict[str, Any]:
    known = {"status": "finished", "argv": ["python", "train.py"], "cwd": "/work", "sources": ["train.py"]}
    return {**known, "captured": {"code": CODE}, **fields}


def read(path: str) -> dict[str, Any]:
    return {"path": path, "mode": "read", "size_bytes": 1}


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, ["setup.sh"]),
        ({"sources": ["train.py", "/work/other.py"]}, ["other.py", "setup.sh"]),
        ({"files": [read("run.yaml")]}, ["run.yaml", "setup.sh"]),
        ({"configs": [{"path": "/work/run.yaml", "text": "a: 1"}]}, ["setup.sh"]),  # listed as a configuration
        ({"sources": []}, ["other.py", "run.yaml", "setup.sh"]),
    ],
)
def test_new_modules_and_configuration_files(fields, shown):
    new = ["other.py", "run.yaml", "setup.sh"]
    code = {**CODE, "blobs": dict.fromkeys(new, "b" * 40), "untracked": new}
    changes = compare_runs(run(), run(captured={"code": code}, **fields))
    assert [change.what for change in changes if change.kind == "code"] == shown


def test_a_notebook_that_loads_no_module_is_listed_once():
    def side(blob: str, *names: str) -> dict[str, Any]:
        code = {**CODE, "blobs": dict.fromkeys([*names, "a.ipynb"], blob), "untracked": [*names, "a.ipynb"]}
        notebook = {**read("a.ipynb"), "fingerprint": f"sha256:{blob}"}
        return run(sources=[], files=[notebook], captured={"code": code})

    changes = compare_runs(side("b" * 40), side("c" * 40, "other.py", "other.ipynb"))
    assert [(change.kind, change.what) for change in changes] == [("code", "a.ipynb")]


@pytest.mark.parametrize(
    ("loaded", "message", "shown"),
    [
        ([["torch"], ["torch"]], "", ["numpy"]),
        ([["torch"], ["extra", "torch"]], "", ["extra", "numpy"]),
        ([["gone", "torch"], ["torch"]], "", ["gone", "numpy"]),
        ([[], []], "", ["numpy", "extra", "gone"]),
        ([["torch"], ["torch"]], "extra is required to load C++ extensions", ["extra", "numpy"]),
    ],
)
def test_packages_that_were_added_or_removed(loaded, message, shown):
    packages = {"torch": "2", "numpy": "1", "gone": "1"}, {"torch": "2", "numpy": "2", "extra": "1"}
    sides = [
        run(captured={"python": {"packages": has, "loaded": used}}) for has, used in zip(packages, loaded, strict=True)
    ]
    sides[0]["exceptions"] = [{"message": message}]
    assert [change.what for change in compare_runs(*sides) if change.kind == "package"] == shown


@pytest.mark.parametrize(
    ("status", "optimizers", "shown"), [("failed", [], []), ("finished", [], ["c.yaml"]), ("failed", [{}], ["c.yaml"])]
)
def test_a_configuration_file_that_a_run_had_no_time_to_read(status, optimizers, shown):
    early = run(status=status, frameworks=[{"name": "torch", "optimizers": optimizers}])
    later = run(configs=[{"path": "/work/c.yaml", "text": "a: 1"}])
    assert [change.what for change in compare_runs(early, later) if change.kind == "config"] == shown


@pytest.mark.parametrize(("later", "shown"), [([{}], []), ([], ["found", "gone"])])
def test_a_variable_that_is_in_reach_only_at_the_first_step_or_at_the_exception_is_no_change(later, shown):
    def arguments(**variable):
        return [{"source": "argparse", "values": {"lr": 0.1}}, {"source": "attributes", "values": variable}]

    early = run(status="failed", frameworks=[{"name": "torch", "optimizers": []}], arguments=arguments(gone=1))
    end = "finished" if later else "failed"
    now = run(status=end, frameworks=[{"name": "torch", "optimizers": later}], arguments=arguments(found=1))
    assert sorted(change.what for change in compare_runs(early, now) if change.kind == "argument") == shown


def test_a_package_that_an_exception_names_is_not_cut_off():
    before = {"packages": {f"a-{n}": "1" for n in range(60)}}
    after = {"packages": {**{f"a-{n}": "2" for n in range(60)}, "z-kit": "1"}, "modules": {"zk": "z-kit"}}
    sides = [run(captured={"python": {**side, "loaded": ["a-5"]}}) for side in (before, after)]
    sides[0]["exceptions"] = [{"message": "No module named 'zk'"}]
    changes = [change for change in compare_runs(*sides) if change.kind == "package"]
    assert [change.what for change in changes[:2]] == ["z-kit", "a-5"]
    as_read = [replace(one, messages={side: as_data(each) for side, each in one.messages.items()}) for one in changes]
    for listed in (changes, as_read):
        assert Sentences("en")(describe_changes(listed)).endswith("and 58 more")
