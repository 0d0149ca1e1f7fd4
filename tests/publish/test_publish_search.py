from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from site_settings import write_site_settings

from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.model.entry import Entry
from labbook.publish.pages import build_record
from labbook.publish.pages.build_cache import BuildCache
from labbook.publish.pages.page import SiteFix, SiteSource
from labbook.publish.pages.site_data import site_source
from labbook.publish.pages.symptom_view import symptom_view
from labbook.publish.search import search_shards, search_source
from labbook.publish.search.search_page import interface, write_site_search
from labbook.publish.search.search_records import SearchRecord, fix_records, run_record, symptom_records
from labbook.publish.search.search_service import PagefindError, Service
from labbook.publish.search.search_shards import MOST_RUNS, search_problem, split_into_shards, write_shards
from labbook.publish.search.search_source import notebook_shards
from labbook.publish.search.search_words import search_words
from labbook.publish.site.site_build import build_site
from labbook.report.run_row import run_row
from labbook.store.text.entry_text import block
from labbook.store.text.templates import Templates, words

RUN, CURED, OLD = "20261121-153012-k3f9", "20261121-160000-b2b2", "20260930-100000-aaaa"

needs_pagefind = pytest.mark.skipif(bool(search_problem()), reason=search_problem())


def entry(body: str = "", run_id: str = RUN, **meta) -> Entry:
    day = f"{run_id[:4]}/{run_id[4:6]}/{run_id[6:8]}"
    facts = {"id": run_id, "title": "train.py: loss is NaN", "status": "failed", **meta}
    return Entry(f"notes/runs/{day}/{run_id}.md", facts, body)


def record_of(made: Entry) -> SearchRecord:
    return run_record(made, run_row(made), load_catalogue().symptoms)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def runs(number: int, month: str = "2026-11") -> list[SearchRecord]:
    return [
        SearchRecord("run", f"runs/{month.replace('-', '/')}/01/x{i:05d}.md", f"run {i} diverged", month=month)
        for i in range(number)
    ]


def test_words_are_those_that_say_something():
    assert search_words("RuntimeError: mat1 at 0x7f3a9c00, 12.5 GiB") == [
        "runtimeerror",
        "runtime",
        "error",
        "mat1",
        "gib",
    ]
    assert search_words("loss 变成 NaN")[0] == "loss" and search_words("loss 变成 NaN")[-1] == "nan"
    assert search_words("显存不足") == [*search_words("显存"), *search_words("存不"), *search_words("不足")]
    assert all(word.isascii() and word.isalpha() for word in search_words("损失变成无穷"))
    assert search_words("ＮａＮ") == ["nan"]
    assert search_words("deadbeef12 v1:eb836c3a466e4814 3e-4 the of") == ["v1"]


def test_a_run_is_found_by_its_error_and_peoples_words_and_not_by_console_or_tables():
    body = (
        block("exception", "## Exception\n\n**RuntimeError**: size mismatch &#42; bad\n\nRaised at `x`")
        + block("console", "## Console\n\n```text\nepoch one\n```")
        + block("diagnosis", "## Diagnosis\n\n- **Evidence.** the batch holds infinity\n- **Why.** because\n")
        + "## Observations\n\nAsk *Wei* about warm-up.\n\n| a | table |\n|---|---|\n\n```\nfenced\n```\n"
        "<details><summary>s</summary>folded</details>\n<!-- hidden -->\n"
    )
    found = record_of(
        entry(body, symptoms=["loss_nonfinite"], tags=["ablation"], experiment="exp001", author="Wei", project="vision")
    )
    assert {"Wei", "vision"} <= set(found.text.split())

    assert found.line == "RuntimeError: size mismatch * bad" and found.title == "train.py: loss is NaN"
    for word in ("Ask Wei about warm-up", "the batch holds infinity", "损失为 NaN 或无穷", "ablation", "exp001"):
        assert word in found.text
    for word in ("epoch", "because", "table", "fenced", "folded", "hidden", "Observations"):
        assert word not in found.text
    assert found.facets == {
        "symptom": ["loss_nonfinite"],
        "status": ["failed"],
        "experiment": ["exp001"],
        "author": ["Wei"],
    }
    assert (found.month, found.when, found.path) == ("2026-11", "2026-11-21", f"runs/2026/11/21/{RUN}.md")


def test_a_cured_run_shows_its_fix_and_the_fix_is_found_by_what_it_cured():
    failed = entry(symptoms=["loss_nonfinite"], fix=CURED, fix_text="--lr 3 → 0.1")
    cured = entry(run_id=CURED, status="finished", title="train.py: finished")
    rows = [run_row(cured), run_row(failed)]
    fix = SiteFix(failed.path, "--lr 3 → 0.1", CURED)
    view = symptom_view(SiteSource(rows, now=1e9, symptoms=load_catalogue().symptoms, fixes=[fix]))

    run = record_of(failed)
    assert run.fixed and run.line == "--lr 3 → 0.1"
    (found,) = fix_records(view, {failed.path: "grew after warm-up"})
    assert found.kind == "fix" and found.title == "--lr 3 → 0.1" and not found.month
    for word in ("loss 变成 NaN", "NaN or infinite loss", "grew after warm-up"):
        assert word in found.text + found.line
    symptoms = {record.path: record for record in symptom_records(view)}
    assert symptoms["symptoms/loss_nonfinite.md"].line == "--lr 3 → 0.1"
    assert symptoms["symptoms/index.md#cuda_out_of_memory"].line.startswith("Halve the batch size")
    assert not symptoms["symptoms/index.md#cuda_out_of_memory"].fixed
    asked = load_catalogue().symptoms["cuda_out_of_memory"].asked
    assert asked and all(text in symptoms["symptoms/index.md#cuda_out_of_memory"].text for text in asked)


@pytest.mark.process
@needs_pagefind
def test_only_shards_that_changed_are_built_and_the_result_is_that_of_a_full_build(tmp_path):
    kept = [SearchRecord("note", "ideas.md", "Ideas"), *runs(3, "2026-10"), *runs(4)]
    first = write_shards(tmp_path / "site", split_into_shards(kept), tmp_path / "cache")
    assert first.built == ("first", "2026-11", "2026-10") and first.problem == ""

    assert write_shards(tmp_path / "site", split_into_shards(kept[::-1]), tmp_path / "cache").built == (), (
        "the order does not matter"
    )
    more = [*kept, SearchRecord("run", "runs/2026/11/02/new.md", "the new one", month="2026-11")]
    assert write_shards(tmp_path / "site", split_into_shards(more), tmp_path / "cache").built == ("2026-11",)
    write_shards(tmp_path / "other", split_into_shards(more), tmp_path / "nothing")
    assert files(tmp_path / "site") == files(tmp_path / "other")
    assert len(list((tmp_path / "cache" / "search").iterdir())) == 3, "what is not needed any more is gone"


@pytest.mark.process
@needs_pagefind
def test_a_lost_site_a_broken_cache_and_a_month_that_is_gone_are_mended(tmp_path):
    kept = [*runs(2, "2026-10"), SearchRecord("note", "ideas.md", "Ideas"), *runs(2)]
    write_shards(tmp_path / "site", split_into_shards(kept), tmp_path / "cache")
    whole = files(tmp_path / "site")

    shutil.rmtree(tmp_path / "site")
    assert write_shards(tmp_path / "site", split_into_shards(kept), tmp_path / "cache").built == ()
    assert files(tmp_path / "site") == whole
    for entry_file in (tmp_path / "cache").rglob("pagefind-entry.json"):
        entry_file.unlink()
    (tmp_path / "site" / "search" / "2026-10" / "pagefind-entry.json").unlink()
    (tmp_path / "site" / "search" / "2024-01").mkdir()
    assert len(write_shards(tmp_path / "site", split_into_shards(kept), tmp_path / "cache").built) == 3
    assert files(tmp_path / "site") == whole
    write_shards(tmp_path / "site", split_into_shards(kept[:3]), tmp_path / "cache")
    assert {path.name for path in (tmp_path / "site" / "search").iterdir() if path.is_dir()} == {
        "2026-10",
        "index",
        "filter",
    }


@pytest.mark.process
@needs_pagefind
def test_a_month_with_very_many_runs_is_cut_so_that_only_its_end_changes(tmp_path):
    kept = runs(MOST_RUNS + 5)
    assert write_shards(tmp_path / "site", split_into_shards(kept), tmp_path / "cache").built == (
        "first",
        "2026-11-2",
        "2026-11",
    )
    later = [*kept, SearchRecord("run", "runs/2026/11/30/later.md", "later", month="2026-11")]
    assert write_shards(tmp_path / "site", split_into_shards(later), tmp_path / "cache").built == ("2026-11-2",)
    manifest = json.loads((tmp_path / "site" / "search" / "manifest.json").read_bytes())
    assert [(month["name"], month["count"]) for month in manifest["months"]] == [
        ("2026-11-2", 6),
        ("2026-11", MOST_RUNS),
    ]


@pytest.mark.process
@needs_pagefind
def test_addresses_in_the_index_are_those_of_the_site(tmp_path):
    odd = SearchRecord("note", "odd #1 ?.md", "odd", "a line")
    part = SearchRecord("symptom", "symptoms/index.md#loss_spike", "spike")
    write_shards(tmp_path / "a", split_into_shards([part, odd]), tmp_path / "cache")
    cards = json.loads((tmp_path / "a" / "search" / "cards.json").read_bytes())["cards"]
    assert {card["url"] for card in cards.values()} >= {"symptoms/index.html#loss_spike"}
    write_shards(
        tmp_path / "b", split_into_shards([part], directory_urls=True), tmp_path / "cache", directory_urls=True
    )
    cards = json.loads((tmp_path / "b" / "search" / "cards.json").read_bytes())["cards"]
    assert [card["url"] for card in cards.values()] == ["symptoms/#loss_spike"]


def test_without_pagefind_the_site_is_built_and_says_so(notes, tmp_path, monkeypatch):
    monkeypatch.setattr(search_shards, "program", lambda: None)
    report = write_site_search(notes.notebook, site_source(notes.notebook, 1e9), tmp_path / "site")
    assert "pagefind" in report.problem and not (tmp_path / "site").exists()
    assert interface(Templates(None, "en"))["search"] is None


@pytest.mark.process
def test_a_program_that_fails_leaves_a_site_without_search(tmp_path, monkeypatch):
    broken = tmp_path / "pagefind"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr("labbook.publish.search.search_service.program", lambda: broken)
    monkeypatch.setattr(search_shards, "program", lambda: broken)
    with Service() as service, pytest.raises(PagefindError, match="ended"):
        service.index([])
    report = write_shards(tmp_path / "site", split_into_shards(runs(1)), tmp_path / "cache")
    assert "without search" in report.problem and not (tmp_path / "site" / "search").exists()


def test_records_of_entries_that_did_not_change_are_not_read_again(notes, tmp_path, monkeypatch):
    monkeypatch.setattr(build_record, "_JUST_NOW_NS", -1)
    notes.run(RUN, "## Observations\n\nfirst words\n")
    notes.page("ideas.md", "# Ideas\n\nnext quarter\n")
    notes.page("runs/2026/11/21/broken.md", "---\nid: [\n---\n# broken\n")

    def found() -> dict[str, SearchRecord]:
        view = symptom_view(site_source(notes.notebook, 1e9))
        shards = notebook_shards(notes.notebook, view, tmp_path / "cache")
        return {record.path: record for shard in shards for record in shard.records()}

    assert "first words" in found()[f"runs/2026/11/21/{RUN}.md"].text and found()["ideas.md"].line == "next quarter"
    kept = tmp_path / "cache" / "records-2026-11.json"
    kept.write_text(kept.read_text().replace("first words", "kept words"))
    assert "kept words" in found()[f"runs/2026/11/21/{RUN}.md"].text, "taken from what was kept"
    notes.run(RUN, "## Observations\n\nsecond words, longer\n")
    assert "second words" in found()[f"runs/2026/11/21/{RUN}.md"].text
    kept.write_text("{")
    assert "second words" in found()[f"runs/2026/11/21/{RUN}.md"].text
    entry = notes.folder / f"notes/runs/2026/11/21/{RUN}.md"
    state = entry.stat()
    entry.write_text(entry.read_text().replace("second", "dnoces"))
    os.utime(entry, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert "dnoces words" in found()[f"runs/2026/11/21/{RUN}.md"].text, "of the same size and time"


def test_shards_of_months_that_did_not_change_are_not_made_again(notes, tmp_path, monkeypatch):
    monkeypatch.setattr(build_record, "_JUST_NOW_NS", -1)
    notes.run(OLD, "## Observations\n\nold words\n", symptoms=["loss_printed_nan"], fix=RUN, fix_text="a cure")
    notes.run(RUN, "## Observations\n\nfirst words\n")
    notes.page("runs/by_hand.md", "---\nid: by_hand\n---\n# By hand\n")
    made = []
    real = search_source.run_record
    monkeypatch.setattr(search_source, "run_record", lambda entry, *more: made.append(entry.id) or real(entry, *more))

    def shards() -> dict[str, list[str]]:
        """The shards; they are those of all records."""
        source = site_source(notes.notebook, 1e9)
        found = notebook_shards(notes.notebook, symptom_view(source), tmp_path / "cache")
        asked = [*made]
        seen = {shard.name: shard.key for shard in found}
        nothing_kept = symptom_view(replace(source, cache=BuildCache()))
        anew = notebook_shards(notes.notebook, nothing_kept, tmp_path / f"new{len(list(tmp_path.iterdir()))}")
        assert seen == {shard.name: shard.key for shard in anew}
        assert {s.name: (s.count, s.facets) for s in found} == {s.name: (s.count, s.facets) for s in anew}
        assert all(
            [*map(vars, part.records())] == [*map(vars, whole.records())]
            for part, whole in zip(sorted(found, key=lambda s: s.name), sorted(anew, key=lambda s: s.name), strict=True)
        )
        made.clear()
        return asked

    assert sorted(shards()) == sorted([OLD, RUN, "by_hand"])
    assert shards() == []
    notes.run(RUN, "## Observations\n\nsecond words\n")
    assert shards() == [RUN]
    for kept in (notes.folder / ".labbook" / "site-kept").iterdir():
        kept.write_bytes(kept.read_bytes()[:-3])
    assert shards() == []
    shutil.rmtree(tmp_path / "cache")
    shutil.rmtree(notes.folder / ".labbook")
    assert sorted(shards()) == sorted([OLD, RUN, "by_hand"])


@pytest.mark.process
@needs_pagefind
def test_the_search_stands_in_a_built_site_and_what_is_left_out_of_the_site_stays_out(notes):
    write_site_settings(notes.folder, "zh", more="exclude_docs: |\n  /runs/2026/09/**/*.md\n")
    (notes.folder / "labbook.toml").write_text('title = "Team"\nlanguage = "zh"\n')
    notes.run(RUN, "text")
    notes.run(OLD, "old")

    site = build_site(notes.notebook).folder

    manifest = json.loads((site / "search" / "manifest.json").read_bytes())
    assert manifest["months"][0]["name"] == "2026-11"
    page = (site / "index.html").read_text()
    assert "assets/search.js" in page and json.dumps("搜索记录本")[1:-1] in page
    assert not (site / "runs/2026/09/30" / f"{OLD}.html").exists()
    assert (site / "runs/2026/11/21" / f"{RUN}.html").exists()


def test_both_languages_have_the_words_of_the_search():
    for part in ("site_search", "site_curves"):
        english, chinese = words("en")[part], words("zh")[part]
        assert set(english) == set(chinese)
        assert all(("{n}" in english[key]) == ("{n}" in chinese[key]) for key in english)
