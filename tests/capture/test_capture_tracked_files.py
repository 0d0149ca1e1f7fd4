"""Files that DVC or git-annex keeps are recognised, and only as long as they have the bytes that it keeps."""

from __future__ import annotations

import hashlib
import os
import shutil

import pytest

from labbook.capture.tracked_files import holds_current_version, tracked_digest

POINTER = "outs:\n- md5: {md5}\n  size: {size}\n  hash: md5\n  path: {name}\n"


def track(path, data: bytes, **fields):
    path.write_bytes(data)
    facts = {"md5": hashlib.md5(data).hexdigest(), "size": len(data), "name": path.name, **fields}
    path.with_name(path.name + ".dvc").write_text(POINTER.format(**facts))
    return facts["md5"]


def test_a_file_with_a_pointer_has_its_digest(tmp_path):
    path = tmp_path / "data.csv"
    md5 = track(path, b"1,2,3\n")
    assert tracked_digest(path) == f"dvc md5:{md5}"
    assert holds_current_version(path)


@pytest.mark.parametrize("data", [b"1,2,4\n", b"longer than before\n", b""])
def test_a_file_that_was_written_since_is_not_the_one_that_dvc_keeps(tmp_path, data):
    path = tmp_path / "data.csv"
    track(path, b"1,2,3\n")
    path.write_bytes(data)
    assert not holds_current_version(path)
    if len(data) != 6:
        assert tracked_digest(path) == ""


def test_a_folder_has_the_digest_of_its_listing(tmp_path):
    (tmp_path / "imgs").mkdir()
    (tmp_path / "imgs.dvc").write_text("outs:\n- md5: 6ea46d53348e675e87743182f72de908.dir\n  size: 4\n  nfiles: 2\n")
    assert tracked_digest(tmp_path / "imgs") == "dvc md5:6ea46d53348e675e87743182f72de908.dir"


@pytest.mark.parametrize(
    "text",
    ["", "outs:\n", "deps:\n- md5: " + "a" * 32, "outs:\n- md5: ../../x\n", "\x00\xff", "outs:\n- md5: " + "a" * 31],
)
def test_what_is_no_pointer_is_ignored(tmp_path, text):
    path = tmp_path / "a.bin"
    path.write_bytes(b"x")
    path.with_name("a.bin.dvc").write_text(text)
    assert tracked_digest(path) == ""
    assert not holds_current_version(path)


def test_a_link_of_git_annex_has_the_digest_of_its_key(tmp_path):
    key = "SHA256E-s3000--" + "1210" * 16 + ".bin"
    path = tmp_path / "big.bin"
    os.symlink(f".git/annex/objects/QM/8m/{key}/{key}", path)
    assert tracked_digest(path) == "git-annex SHA256E:" + "1210" * 16
    assert holds_current_version(path)
    path.unlink()
    os.symlink("elsewhere/file", path)
    assert tracked_digest(path) == ""


@pytest.mark.process
@pytest.mark.skipif(shutil.which("git-annex") is None, reason="git-annex is not installed")
def test_inputs_in_git_annex_are_recorded_under_their_names(code, git_in, make_book, tmp_path):
    import sys

    git_in(code, "annex", "init")
    (code / "big.bin").write_bytes(b"weights")
    git_in(code, "annex", "add", "big.bin")
    book = make_book(tmp_path / "book")
    (book.folder / "labbook.toml").write_text('commit = "off"\nartifacts = ["*"]\n')
    (code / "read.py").write_text("import labbook; open('big.bin', 'rb').read(); labbook.keep('big.bin')")
    book("record", "--notebook", str(book.folder), "--", sys.executable, "read.py", cwd=code)
    run = book.run()
    (used,) = [file for file in run["inputs"] if file["path"] == "big.bin"]
    assert used["tracked"] == "git-annex SHA256E:" + hashlib.sha256(b"weights").hexdigest()
    assert run["artifacts"] == []
