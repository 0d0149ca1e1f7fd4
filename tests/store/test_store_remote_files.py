"""Kept files and data sets on real servers of this machine: SFTP by OpenSSH, and WebDAV."""

from __future__ import annotations

import hashlib
import os
import threading

import pytest

from benchmarks._git_servers import find_sshd, ssh_server
from labbook.artifacts.object_store import FsspecStore
from labbook.dataset.dataset_store import DatasetStore
from labbook.errors import NotebookError
from labbook.store.remote_files import open_files

pytestmark = pytest.mark.process


@pytest.fixture
def sftp(tmp_path, monkeypatch):
    pytest.importorskip("paramiko")
    if find_sshd() is None:
        pytest.skip("OpenSSH with its server is not installed")
    with ssh_server(tmp_path / ".ssh") as (port, _):
        monkeypatch.setenv("HOME", str(tmp_path))  # where paramiko looks for keys
        yield f"sftp://127.0.0.1:{port}{tmp_path}/stored"


@pytest.fixture
def webdav(tmp_path):
    pytest.importorskip("webdav4")
    dav = pytest.importorskip("wsgidav.wsgidav_app")
    provider = pytest.importorskip("wsgidav.fs_dav_provider").FilesystemProvider
    wsgi = pytest.importorskip("cheroot.wsgi")
    (tmp_path / "served").mkdir()
    users = {"*": {"wei": {"password": "hunter2/pass"}}}
    settings = {
        "provider_mapping": {"/": provider(str(tmp_path / "served"))},
        "simple_dc": {"user_mapping": users},
        "http_authenticator": {"accept_digest": False, "default_to_digest": False},
        "logging": {"enable": False},
        "verbose": 0,
    }
    server = wsgi.Server(("127.0.0.1", 0), dav.WsgiDAVApp(settings))
    server.prepare()
    threading.Thread(target=server.serve, daemon=True).start()
    yield f"webdav://wei:hunter2%2Fpass@127.0.0.1:{server.bind_addr[1]}/a%20team/stored"
    server.stop()


@pytest.fixture(params=["sftp", "webdav"])
def address(request):
    return request.getfixturevalue(request.param)


def test_a_server_keeps_files_and_gives_them_back(address, tmp_path):
    store = FsspecStore(address)
    assert "hunter2" not in store.label
    for content in (b"", b"weights", os.urandom(5 << 20)):
        source, back, digest = tmp_path / "source", tmp_path / "back", hashlib.sha256(content).hexdigest()
        source.write_bytes(content)
        assert store.size(digest) is None
        for _ in range(2):
            store.put(source, digest)
            assert store.digest_of(digest) == (digest, len(content))
        assert (store.size(digest), list(store.digests())) == (len(content), [digest])
        store.get(digest, back)
        assert back.read_bytes() == content
        back.unlink()
        store.remove(digest)
        assert (store.size(digest), list(store.digests())) == (None, [])


def test_a_data_set_on_a_server_is_replaced_month_by_month(address):
    tables = ("runs", "params", "metrics", "series", "checks", "findings", "fixes", "environments", "artifacts")
    for content in (b"first", b"second"):
        store = DatasetStore(address)
        runs = {"20261122-010100-0000": content.decode()}
        store.stage("2026-11", iter([(table, content) for table in tables]), runs)
        store.exchange({"2026-11": runs}, [], store.manifest())
        again = DatasetStore(address)
        assert (again.runs("2026-11"), again.table("runs", "2026-11")) == (runs, content)
        assert again.manifest().exchanging == ()


def test_no_password_is_in_the_error_of_a_data_set():
    pytest.importorskip("webdav4")
    with pytest.raises(NotebookError) as caught:
        DatasetStore("webdav://wei:hunter2pass@127.0.0.1:1/x").manifest()
    assert "hunter2pass" not in caught.value.message


@pytest.mark.parametrize(("scheme", "server"), [("webdav", "http"), ("webdavs", "https")])
def test_the_scheme_says_whether_webdav_is_encrypted(scheme, server):
    pytest.importorskip("webdav4")
    files, path = open_files(f"{scheme}://cloud.example.com/remote.php/dav", "errors.store.artifact_store_advice")
    assert (str(files.client.base_url), path) == (f"{server}://cloud.example.com", "/remote.php/dav")


def test_a_file_system_gets_no_option_that_it_does_not_know():
    """As the one for SFTP, which passes all options to the connection."""
    fsspec = pytest.importorskip("fsspec")

    class Strict(fsspec.AbstractFileSystem):
        protocol = "strict"

        def __init__(self, host="", **options):
            assert not options
            super().__init__()

    fsspec.register_implementation("strict", Strict, clobber=True)
    assert open_files("strict://path", "errors.store.artifact_store_advice")[1].endswith("path")
