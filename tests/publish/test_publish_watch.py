from __future__ import annotations

import threading
import time

import pytest

from labbook.publish.site.file_watch import _watched_name, changes


@pytest.mark.parametrize("polling", [False, True])
def test_changes_of_notes_come_together(notes, polling):
    notes.run("20261120-100000-aaaa")
    stopped = threading.Event()
    seen: list[list[str]] = []

    def watch() -> None:
        for changed in changes(notes.notebook, polling=polling, stop=stopped.is_set):
            seen.append(changed)
            stopped.set()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        deadline = time.monotonic() + 90
        number = 0
        while not seen and time.monotonic() < deadline:
            number += 1
            notes.run("20261121-100000-bbbb", f"text {number}")
            (notes.folder / "notes" / ".hidden.tmp").write_text("x")
            (notes.folder / "unrelated.py").write_text(str(number))
            time.sleep(1.5)
    finally:
        stopped.set()
        thread.join(90)
    assert "notes/runs/2026/11/21/20261121-100000-bbbb.md" in seen[0]
    assert not [name for changed in seen for name in changed if "hidden" in name or "unrelated" in name]


def test_reading_is_no_change(notes):
    file = notes.run("20261120-100000-aaaa")
    stopped = threading.Event()
    seen: list[list[str]] = []
    thread = threading.Thread(target=lambda: seen.extend(changes(notes.notebook, stop=stopped.is_set)))
    thread.start()
    try:
        for _ in range(10):
            file.read_text()
            time.sleep(0.1)
    finally:
        time.sleep(1)
        stopped.set()
        thread.join(90)
    assert seen == []


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("notes/a.md", "notes/a.md"),
        ("mkdocs.yml", "mkdocs.yml"),
        ("labbook.toml", "labbook.toml"),
        ("templates/site/x.css", "templates/site/x.css"),
        ("site/index.html", ""),
        (".labbook/index.sqlite", ""),
        ("notes/.x.md.123.tmp", ""),
        ("notes/a.md~", ""),
        ("../elsewhere.md", ""),
    ],
)
def test_what_the_site_depends_on(notes, path, name):
    assert _watched_name(notes.notebook, str(notes.folder / path)) == name
