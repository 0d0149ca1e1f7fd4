"""The site as Zensical makes it: the same pages and texts as with MkDocs, as safe."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest
from site_settings import write_site_settings

from labbook.errors import NotebookError
from labbook.publish.html.page_safety import page_problems, script_hashes
from labbook.publish.site.site_build import build_site

pytestmark = pytest.mark.skipif(find_spec("zensical") is None, reason="Zensical is not installed")

RUN, OTHER = "20261121-153012-k3f9", "20261120-100000-aaaa"
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)> {{ config }} {% raise %} [x](javascript:alert(4))"


@pytest.fixture
def book(notes):
    write_site_settings(notes.folder)
    from labbook.store.text import escape

    notes.run(
        OTHER,
        f"failed here\n\n| a |\n|---|\n| {escape.table_cell(EVIL)} |\n",
        symptoms=["loss_printed_nan"],
        status="failed",
        title=EVIL,
    )
    file = notes.folder / f"notes/runs/2026/11/20/{OTHER}.md"
    file.write_text(file.read_text().replace(f"# {EVIL}", f"# {escape.inline(EVIL)}"))
    folder = notes.run(RUN, f"**finished** ![loss]({RUN}/curves.svg) [other](../20/{OTHER}.md)").with_suffix("")
    folder.mkdir()
    (folder / "curves.svg").write_text("<svg/>")
    (folder / "run.json").write_text("{}")
    notes.page(
        "experiments/exp001_x_dynamic.md",
        "# X\n\n<!-- labbook:begin runs -->\n\nNone yet.\n\n<!-- labbook:end runs -->\n",
    )
    notes.page("ideas.md", "# Ideas\n\nmine\n")
    notes.page("broken.md", "---\nid: [\n---\n# broken\n")
    return notes


class Article(HTMLParser):
    """The words of a page's content."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.inside += tag == "article"

    def handle_endtag(self, tag):
        self.inside -= tag == "article"

    def handle_data(self, data):
        if self.inside:
            self.words += data.replace("¶", " ").split()


def words(page: Path) -> list[str]:
    parsed = Article()
    parsed.feed(page.read_text(encoding="utf-8"))
    return parsed.words


@pytest.mark.process
@pytest.mark.long
def test_the_same_pages_and_texts(book):
    site = build_site(book.notebook, workers=1).folder
    with_mkdocs = {page.relative_to(site).as_posix(): words(page) for page in site.rglob("*.html")}
    data = {page.relative_to(site).as_posix(): page.read_bytes() for page in (site / "data").rglob("*.json")}

    built = build_site(book.notebook, engine="zensical")

    assert built.folder == site and any("broken.md" in seen for seen in built.warnings)
    now = {page.relative_to(site).as_posix(): words(page) for page in site.rglob("*.html")}
    assert now.keys() == with_mkdocs.keys()
    for path in now.keys() - {"404.html"}:
        assert " ".join(now[path]) == " ".join(with_mkdocs[path]), path
    assert data == {page.relative_to(site).as_posix(): page.read_bytes() for page in (site / "data").rglob("*.json")}
    run = (site / f"runs/2026/11/21/{RUN}.html").read_text()
    assert f"../20/{OTHER}.html" in run and 'class="lb-status lb-finished"' in run and "assets/labbook.css" in run
    assert (site / f"runs/2026/11/21/{RUN}/curves.svg").is_file() and (site / "assets" / "labbook.css").is_file()
    assert not (site / f"runs/2026/11/21/{RUN}/run.json").exists()


@pytest.mark.process
def test_it_is_as_safe(book):
    book.page("evil.md", "# Evil\n\n<img src=x onerror='alert(1)'>\n\n</article><script>alert(2)</script>\n")

    built = build_site(book.notebook, engine="zensical")

    assert any("notes/evil.md" in seen and "onerror" in seen for seen in built.warnings)
    for page in built.folder.rglob("*.html"):
        text = page.read_text()
        rule = text.partition("script-src ")[2].partition(";")[0]
        scripts = script_hashes(text)
        assert text.count('http-equiv="Content-Security-Policy"') == 1 and all(one in rule for one in scripts), page
        assert page_problems(text, scripts) == [], page
        assert not re.search(r"<script[^>]*>\s*alert", text), page
        links = re.findall(r'(?:href|src)="([^"]*)"', text)
        assert not [link for link in links if link.startswith(("http:", "https:", "//")) and "edit" not in link], page
    assert "alert(2)" in (built.folder / "evil.html").read_text()


@pytest.mark.process
@pytest.mark.long
def test_what_is_gone_from_the_notes_is_gone_from_the_site(book):
    site = build_site(book.notebook, engine="zensical").folder
    (site / ".gitignore").write_text("*\n")
    (book.folder / "notes" / "ideas.md").unlink()

    build_site(book.notebook, engine="zensical")

    assert not (site / "ideas.html").exists() and (site / ".gitignore").is_file() and (site / "index.html").is_file()
    build_site(book.notebook, workers=1)
    assert "Team" in (site / "index.html").read_text()


def test_settings_that_cannot_be_read_are_told(book):
    (book.folder / "mkdocs.yml").write_text("site_name: [\n")
    with pytest.raises(NotebookError, match=r"mkdocs\.yml cannot be read"):
        build_site(book.notebook, engine="zensical")
    (book.folder / "mkdocs.yml").unlink()
    with pytest.raises(NotebookError, match="cannot read"):
        build_site(book.notebook, engine="zensical")
