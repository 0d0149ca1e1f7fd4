"""A run and its rerun differ in what was changed, not in what a rerun itself adds."""

from __future__ import annotations

from typing import Any

import pytest

from labbook.compare.run_changes import compare_runs
from labbook.compare.run_settings import as_recorded, environment_variables
from labbook.model.run import Arguments, ConfigFile, Run
from labbook.model.run_json import run_to_json


def test_what_a_rerun_itself_adds_is_no_difference():
    """Its worktree is on no branch, and its folder has another name; a changed option remains."""

    def recorded(top: str, branch: str, lr: float, **fields) -> dict[str, Any]:
        return run_to_json(
            Run(
                id="k3f9",
                status="finished",
                cwd=top,
                started=1.0,
                argv=("python", f"{top}/train.py", "--data", f"{top}/data", "--out", top),
                arguments=(Arguments("argparse", "args", {"data": f"{top}/data", "out": top, "lr": lr}),),
                configs=(ConfigFile("c.yaml", "yaml", f"out: {top}/runs"),),
                captured={
                    "code": {"repository": True, "commit": "a" * 40, "branch": branch, "top": top, "blobs": {}},
                    "command": {"environment": {"DATA": f"{top}/data"}},
                    "container": {"kind": "docker", "image": "team/train:7"},
                },
                **fields,
            )
        )

    original, again = recorded("/w", "main", 0.1), recorded("/cache/reruns/x/code", "", 0.2, rerun_of="k3f9")
    for sides in ((original, again), (again, original)):
        assert [(c.kind, c.what) for c in compare_runs(*sides)] == [("argument", "lr")]
    assert [c.what for c in compare_runs(original, recorded("/w", "", 0.1))] == ["branch"]


@pytest.mark.parametrize(
    ("recorded", "rerun", "is_same"),
    [
        (".", "/cache/code:.", True),
        ("", "/cache/code/src", True),
        ("/work/src", "/cache/code/src", True),
        ("/work/src:/opt/lib", "/cache/code:/cache/code/src:/opt/lib", True),
        ("/opt/lib", "/opt/other", False),
    ],
)
def test_folders_that_a_rerun_imports_from_are_no_difference(recorded, rerun, is_same):
    def run(top, path, **more):
        environment = {"PYTHONPATH": path} if path else {}
        return {**more, "cwd": top, "captured": {"code": {"top": top}, "command": {"environment": environment}}}

    before = run("/work", recorded)
    after = as_recorded(run("/cache/code", rerun, rerun_of="1"), before)

    assert (environment_variables(after) == environment_variables(before)) == is_same


def test_the_path_of_a_rebuilt_environment_is_no_difference():
    def recorded(prefix: str, python: str, **fields) -> dict[str, Any]:
        captured = {"code": {"top": "/w", "commit": "a" * 40}, "python": {"prefix": prefix, "version": "3.11.7"}}
        argv = (f"{prefix}/bin/{python}", f"{prefix}/bin/torchrun", "train.py")
        return run_to_json(
            Run(id="k3f9", status="finished", cwd="/w", started=1.0, argv=argv, captured=captured, **fields)
        )

    original = recorded("/home/wei/.venv", "python3.11")
    rebuilt = recorded("/home/wei/.cache/labbook/environments/2a7e", "python", rerun_of="k3f9")
    for sides in ((original, rebuilt), (rebuilt, original)):
        assert compare_runs(*sides) == []


@pytest.mark.parametrize("source", ["dict", "omegaconf", "constants", "paddle"])
def test_variables_of_a_run_that_ended_before_its_first_step_were_not_read(source):
    """As in a rerun without its data: the configuration of the next one is no change."""

    def recorded(status: str, data: str, *variables: Arguments) -> dict[str, Any]:
        parsed = Arguments("argparse", "train.py", {"lr": 0.1, "data": data})
        return run_to_json(
            Run(
                id="k3f9",
                status=status,
                cwd="/w",
                started=1.0,
                argv=("python", "train.py"),
                arguments=(parsed, *variables),
            )
        )

    early = recorded("failed", "a.csv")
    later = recorded("finished", "b.csv", Arguments(source, "cfg", {"model": {"width": 8}}))
    for sides in ((early, later), (later, early)):
        assert [c.what for c in compare_runs(*sides) if c.kind == "argument"] == ["data"]
    assert "model.width" in [c.what for c in compare_runs(recorded("finished", "a.csv"), later)]
