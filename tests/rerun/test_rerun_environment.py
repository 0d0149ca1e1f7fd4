"""What a rerun makes of the recorded command and environment; nothing is installed."""

from __future__ import annotations

import os
import stat
from dataclasses import replace

import pytest

import labbook.rerun.recorded_container as recorded_container_module
from labbook.errors import NotebookError
from labbook.rerun.rebuilt_environment import _build, _call, _local_sources, _requirement_lines
from labbook.rerun.recorded_code import RecordedCode
from labbook.rerun.recorded_command import rerun_command
from labbook.rerun.recorded_container import Container, container_launcher, recorded_container
from labbook.rerun.recorded_environment import compare_environment, project_sources, recorded_variables
from labbook.rerun.recorded_inputs import prepare_inputs

pytestmark = pytest.mark.process


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A project below the home folder with an ignored environment and data, and a worktree without them."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("project/.venv/bin/python", "project/sub/big.bin", "project/train.py", "cache/code/train.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "cache/code/sub").mkdir()
    return RecordedCode(tmp_path / "cache/code", tmp_path / "cache/code/sub", tmp_path / "project/sub")


@pytest.mark.parametrize(
    ("word", "moved"),
    [
        ("../.venv/bin/python", "{home}/project/sub/../.venv/bin/python"),
        ("~/project/train.py", "{home}/cache/code/train.py"),
        ("--config=~/project/train.py", "--config={home}/cache/code/train.py"),
        ("~/project/sub/big.bin", "{home}/project/sub/big.bin"),
        ("~/elsewhere/x", "{home}/elsewhere/x"),
        ("data.root=~/elsewhere/x", "data.root={home}/elsewhere/x"),
        ("parts=[~/project/train.py,~/elsewhere/x]", "parts=[{home}/cache/code/train.py,{home}/elsewhere/x]"),
        ("--other=~/project2/x", "--other={home}/project2/x"),
        ("--lr=1e-4", "--lr=1e-4"),
        ("~name", "~name"),
        ("data/x", "data/x"),
    ],
)
def test_paths_lead_to_the_worktree_or_to_what_it_lacks(code, tmp_path, word, moved):
    program = word if "bin/python" in word else "python"
    found = rerun_command({"argv": [program] if program == word else [program, word]}, code)
    assert found[-1] == moved.format(home=tmp_path)


def test_recorded_variables_name_folders_that_are_there(code, tmp_path):
    """Entries have `~` in place of the home folder, which a shell expands and a program does not."""
    recorded = {
        "PYTHONPATH": f"~/project:~/project/sub:{tmp_path}/project2",
        "HF_HOME": "~/.cache/hf",
        "NCCL_DEBUG": "INFO",
        "HF_ENDPOINT": "https://hf.example.org/~team",
    }
    assert recorded_variables({"captured": {"command": {"environment": recorded}}}, code) == {
        "PYTHONPATH": f"{code.top}:{code.cwd}:{tmp_path}/project2",
        "HF_HOME": f"{tmp_path}/.cache/hf",
        "NCCL_DEBUG": "INFO",
        "HF_ENDPOINT": "https://hf.example.org/~team",
    }


def test_a_rebuilt_interpreter_replaces_the_recorded_one(code, tmp_path):
    programs = tmp_path / "built/bin"
    programs.mkdir(parents=True)
    for name in ("python", "torchrun"):
        (programs / name).touch()
    run = {"captured": {"python": {"prefix": "~/project/.venv"}}}
    for program, name in (("../.venv/bin/python3", "python"), ("~/project/.venv/bin/torchrun", "torchrun")):
        assert rerun_command({**run, "argv": [program, "a.py"]}, code, (), programs)[0] == str(programs / name)
    assert rerun_command({**run, "argv": ["bash", "a.sh"]}, code, (), programs) == ["bash", "a.sh"]


def test_packages_are_pinned_by_version_commit_or_folder(code, tmp_path):
    python = {
        "packages": {"numpy": "2.0.0", "torch": "2.5.1+cu124", "mine": "0.1", "other": "3", "tool": "1"},
        "origins": {
            "mine": {"url": "~/project", "commit": "a" * 40, "editable": True},
            "other": {"url": "/gone/other", "commit": "", "editable": True},
            "tool": {"url": "git+https://example.org/tool", "commit": "b" * 40},
        },
    }
    assert _requirement_lines(python) == [
        "--extra-index-url https://download.pytorch.org/whl/cu124",
        "numpy==2.0.0",
        f"tool @ git+https://example.org/tool@{'b' * 40}",
        "torch==2.5.1+cu124",
    ]
    sources, notes = _local_sources(python, code)
    assert sources == [code.top] and [note.key for note in notes] == ["rerun.local_package_gone"]


@pytest.mark.parametrize(
    ("url", "layout", "found"),
    [
        ("~/project", "src/mine", ["src"]),
        ("~/project", "mine", [""]),
        ("~/project/lib", "lib/mine", ["lib"]),
        ("~/elsewhere", "mine", []),
        ("git+https://example.org/mine", "mine", []),
    ],
)
def test_a_package_installed_from_the_project_is_imported_from_the_worktree(code, tmp_path, url, layout, found):
    for top in (code.top, tmp_path / "project"):
        (top / layout).mkdir(parents=True)
    run = {"captured": {"python": {"version": "3", "packages": {"mine": "0.1"}, "origins": {"mine": {"url": url}}}}}
    assert project_sources(run, code) == [code.top / place for place in found]
    (tmp_path / "project" / layout / "fast.so").touch()
    assert project_sources(run, code) == []
    # Its code is in git, and it is not installed in the environment: no other version.
    differs = any("mine" in str(note.values) for note in compare_environment(run, ["python"], code))
    assert differs == (not found)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("ERROR: Could not find a version that satisfies the requirement a==9 (from versions: 1, 2)", "not_installed"),
        ("WARNING: Retrying after NewConnectionError\nERROR: No matching distribution found", "unreachable"),
    ],
)
def test_why_a_package_is_missing(text, key):
    with pytest.raises(NotebookError) as caught:
        _call(["sh", "-c", f"printf '{text}' >&2; exit 1"])
    assert key in caught.value.key and "from versions" not in str(caught.value)


@pytest.mark.parametrize("has_mirror", [True, False])
def test_an_index_that_does_not_answer_is_left_out_where_a_mirror_has_the_packages(tmp_path, has_mirror):
    """As uv does: it ends at the index, and its settings name a mirror."""
    listed = tmp_path / "wanted.txt"
    listed.write_text("--extra-index-url https://me:secret@builds.example.org/cpu\ntorch==2.5.1+cpu\n")
    end = "true" if has_mirror else "{ echo 'error: not found' >&2; exit 1; }"
    install = f"""grep -q extra "$0" || {end}; ! grep -q extra "$0" && exit
        echo 'error: Request failed after 3 retries
          cause: error sending request for url (https://me:secret@builds.example.org/cpu/)' >&2; exit 2"""
    commands = [["true"], ["sh", "-c", install, str(listed)]]
    if has_mirror:
        assert [note.key for note in _build(commands, listed)] == ["rerun.without_index"]
        assert listed.read_text() == "torch==2.5.1+cpu\n"
    else:
        with pytest.raises(NotebookError, match=r"builds\.example\.org: Request failed") as caught:
            _build(commands, listed)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("status", [0, 1])
def test_a_recorded_image_is_run_where_an_engine_answers(code, tmp_path, monkeypatch, status):
    engine = tmp_path / "engines" / "docker"
    engine.parent.mkdir()
    engine.write_text(f"#!/bin/sh\nexit {status}\n")
    engine.chmod(engine.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(engine.parent))
    run = {"captured": {"container": {"kind": "docker", "image": "team/train:7"}}}

    container, notes = recorded_container(run)

    if status:
        assert container is None and notes[0].key == "rerun.no_engine"
        return
    outside, inside = tmp_path / "sets" / "train.csv", code.top / "train.py"
    outside.parent.mkdir()
    outside.touch()
    inputs = [outside, inside, tmp_path / "of the image.csv"]
    words = container_launcher(container, code, tmp_path / "notes", ["SEED"], inputs, with_gpus=True)
    assert f"{outside}:{outside}" in words and not any("train.py" in word or "of the image" in word for word in words)
    assert words[:2] == [str(engine), "run"] and words[-1] == "team/train:7"
    assert {"SEED", "LABBOOK_PROBE", "PYTHONPATH", f"{code.top}:{code.top}", "--gpus"} <= set(words)
    assert "--init" in words
    assert recorded_container({"captured": {"container": {"kind": "none"}}}) == (None, [])

    podman = Container(str(engine.with_name("podman")), "team/train:7")
    monkeypatch.setattr(recorded_container_module, "_INIT_FOLDERS", ())
    for user, options in ((0, set()), (1000, {"--userns=keep-id"})):
        monkeypatch.setattr(os, "getuid", lambda user=user: user)
        words = container_launcher(podman, code, tmp_path / "notes", [], with_gpus=False)
        assert {"--init", "--userns=keep-id"} & set(words) == options  # catatonit is not installed here


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"mode": "read"}, "link"),
        ({"mode": "read and written", "before": "sha256:1"}, "copy"),
        ({"mode": "read and written"}, ""),
        ({"mode": "written"}, ""),
    ],
)
def test_what_the_run_wrote_is_no_link_to_the_original(code, tmp_path, row, kind):
    there, here = tmp_path / "project/sub/state.bin", code.cwd / "state.bin"
    there.write_bytes(b"original")
    prepare_inputs({"files": [{"path": "state.bin", **row}]}, code)
    assert (here.is_symlink(), here.exists()) == (kind == "link", kind != "")
    if kind == "copy":
        here.write_bytes(b"of the rerun")
        assert there.read_bytes() == b"original"


@pytest.mark.parametrize(("mode", "is_link"), [("read", True), ("read and written", False)])
def test_folders_are_linked_or_copied_as_files_are(code, tmp_path, mode, is_link):
    there = tmp_path / "project/sub/cache"
    there.mkdir()
    (there / "a").write_bytes(b"1")
    prepare_inputs({"files": [{"path": "cache/", "mode": mode}]}, code)
    assert (code.cwd / "cache/a").read_bytes() == b"1" and (code.cwd / "cache/a").is_symlink() == is_link


@pytest.mark.parametrize("place", ["recorded", "checkout"])
def test_data_outside_git_is_taken_from_the_checkout_where_the_recorded_folder_is_not_here(code, tmp_path, place):
    """As of a run in a container, or of a colleague: `/workspace` is not on this machine."""
    if place == "checkout":
        (tmp_path / "project").rename(tmp_path / "mine")
        code = replace(code, checkout=tmp_path / "mine")
    read = {"path": str(tmp_path / "project/sub/big.bin"), "mode": "read"}
    gone = {"path": "other.bin", "mode": "read"}
    notes = prepare_inputs({"files": [read, gone]}, code)
    assert (code.cwd / "big.bin").resolve().is_file()
    assert [note.values["path"] for note in notes] == ["other.bin"]
