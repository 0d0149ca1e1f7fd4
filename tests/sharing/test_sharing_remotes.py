"""Real remotes on this machine: git's own daemon and HTTP server, and remotes that refuse, hang or were replaced."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sharing_clones import (
    assert_code_untouched,
    call_git,
    copy_clones,
    disk,
    make_template,
    open_clone,
    sync,
    tip,
    write_entry,
    write_note,
)

from benchmarks._git_servers import find_sshd, free_port, http_git_server, ssh_server, wait_for_port
from labbook.errors import GitError
from labbook.sharing import tree_diff
from labbook.sharing.remote_git import Remote, choose_remote
from labbook.sharing.synchronize import synchronize
from labbook.store.commit.entry_commit import commit_files

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return make_template(tmp_path_factory.mktemp("remotes") / "template")


@pytest.fixture
def pair(template, tmp_path):
    return copy_clones(template, tmp_path / "team", 2)


def labbook(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labbook", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def run_id(number: int) -> str:
    return f"20261122-0101{number:02d}-{number:04d}"


def point_to(books, address: str) -> None:
    for book in books:
        call_git(book.paths.root, "config", "remote.origin.url", address)


def exchange(books) -> None:
    """Each clone records, both share, and both have both."""
    for number, book in enumerate(books):
        write_entry(book, run_id(number), f"sentence {number}")
    for book in (*books, *books):
        sync(book)
    assert tip(books[0]) == tip(books[1])
    for book in books:
        assert {run_id(0), run_id(1)} <= {path.stem for path in book.paths.notes.rglob("*.md")}
        assert_code_untouched(book)


def test_two_people_share_through_the_daemon_of_git(pair):
    port, base = free_port(), pair[0].paths.root.parent
    command = ["git", "daemon", f"--port={port}", "--listen=127.0.0.1", "--export-all", "--enable=receive-pack"]
    daemon = subprocess.Popen([*command, f"--base-path={base}", str(base)], stderr=subprocess.DEVNULL)
    try:
        point_to(pair, f"git://127.0.0.1:{port}/remote.git")
        wait_for_port(port)
        exchange(pair)
    finally:
        daemon.terminate()
        daemon.wait()


def test_two_people_share_over_http_and_no_password_is_printed(pair):
    with http_git_server(pair[0].paths.root.parent) as port:
        point_to(pair, f"http://wei:hunter2secret@127.0.0.1:{port}/remote.git")
        exchange(pair)
        point_to(pair, f"http://wei:hunter2secret@127.0.0.1:{port}/nowhere.git")
        with pytest.raises(GitError) as error:
            sync(pair[0])
        assert "hunter2secret" not in f"{error.value.message} {error.value.hint}"


@pytest.fixture
def ssh_address(tmp_path, monkeypatch):
    """The address of an OpenSSH server, with git's ssh set to use it."""
    if find_sshd() is None:
        pytest.skip("OpenSSH with its server is not installed")
    with ssh_server(tmp_path / "ssh") as (port, client):
        monkeypatch.setenv("GIT_SSH_COMMAND", client)
        yield f"ssh://127.0.0.1:{port}"


def test_two_people_share_over_ssh(pair, ssh_address, monkeypatch):
    base = pair[0].paths.root.parent
    point_to(pair, f"{ssh_address}{base}/remote.git")
    exchange(pair)
    point_to(pair, f"{ssh_address}{base}/nowhere-403.git")  # no status of HTTP
    with pytest.raises(GitError, match="there is no repository at"):
        sync(pair[0])
    monkeypatch.setenv("GIT_SSH_COMMAND", os.environ["GIT_SSH_COMMAND"].replace("/id_ed25519 -o", "/host -o"))
    with pytest.raises(GitError, match="does not let you in"):
        sync(pair[0])


def test_a_folder_that_belongs_to_somebody_else_is_named_with_the_command_that_helps(pair):
    server = "GIT_TEST_ASSUME_DIFFERENT_OWNER=1 git-upload-pack"
    call_git(pair[0].paths.root, "config", "remote.origin.uploadpack", server)
    with pytest.raises(GitError, match=r"belongs to another user.*git config --global --add safe\.directory"):
        sync(pair[0])


def test_a_remote_whose_disk_is_full_loses_nothing(pair):
    write_entry(pair[0], run_id(0), "before the disk was full")
    sync(pair[0])
    data = pair[1].paths.attachments(run_id(1)) / "figure.bin"
    write_entry(pair[1], run_id(1), "mine")
    data.write_bytes(os.urandom(200_000))
    assert commit_files(pair[1], [data], "figure\n").status == "committed"
    # As on a full disk, the server cannot write more than a few KiB.
    call_git(pair[1].paths.root, "config", "remote.origin.receivepack", "trap '' XFSZ; ulimit -f 16; git-receive-pack")
    for _ in range(2):
        with pytest.raises(GitError, match=r"disk of origin .* is full"):
            sync(pair[1])
    assert {run_id(0), run_id(1)} <= {path.stem for path in pair[1].paths.notes.rglob("*.md")}
    call_git(pair[1].paths.root, "config", "--unset", "remote.origin.receivepack")
    for book in (pair[1], pair[0]):
        sync(book)
    assert tip(pair[0]) == tip(pair[1])
    assert (pair[0].paths.attachments(run_id(1)) / "figure.bin").read_bytes() == data.read_bytes()


def test_a_branch_in_the_way_of_the_notebook_is_named_at_once(pair):
    call_git(pair[1].paths.root, "push", "-q", "origin", "main:refs/heads/labbook/site")
    write_entry(pair[0], run_id(0), "mine")
    with pytest.raises(GitError, match=r"in the way.* names: remote: error.*'refs/heads/labbook/site' exists"):
        sync(pair[0])
    call_git(pair[1].paths.root, "push", "-q", "origin", "--delete", "labbook/site")
    sync(pair[0])


def test_a_remote_that_is_silent_is_given_up(pair):
    write_entry(pair[0], run_id(0), "kept")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        point_to(pair, f"git://127.0.0.1:{silent.getsockname()[1]}/remote.git")
        with pytest.raises(GitError, match=r"did not answer for 0\.5 s"):
            synchronize(choose_remote(pair[0], timeout_s=0.5))
    assert run_id(0) in "".join(disk(pair[0]))


def test_a_remote_that_refuses_says_why_and_its_entries_are_read(pair):
    write_entry(pair[0], run_id(0), "shared before")
    sync(pair[0])
    hook = pair[0].paths.root.parent / "remote.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'only the lead may push' >&2\nexit 1\n")
    hook.chmod(0o755)
    write_entry(pair[1], run_id(1), "mine")
    with pytest.raises(GitError, match="only the lead may push"):
        sync(pair[1])
    assert {run_id(0), run_id(1)} <= {path.stem for path in pair[1].paths.notes.rglob("*.md")}
    hook.unlink()
    sync(pair[1])
    sync(pair[0])
    assert tip(pair[0]) == tip(pair[1])


def test_a_new_entry_takes_one_connection_and_what_others_sent_first_is_merged(pair, monkeypatch):
    for number in range(2):
        write_entry(pair[0], run_id(number), f"sentence {number}")
        sync(pair[0])
    fetches = []
    real = Remote.start_fetch
    monkeypatch.setattr(Remote, "start_fetch", lambda *given, **more: fetches.append(1) or real(*given, **more))
    write_entry(pair[0], run_id(2), "sentence 2")
    assert (sync(pair[0]).sent, len(fetches)) == (1, 0)
    sync(pair[1])
    for number, book in enumerate((pair[1], pair[0]), start=3):
        write_entry(book, run_id(number), f"sentence {number}")
        write_note(book, f"note{number}.md", f"# edited while the remote answers, {number}\n")
        result = sync(book)
        assert (result.sent, result.sent_files) == (1, 3)
    assert result.received == 1
    assert all(run_id(number) in "".join(disk(pair[0])) for number in range(5))


def test_somebody_who_was_faster_between_fetch_and_push_is_merged(pair, monkeypatch):
    for number, book in enumerate(pair):
        write_entry(book, run_id(number), f"sentence {number}")
    push, pushes = Remote.push, []

    def push_second(remote, commit, ref):
        pushes.append(remote)
        if len(pushes) == 1:
            sync(pair[0])
        return push(remote, commit, ref)

    monkeypatch.setattr(Remote, "push", push_second)
    sync(pair[1])
    assert len(pushes) == 3, "the first of this clone, that of the other, and the next of this one"
    assert {run_id(0), run_id(1)} <= {path.stem for path in pair[1].paths.notes.rglob("*.md")}
    assert tip(pair[1]) == call_git(pair[1].paths.root.parent / "remote.git", "rev-parse", "labbook")


@pytest.mark.parametrize("new_entry", [False, True])
@pytest.mark.parametrize("decision", ["keep", "follow"])
def test_a_replaced_history_is_asked_about(pair, decision, new_entry):
    for number in range(2):
        write_entry(pair[0], run_id(number), f"sentence {number}")
    sync(pair[0])
    sync(pair[1])
    remote = pair[0].paths.root.parent / "remote.git"
    call_git(remote, "update-ref", "refs/heads/labbook", "refs/heads/labbook~1")
    if new_entry:
        write_entry(pair[1], run_id(2), "sentence 2")
    with pytest.raises(GitError, match="force-push"):
        sync(pair[1])
    assert run_id(1) in "".join(disk(pair[1])), "nothing is lost before the decision"
    sync(pair[1], rewritten=decision)
    assert (run_id(1) in "".join(disk(pair[1]))) == (decision == "keep")
    assert run_id(0) in "".join(disk(pair[1]))
    assert (run_id(2) in call_git(remote, "ls-tree", "-r", "--name-only", "labbook")) == new_entry


def test_the_remote_is_chosen(pair):
    book = pair[0]
    call_git(book.paths.root, "remote", "rename", "origin", "team")
    assert choose_remote(book).name == "team", "the only one"
    call_git(book.paths.root, "remote", "add", "backup", "../other.git")
    with pytest.raises(GitError, match="has several remotes"):
        choose_remote(book)
    assert choose_remote(book, "backup").name == "backup"
    with pytest.raises(GitError, match="no remote nowhere"):
        choose_remote(book, "nowhere")
    call_git(book.paths.root, "remote", "remove", "team")
    call_git(book.paths.root, "remote", "remove", "backup")
    with pytest.raises(GitError, match="has no remote"):
        choose_remote(book)


def test_a_fresh_shallow_clone_finds_the_entries_and_shares(pair, tmp_path):
    write_entry(pair[0], run_id(0), "first")
    sync(pair[0])
    remote = pair[0].paths.root.parent / "remote.git"
    fresh = tmp_path / "fresh"
    call_git(tmp_path, "clone", "-q", "--depth", "1", "--no-single-branch", remote.as_uri(), str(fresh))
    call_git(fresh, "config", "user.name", "Li")
    call_git(fresh, "config", "user.email", "li@example.com")
    listed = labbook(fresh, "list")
    assert run_id(0)[-4:] in listed.stdout
    book = open_clone(fresh)
    write_entry(book, run_id(1), "second")
    sync(book)
    sync(pair[0])
    assert run_id(1) in "".join(disk(pair[0]))


def test_an_entry_is_shared_after_the_run(pair):
    root = pair[0].paths.root
    with (root / "labbook.toml").open("a") as settings:
        settings.write('sync = "after-run"\n')
    labbook(root, "record", "--", "python", "train.py")
    remote = root.parent / "remote.git"
    for _ in range(150):
        listed = call_git(remote, "ls-tree", "-r", "--name-only", "labbook", check=False)
        if "run.json" in listed:
            break
        time.sleep(0.1)
    assert "run.json" in listed
    shutil.rmtree(remote)
    assert labbook(root, "record", "--", "python", "train.py").returncode == 0
    for _ in range(150):
        printed = labbook(root, "list").stderr
        if "background failed" in printed:
            break
        time.sleep(0.2)
    assert "the last sync in the background failed" in printed


@pytest.mark.long
def test_eight_recorders_share_at_once(template, tmp_path):
    books = copy_clones(template, tmp_path / "eight", 8)
    for number, book in enumerate(books):
        write_entry(book, run_id(number), f"sentence {number}")
    failed: list[Exception] = []

    def share(book) -> None:
        try:
            sync(book)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=share, args=(book,)) for book in books]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    for book in books:
        sync(book)
    assert len({tip(book) for book in books}) == 1
    assert all(run_id(number) in "".join(disk(books[0])) for number in range(8))


def test_entries_on_the_checked_out_branch_are_shared(tmp_path):
    template = make_template(tmp_path / "own", 'language = "en"\nauthor = "Wei"\ncommit = "checkout"\n')
    books = copy_clones(template, tmp_path / "team", 2)
    for number, book in enumerate(books):
        write_entry(book, run_id(number), f"sentence {number}")
    for book in (*books, *books):
        sync(book)
    assert tip(books[0], "main") == tip(books[1], "main")
    for book in books:
        assert call_git(book.paths.root, "status", "--porcelain") == ""
        assert {run_id(0), run_id(1)} <= {Path(name).stem for name in disk(book)}


def test_a_new_entry_is_known_to_follow_without_asking_git(pair, monkeypatch):
    book = pair[0]
    folders = book.git_folders()
    write_entry(book, run_id(0), "first")
    first = tip(book)
    write_entry(book, run_id(1), "second")
    write_entry(book, run_id(2), "third")
    asked = []
    original = tree_diff.run_git
    monkeypatch.setattr(tree_diff, "run_git", lambda *given, **more: asked.append(given) or original(*given, **more))
    assert tree_diff.is_ancestor(folders, first, tip(book)) and not asked
    assert not tree_diff.is_ancestor(folders, tip(book), first) and asked
