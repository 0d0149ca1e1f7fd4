"""Kept files move to the store, once, whole and verified, whatever happens in between."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from order_of_tests import in_one_test

from labbook.artifacts import object_store, upload
from labbook.artifacts.object_store import FsspecStore, ObjectFolder, open_store
from labbook.artifacts.upload import start_upload, stored_objects, upload_pending, upload_state
from labbook.errors import NotebookError
from labbook.store.config import Config
from labbook.store.notebook import Notebook
from labbook.store.paths import NotebookPaths

GIB = 1 << 30


@pytest.fixture
def book(tmp_path):
    (tmp_path / "book").mkdir()
    return Notebook(NotebookPaths(tmp_path / "book"), Config(artifact_store=str(tmp_path / "store")))


def keep(book: Notebook, *contents: bytes) -> list[str]:
    source = book.paths.root / "source"
    digests = []
    for content in contents:
        source.write_bytes(content)
        digests.append(ObjectFolder(book.paths.artifacts).add(source, GIB).digest)
    return digests


def local(book: Notebook) -> list[str]:
    return list(ObjectFolder(book.paths.artifacts).digests())


def test_objects_move_to_a_folder_and_equal_ones_are_uploaded_once(book, tmp_path):
    digests = keep(book, b"", b"weights", b"weights")
    seen = []
    state = upload_pending(book, lambda digest, number, count: seen.append((number, count)))
    assert (state.pending, state.error, local(book)) == (0, "", [])
    assert seen == [(0, 2), (1, 2), (2, 2)]
    store = ObjectFolder(tmp_path / "store")
    assert sorted(store.digests()) == sorted(set(digests))
    assert {fact["digest"] for fact in stored_objects(book)} == set(digests)
    keep(book, b"weights")
    upload_pending(book)
    assert local(book) == []


def test_without_a_store_nothing_moves(book):
    alone = replace(book, config=Config())
    keep(alone, b"x")
    assert upload_pending(alone).pending == 0
    assert len(local(alone)) == 1
    assert not start_upload(alone)


@pytest.mark.parametrize("fault", ["put", "digest_of", "size"])
def test_a_store_that_vanishes_loses_nothing_and_the_next_upload_goes_on(book, monkeypatch, fault):
    digests = keep(book, b"1", b"2", b"3")
    original, calls = getattr(ObjectFolder, fault), []

    def vanish(store, *args):
        if store.root != book.paths.artifacts:
            calls.append(args)
            if len(calls) > 1:
                raise OSError("the host does not answer")
        return original(store, *args)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectFolder, fault, vanish)
        state = upload_pending(book)
    assert state.error == "the host does not answer"
    assert state.pending in (2, 3)
    assert not start_upload(book), "no second attempt within ten minutes"
    state = upload_pending(book)
    assert (state.pending, state.error) == (0, "")
    assert sorted(fact["digest"] for fact in stored_objects(book)) == sorted(digests)


def test_an_upload_that_arrives_damaged_is_not_accepted(book, tmp_path, monkeypatch):
    (digest,) = keep(book, b"weights")
    original = ObjectFolder.put

    def damage(store, source, digest):
        original(store, source, digest)
        store.path(digest).chmod(0o600)
        store.path(digest).write_bytes(b"WEIGHTS")

    with monkeypatch.context() as patch:
        patch.setattr(ObjectFolder, "put", damage)
        assert "differs after the upload" in upload_pending(book).error
    assert local(book) == [digest]
    assert upload_pending(book).error == ""
    assert ObjectFolder(tmp_path / "store").digest_of(digest) == (digest, 7)


def test_a_damaged_local_copy_is_not_uploaded(book, tmp_path):
    (digest,) = keep(book, b"weights")
    path = ObjectFolder(book.paths.artifacts).path(digest)
    path.chmod(0o600)
    path.write_bytes(b"changed")
    assert "is damaged" in upload_pending(book).error
    assert list(ObjectFolder(tmp_path / "store").digests()) == []


def test_a_store_that_is_not_mounted_any_more_gets_no_files(book, tmp_path):
    keep(book, b"1")
    upload_pending(book)
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    (tmp_path / "store").mkdir()
    keep(book, b"2")
    assert "is the folder mounted?" in upload_pending(book).error
    assert len(local(book)) == 1
    assert list((tmp_path / "store").iterdir()) == []


def test_a_store_that_cannot_be_written_is_an_error_of_the_upload(book, tmp_path):
    (tmp_path / "store").write_text("a file in its place")
    keep(book, b"1")
    state = upload_pending(book)
    assert state.error
    assert state.pending == 1


def test_two_uploads_at_once_do_not_meet(book):
    keep(book, b"1")
    with upload.hold_lock(book.paths.artifacts / "upload.lock", 0.0):
        assert upload_state(book).running
        assert upload_pending(book).pending == 1
        assert not start_upload(book)
    assert upload_pending(book).pending == 0


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("nope://bucket/x", "set `artifact_store` to a folder or a URL of fsspec such as s3://bucket/labbook"),
        ("gs://wei:hunter2pass@host/x", "pip install 'labbook[data]' gcsfs"),
    ],
)
def test_a_store_that_cannot_be_used_says_what_to_do_without_the_password(url, hint):
    pytest.importorskip("fsspec")
    with pytest.raises(NotebookError) as caught:
        open_store(url, Path("/"))
    assert caught.value.hint == hint
    assert "hunter2pass" not in caught.value.message


def test_the_password_of_a_url_is_not_noted_with_an_error(book, monkeypatch):
    url = "sftp://wei:hunter2pass@host/x"
    secret = replace(book, config=Config(artifact_store=url))
    keep(secret, b"1")
    monkeypatch.setattr(upload, "open_store", lambda *_: (_ for _ in ()).throw(OSError(f"{url}: no route to host")))
    state = upload_pending(secret)
    assert state.error == "sftp://host/x: no route to host"
    assert "hunter2pass" not in (secret.paths.artifacts / "upload.json").read_text()


# --- against an S3-compatible server on loopback ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3():
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    values = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        import s3fs

        s3fs.S3FileSystem(skip_instance_cache=True).mkdir("bucket")
        yield values
    server.stop()


@pytest.mark.process
@pytest.mark.filterwarnings("ignore")
def test_objects_move_to_s3_in_parts_and_come_back(book, s3, monkeypatch, tmp_path):
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    cloud = replace(book, config=Config(artifact_store="s3://bucket/team"))
    large = os.urandom(1 << 20) * 60  # above 50 MiB, s3fs uploads several parts
    digests = keep(cloud, b"", b"small", large)
    state = upload_pending(cloud)
    assert (state.error, state.pending, local(cloud)) == ("", 0, [])
    store = FsspecStore("s3://bucket/team")
    assert sorted(store.digests()) == sorted(digests)
    assert store.digest_of(digests[2]) == (hashlib.sha256(large).hexdigest(), len(large))
    store.get(digests[1], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"small"
    store.remove(digests[1])
    assert store.size(digests[1]) is None
    missing = replace(book, config=Config(artifact_store="s3://no-such-bucket/team"))
    keep(missing, b"more")
    assert "s3://no-such-bucket/team" in upload_pending(missing).error
    assert len(local(missing)) == 1


@pytest.mark.process
def test_an_uploader_that_is_killed_in_the_middle_is_resumed(book, tmp_path):
    digests = keep(book, *(bytes([number]) * (1 << 20) for number in range(1, 13)))
    # The uploader stops for ever at its sixth object, in the middle of the copy.
    program = (
        "import sys, time; from pathlib import Path; from dataclasses import replace\n"
        "from labbook.artifacts import file_copy, upload\n"
        "from labbook.store.config import Config; from labbook.store.notebook import Notebook\n"
        "from labbook.store.paths import NotebookPaths\n"
        "book = Notebook(NotebookPaths(Path(sys.argv[1])), Config(artifact_store=sys.argv[2]))\n"
        "write, count = file_copy._write_all, [0]\n"
        "def slow(handle, chunk, at):\n"
        "    count[0] += 1\n"
        "    write(handle, chunk[:1000] if count[0] == 6 else chunk, at)\n"
        "    if count[0] == 6: print('half', flush=True); time.sleep(600)\n"
        "file_copy._write_all = slow\n"
        "upload.upload_pending(book)\n"
    )
    command = [sys.executable, "-c", program, str(book.paths.root), str(tmp_path / "store")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as uploader:
        assert uploader.stdout is not None
        assert uploader.stdout.readline() == b"half\n"
        assert upload_state(book).running
        uploader.send_signal(signal.SIGKILL)
    assert upload_state(book).pending == 7
    assert not upload_state(book).running
    stored = ObjectFolder(tmp_path / "store")
    assert all(stored.digest_of(digest)[0] == digest for digest in stored.digests())
    assert upload_pending(book).pending == 0
    assert sorted(stored.digests()) == sorted(digests)


@pytest.mark.process
def test_an_upload_in_the_background_ends_by_itself(book, tmp_path):
    (book.paths.root / "labbook.toml").write_text(f'commit = "off"\nartifact_store = "{tmp_path / "store"}"\n')
    keep(book, b"1", b"2")
    assert start_upload(book)
    deadline = time.monotonic() + 60
    while local(book) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert local(book) == []


def test_bad_digests_cannot_name_other_files(tmp_path):
    for name in ("../../etc/passwd", "", "AB" * 32, "a" * 63):
        with pytest.raises(ValueError, match="not a digest"):
            ObjectFolder(tmp_path).path(name)
    assert object_store.ObjectFolder(tmp_path).size("a" * 64) is None


@in_one_test(
    ("address", "shown"),
    [
        ("s3://bucket/labbook?token=abc", "s3://bucket/labbook"),
        ("webdav://wei:secret@host/x", "webdav://host/x"),
        ("HOME/kept", "~/kept"),
        ("/mnt/team", "/mnt/team"),
        ("", ""),
    ],
)
def test_an_entry_shows_the_store_without_secrets_and_names(address, shown):
    from labbook.report.entry.entry_page import _display_store

    assert _display_store(address.replace("HOME", str(Path.home()))) == shown
