"""What is rendered once and used again in the frame of the pages is what the theme would have rendered for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from labbook.publish import plugin
from labbook.publish.html import cached_fragments
from labbook.publish.pages.build_record import files_below
from labbook.publish.site.site_build import build_site

pytestmark = pytest.mark.process

SETTINGS = Path(__file__).parents[2] / "templates" / "notebook" / "mkdocs.yml"
DAYS = ("20261120", "20261121", "20261205")


@pytest.fixture
def book(notes):
    text = SETTINGS.read_text()
    for word, value in (
        ("{{ site_name }}", '"Team"'),
        ("{{ site_url }}", "https://x.example/"),
        ("{{ language }}", '"en"'),
    ):
        text = text.replace(word, value)
    (notes.folder / "mkdocs.yml").write_text(text)
    for day in DAYS:
        for letter in "abcd":
            notes.run(f"{day}-100000-aaa{letter}", f"text {letter}", title=f"{{{{ {letter} }}}} <b> \\1 & {day}")
    notes.page("ideas.md", "# Ideas\n\nmine\n")
    return notes


def pages(book) -> dict[str, bytes]:
    build_site(book.notebook, workers=1, everything=True, trusted=True)
    site = book.folder / "site"
    return {path: (site / path).read_bytes() for path in files_below(site) if path.endswith(".html")}


@pytest.fixture
def used(monkeypatch) -> list[cached_fragments.FrameParts]:
    """The parts of each build."""
    found = []

    class Noted(cached_fragments.FrameParts):
        def install(self, env):
            found.append(self)
            super().install(env)

    monkeypatch.setattr(plugin, "FrameParts", Noted)
    return found


def change(book, old: str, new: str) -> None:
    file = book.folder / "mkdocs.yml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))


def plain(book) -> None:
    pass


def folders_as_addresses(book) -> None:
    change(book, "use_directory_urls: false", "use_directory_urls: true")


def a_run_in_the_navigation(book) -> None:
    """Links from its neighbours to it are shorter than those from pages elsewhere."""
    named = f"runs/2026/11/21/{DAYS[1]}-100000-aaaa.md"
    change(book, "plugins:\n", f"nav:\n  - Home: index.md\n  - Best: {named}\n  - More:\n    - ideas.md\nplugins:\n")


def a_homepage_among_the_runs(book) -> None:
    with (book.folder / "mkdocs.yml").open("a") as stream:
        stream.write(f"\nextra:\n  homepage: runs/2026/11/21/{DAYS[1]}-100000-aaaa.html\n")


@pytest.mark.parametrize(
    "way",
    [
        *(plain, a_run_in_the_navigation),
        *(pytest.param(way, marks=pytest.mark.long) for way in (folders_as_addresses, a_homepage_among_the_runs)),
    ],
)
def test_the_same_pages_as_without_parts(book, used, monkeypatch, way):
    way(book)
    with_parts = pages(book)
    assert used[-1]._known and not used[-1]._unlike
    monkeypatch.setattr(plugin, "can_use_parts", lambda config: False)

    without = pages(book)

    assert len(used) == 1 and with_parts.keys() == without.keys()
    assert [path for path in without if without[path] != with_parts[path]] == []


def test_a_part_that_differs_from_page_to_page_is_not_used_again(book, used, monkeypatch):
    build = cached_fragments.FrameParts.install

    def with_edits(self, env):
        source = "{{ page.file.src_uri if page }}"
        env.get_template("partials/top.html").root_render_func = env.from_string(source).root_render_func
        build(self, env)

    monkeypatch.setattr(cached_fragments.FrameParts, "install", with_edits)

    made = pages(book)

    assert used[-1]._unlike == {"partials/top.html"}
    for path, content in made.items():
        if path.startswith("runs/2026"):
            assert content.count(path.replace(".html", ".md").encode()) >= 1


def test_overrides_of_a_team_are_rendered_on_every_page(book, used):
    folder = book.folder / "templates" / "site" / "partials"
    folder.mkdir(parents=True)
    (folder / "copyright.html").write_text("for {{ page.file.src_uri if page }}")

    made = pages(book)

    assert not used
    assert b"for runs/2026/11/21/20261121-100000-aaab.md" in made["runs/2026/11/21/20261121-100000-aaab.html"]
