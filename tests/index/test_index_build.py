from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading

import pytest
from order_of_tests import in_one_test

from labbook.errors import NotebookError
from labbook.index import build, database
from labbook.index.documents import note_facets, read_note
from labbook.index.query import list_notes, search

FIRST, SECOND = "20261120-100000-aaaa", "20261121-110000-bbbb"


def paths(notes):
    return [entry.path for entry in list_notes(notes.notebook).entries]


def test_new_changed_and_removed_notes(notes):
    file = notes.run(FIRST, "alpha")
    assert build.refresh(notes.notebook).read == 1

    notes.run(SECOND, "beta")
    file.write_text(file.read_text().replace("alpha", "gamma"))
    assert build.refresh(notes.notebook).read == 2
    assert [hit.path for hit in search(notes.notebook, "gamma").hits] == [f"notes/runs/2026/11/20/{FIRST}.md"]

    file.unlink()
    assert build.refresh(notes.notebook).removed == 1
    assert paths(notes) == [f"notes/runs/2026/11/21/{SECOND}.md"]


def test_unchanged_files_are_not_read_again(notes):
    old = notes.run(FIRST, "alpha")
    os.utime(old, (1_000_000_000, 1_000_000_000))
    assert build.refresh(notes.notebook).read == 1
    assert build.refresh(notes.notebook).read == 0

    os.utime(old, (1_000_000_001, 1_000_000_001))
    assert build.refresh(notes.notebook).read == 0, "only touched: the same content"


def test_a_change_within_one_tick_of_the_clock_is_seen(notes):
    file = notes.run(FIRST, "alpha")
    build.refresh(notes.notebook)
    before = file.stat()

    file.write_text(file.read_text().replace("alpha", "delta"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert search(notes.notebook, "delta").total == 1


def test_only_the_named_files_are_looked_at(notes):
    first, second = notes.run(FIRST, "alpha"), notes.run(SECOND, "beta")

    assert build.refresh(notes.notebook, [first]).read == 1
    second.unlink()
    assert build.refresh(notes.notebook, [second]).removed == 0
    first.unlink()
    assert build.refresh(notes.notebook, [first]).removed == 1


def test_attachments_and_hidden_files_are_no_notes(notes):
    notes.run(FIRST)
    notes.page(f"runs/2026/11/20/{FIRST}/README.md", "attached")
    notes.page(".hidden.md", "hidden")
    (notes.folder / "notes" / "link.md").symlink_to("/etc/hostname")

    assert build.refresh(notes.notebook).read == 1


def test_one_broken_note_is_named_with_its_line_and_the_rest_works(notes):
    notes.run(FIRST, "alpha")
    notes.page("broken.md", "---\ntitle: [1\nid: x\n---\nfindme\n")

    refreshed = build.refresh(notes.notebook)

    assert len(refreshed.problems) == 1
    path, reason = refreshed.problems[0]
    assert path == "notes/broken.md" and "line" in reason and "notes/broken.md" in reason
    assert search(notes.notebook, "findme").hits[0].path == "notes/broken.md"
    assert paths(notes) == [f"notes/runs/2026/11/20/{FIRST}.md"]


@pytest.mark.parametrize("content", [b"", b"---\n", b"\xff\xfe\x00bad", b"---\n- a\n---\n", b"\x00" * 100])
def test_odd_files_do_not_stop_the_index(notes, content):
    notes.run(FIRST, "alpha")
    notes.page("odd.md", content)

    assert build.refresh(notes.notebook).read == 2
    assert search(notes.notebook, "alpha").total == 1


def test_a_name_that_is_no_text_is_passed_over(notes):
    notes.run(FIRST, "alpha")
    notes.page("bad\udcff.md", "alpha")

    assert search(notes.notebook, "alpha").total == 1


def test_a_damaged_index_is_made_again(notes):
    notes.run(FIRST, "alpha")
    build.refresh(notes.notebook)

    notes.notebook.paths.index.write_bytes(b"SQLite format 3\x00" + b"garbage" * 999)

    assert search(notes.notebook, "alpha").total == 1


def test_an_index_torn_in_the_middle_is_made_again(notes):
    for number in range(30):
        notes.run(f"20261120-1000{number:02d}-aaaa", "alpha " * 300)
    build.refresh(notes.notebook)
    index = notes.notebook.paths.index
    data = bytearray(index.read_bytes())
    data[4096:] = b"\x7f" * (len(data) - 4096)
    index.write_bytes(bytes(data))

    assert search(notes.notebook, "alpha").total == 30


def test_an_index_of_another_version_is_made_again(notes):
    notes.run(FIRST, "alpha")
    build.refresh(notes.notebook)
    with sqlite3.connect(notes.notebook.paths.index) as connection:
        connection.execute("DROP TABLE facets")
        connection.execute(f"PRAGMA user_version = {database.SCHEMA_VERSION + 1}")
    connection.close()

    assert search(notes.notebook, "alpha").total == 1


def test_the_index_can_be_deleted(notes):
    notes.run(FIRST, "alpha")
    build.refresh(notes.notebook)
    notes.notebook.paths.index.unlink()

    assert search(notes.notebook, "alpha").total == 1


def test_a_notebook_that_cannot_be_written_is_searched_all_the_same(notes):
    notes.run(FIRST, "alpha")
    # A file where the private folder should be: it cannot be made, whoever asks (root may write anywhere).
    notes.notebook.paths.private.write_text("in the way")

    assert search(notes.notebook, "alpha").total == 1
    assert search(notes.notebook, "alpha").refreshed.read in (0, 1)


def test_nothing_can_be_written_anywhere(notes, monkeypatch, tmp_path):
    notes.run(FIRST, "alpha")
    notes.notebook.paths.private.write_text("in the way")
    (tmp_path / "cache").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    assert search(notes.notebook, "alpha").total == 1


def test_a_sqlite_without_full_text_search_is_named():
    connection = sqlite3.connect(":memory:")
    database.require_module(connection)

    with pytest.raises(NotebookError, match="cannot search text") as caught:
        database.require_module(connection, "no_such_module")

    connection.close()
    assert "FTS5" in caught.value.hint


def test_words_of_removed_notes_do_not_pile_up(notes):
    file = notes.run(FIRST, "alpha")
    build.refresh(notes.notebook)
    with sqlite3.connect(notes.notebook.paths.index) as connection:
        connection.execute("UPDATE sqlite_sequence SET seq = 20000 WHERE name = 'notes'")
    connection.close()

    file.write_text(file.read_text() + "more\n")
    build.refresh(notes.notebook)

    assert search(notes.notebook, "alpha").total == 1
    with sqlite3.connect(notes.notebook.paths.index) as connection:
        assert connection.execute("SELECT max(id) FROM notes").fetchone()[0] < 100
    connection.close()


@pytest.mark.parametrize("executor", ["threads", pytest.param("processes", marks=pytest.mark.process)])
def test_the_index_is_the_same_whatever_reads_the_notes(notes, monkeypatch, executor):
    for number in range(30):
        notes.run(f"20261120-1000{number:02d}-aaaa", f"alpha {number}")
    monkeypatch.setattr(build, "_MANY", 10)
    monkeypatch.setattr(build, "_BATCH", 7)

    def content(chosen: str) -> list[str]:
        notes.notebook.paths.index.unlink(missing_ok=True)
        build.query_index(notes.notebook, lambda index: None, executor=chosen)
        with sqlite3.connect(notes.notebook.paths.index) as connection:
            # Without the times at which files and folders were read.
            rows = [str(row[:4]) for row in connection.execute("SELECT * FROM files ORDER BY path")]
            dump = [
                line
                for line in connection.iterdump()
                if not line.startswith(('INSERT INTO "files', 'INSERT INTO "folders', 'INSERT INTO "looked'))
            ]
        connection.close()
        return rows + dump

    one_after_the_other = content("")
    assert len(one_after_the_other) > 100
    assert content(executor) == one_after_the_other


def test_many_threads_refresh_at_once(notes):
    for number in range(40):
        notes.run(f"20261120-1000{number:02d}-aaaa", f"alpha {number}")
    found: list[int] = []

    def ask() -> None:
        found.append(search(notes.notebook, "alpha", 1).total)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [40] * 6


@pytest.mark.process
def test_processes_refresh_at_once_while_notes_arrive(notes):
    for number in range(20):
        notes.run(f"20261120-1000{number:02d}-aaaa", "alpha")
    code = (
        "import sys; from pathlib import Path; from labbook.index.build import refresh\n"
        "from labbook.store.notebook_finder import find_notebook\n"
        "book = find_notebook(Path(sys.argv[1]), chosen=Path(sys.argv[1]), environ={})\n"
        "for _ in range(8): refresh(book)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(notes.folder)]) for _ in range(3)]
    for number in range(20, 40):
        notes.run(f"20261120-1000{number:02d}-aaaa", "alpha")
    codes = [process.wait(60) for process in running]

    assert codes == [0, 0, 0]
    assert search(notes.notebook, "alpha").total == 40


@in_one_test(
    ("front", "body", "verdict"),
    [
        ("status: finished\nverdict: suspect", "", "suspect"),
        ("status: finished", "| x | y | z | **fail** |", "unhealthy"),
        ("status: failed", "", "failed"),
        ("status: finished", "", "unknown"),
    ],
)
def test_the_verdict_is_a_facet_of_older_entries_too(front, body, verdict):
    note = read_note(f"notes/runs/2026/11/20/{FIRST}.md", f"---\n{front}\n---\n{body}\n".encode(), 0.0)
    assert ("verdict", verdict) in set(note_facets(note)) and note.entry.meta["verdict"] == verdict
