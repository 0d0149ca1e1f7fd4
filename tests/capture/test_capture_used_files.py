"""Files of a run: merged, fingerprinted, rolled up."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from labbook.capture.fingerprints import Budget, combine_fingerprints, fingerprint_file
from labbook.capture.used_files import summarize_files
from labbook.store.config import Config


def item(path, mode="r", **fields):
    found = os.stat(path) if os.path.exists(path) else None
    known = {"size": found.st_size, "mtime_ns": found.st_mtime_ns} if found else {"size": -1, "mtime_ns": 0}
    return {"path": str(path), "mode": mode, **known, **fields}


def make(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def rows(items, cwd, **settings):
    return {row.path: row for row in summarize_files(items, cwd, Config(**settings))}


def test_small_files_are_hashed_whole_and_shown_relative(tmp_path):
    file = make(tmp_path / "data" / "train.csv", b"a,b\n1,2\n")
    (row,) = summarize_files([item(file)], tmp_path, Config())
    assert (row.path, row.mode, row.size_bytes, row.members) == ("data/train.csv", "read", 8, 1)
    assert row.fingerprint == "sha256:" + hashlib.sha256(b"a,b\n1,2\n").hexdigest()


def test_files_of_a_project_below_the_home_folder_are_shown_relative(tmp_path, monkeypatch):
    """The probe writes the home folder as "~"."""
    monkeypatch.setenv("HOME", str(tmp_path))
    file = make(tmp_path / "project" / "data" / "train.csv", b"a,b\n1,2\n")
    make(tmp_path / "other" / "x.csv")
    items = [{**item(file), "path": "~/project/data/train.csv"}, {**item(file), "path": "~/other/x.csv"}]
    found = rows(items, tmp_path / "project")
    assert set(found) == {"data/train.csv", "~/other/x.csv"} and found["data/train.csv"].fingerprint


def test_uses_of_several_processes_are_merged(tmp_path):
    one, two = make(tmp_path / "a.bin"), make(tmp_path / "b.bin")
    found = rows([item(one), item(two, "w"), item(one), item(two, "w"), item(two, "r")], tmp_path)
    assert {path: row.mode for path, row in found.items()} == {"a.bin": "read", "b.bin": "read and written"}


def test_large_files_are_sampled_and_the_samples_reach_the_end(tmp_path):
    size = 3 << 20
    file = make(tmp_path / "weights.pt", os.urandom(size))
    prints = [summarize_files([item(file)], tmp_path, Config(hash_full_bytes=1 << 20))[0].fingerprint]
    for at in (0, size - 1):
        content = bytearray(file.read_bytes())
        content[at] ^= 1
        file.write_bytes(bytes(content))
        prints.append(summarize_files([item(file)], tmp_path, Config(hash_full_bytes=1 << 20))[0].fingerprint)
    assert all(p.startswith("sampled:") for p in prints)
    assert len(set(prints)) == 3


def test_an_input_that_changed_after_it_was_read_has_no_fingerprint(tmp_path):
    file = make(tmp_path / "a.csv")
    opened = item(file)
    file.write_bytes(b"other")
    os.utime(file, ns=(1, 1))
    (row,) = summarize_files([opened], tmp_path, Config())
    assert (row.fingerprint, row.reason) == ("", "changed after it was read")
    (row,) = summarize_files([{**opened, "mode": "w"}], tmp_path, Config())
    assert row.fingerprint.startswith("sha256:")


def test_missing_and_unreadable_files_have_a_reason(tmp_path):
    (tmp_path / "folder.d").mkdir()
    os.mkfifo(tmp_path / "pipe")
    found = rows([item(tmp_path / "input.csv"), item(tmp_path / "folder.d"), item(tmp_path / "pipe")], tmp_path)
    assert found["input.csv"].reason == "gone"
    assert found["pipe"].reason == "not a regular file"
    assert found["folder.d"].reason == "not a regular file"


def test_scratch_files_that_came_and_went_are_left_out(tmp_path):
    items = [item(tmp_path / "model.pt.tmp", "w"), item(tmp_path / ".cache1", "rw"), item(tmp_path / "result.txt", "w")]
    assert set(rows(items, tmp_path)) == {"result.txt"}


def test_many_files_of_a_folder_are_one_row_with_a_manifest_of_contents(tmp_path):
    files = [make(tmp_path / "data" / f"{n:03}.npy", bytes([n])) for n in range(40)]
    (row,) = summarize_files(map(item, files), tmp_path, Config())
    assert (row.path, row.members, row.size_bytes, row.mode) == ("data/", 40, 40, "read")
    assert row.fingerprint.startswith("manifest:")
    again = summarize_files(map(item, reversed(files)), tmp_path, Config())[0]
    assert again.fingerprint == row.fingerprint
    files[7].write_bytes(b"\xff")
    assert summarize_files(map(item, files), tmp_path, Config())[0].fingerprint != row.fingerprint


def test_a_folder_counts_the_files_that_are_left_and_those_that_are_gone(tmp_path):
    files = [make(tmp_path / "saves" / f"{n}.ckpt", bytes([n])) for n in range(50)]
    for old in files[:-20]:
        old.unlink()
    found = summarize_files([item(file, "w") for file in files], tmp_path, Config())
    seen = [(row.path, row.members, row.size_bytes, row.reason) for row in found]
    assert seen == [("saves/", 20, 20, ""), ("saves/", 30, -1, "gone")]


def test_a_manifest_does_not_depend_on_the_parent_folder(tmp_path):
    prints = []
    for place in ("one", "two/deeper"):
        files = [make(tmp_path / place / "data" / f"{n}.npy", bytes([n])) for n in range(20)]
        prints.append(summarize_files(map(item, files), tmp_path, Config())[0].fingerprint)
    assert prints[0] == prints[1]


def test_one_folder_a_class_is_joined_into_one_row(tmp_path):
    files = [
        make(tmp_path / "imagenet" / "train" / f"n{c:04}" / f"{n}.png", b"%d" % n) for c in range(90) for n in range(2)
    ]
    found = summarize_files(map(item, files), tmp_path, Config())
    assert [(row.path, row.members) for row in found] == [("imagenet/train/", 180)]


def test_the_working_folder_itself_is_never_a_row(tmp_path):
    files = [make(tmp_path / f"d{n}" / "a.csv") for n in range(100)]
    found = summarize_files(map(item, files), tmp_path, Config())
    assert sum(row.members for row in found) == 100
    assert all(row.path.startswith("d") for row in found)


def test_a_folder_that_the_probe_only_counted(tmp_path):
    for n in range(300):
        make(tmp_path / "data" / f"{n}.npy", b"12")
    listed = [item(tmp_path / "data" / f"{n}.npy") for n in range(200)]
    counted = {"path": str(tmp_path / "data"), "mode": "r", "size": -1, "mtime_ns": 0, "folder": True, "members": 300}
    (row,) = summarize_files([*listed, counted], tmp_path, Config())
    assert (row.path, row.members, row.size_bytes) == ("data/", 300, 600)
    assert row.fingerprint.startswith("names:")


def test_rows_are_bounded_and_the_rest_is_counted(tmp_path):
    items = [{"path": f"/data{n}/x/y.csv", "mode": "r", "size": 5, "mtime_ns": 0} for n in range(1000)]
    found = summarize_files(items, tmp_path, Config())
    assert len(found) <= 181
    assert sum(row.members for row in found) == 1000
    assert found[-1].reason == "too many to list"


def test_code_and_the_kernels_files_are_passed_over(tmp_path):
    items = [item(make(tmp_path / "a.so")), item("/proc/self/stat"), item("/dev/null", "w"), {"path": "relative"}, {}]
    assert summarize_files(items, tmp_path, Config()) == []


def test_paths_below_home_are_shortened(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "wei"))
    file = make(tmp_path / "home" / "wei" / "data" / "a.csv")
    work = tmp_path / "work"
    work.mkdir()
    (row,) = summarize_files([item(file)], work, Config())
    assert row.path == "~/data/a.csv"
    # The probe has already shortened it.
    (row,) = summarize_files([{**item(file), "path": "~/data/a.csv"}], work, Config())
    assert (row.path, row.fingerprint[:7]) == ("~/data/a.csv", "sha256:")


def test_when_the_time_is_over_files_are_only_named(tmp_path):
    file = make(tmp_path / "a.csv")
    found = fingerprint_file(file, Budget(seconds=-1.0))
    assert (found.text, found.size, found.reason) == ("", 1, "no time left to fingerprint it")


def test_when_the_bytes_are_spent_files_are_sampled(tmp_path):
    budget = Budget(full_bytes=10)
    first = fingerprint_file(make(tmp_path / "a", b"12345678"), budget)
    second = fingerprint_file(make(tmp_path / "b", b"12345678"), budget)
    assert first.text.startswith("sha256:")
    assert second.text.startswith("sampled:")


def test_a_manifest_without_contents_is_marked():
    assert combine_fingerprints({"a": (1, "sha256:x")}).startswith("manifest:")
    assert combine_fingerprints({"a": (1, "sha256:x"), "b": (1, "")}).startswith("names:")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_must_not_be_read(tmp_path):
    file = make(tmp_path / "a")
    file.chmod(0)
    assert fingerprint_file(file, Budget()).reason == "unreadable"


def test_a_file_that_a_launcher_hands_to_a_kernel_is_no_input(tmp_path):
    found = rows([item("/tmp/tmp8_2i8xvy_gone.json"), item("/tmp/data_gone.json")], tmp_path)
    assert set(found) == {"/tmp/data_gone.json"}
