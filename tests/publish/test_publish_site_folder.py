"""A site is written where the person says, or inside the notebook, and removes no file of somebody else."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from order_of_tests import further
from site_settings import write_site_settings

from labbook.errors import NotebookError
from labbook.publish.pages.build_record import files_below
from labbook.publish.site import incremental_build
from labbook.publish.site.site_build import build_site
from labbook.publish.site.site_folder import LIST

pytestmark = pytest.mark.process

RUN = "20261121-100000-aaaa"
ENGINES = ["mkdocs", pytest.param("zensical", marks=pytest.mark.long)]


@pytest.fixture
def book(notes):
    write_site_settings(notes.folder)
    notes.run(RUN, "text")
    return notes


@pytest.fixture
def outside(tmp_path):
    """A folder of somebody else beside the notebook."""
    folder = tmp_path / "www"
    (folder / "photos").mkdir(parents=True)
    (folder / "photos" / "cat.jpg").write_text("cat")
    (folder / "thesis.html").write_text("mine")
    return folder


def site_dir(book, value: str) -> None:
    file = book.folder / "mkdocs.yml"
    file.write_text(file.read_text().replace("site_dir: site", f"site_dir: {value}"))


def linked(book, outside):
    (book.folder / "site").symlink_to(outside)


def linked_above(book, outside):
    (book.folder / "public").symlink_to(outside.parent)
    site_dir(book, "public/www")


def beside(book, outside):
    site_dir(book, "../www")


def absolute(book, outside):
    site_dir(book, str(outside))


def link_inside(book, outside):
    (book.folder / "site").mkdir()
    (book.folder / "site" / "runs").symlink_to(outside)


def linked_mark(book, outside):
    (book.folder / "site").mkdir()
    (book.folder / "site" / ".nojekyll").symlink_to(outside / "made")


def own_git(book, outside):
    site_dir(book, ".git")


def files(folder: Path) -> dict[str, bytes]:
    return {path: (folder / path).read_bytes() for path in files_below(folder)}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "way",
    [linked, absolute, *further(linked_above, beside, link_inside, linked_mark, own_git)],
    ids=lambda way: way.__name__,
)
def test_a_notebook_cannot_send_its_site_outside(book, outside, way, engine):
    way(book, outside)
    before = files(outside)
    with pytest.raises(NotebookError, match="the site is not written to") as refused:
        build_site(book.notebook, workers=1, engine=engine)
    assert refused.value.hint
    command = [sys.executable, "-m", "mkdocs", "build", "-q"]
    done = subprocess.run(command, cwd=book.folder, capture_output=True, text=True, timeout=100)
    assert done.returncode and "the site is not written to" in done.stderr
    assert files(outside) == before


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("way", [linked, pytest.param(beside, marks=pytest.mark.long)], ids=lambda way: way.__name__)
def test_a_folder_named_on_the_command_line_keeps_the_files_of_others(book, outside, way, engine):
    way(book, outside)
    before = files(outside)
    folder = book.folder / "site" if way is linked else outside
    for _ in range(2):
        built = book.labbook("site", "build", "--site-dir", str(folder), "--engine", engine)
        assert str(folder) in built.stdout
    assert before.items() <= files(outside).items()
    page = outside / f"runs/2026/11/21/{RUN}.html"
    assert page.is_file()
    (book.folder / f"notes/runs/2026/11/21/{RUN}.md").unlink()
    book.labbook("site", "build", "--site-dir", str(folder), "--engine", engine)
    assert not page.exists() and before.items() <= files(outside).items()


def with_tags(book):
    file = book.folder / "mkdocs.yml"
    file.write_text(file.read_text().replace("plugins:\n", "plugins:\n  - tags\n"))


@pytest.mark.parametrize(
    ("whole", "lost"),
    [
        *((False, "nothing"), (True, "record")),
        *(
            pytest.param(whole, lost, marks=pytest.mark.long)
            for whole, lost in [(False, "record"), (False, "list"), (True, "nothing"), (True, "list")]
        ),
    ],
)
def test_only_what_labbook_wrote_is_removed(book, lost, whole):
    if whole:
        with_tags(book)
    site = build_site(book.notebook, workers=1).folder
    page = site / f"runs/2026/11/21/{RUN}.html"
    assert page.is_file() and page.relative_to(site).as_posix() in (site / LIST).read_text().splitlines()
    (site / "mine").mkdir()
    (site / "mine" / "x.html").write_text("mine")
    halves = [site / "runs" / ".123.tmp", site / ".123.tmp", site / f".{LIST}.123.tmp"]
    for half in halves:
        half.write_text("half")
    if lost == "record":
        (book.folder / ".labbook" / "site.json").unlink(missing_ok=True)
    elif lost == "list" and not whole:
        # As a site that an earlier version built.
        (site / LIST).unlink()
    (book.folder / f"notes/runs/2026/11/21/{RUN}.md").unlink()
    build_site(book.notebook, workers=1)
    assert not page.parent.exists() and not any(half.exists() for half in halves)
    assert (site / "mine" / "x.html").read_text() == "mine"
    assert "mine/x.html" not in (site / LIST).read_text()


@pytest.mark.parametrize("name", ["search/x", *further("runs", f"runs/2026/11/21/{RUN}.html/deep/x")])
def test_a_file_of_others_in_the_way_is_named(book, name):
    file = book.folder / "site" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    for _ in range(2):
        with pytest.raises(NotebookError, match="is in the way of the site") as refused:
            build_site(book.notebook, workers=1)
        assert "move it away" in refused.value.hint and file.read_text() == "mine"
    file.unlink()
    build_site(book.notebook, workers=1)


def test_links_in_the_private_folder_lead_zensical_nowhere(book, outside):
    pytest.importorskip("zensical")
    from labbook.publish.site.staging import _write

    staged = book.folder / ".labbook" / "zensical"
    staged.mkdir(parents=True)
    (staged / "docs").symlink_to(outside)
    before = files(outside)
    _write(staged, {"docs/index.md": b"x"})
    assert files(outside) == before and (staged / "docs" / "index.md").read_bytes() == b"x"


def test_the_search_of_this_build_and_of_a_killed_one_is_not_in_the_way(book, monkeypatch):
    """It is built beside the pages, and may be there before anything else, or be all that is there."""

    @contextmanager
    def at_once(work):
        work()
        if was_killed:
            raise KeyboardInterrupt
        yield lambda: None

    monkeypatch.setattr(incremental_build, "run_in_worker", at_once)
    was_killed = True
    with pytest.raises(KeyboardInterrupt):
        build_site(book.notebook, workers=2)
    assert (book.folder / "site" / "search").is_dir()

    was_killed = False
    assert build_site(book.notebook, workers=2).pages
