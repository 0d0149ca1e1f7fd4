"""A copy is what the file was at one moment, or says that it may not be."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from labbook.artifacts import file_copy
from labbook.artifacts.file_copy import copy_file, hash_file
from labbook.artifacts.object_store import ObjectFolder

GIB = 1 << 30


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    "name",
    ["plain.pt", "with\nnewline.pt", os.fsdecode(b"caf\xe9.pt"), "-rf", "x" * 250],
    ids=["plain", "newline", "not utf-8", "option", "long"],
)
@pytest.mark.parametrize("size", [0, 1, 3 << 20], ids=str)
def test_a_copy_has_the_bytes_and_the_digest_of_the_file(tmp_path, name, size):
    source = tmp_path / name
    source.write_bytes(os.urandom(size))
    folder = ObjectFolder(tmp_path / "kept")
    copied = folder.add(source, GIB)
    assert (copied.digest, copied.size, copied.reason) == (sha(source.read_bytes()), size, "")
    assert folder.path(copied.digest).read_bytes() == source.read_bytes()
    assert hash_file(source) == (copied.digest, size)
    assert list(folder.digests()) == [copied.digest]


def test_equal_files_are_stored_once_and_no_draft_stays(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"same")
    folder = ObjectFolder(tmp_path / "kept")
    assert folder.add(tmp_path / "a", GIB).digest == folder.add(tmp_path / "b", GIB).digest
    assert [path.name for path in (tmp_path / "kept").rglob("*") if path.is_file()] == [sha(b"same")]


def test_a_kept_file_is_no_link_to_the_original(tmp_path):
    source = tmp_path / "last.pt"
    source.write_bytes(b"first")
    folder = ObjectFolder(tmp_path / "kept")
    digest = folder.add(source, GIB).digest
    with source.open("r+b") as stream:
        stream.write(b"AGAIN")
    assert folder.path(digest).read_bytes() == b"first"
    assert folder.add(source, GIB).digest == sha(b"AGAIN")


def write_during_copies(monkeypatch, source: Path, times: int) -> None:
    """Rewrites the file in the middle of its first copies."""
    original, left = file_copy._copy_pieces, [times]

    def copy_pieces(*args):
        result = original(*args)
        if left[0]:
            left[0] -= 1
            source.write_bytes(b"version %d" % left[0])
        return result

    monkeypatch.setattr(file_copy, "_copy_pieces", copy_pieces)


@pytest.mark.parametrize(("times", "reason"), [(1, ""), (3, ""), (9, "changed while it was copied")])
def test_a_file_that_is_overwritten_during_the_copy_is_copied_again(tmp_path, monkeypatch, times, reason):
    source = tmp_path / "last.pt"
    source.write_bytes(b"version x")
    write_during_copies(monkeypatch, source, times)
    copied = copy_file(source, tmp_path / "copy", GIB, between=lambda: None)
    assert copied.reason == reason
    assert copied.digest == sha((tmp_path / "copy").read_bytes())
    if not reason:
        assert (tmp_path / "copy").read_bytes() == source.read_bytes() == b"version 0"


def test_a_file_that_is_replaced_during_the_copy_is_copied_again(tmp_path, monkeypatch):
    source = tmp_path / "last.pt"
    source.write_bytes(b"old")
    original, done = file_copy._copy_pieces, []

    def copy_pieces(*args):
        if not done:
            done.append(1)
            (tmp_path / "new").write_bytes(b"new")
            (tmp_path / "new").replace(source)
        return original(*args)

    monkeypatch.setattr(file_copy, "_copy_pieces", copy_pieces)
    assert copy_file(source, tmp_path / "copy", GIB, between=lambda: None).digest == sha(b"new")


def test_holes_stay_holes_and_a_file_above_the_limit_is_not_read(tmp_path, monkeypatch):
    source = tmp_path / "sparse.pt"
    with source.open("wb") as stream:
        stream.truncate(64 << 20)
        stream.seek(40 << 20)
        stream.write(b"weights")
    copied = copy_file(source, tmp_path / "copy", GIB)
    status = (tmp_path / "copy").stat()
    assert status.st_size == 64 << 20
    assert status.st_blocks * 512 < 4 << 20
    assert hash_file(source)[0] == copied.digest
    os.truncate(source, 20 * GIB)
    monkeypatch.setattr(file_copy.os, "pread", lambda *_: pytest.fail("the file was read"))
    copied = copy_file(source, tmp_path / "again", 4 * GIB)
    assert (copied.digest, copied.size, copied.reason) == ("", 20 * GIB, "larger than the setting `artifact_limit`")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("parts", [(), (0,), (3,), (7,), (0, 7), (0, 2, 3, 6)], ids=str)
def test_holes_are_not_read_and_count_as_zeros(tmp_path, monkeypatch, parts):
    source = tmp_path / "sparse.pt"
    with source.open("wb") as stream:
        for part in parts:
            stream.seek(part << 20)
            stream.write(os.urandom(1 << 20))
        stream.truncate(8 << 20)
    read, seen = os.pread, []
    monkeypatch.setattr(file_copy.os, "pread", lambda *args: seen.append(read(*args)) or seen[-1])
    assert hash_file(source) == (sha(source.read_bytes()), 8 << 20)
    assert sum(map(len, seen)) == len(parts) << 20


def test_a_file_that_grows_above_the_limit_is_not_kept(tmp_path, monkeypatch):
    source = tmp_path / "log.bin"
    source.write_bytes(b"x" * 100)
    monkeypatch.setattr(file_copy.os, "pread", lambda *_: b"y" * 5000)
    assert copy_file(source, tmp_path / "copy", 1000).reason == "larger than the setting `artifact_limit`"


@pytest.mark.parametrize(
    ("code", "reason"),
    [(errno.ENOSPC, "no space left for the copy"), (errno.EROFS, "the folder of kept files is read-only")],
)
def test_a_copy_that_fails_leaves_nothing(tmp_path, monkeypatch, code, reason):
    source = tmp_path / "a.pt"
    source.write_bytes(b"x")

    def fail(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(file_copy, "_write_all", fail)
    folder = ObjectFolder(tmp_path / "kept")
    assert folder.add(source, GIB).reason == reason
    assert [path for path in (tmp_path / "kept").rglob("*") if path.is_file()] == []


def test_a_copy_leaves_space_to_other_programs(tmp_path, monkeypatch):
    (tmp_path / "a.pt").write_bytes(b"x" * 5000)
    real = os.statvfs(tmp_path)

    class Full:
        f_bavail, f_frsize = 10, real.f_frsize

    monkeypatch.setattr(file_copy.os, "statvfs", lambda _: Full)
    assert copy_file(tmp_path / "a.pt", tmp_path / "copy", GIB).reason == "no space left for the copy"


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "loop"])
def test_what_is_no_file_has_a_reason(tmp_path, kind):
    source = tmp_path / kind
    if kind == "folder":
        source.mkdir()
    elif kind == "pipe":
        os.mkfifo(source)
    elif kind == "loop":
        source.symlink_to(source)
    copied = copy_file(source, tmp_path / "copy", GIB)
    assert copied.digest == ""
    assert copied.reason == {"missing": "gone", "loop": "unreadable"}.get(kind, "not a regular file")


def test_a_store_that_cannot_be_made_is_a_reason(tmp_path):
    (tmp_path / "kept").write_text("a file in the place of the folder")
    (tmp_path / "a.pt").write_bytes(b"x")
    assert ObjectFolder(tmp_path / "kept").add(tmp_path / "a.pt", GIB).reason == "the folder of kept files is read-only"


def test_drafts_of_a_killed_copy_are_removed_later(tmp_path):
    folder = ObjectFolder(tmp_path)
    for name in ("draft-old", "draft-new"):
        (tmp_path / name).write_bytes(b"half")
    os.utime(tmp_path / "draft-old", (1, 1))
    folder.remove_drafts()
    assert [path.name for path in tmp_path.iterdir()] == ["draft-new"]
