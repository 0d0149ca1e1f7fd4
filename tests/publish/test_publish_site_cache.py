"""A site in the cache of a CI job: restored from an archive next to a new clone, only changed pages are built."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest
from site_settings import write_site_settings

from labbook.errors import UsageError
from labbook.index import build as index_build
from labbook.publish.pages.build_record import files_below
from labbook.publish.site import site_files
from labbook.publish.site.site_build import build_site

IDS = [f"20261121-1000{number:02d}-aaa{letter}" for number, letter in enumerate("abcdef")]


@pytest.fixture
def book(notes):
    write_site_settings(notes.folder)
    (notes.folder / "templates").mkdir()
    (notes.folder / "templates" / "own.txt").write_text("own")
    for number, run_id in enumerate(IDS):
        notes.run(run_id, f"text {number}", script=f"train{number}.py")
    return notes


def clone_of(book, folder: Path):
    """A clone has the same content, and none of the times and private files."""
    shutil.copytree(book.folder, folder, copy_function=shutil.copyfile, ignore=shutil.ignore_patterns(".labbook"))
    clone = type(book).__new__(type(book))
    clone.folder = folder
    return clone


def archived(cache: Path, to: Path) -> None:
    """A ZIP archive rounds times to two seconds and has no owners, like the caches of several CI services."""
    pack = to.with_suffix(".zip")
    with zipfile.ZipFile(pack, "w") as archive:
        for path in files_below(cache):
            archive.write(cache / path, path)
    with zipfile.ZipFile(pack) as archive:
        archive.extractall(to)
        for info in archive.infolist():
            os.utime(to / info.filename, (1_700_000_000, 1_700_000_000))


def pages(site: Path) -> dict[str, bytes]:
    return {path: (site / path).read_bytes() for path in files_below(site) if not path.startswith("search/")}


@pytest.mark.process
def test_after_a_new_clone_only_changed_pages_are_built(book, tmp_path, monkeypatch):
    first = build_site(book.notebook, workers=1, cache=tmp_path / "cache")
    assert first.rendered == first.pages and first.folder == tmp_path / "cache" / "site"
    assert not (book.folder / "site").exists()
    archived(tmp_path / "cache", tmp_path / "restored")
    clone = clone_of(book, tmp_path / "clone")
    read = []
    reader = index_build.read_note
    monkeypatch.setattr(index_build, "read_note", lambda *given: read.append(given[0]) or reader(*given))

    unchanged = build_site(clone.notebook, workers=1, cache=tmp_path / "restored")
    assert unchanged.rendered == 0 and unchanged.pages == first.pages
    assert not read, "the index in the cache knows the notes by their content"
    assert pages(unchanged.folder) == pages(first.folder)

    clone.run("20261122-100000-aaaz", "new", script="other.py")
    archived(tmp_path / "restored", tmp_path / "again")
    second = clone_of(clone, tmp_path / "second")
    (tmp_path / "again" / "site" / "runs" / "2026" / "11" / "21" / f"{IDS[0]}.html").write_text("damaged")
    changed = build_site(second.notebook, workers=1, cache=tmp_path / "again")
    # The new entry, the damaged page, and the pages that list runs.
    old = {f"runs/2026/11/21/{run_id}.html" for run_id in IDS}
    anew = build_site(second.notebook, workers=1, folder=tmp_path / "anew", everything=True)
    assert pages(changed.folder) == pages(anew.folder)
    assert 2 <= changed.rendered < changed.pages - len(old) // 2

    # Another version of labbook, with the same number: every page is built again.
    monkeypatch.setattr(site_files, "state_of_folders", lambda folders, **_: "another")
    assert build_site(second.notebook, workers=1, cache=tmp_path / "again").rendered == changed.pages


@pytest.mark.process
@pytest.mark.parametrize("content", [b'{"index.html": 3}', b"[" * 100_000])
def test_a_damaged_list_only_costs_time(book, tmp_path, content):
    state = tmp_path / "cache" / "state"
    state.mkdir(parents=True)
    (state / "files.json").write_bytes(content)
    (state / "site.json").write_bytes(content)
    (state / "index.sqlite").write_bytes(content)
    done = build_site(book.notebook, workers=1, cache=tmp_path / "cache")
    assert done.rendered == done.pages > len(IDS)


def test_the_other_engine_has_no_cache(book, tmp_path):
    with pytest.raises(UsageError, match="--cache"):
        build_site(book.notebook, engine="zensical", cache=tmp_path / "cache")
