"""What makes builds short gives what MkDocs and the bars of all runs would: files, their states, keys of days."""

from __future__ import annotations

import itertools
import logging
from dataclasses import replace

import pytest
from mkdocs.config import load_config
from mkdocs.structure.files import get_files
from order_of_tests import in_one_test

from labbook.index.folders import is_text
from labbook.publish.pages.build_record import file_state, files_below
from labbook.publish.pages.page import SiteFix, SiteSource
from labbook.publish.pages.page_context import PageContext
from labbook.publish.pages.run_table_data import entry_day, entry_month
from labbook.publish.site.site_files import site_files
from labbook.report.run_row import RunRow
from labbook.store.text.templates import Templates

NAMES = [
    *("index.md", "README.md", "zebra.md", "picture.png", ".hidden.md", ".md", "page.markdown", "a.b.md", "中文.md"),
    *("runs/2026/11/21/x.md", "runs/2026/11/21/x/run.json", "runs/2026/11/README.md", "runs/2026/11/z.md"),
    *("templates/mine.md", "deep/templates/mine.md", ".obsidian/state.json", "deep/.git/config", "twice/a.md"),
    *("twice/a.markdown", "twice/README.md", "twice/readme.md", "draft/index.md", "draft/README.md", "index.txt"),
]


def config_of(folder, more=""):
    (folder / "mkdocs.yml").write_text(f"site_name: x\ndocs_dir: notes\nplugins: []\ntheme: mkdocs\n{more}")
    return load_config(str(folder / "mkdocs.yml"))


@pytest.mark.parametrize("directories", ["true", "false"])
@pytest.mark.parametrize("left_out", ["", "exclude_docs: '!.hidden.md'\n", "draft_docs: draft/\nnot_in_nav: twice/\n"])
def test_the_files_are_those_that_mkdocs_finds(tmp_path, caplog, directories, left_out):
    for name in NAMES:
        (tmp_path / "notes" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "notes" / name).write_text("x")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/linked.md").write_text("x")
    (tmp_path / "notes/link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "notes/broken.md").symlink_to(tmp_path / "nowhere")
    config = config_of(tmp_path, f"use_directory_urls: {directories}\n{left_out}")

    def seen(files):
        kinds = ("src_uri", "dest_uri", "url", "inclusion", "abs_src_path", "abs_dest_path", "edit_uri", "name")
        return [[getattr(file, kind) for kind in kinds] for file in files]

    with caplog.at_level(logging.WARNING, "mkdocs"):
        expected = seen(get_files(config))
        said = [record.getMessage() for record in caplog.records]
        caplog.clear()
        files, states = site_files(config)

    assert seen(file for file in files if file.src_dir == config.docs_dir) == expected
    assert [record.getMessage() for record in caplog.records] == said
    assert files.documentation_pages() == [
        file for file in files if file.is_documentation_page() and file.inclusion.is_included()
    ]
    # All of them were written this moment: nothing is known by its time.
    assert states == {}


def test_a_note_that_is_older_is_known_by_its_time(notes, monkeypatch):
    path = notes.run("20261121-100000-aaaa", "text")
    monkeypatch.setattr("labbook.publish.site.site_files.time.time_ns", lambda: 0)

    _, states = site_files(config_of(notes.folder))

    assert states[str(path).partition("notes/")[2]] == file_state(path.stat(), 0)


def test_what_others_keep_tidy_is_looked_at_no_deeper_than_its_top(tmp_path):
    for name in ("a.html", "search/b.html", "search/2026-11/fragment/c", "else/search/d.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")

    assert files_below(tmp_path, ["search/"]).keys() == {"a.html", "search/b.html", "else/search/d.html"}


def test_days_are_those_of_folders():
    assert (entry_month("notes/runs/2026/11/21/x.md"), entry_day("notes/runs/2026/11/21/x.md")) == (
        "2026-11",
        "2026-11-21",
    )
    assert (entry_month("notes/runs/2026/11/x.md"), entry_day("notes/runs/2026/11/x.md")) == ("2026-11", "2026-11")
    assert (entry_month("notes/runs/2026/11/2x/x.md"), entry_day("notes/runs/2026/11/2x/x.md")) == (
        "2026-11",
        "2026-11",
    )
    for path in ("notes/runs/2026/x.md", "notes/x.md", "x.md", "notes/runs/२०२६/११/21/x.md"):
        assert (entry_month(path), entry_day(path)) == ("other", "other")
    assert is_text("中文") and not is_text("\udcff")


def rows():
    found = []
    for day, number in itertools.product((20, 21, 22), range(4)):
        run_id = f"202611{day}-10000{number}-aaa{'abcd'[number]}"
        script, symptoms = ("train.py", "other.py")[number % 2], ("loss_printed_nan",) * (number == 3)
        path = f"notes/runs/2026/11/{day}/{run_id}.md"
        moment = 1_795_000_000.0 + day * 86400 + number
        found.append(RunRow(run_id, path, "finished", "t", script=script, started=moment, symptoms=symptoms))
    return found[::-1]


def changed(number, **values):
    return lambda rows: [*rows[:number], replace(rows[number], **values), *rows[number + 1 :]]


CHANGES = {
    "nothing": lambda rows: rows,
    "one more": lambda rows: [replace(rows[0], id="20261122-110000-zzzz", path="notes/runs/2026/11/22/z.md"), *rows],
    "the first of a day is gone": lambda rows: [row for row in rows if not row.id.startswith("20261121-100000")],
    "the last of a day is gone": lambda rows: [row for row in rows if not row.id.startswith("20261120-100003")],
    "another script": changed(5, script="new.py"),
    "no script": changed(5, script=""),
    "another id": changed(6, id="20261121-100001-zzzz"),
    "an id that is none": changed(6, id="mine"),
    "another status": changed(6, status="failed"),
    "another symptom": changed(4, symptoms=("cuda_out_of_memory",)),
    "another person": changed(7, author="Wei"),
    "begun at another time": changed(0, started=1_795_000_000.0 + 22 * 86400 + 600),
    "another title": changed(0, title="new"),
    "files of another run": changed(0, parents=("20261120-100001-aaab",)),
}


@in_one_test("change", CHANGES)
@in_one_test("fix", [False, True])
@in_one_test("without", [None, 0, 4])
def test_a_day_has_another_key_when_the_bar_of_one_of_its_runs_is_another(change, fix, without):
    """The runs of three days; whatever happens to one, days with the same key have the same bars."""
    templates = Templates(None, "en")
    old, new = rows(), CHANGES[change](rows())
    # A run of the first day that one of the last day cured.
    cures = [SiteFix(old[-2].path, "a fix", old[0].id)] if fix else []
    everywhere = {row.path.removeprefix("notes/") for row in [*old, *new]}
    gone = {old[without].path.removeprefix("notes/")} if without is not None else set()

    def keys_and_bars(rows, fixes, there):
        def at(path):
            return path if path in there or not path.startswith("runs/2") else ""

        around = PageContext(SiteSource(rows, fixes=fixes), templates, at)
        found = around.keys_of_days(there)
        assert sorted(source for _, sources in found.values() for source in sources) == sorted(
            row.path.removeprefix("notes/") for row in rows
        )
        return {
            day: (key, [(source, around.bar(source)) for source in sources]) for day, (key, sources) in found.items()
        }

    before = keys_and_bars(old, [], everywhere)
    after = keys_and_bars(new, cures, everywhere - gone)

    assert before.keys() == after.keys() == {"2026-11-20", "2026-11-21", "2026-11-22"}
    for day in before:
        if before[day][1] != after[day][1]:
            assert before[day][0] != after[day][0], day
    if change == "nothing" and not fix and without is None:
        assert before == after
    if change == "one more" and not fix and without is None:
        assert {day for day in before if before[day][0] != after[day][0]} == {"2026-11-22"}


def test_the_bar_links_a_run_with_those_whose_files_it_read_and_those_that_read_its_files():
    child, parent = rows()[0], rows()[-1]
    child = replace(child, parents=(parent.id, "20250101-000000-gone"))
    around = PageContext(SiteSource([child, *rows()[1:]]), Templates(None, "en"), lambda path: path)
    bars = {row.id: around.bar(row.path.removeprefix("notes/")) for row in (child, parent)}

    assert [link["url"] for link in bars[child.id]["reads_from"]] == [parent.path.removeprefix("notes/")]
    assert [link["url"] for link in bars[parent.id]["read_by"]] == [child.path.removeprefix("notes/")]
    assert (bars[child.id]["read_by"], bars[parent.id]["reads_from"]) == ([], [])
