"""Whatever lies in a notebook, its site is built, and what was left out is reported with the way to mend it."""

from __future__ import annotations

import os
import shutil

import pytest
from order_of_tests import further
from site_settings import write_site_settings

from labbook.publish.site.site_build import build_site

pytestmark = pytest.mark.process

RUN, OTHER = "20261121-153012-k3f9", "20261120-100000-aaaa"


@pytest.fixture
def book(notes):
    write_site_settings(notes.folder)
    return notes


def page(built, path: str) -> str:
    return (built.folder / path).read_text(encoding="utf-8")


def test_an_empty_notebook(book):
    built = build_site(book.notebook, workers=1)

    assert built.warnings == () and "No runs in this notebook yet" in page(built, "index.html")
    for name in ("runs/index.html", "experiments/index.html", "symptoms/index.html", "fixes/index.html", "404.html"):
        assert "Team" in page(built, name)
    assert build_site(book.notebook, workers=1).rendered == 0


def test_one_entry(book):
    book.run(RUN, "alone")
    built = build_site(book.notebook, workers=1)

    assert built.warnings == () and "alone" in page(built, f"runs/2026/11/21/{RUN}.html")
    assert "Previous run" not in page(built, f"runs/2026/11/21/{RUN}.html")


def test_the_same_id_twice(book):
    first = book.run(RUN, "the first")
    copy = book.folder / "notes/runs/2026/11/20" / first.name
    copy.parent.mkdir(parents=True)
    copy.write_text(first.read_text().replace("the first", "the copy"))

    built = build_site(book.notebook, workers=1)

    assert "the first" in page(built, f"runs/2026/11/21/{RUN}.html")
    assert "the copy" in page(built, f"runs/2026/11/20/{RUN}.html")


def test_dead_links_and_anchors(book):
    book.run(
        RUN, f"[gone](../20/{OTHER}.md) [nowhere](#nowhere) ![curve]({RUN}/curves.svg) [up](../../../../../../x.md)"
    )

    built = build_site(book.notebook, workers=1)

    warnings = "\n".join(built.warnings)
    assert "curves.svg" in warnings and f"{RUN}.md" in warnings
    assert f"{OTHER}.md" not in warnings, "links to deleted runs become text, without a warning"
    assert "gone" in page(built, f"runs/2026/11/21/{RUN}.html")


def test_a_huge_entry_is_shown_as_text(book):
    book.run(RUN, "line of text\n" * 60_000)

    built = build_site(book.notebook, workers=1)

    assert any("600000 characters" in seen for seen in built.warnings)
    assert len(page(built, f"runs/2026/11/21/{RUN}.html")) < 2_000_000


MORE_NAMES = (
    'a b & c <d> "e".md',
    "100%.md",
    "{{ x }}.md",
    "a#b.md",
    "a?b.md",
    "'.md",
    "-rf.md",
    "con.md",
    "x" * 200 + ".md",
    "a:b.md",
    "UPPER.MD",
    "no extension",
)


@pytest.mark.parametrize(
    "name",
    [
        "损失 变成 NaN.md",
        *further(*MORE_NAMES),
    ],
)
def test_odd_names(book, name):
    book.page(name, "# Odd\n\nfound me\n")
    book.run(RUN)

    built = build_site(book.notebook, workers=1)

    assert page(built, f"runs/2026/11/21/{RUN}.html")
    if name.endswith(".md"):
        assert "found me" in page(built, name.removesuffix(".md") + ".html")
    assert build_site(book.notebook, workers=1).rendered == 0


def test_a_name_that_is_no_text(book):
    book.run(RUN, "fine")
    (book.folder / "notes" / os.fsdecode(b"bad\xff.md")).write_text("# bad name\n")

    built = build_site(book.notebook, workers=1)

    assert "fine" in page(built, f"runs/2026/11/21/{RUN}.html")
    assert any("bad" in seen and "rename" in seen for seen in built.warnings)


def test_a_half_written_entry(book):
    whole = book.run(RUN, "text").read_text()
    for length in (1, 5, len(whole) // 3, len(whole) - 5):
        book.page(f"runs/2026/11/20/20261120-1000{length % 60:02d}-aaaa.md", whole[:length])

    built = build_site(book.notebook, workers=1)

    assert any("has no end" in seen and "2026/11/20" in seen for seen in built.warnings)
    assert built.pages >= 10


def test_a_file_that_cannot_be_read(book):
    book.run(OTHER, "fine")
    file = book.run(RUN)
    file.unlink()
    file.symlink_to("nowhere.md")
    (book.folder / "notes" / "loop.md").symlink_to("loop.md")

    for _ in range(2):
        built = build_site(book.notebook, workers=1)
        assert any(f"{RUN}.md" in seen and "cannot be read" in seen for seen in built.warnings)
        assert "fine" in page(built, f"runs/2026/11/20/{OTHER}.html")


def test_a_folder_where_a_page_belongs(book):
    book.run(RUN)
    build_site(book.notebook, workers=1)
    target = book.folder / f"site/runs/2026/11/21/{RUN}.html"
    target.unlink()
    (target / "deep").mkdir(parents=True)

    assert page(build_site(book.notebook, workers=1), f"runs/2026/11/21/{RUN}.html")


def test_a_file_where_a_folder_belongs_in_a_site_that_is_a_link(book, tmp_path):
    (tmp_path / "www").mkdir()
    (book.folder / "site").symlink_to(tmp_path / "www")
    book.page("ideas", "x")
    build_site(book.notebook, workers=1, folder=book.folder / "site")
    (book.folder / "notes" / "ideas").unlink()
    book.page("ideas/first.md", "x")
    book.run(RUN)

    build_site(book.notebook, workers=1, folder=book.folder / "site")

    assert (tmp_path / "www" / "ideas" / "first.html").is_file()
    assert (tmp_path / "www" / f"runs/2026/11/21/{RUN}.html").is_file() and (book.folder / "site").is_symlink()


def test_a_missing_month_and_a_missing_site(book):
    book.run(RUN)
    book.run("20261020-100000-bbbb", "october")
    build_site(book.notebook, workers=1)
    shutil.rmtree(book.folder / "notes/runs/2026/10")
    shutil.rmtree(book.folder / "site")

    built = build_site(book.notebook, workers=1)

    assert not (built.folder / "runs/2026/10").exists() and page(built, "runs/2026/11/index.html")


def test_an_empty_file_and_an_empty_folder(book):
    book.page("empty.md", "")
    (book.folder / "notes" / "nothing").mkdir()
    book.page("runs/index.md", "# Our own list\n")

    built = build_site(book.notebook, workers=1)

    assert page(built, "empty.html") and "Our own list" in page(built, "runs/index.html")
