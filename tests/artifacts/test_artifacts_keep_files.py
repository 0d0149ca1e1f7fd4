"""Which files are kept: patterns as in .gitignore, calls in the journal, files that DVC keeps already."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace

import pytest
from order_of_tests import in_one_test

from labbook.artifacts.keep_files import FileKeeper, KeepWatcher, _last_files, compile_patterns
from labbook.probe.redaction.redactor import Redactor
from labbook.store.config import Config
from labbook.store.journal import Journal
from labbook.store.notebook import Notebook
from labbook.store.paths import NotebookPaths


@in_one_test(
    ("pattern", "matching", "others"),
    [
        ("*.pt", ["a.pt", "x/y/a.pt", "/abs/a.pt", "with\nline.pt", ".pt"], ["a.pth", "a.pt/x", "apt"]),
        ("best/*", ["best/a", "runs/3/best/a.pt"], ["best/a/b", "bestx/a", "abest/a", "best"]),
        ("runs/**/best.pt", ["runs/best.pt", "runs/1/best.pt", "x/runs/1/2/best.pt"], ["runs/1/other.pt"]),
        ("out/**", ["out/a", "out/a/b"], ["outer/a"]),
        ("/data/*.npz", ["/data/a.npz"], ["data/a.npz", "/x/data/a.npz"]),
        ("step?.bin", ["step1.bin", "x/step9.bin"], ["step10.bin", "step/.bin"]),
        ("[ab].pt", ["a.pt"], ["c.pt", "[ab].pt"]),
        ("[!ab].pt", ["c.pt"], ["a.pt"]),
        ("a[.pt", ["a[.pt"], ["a.pt"]),
        ("a+(b).pt", ["a+(b).pt"], ["aab.pt"]),
    ],
)
def test_patterns(pattern, matching, others):
    matches = compile_patterns([pattern, "never/this"])
    assert [path for path in matching if not matches(path)] == []
    assert [path for path in others if matches(path)] == []


@pytest.fixture
def keeper(tmp_path):
    book = Notebook(NotebookPaths(tmp_path / "book"), Config(artifacts=("*.pt",)))
    book.paths.root.mkdir()
    journal = Journal(book.paths.journal("20261121-153012-k3f9"))
    journal.create()
    journal.release()
    (tmp_path / "work").mkdir()
    return FileKeeper(book, journal.paths, tmp_path / "work", Redactor())


def write_calls(keeper, *paths, name="1.jsonl", begin=0):
    with (keeper.journal.events / name).open("a") as stream:
        for number, path in enumerate(paths, start=begin):
            event = {"v": 1, "n": number, "t": 1.0, "k": "keep", "path": str(path), "name": "", "size": 1}
            stream.write(json.dumps(event, separators=(",", ":")) + "\n")


def events_of(keeper):
    return Journal(keeper.journal).processes()


def test_each_call_keeps_its_version_and_the_end_of_the_run_does_the_rest(keeper):
    path = keeper.cwd / "last.bin"
    watcher = KeepWatcher(keeper)
    for number in range(3):
        path.write_bytes(b"version %d" % number)
        write_calls(keeper, path, begin=number)
        if number < 2:
            watcher.poll()
    kept = keeper.keep_outputs([], events_of(keeper), 0.0)
    digests = [f"sha256:{hashlib.sha256(b'version %d' % number).hexdigest()}" for number in range(3)]
    assert [artifact.digest for artifact in kept] == digests
    assert keeper.keep_outputs([], events_of(keeper), 0.0)[:2] == kept[:2], "a recovery gives the same"


def test_a_line_that_is_being_written_waits_for_its_end(keeper):
    path = keeper.cwd / "a.bin"
    path.write_bytes(b"x")
    write_calls(keeper, path)
    file = keeper.journal.events / "1.jsonl"
    whole = file.read_bytes()
    watcher = KeepWatcher(keeper)
    file.write_bytes(whole[:20])
    watcher.poll()
    file.write_bytes(whole)
    watcher.poll()
    watcher.poll()
    assert len(keeper.journal.artifacts.read_text().splitlines()) == 1


def test_a_folder_keeps_its_files_and_ranks_that_call_for_one_file_give_one_row(keeper):
    folder = keeper.cwd / "checkpoint-500"
    (folder / "deep").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"w")
    (folder / "deep" / os.fsdecode(b"\xff")).write_bytes(b"o")
    write_calls(keeper, folder, name="1.jsonl")
    write_calls(keeper, folder, name="2.jsonl")
    kept = keeper.keep_outputs([], events_of(keeper), 0.0)
    assert sorted(artifact.path for artifact in kept) == [
        "checkpoint-500/deep/\\xff",
        "checkpoint-500/model.safetensors",
    ]


def test_a_file_written_after_the_call_says_so(keeper):
    path = keeper.cwd / "a.bin"
    path.write_bytes(b"x")
    (artifact,) = keeper.keep_requested({"path": str(path), "size": 1, "mtime_ns": 5})
    assert artifact.reason == "changed after `labbook.keep()` was called"
    (artifact,) = keeper.keep_requested({"path": str(path), "size": 1, "mtime_ns": path.stat().st_mtime_ns})
    assert artifact.reason == ""


def test_only_written_files_that_match_are_kept_and_not_those_of_dvc(keeper):
    names = {"out.pt": "w", "both.pt": "rw", "read.pt": "r", "log.txt": "w", "dvc.pt": "w", "gone.pt": "w"}
    items = []
    for name, mode in names.items():
        (keeper.cwd / name).write_bytes(name.encode())
        items.append({"path": str(keeper.cwd / name), "mode": mode})
    (keeper.cwd / "gone.pt").unlink()
    md5 = hashlib.md5(b"dvc.pt").hexdigest()
    (keeper.cwd / "dvc.pt.dvc").write_text(f"outs:\n- md5: {md5}\n  size: 6\n  hash: md5\n  path: dvc.pt\n")
    kept = keeper.keep_outputs(items, [], 0.0)
    assert [artifact.path for artifact in kept] == ["both.pt", "out.pt"]


def test_in_a_folder_of_very_many_files_those_of_this_run_are_kept(keeper):
    for name, age in (("old.pt", 1000), ("new.pt", 0), ("other.txt", 0)):
        (keeper.cwd / name).write_bytes(b"x")
        os.utime(keeper.cwd / name, (5000 - age, 5000 - age))
    items = [{"path": str(keeper.cwd), "mode": "w", "folder": True, "members": 3}]
    assert [artifact.path for artifact in keeper.keep_outputs(items, [], 5000.0)] == ["new.pt"]


def test_names_are_masked(keeper, tmp_path):
    secret = replace(keeper, redactor=Redactor(known=("hunter2pass",)))
    path = keeper.cwd / "hunter2pass.pt"
    path.write_bytes(b"x")
    (artifact,) = secret.keep_requested({"path": str(path), "name": "of hunter2pass"})
    assert "hunter2pass" not in artifact.path + artifact.name


@in_one_test("path", ["a.pt", "", "nul\0", b"\xff", 3, None], ids=repr)
def test_keep_does_nothing_outside_a_recorded_run_whatever_it_is_given(path):
    import labbook

    labbook.keep(path)
    labbook.keep(path, name="x")


def test_choosing_the_last_files_takes_time_linear_in_their_number(tmp_path):
    class Counted(type(tmp_path)):
        compared = 0

        def __eq__(self, other):
            Counted.compared += 1
            return super().__eq__(other)

        __hash__ = type(tmp_path).__hash__

    paths = [Counted(tmp_path / f"{number}.pt") for number in range(300)]
    assert len(_last_files(paths, ["*.pt"], tmp_path, 2)) == 2
    assert Counted.compared < 10 * len(paths)


def test_only_the_last_files_of_a_pattern_and_the_last_versions_of_a_path_are_kept(keeper):
    config = replace(keeper.notebook.config, artifacts=("best.pt", "*.pt"), artifact_keep_last=2)
    keeper = replace(keeper, notebook=replace(keeper.notebook, config=config))
    written = [keeper.cwd / name for name in ("best.pt", "step9.pt", "step10.pt", "step11.pt", "log.txt")]
    for age, path in enumerate(written):
        path.write_text(path.name)
        os.utime(path, (1000 + age, 1000 + age))
    path, watcher = keeper.cwd / "last.bin", KeepWatcher(keeper)
    for number in range(4):
        path.write_bytes(b"version %d" % number)
        write_calls(keeper, path, begin=number)
        watcher.poll()
    items = [{"path": str(path), "mode": "w"} for path in written]
    kept = keeper.keep_outputs(items, events_of(keeper), 0.0)
    versions = [hashlib.sha256(b"version %d" % number).hexdigest() for number in (2, 3)]
    assert [artifact.digest for artifact in kept[:2]] == [f"sha256:{digest}" for digest in versions]
    assert sorted(artifact.path for artifact in kept[2:]) == ["best.pt", "step10.pt", "step11.pt"]
