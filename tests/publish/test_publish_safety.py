"""What a page of the site may do: its policy, and the look at every finished page."""

from __future__ import annotations

import json

import pytest
from order_of_tests import in_one_test
from site_settings import SITE_TEMPLATES, write_site_settings

from labbook.errors import NotebookError
from labbook.publish.html.page_safety import add_policy, foreign_pictures, page_problems, script_hashes
from labbook.publish.site.site_build import build_site

RUN = "20261121-153012-k3f9"


@pytest.fixture
def book(notes):
    write_site_settings(notes.folder)
    notes.run(RUN, "text")
    return notes


@in_one_test(
    "page",
    [
        '<p onclick="x()">a</p>',
        "<img src=x OnError=x>",
        "<svg/onload=x()>",
        '<a href="javascript:x()">a</a>',
        '<a href=" java\nscript:x()">a</a>',
        '<a href="&#106;avascript&colon;x()">a</a>',
        "<a href=vbscript:x>a</a>",
        '<a href="data:text/html,<script>x</script>">a</a>',
        '<img src="data:text/html,x">',
        "<script>x()</script>",
        "<SCRIPT >x()</script >",
        '<script src="https://evil.example/x.js"></script>',
        '<script src="//evil.example/x.js"></script>',
        '<link rel="stylesheet" href="https://evil.example/x.css">',
        '<link rel=preload href="//evil.example/x">',
        '<iframe src="x.html"></iframe>',
        "<object data=x></object>",
        "<embed src=x>",
        '<base href="//evil.example/">',
        '<form action="https://evil.example/"><input></form>',
        '<button formaction="javascript:x()">a</button>',
        '<meta http-equiv="refresh" content="0;url=https://evil.example/">',
        '<a x"><img src=x onerror=x>">a</a>',
        "<svg><style><img src=x onerror=x></style></svg>",
        "<!--><img src=x onerror=x>-->",
        "<!-- --!><img src=x onerror=x> -->",
        "<title><img src=x onerror=x></title>",
        "<svg><animate onbegin=x()></svg>",
        '<svg><use xlink:href="data:image/svg+xml,x"></use><a xlink:href="javascript:x()">a</a></svg>',
        "<p title='a' title=\"b\" onfocus=x>",
        "<img src=x\nonerror=x>",
    ],
)
def test_what_acts_is_seen(page):
    assert page_problems(f"<h1>fine</h1>{page}<p>fine</p>")


@in_one_test(
    "page",
    [
        '<p class="one">&lt;script&gt;x()&lt;/script&gt; onclick=x javascript:x()</p>',
        '<a href="../x.html#y" title="onload=x">a</a> <a href="https://elsewhere.example/">b</a>',
        '<img alt="loss" src="x/curves.svg"> <img src="data:image/png;base64,AA==">',
        '<script type="application/json">{"a": "</p>"}</script> <script src="../assets/x.js" defer></script>',
        '<!-- labbook:begin runs --> <br /> <svg viewBox="0 0 24 24"><path d="M1 1"/></svg>',
        "<details open><summary>a > b</summary><pre><code>a \"quoted\" 'word'</code></pre></details>",
        "<!doctype html><html lang=en><head><title>a</title><link rel=prev href=x.html></head></html>",
    ],
)
def test_what_does_not_act_is_left(page):
    assert page_problems(page) == []


def test_scripts_are_known_by_their_text():
    page = "<script>a()</script><script>b()</script><script type='application/json'>{}</script>"
    one, two = script_hashes(page)

    assert page_problems(page, (one, two)) == [] and len(page_problems(page, (one,))) == 1
    done = add_policy(f"<html><head><meta charset=utf-8><title>x</title></head>{page}", (one, two))
    assert done.index("Content-Security-Policy") < done.index("<title>") and one in done and two in done
    script_rule = done.partition("script-src ")[2].partition(";")[0]
    assert "unsafe-inline" not in script_rule and "unsafe-eval" not in script_rule.replace("wasm-unsafe-eval", "")
    assert add_policy("<html>", (), "") == "<html>"


def test_pictures_of_other_hosts_are_named():
    assert foreign_pictures('<img src="https://a.example/x.png"><img src="x.png"><a href="https://b.example">') == [
        "https://a.example/x.png"
    ]


@pytest.mark.process
def test_every_page_has_a_policy_that_fits_it(book):
    book.page("deep/er/note.md", "# Note\n")
    site = build_site(book.notebook, workers=1).folder

    for file in site.rglob("*.html"):
        text = file.read_text()
        rule = text.partition("script-src ")[2].partition(";")[0]
        assert all(one in rule for one in script_hashes(text)), file
        assert text.count("Content-Security-Policy") == 1 and 'content="no-referrer"' in text
        assert "unsafe-inline" not in rule


@pytest.mark.process
def test_a_note_that_acts_is_shown_as_text(book):
    book.page("evil.md", "# Evil\n\n<img src=x onerror='alert(1)'>\n\n<script>alert(2)</script>\n")
    book.page("cited.md", "# Cited\n\n[a](javascript:alert(1)) ![p](https://elsewhere.example/p.png)\n")

    built = build_site(book.notebook, workers=1)

    for name in ("evil", "cited"):
        text = (built.folder / f"{name}.html").read_text()
        scripts = script_hashes(text.replace(text.partition("<article")[2].partition("</article>")[0], ""))
        assert page_problems(text, scripts) == []
    seen = " ".join(built.warnings)
    assert "notes/evil.md" in seen and "onerror" in seen and "notes/cited.md: has javascript:" in seen
    assert "alert(1)" in (built.folder / "evil.html").read_text()


@pytest.mark.process
def test_a_theme_that_acts_stops_the_build(book):
    """Not what people write in notes: that never stops it."""
    folder = book.folder / "templates" / "site"
    folder.mkdir(parents=True)
    ours = (SITE_TEMPLATES / "main.html").read_text()
    (folder / "main.html").write_text(
        ours + '{% block analytics %}<script src="https://a.example/x.js"></script>{% endblock %}'
    )
    with pytest.raises(NotebookError, match=r"would not be safe: <script> from https://a\.example"):
        build_site(book.notebook, workers=1, trusted=True)

    settings = book.folder / "mkdocs.yml"
    settings.write_text(
        settings.read_text() + "extra:\n  content_security_policy: \"script-src 'self' https://a.example {scripts}\"\n"
    )
    site = build_site(book.notebook, workers=1, trusted=True).folder
    assert "https://a.example 'sha256-" in (site / "index.html").read_text()


@pytest.mark.process
def test_the_feed_names_the_newest_entries(book):
    settings = book.folder / "mkdocs.yml"
    for number in range(60):
        book.run(f"20261122-1000{number:02d}-aaaa", title=f"run {number} <b>", author="Wei", tags=["t"])
    feed = json.loads((build_site(book.notebook, workers=1).folder / "feed.json").read_text())
    assert feed["version"].endswith("version/1.1") and len(feed["items"]) == 50 and "url" not in feed["items"][0]
    assert feed["items"][0]["id"] == "labbook:20261122-100059-aaaa"

    settings.write_text(settings.read_text().replace('site_url: ""', "site_url: https://notes.example/team"))
    site = build_site(book.notebook, workers=1).folder
    item = json.loads((site / "feed.json").read_text())["items"][0]
    assert item["url"] == "https://notes.example/team/runs/2026/11/22/20261122-100059-aaaa.html"
    assert item["date_published"] == "2026-11-22T10:00:59Z" and item["authors"] == [{"name": "Wei"}]
    assert (site / item["url"].removeprefix("https://notes.example/team/")).is_file() and (site / ".nojekyll").is_file()
    assert 'type="application/feed+json"' in (site / "index.html").read_text()


@pytest.mark.process
def test_pages_lead_to_their_source(book):
    settings = book.folder / "mkdocs.yml"
    settings.write_text(settings.read_text() + "repo_url: https://github.com/team/notebook\n")
    site = build_site(book.notebook, workers=1).folder

    address = f"https://github.com/team/notebook/edit/main/notes/runs/2026/11/21/{RUN}.md"
    assert f'href="{address}"' in (site / f"runs/2026/11/21/{RUN}.html").read_text()
    assert "/edit/main/" not in (site / "index.html").read_text()
