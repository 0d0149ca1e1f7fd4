"""The journal survives whatever a killed process leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys

import pytest

from labbook.errors import NotebookError, UsageError
from labbook.store.journal import Journal, open_journals, remove_drafts, write_atomically
from labbook.store.paths import NotebookPaths, is_run_id, new_run_id


@pytest.fixture
def journal(tmp_path):
    made = Journal(NotebookPaths(tmp_path).journal(new_run_id()))
    made.create()
    yield made
    made.release()


def test_only_its_owner_can_read_it(journal):
    assert stat.S_IMODE(journal.paths.root.stat().st_mode) == 0o700


@pytest.mark.process
def test_a_second_recorder_cannot_claim_it(journal):
    code = (
        "import sys; from pathlib import Path; from labbook.store.journal import Journal;"
        "from labbook.store.paths import JournalPaths; print(Journal(JournalPaths(Path(sys.argv[1]))).claim())"
    )
    ask = [sys.executable, "-c", code, str(journal.paths.root)]

    assert subprocess.run(ask, capture_output=True, text=True).stdout.strip() == "False"
    journal.release()
    assert subprocess.run(ask, capture_output=True, text=True).stdout.strip() == "True"


@pytest.mark.parametrize(
    "line",
    [b'{"k": "step", "st', b"\x00\xff\x00garbage", b"[1, 2]", b'{"no": "kind"}', b"[" * 5000, b'{"k": 3}'],
    ids=["torn", "binary", "list", "no kind", "deep", "kind is a number"],
)
def test_a_corrupt_line_is_counted_and_the_rest_works(journal, line):
    good = json.dumps({"k": "hello", "t": 1.0}).encode()
    after = json.dumps({"k": "step", "step": 1}).encode()
    (journal.paths.events / "h-1-1.jsonl").write_bytes(good + b"\n" + line + b"\n" + after + b"\n")

    (process,) = journal.processes()

    assert [e["k"] for e in process.events] == ["hello", "step"]
    assert process.broken_lines == 1


def test_an_endless_line_is_not_an_event(journal):
    (journal.paths.events / "h-1-1.jsonl").write_bytes(b'{"k": "x", "a": "' + b"a" * 5_000_000 + b'"}\n')

    assert journal.processes()[0].events == ()


def test_a_journal_is_deleted_even_if_a_file_was_written_again(journal):
    journal.write(journal.paths.start, {"id": journal.run_id})
    assert not journal.is_deleted()
    shutil.rmtree(journal.paths.root)
    assert journal.is_deleted()
    journal.paths.root.mkdir()
    journal.write(journal.paths.start, {"id": journal.run_id})

    assert journal.is_deleted()


def test_a_damaged_file_reads_as_empty(journal):
    journal.paths.end.write_text('{"code": ')

    assert journal.read(journal.paths.end) == {}


def test_a_failed_write_leaves_the_old_content(tmp_path):
    target = tmp_path / "facts.json"
    write_atomically(target, b"old")
    tmp_path.chmod(0o500)
    try:
        with pytest.raises((OSError, TypeError)):
            write_atomically(target, None)  # type: ignore[arg-type]
    finally:
        tmp_path.chmod(0o700)

    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["facts.json"]


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path):
    (tmp_path / ".labbook").write_text("a file stands here")

    with pytest.raises(NotebookError, match="cannot write the journal"):
        Journal(NotebookPaths(tmp_path).journal(new_run_id())).create()


def test_only_journals_that_are_not_done_are_open(journal, tmp_path):
    assert [j.run_id for j in open_journals(NotebookPaths(tmp_path))] == [journal.run_id]
    journal.write(journal.paths.done, {"commit": "x"})
    assert list(open_journals(NotebookPaths(tmp_path))) == []


def test_drafts_of_killed_writers_are_removed_and_fresh_ones_are_not(tmp_path):
    names = [".a.md.7.tmp", ".b.md.8.tmp", ".own.tmp", "c.9.tmp"]
    for name in names:
        (tmp_path / name).write_text("")
    for name in names[1:]:
        os.utime(tmp_path / name, (0, 0))
    remove_drafts(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.md.7.tmp", ".own.tmp", "c.9.tmp"]


def test_two_writers_with_one_process_id_do_not_write_into_one_draft(tmp_path, monkeypatch):
    """As threads, and as containers that share a folder."""
    page, sync = tmp_path / "page.md", os.fsync

    def write_between(descriptor):
        monkeypatch.setattr(os, "fsync", sync)
        write_atomically(page, b"another page")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", write_between)
    write_atomically(page, b"a page")
    assert page.read_bytes() == b"a page"
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]


def test_a_run_id_names_nothing_outside_the_notebook(tmp_path):
    paths = NotebookPaths(tmp_path)

    for hostile in ("../../etc/passwd", "20261121-153012-../a", "", "20261121-153012-", "2026112１-153012-k3f9"):
        assert not is_run_id(hostile)
        with pytest.raises(UsageError):
            paths.entry(hostile)


def test_entries_lie_by_date(tmp_path):
    path = NotebookPaths(tmp_path).entry("20261121-153012-k3f9")

    assert path.relative_to(tmp_path).as_posix() == "notes/runs/2026/11/21/20261121-153012-k3f9.md"


def test_of_one_second_the_later_run_has_the_later_id():
    now = 1795275012.5
    ids = []
    for _ in range(200):
        ids.append(new_run_id(now, ids))
    assert all(is_run_id(run_id) for run_id in ids)
    assert ids == sorted(set(ids))
    assert new_run_id(now + 1, ids)[:15] != ids[0][:15]
    assert is_run_id(new_run_id(now, ["20261121-153012-zzzz", "20261121-153012-0l1"]))
