"""Whatever happened since the last build, what a build leaves is what a full build into an empty folder makes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from site_settings import SITE_TEMPLATES, write_site_settings

from labbook.publish.pages import build_record, month_pages
from labbook.publish.pages.build_record import content_key, files_below
from labbook.publish.plugin import LabbookPlugin
from labbook.publish.site.site_build import build_site

IDS = [f"20261121-1000{number:02d}-aaa{letter}" for number, letter in enumerate("abcdefgh")]
MANY = 80


@pytest.fixture
def book(notes):
    write_site_settings(notes.folder)
    for number, run_id in enumerate(IDS):
        symptoms = ["loss_printed_nan"] if number % 3 == 0 else []
        status = "failed" if symptoms else "finished"
        notes.run(run_id, f"text {number}", script="train.py", symptoms=symptoms, status=status)
    notes.page("ideas.md", "# Ideas\n\nmine, [a run](runs/2026/11/21/" + IDS[0] + ".md)\n")
    age(notes.folder)
    return notes


def age(folder: Path) -> None:
    """Makes the notes older than what a build takes for just written."""
    for file in (folder / "notes").rglob("*"):
        # Not the time of the last change of the file itself: that is a moment ago in any case.
        os.utime(file, (time.time() - 60, time.time() - 60))


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the shards of the search, which Pagefind never makes twice the same."""
    return {path: (folder / path).read_bytes() for path in files_below(folder) if not path.startswith("search/")}


def built_anew(book) -> dict[str, bytes]:
    shutil.rmtree(book.folder / "site")
    shutil.rmtree(book.folder / ".labbook")
    build_site(book.notebook, workers=1, trusted=True)
    return contents(book.folder / "site")


def same_as_full(book) -> int:
    """Builds; asserts that a full build makes the same; returns how many pages were rendered."""
    rendered = build_site(book.notebook, workers=1, trusted=True).rendered
    ours = contents(book.folder / "site")
    anew = built_anew(book)
    assert ours.keys() == anew.keys()
    assert [path for path in ours if ours[path] != anew[path]] == []
    return rendered


def entry(book, run_id: str) -> Path:
    return book.folder / f"notes/runs/2026/11/21/{run_id}.md"


@pytest.mark.process
def test_nothing_changed_nothing_is_written(book):
    first = build_site(book.notebook, workers=1)
    before = files_below(book.folder / "site")

    again = build_site(book.notebook, workers=1)

    assert first.rendered == first.pages and again.rendered == 0
    after = files_below(book.folder / "site")
    written = {path for path in after if before.get(path) != after[path]}
    assert not [path for path in written if path.startswith(("runs/", "ideas", "index", "data/"))]


@pytest.mark.process
def test_a_new_entry_touches_its_neighbour_and_the_lists(book):
    build_site(book.notebook, workers=1)
    before = files_below(book.folder / "site")
    book.run("20261121-110000-zzzz", "new")

    rendered = build_site(book.notebook, workers=1).rendered

    after = files_below(book.folder / "site")
    runs = {path for path in after if path.startswith("runs/2026/11/21/") and before.get(path) != after[path]}
    assert runs == {f"runs/2026/11/21/{IDS[-1]}.html", "runs/2026/11/21/20261121-110000-zzzz.html"}
    assert rendered < len(IDS) + 8
    assert same_as_full(book) == 0


@pytest.mark.process
@pytest.mark.long
def test_in_a_month_of_many_runs_only_the_page_of_the_day_is_long(book, monkeypatch):
    monkeypatch.setattr(month_pages, "ONE_PAGE", 4)
    book.run("20261120-110000-zzzz", "the day before")
    build_site(book.notebook, workers=1)
    before = files_below(book.folder / "site")
    book.run("20261121-110000-zzzz", "new")

    rendered = build_site(book.notebook, workers=1).rendered

    lists = {path for path in before if path.startswith("runs/2026/11/") and path.endswith("index.html")}
    assert lists == {f"runs/2026/11/{page}index.html" for page in ("", "20/", "21/")}
    after = files_below(book.folder / "site")
    assert {path for path in lists if before[path] != after[path]} == lists - {"runs/2026/11/20/index.html"}
    assert rendered < len(IDS) + 9
    assert same_as_full(book) == 0
    monkeypatch.setattr(month_pages, "ONE_PAGE", 300)
    assert same_as_full(book) > 0
    assert not (book.folder / "site/runs/2026/11/21/index.html").exists()


def edited(book):
    file = entry(book, IDS[3])
    file.write_text(file.read_text().replace("text 3", "text 4"))


def deleted(book):
    entry(book, IDS[4]).unlink()


def renamed(book):
    entry(book, IDS[2]).rename(entry(book, "20261121-100002-bbbb"))


def fixed(book):
    meta = {"script": "train.py", "symptoms": ["loss_printed_nan"], "status": "failed"}
    book.run(IDS[0], "text 0", fix=IDS[1], fix_text="--lr 3.0 -> 0.1", **meta)


def template_changed(book):
    (book.folder / "templates" / "pages").mkdir(parents=True)
    (book.folder / "templates" / "pages" / "fixes.md.j2").write_text("# Ours\n")


def theme_changed(book):
    (book.folder / "templates" / "site").mkdir(parents=True)
    main = SITE_TEMPLATES / "main.html"
    (book.folder / "templates" / "site" / "main.html").write_text(main.read_text() + "<!-- ours -->")


def in_chinese(book):
    file = book.folder / "mkdocs.yml"
    file.write_text(file.read_text().replace('language: "en"', 'language: "zh"'))


def renamed_site(book):
    file = book.folder / "mkdocs.yml"
    file.write_text(file.read_text().replace('"Team"', '"Other"'))


def addresses_changed(book):
    file = book.folder / "mkdocs.yml"
    file.write_text(file.read_text().replace("use_directory_urls: false", "use_directory_urls: true"))


def with_address(book):
    file = book.folder / "mkdocs.yml"
    file.write_text(file.read_text().replace('site_url: ""', "site_url: https://notes.example/team/"))


def another_note(book):
    book.page("more.md", "# Another note\n")


def title_changed(book):
    book.page("ideas.md", "# Other ideas\n")


def picture_added(book):
    (book.folder / "notes" / "picture.svg").write_text("<svg/>")


def month_gone(book):
    shutil.rmtree(book.folder / "notes" / "runs")


def site_gone(book):
    shutil.rmtree(book.folder / "site")


def page_edited(book):
    (book.folder / f"site/runs/2026/11/21/{IDS[0]}.html").write_text("x")


def page_gone(book):
    (book.folder / f"site/runs/2026/11/21/{IDS[0]}.html").unlink()


def others_left_files(book):
    for folder in ("runs", ""):
        (book.folder / "site" / folder / ".123.tmp").write_text("half")


def broken_record(book):
    (book.folder / ".labbook" / "site.json").write_text('{"form": 1, "frame"')


def odd_record(book):
    file = book.folder / ".labbook" / "site.json"
    data = json.loads(file.read_text())
    data["pages"] = {path: known[:3] for path, known in data["pages"].items()}
    file.write_text(json.dumps(data))


def kept_files(book) -> list[Path]:
    found = list((book.folder / ".labbook" / "site-kept").iterdir())
    assert {"rows-2026-11-21", "columns-2026-11"} <= {file.name for file in found}
    return found


def kept_gone(book):
    assert kept_files(book)
    shutil.rmtree(book.folder / ".labbook" / "site-kept")
    shutil.rmtree(book.folder / "site" / "data")


def kept_broken(book):
    for number, file in enumerate(kept_files(book)):
        content = file.read_bytes()
        # Cut short, another text of the same length, nothing at all, no text.
        file.write_bytes([content[:-9], content.replace(b"finished", b"finashed"), b"", b"\xff" * 99][number % 4])
    shutil.rmtree(book.folder / "site" / "data")


def kept_by_another_version(book):
    for file in kept_files(book):
        key, content = file.read_bytes().split(b"\n", 1)
        file.write_bytes(content_key("another").encode() + key[32:] + b"\n" + content.replace(b"finished", b"finashed"))


def kept_is_a_folder(book):
    for file in kept_files(book):
        file.unlink()
        file.mkdir()


CHANGES = [
    *(edited, deleted, renamed, fixed, template_changed, theme_changed, in_chinese, renamed_site, addresses_changed),
    *(with_address, another_note, title_changed, picture_added, month_gone, site_gone, page_edited, page_gone),
    *(others_left_files, broken_record, odd_record, kept_gone, kept_broken, kept_by_another_version, kept_is_a_folder),
]


SHOWN = (fixed, template_changed)
"""A change of an entry that others show, and one of all pages."""


@pytest.mark.process
@pytest.mark.parametrize(
    "change",
    [pytest.param(change, marks=() if change in SHOWN else pytest.mark.long) for change in CHANGES],
    ids=lambda change: change.__name__,
)
def test_after_a_change_the_site_is_that_of_a_full_build(book, change):
    build_site(book.notebook, workers=1, trusted=True)
    change(book)
    same_as_full(book)


@pytest.mark.process
@pytest.mark.long
def test_a_run_is_asked_for_what_stands_around_it_only_where_that_may_have_changed(book, monkeypatch):
    """Days without a change have the keys that they had, and a cure is seen on the day of the run that it cured."""
    monkeypatch.setattr(build_record, "_JUST_NOW_NS", 0)
    failed = {"script": "train.py", "status": "failed", "symptoms": ["loss_printed_nan"]}
    for day in (18, 19, 20):
        book.run(f"202611{day}-100000-aaaa", "text", **failed)
    build_site(book.notebook, workers=1)
    asked = []
    key_of_page = LabbookPlugin.key_of_page
    monkeypatch.setattr(
        LabbookPlugin, "key_of_page", lambda self, source: asked.append(source) or key_of_page(self, source)
    )

    build_site(book.notebook, workers=1)
    assert not [source for source in asked if source.startswith("runs/2026/11/") and "index" not in source]
    book.run("20261118-100000-aaaa", "text", fix="20261120-100000-aaaa", fix_text="--lr 3.0 -> 0.1", **failed)
    build_site(book.notebook, workers=1)

    assert {source for source in asked if source.count("/") == 4 and "index" not in source} == {
        "runs/2026/11/18/20261118-100000-aaaa.md",
        "runs/2026/11/20/20261120-100000-aaaa.md",
    }
    assert "20261118-100000-aaaa" in (book.folder / "site/runs/2026/11/20/20261120-100000-aaaa.html").read_text()
    assert same_as_full(book) == 0


@pytest.mark.process
@pytest.mark.long
def test_a_link_that_leads_somewhere_now(book):
    """Its page is made again although nothing in it has changed."""
    book.page("links.md", "# Links\n\n[later](later.md)\n")
    age(book.folder)
    first = build_site(book.notebook, workers=1)
    again = build_site(book.notebook, workers=1)
    assert again.warnings == first.warnings != () and "later.md" in first.warnings[0]

    book.page("later.md", "# Later\n")

    assert same_as_full(book) > 0
    assert 'href="later.html"' in (book.folder / "site" / "links.html").read_text()
    (book.folder / "notes" / "later.md").unlink()
    same_as_full(book)


@pytest.mark.process
def test_a_file_that_changes_without_another_time(book):
    """What was written a moment before it was read is compared by content next time."""
    build_site(book.notebook, workers=1)
    file = entry(book, IDS[5])
    state = file.stat()
    file.write_text(file.read_text().replace("text 5", "text 9"))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))

    build_site(book.notebook, workers=1)

    assert "text 9" in (book.folder / f"site/runs/2026/11/21/{IDS[5]}.html").read_text()


@pytest.mark.process
@pytest.mark.long
def test_several_processes_make_the_same(book):
    for number in range(MANY):
        book.run(f"20261120-1000{number % 60:02d}-b{number // 60}bb", "![x](nowhere.svg)" if number == 70 else "text")
    one = build_site(book.notebook, workers=1)
    alone = contents(book.folder / "site")
    shutil.rmtree(book.folder / "site")

    several = build_site(book.notebook, workers=3)

    assert contents(book.folder / "site") == alone and several.rendered == one.rendered > MANY
    assert set(several.warnings) == set(one.warnings) and "nowhere.svg" in " ".join(one.warnings)


@pytest.mark.process
@pytest.mark.timeout(300)
def test_killed_in_the_middle(book, all_symptoms):
    for number in range(MANY):
        book.run(f"20261120-1000{number % 60:02d}-b{number // 60}bb", "text")
    site = book.folder / "site"
    killed = 0
    for wanted in (5, 50):
        process = subprocess.Popen([sys.executable, "-m", "labbook", "site", "build"], cwd=book.folder)
        deadline = time.monotonic() + 100
        while process.poll() is None and time.monotonic() < deadline and len(files_below(site)) < wanted + 60:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    assert killed
    same_as_full(book)


@pytest.mark.process
@pytest.mark.long
def test_plugins_of_others_see_every_page(book):
    build_site(book.notebook, workers=1)
    file = book.folder / "mkdocs.yml"
    file.write_text(file.read_text().replace("plugins:\n", "plugins:\n  - tags\n"))

    for _ in range(2):
        built = build_site(book.notebook, workers=1)
        assert built.rendered == built.pages


@pytest.mark.process
def test_the_search_of_the_theme_is_replaced(book, all_symptoms):
    """Notebooks that were made by earlier versions name it."""
    build_site(book.notebook, workers=1)
    without = contents(book.folder / "site")
    file = book.folder / "mkdocs.yml"
    file.write_text(file.read_text().replace("plugins:\n", "plugins:\n  - search:\n      lang: en\n"))

    built = build_site(book.notebook, workers=1)

    assert contents(book.folder / "site") == without and built.rendered == 0
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q"], cwd=book.folder, timeout=100)
    assert done.returncode == 0 and contents(book.folder / "site") == without
