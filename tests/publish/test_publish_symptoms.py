from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path

import markdown
import pytest
from site_settings import write_site_settings

from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.publish.html.theme import EXTENSIONS
from labbook.publish.pages.generated_pages import same_script, site_pages
from labbook.publish.pages.page import SiteFix, SiteSource
from labbook.publish.pages.symptom_pages import MOST_LISTED, MOST_RUNS, fix_difference, symptom_page, symptom_pages
from labbook.publish.pages.symptom_view import open_problems, symptom_view
from labbook.publish.site.site_build import build_site
from labbook.report.run_row import RunRow
from labbook.store.text.entry_text import block
from labbook.store.text.escape import fence, table_cell
from labbook.store.text.templates import Templates, words

NOW = datetime(2026, 11, 21, 12).timestamp()
HOSTILE = (Path(__file__).parents[1] / "data" / "hostile_text.txt").read_text(encoding="utf-8", errors="replace")
EVIL = "<script>alert(1)</script> | [x](javascript:y) {{ 7*7 }} `a` **b** -->"
FAILED, CURED, AGAIN = "20261118-120000-aaaa", "20261119-120000-bbbb", "20261120-120000-cccc"


def row(number: int, day: int, month: int = 11, run_id: str = "", **more) -> RunRow:
    run_id = run_id or f"2026{month:02d}{day:02d}-1200{number:02d}-aaaa"
    facts = {"status": "finished", "title": f"train.py: run {number}", "script": "train.py", "duration_s": 60.0, **more}
    path = f"notes/runs/2026/{month:02d}/{day:02d}/{run_id}.md"
    return RunRow(run_id, path, started=datetime(2026, month, day, 12).timestamp(), **facts)


def failure(number: int, day: int, symptom: str = "loss_nonfinite", **more) -> RunRow:
    return row(number, day, **{"status": "failed", "symptoms": (symptom,), **more})


def cured() -> SiteSource:
    failed = failure(1, 18, run_id=FAILED, fix=CURED)
    rows = [row(2, 19, run_id=CURED), failed]
    fix = SiteFix(failed.path, "--lr 3.0 → 0.1", CURED, 4, "", "| what | before | now |\n|---|---|---|\n| lr | 3 | 1 |")
    return SiteSource(rows, now=NOW, symptoms=load_catalogue().symptoms, fixes=[fix])


def page(source: SiteSource, symptom: str, language: str = "en", own: str = "") -> str:
    return symptom_page(symptom_view(source), symptom, Templates(None, language), own).text()


def made(source: SiteSource, language: str = "en") -> dict[str, str]:
    pages = symptom_pages(symptom_view(source), Templates(None, language))
    return {page.path: page.text() for page in pages}


def test_only_symptoms_that_were_seen_have_a_page_and_all_stand_in_the_overview():
    pages = made(cured())

    assert set(pages) == {"symptoms/index.md", "fixes/index.md", "symptoms/loss_nonfinite.md"}
    overview = pages["symptoms/index.md"]
    assert "[NaN or infinite loss](loss_nonfinite.md)" in overview.split("## ")[1]
    assert "**NaN or infinite weights**" in overview and "](nonfinite_parameter.md)" not in overview
    assert all(f"<small>{name}</small>" in overview for name in load_catalogue().symptoms)
    assert "Fix: " in overview and "labbook explain" in overview


def test_the_page_of_a_symptom_tells_what_to_do_what_cured_it_and_who_had_it():
    text = page(cured(), "loss_nonfinite")

    for heading in (
        "Confirmed fixes",
        "What you see",
        "Why it happens",
        "What to try",
        "By month",
        "Runs with this symptom",
    ):
        assert f"## {heading}\n" in text
    assert "&#8594;" in text or "--lr 3.0 → 0.1" in text
    assert f"(../runs/2026/11/19/{CURED}.md)" in text and f"(../runs/2026/11/18/{FAILED}.md)" in text
    assert "not seen in 4 later runs" in text and "| lr | 3 | 1 |" in text
    assert "learning rate in use is too high" in text, "slots are filled without a run"
    assert "<title>2026-11: 1</title>" in text and "1 run, 1 fixed" in text


def test_pages_are_in_the_language_of_the_site():
    source = cured()
    chinese = SiteSource(source.rows, now=NOW, symptoms=source.symptoms, fixes=source.fixes, language="zh")
    text = page(chinese, "loss_nonfinite", "zh")

    assert text.startswith("# 损失为 NaN 或无穷") and "## 怎么办" in text and "之后 4 次运行没有再出现" in text
    assert "What you see" not in text
    assert "损失为 NaN 或无穷" in made(chinese, "zh")["symptoms/index.md"]


def test_both_languages_have_the_same_words():
    english, chinese = words("en"), words("zh")
    assert set(chinese["site_symptoms"]["classes"]) == {
        symptom.class_ for symptom in load_catalogue().symptoms.values()
    }
    for part in ("site", "site_symptoms"):
        assert set(english[part]) == set(chinese[part])
        for key, word in english[part].items():
            if isinstance(word, str):
                assert set(re.findall(r"\{\w+\}", word)) == set(re.findall(r"\{\w+\}", chinese[part][key])), key


def test_what_the_team_wrote_stands_there_once_and_as_it_is():
    own = "\n# Old title\n\nAsk *Wei*: `x < 1` & more.\n\n## What to try\n\n1. Ours first\n\n"
    own += block("fixes", "| the table of fixes |")

    text = page(cured(), "loss_nonfinite", own=own)

    assert "Ask *Wei*: `x < 1` & more.\n\n## What to try\n\n1. Ours first\n" in text
    assert text.count("## What to try") == 1 and "## Why it happens" in text
    assert text.split("## Team notes")[1].lstrip().startswith("Ask")
    assert "Team notes" not in page(cured(), "loss_nonfinite", own="# t\n\n## Ours\n\ntext\n")
    assert "Old title" not in text and "the table of fixes" not in text


def test_a_symptom_without_a_page_in_the_catalogue_is_told():
    text = page(SiteSource([failure(1, 20, "our_own_thing")], now=NOW), "our_own_thing")

    assert text.startswith("# our_own_thing") and "notes/symptoms/our_own_thing.md" in text and "labbook fix" in text
    assert text.index("## Confirmed fixes") < text.index("## Runs with this symptom")


def test_a_symptom_of_many_runs_lists_the_newest():
    rows = [failure(n % 60, 20 - n // 60, run_id=f"202611{20 - n // 60}-12{n:04d}-aaaa") for n in range(MOST_RUNS + 7)]
    text = page(SiteSource(rows, now=NOW, symptoms=load_catalogue().symptoms), "loss_nonfinite")

    listed = text.split("## Runs with this symptom")[1]
    assert listed.count(".lb-when") == MOST_RUNS and rows[0].id in listed and rows[-1].id not in listed
    assert "and 7 older ones: `labbook list symptom:loss_nonfinite`" in listed
    assert "(../runs/index.md#symptom=loss_nonfinite)" in listed


def test_a_fix_that_helped_often_is_listed_once_with_its_count():
    rows = [failure(n, 20, fix=CURED) for n in range(9)]
    said = ["--lr 3.0 → 0.1", "clip", "--lr  3.0 → 0.1", "", "--LR 3.0 → 0.1", ""]
    back = {0: "20261120-120007-aaaa"}
    fixes = [SiteFix(rows[n].path, text, CURED, 1, back.get(n, "")) for n, text in enumerate(said)]
    text = page(SiteSource(rows, now=NOW, fixes=fixes, symptoms=load_catalogue().symptoms), "loss_nonfinite")

    listed = text.split("## Confirmed fixes")[1].split("## What you see")[0]
    assert listed.count("lb-fix-text") == 4, "equal words once, fixes without words apart"
    assert listed.index("3 times") < listed.index("clip") and "it came back in 1 of them" in listed
    assert "9 runs, 6 fixed" in text and "**{.lb-fix-text} · 3 times, it came back in 1 of them\n\n" in listed


def test_a_fix_is_told_of_what_it_cured_only():
    failed = failure(1, 18, fix=CURED, run_id=FAILED)
    failed = replace(failed, symptoms=("loss_nonfinite", "data_stall"))
    source = SiteSource(
        [row(2, 19, run_id=CURED, symptoms=("data_stall",)), failed], now=NOW, fixes=[SiteFix(failed.path, "lr", CURED)]
    )
    view = symptom_view(source)

    assert view.cured_symptoms(source.fixes[0]) == ("loss_nonfinite",) and list(view.fixes) == ["loss_nonfinite"]
    assert "1 run, 1 fixed" in page(source, "loss_nonfinite") and "2 runs, 0 fixed" in page(source, "data_stall")


def test_the_page_of_all_fixes_lists_the_newest():
    rows = [failure(0, 20, run_id=f"20261120-12{n:04d}-aaaa", fix=f"cure{n}.") for n in range(MOST_LISTED + 3)]
    fixes = [SiteFix(row.path, row.fix) for row in rows]
    text = made(SiteSource(rows, now=NOW, fixes=fixes))["fixes/index.md"]

    assert "403 confirmed" in text and "and 3 older ones: `labbook list has:fix`" in text
    assert "| cure399. |" in text and "cure400." not in text
    assert not re.search(r"\|\n\n+\|", text), "a table in two parts"


def test_fixes_say_whether_they_held():
    source = cured()
    fix = source.fixes[0]
    rows = [failure(3, 20, run_id=AGAIN), *source.rows]
    back = SiteFix(fix.run, "in words", "", 1, AGAIN)
    text = made(SiteSource(rows, now=NOW, symptoms=source.symptoms, fixes=[fix, back]))["fixes/index.md"]

    first, second = [line for line in text.splitlines() if line.startswith("| [")]
    assert "not seen in 4 later runs" in first and f"({'../runs/2026/11/19/' + CURED}.md)" in first
    assert "came back" in second and f"{AGAIN}.md" in second


def test_links_lead_only_to_what_is_there():
    """A run or a symptom that is gone, or that could not be a file, is reported and is no link."""
    rows = [
        failure(1, 20, "index", fix="20260101-120000-gone"),
        failure(2, 20, "../../etc"),
        failure(3, 20, EVIL),
        failure(4, 20, "no_such_symptom"),
    ]
    fixes = [
        SiteFix(rows[0].path, "t", "20260101-120000-gone", 2, "20260102-120000-gone"),
        SiteFix("notes/gone.md", ""),
    ]
    own = ["symptoms/my notes.md", "symptoms/loss_nonfinite.md"]
    source = SiteSource(rows, now=NOW, symptoms=load_catalogue().symptoms, fixes=fixes, own_symptoms=own)
    pages = {page.path: page.text() for page in site_pages(source, Templates(None, "en"))}
    there = {*pages, *own, *(row.path.removeprefix("notes/") for row in rows)}

    assert "symptoms/no_such_symptom.md" in pages
    assert sum(path.startswith("symptoms/") for path in pages) == 3
    for path, text in pages.items():
        folder = Path(path).parent
        for target in re.findall(r"\]\(([^)]+)\)", text):
            found = (
                Path("/", folder, target.partition("#")[0].replace("%20", " ")).resolve().relative_to("/").as_posix()
            )
            assert found in there, (path, target)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_empty_notebook_says_what_will_stand_there(language):
    pages = made(SiteSource((), now=NOW), language)

    assert words(language)["site_symptoms"]["none_seen"] in pages["symptoms/index.md"]
    assert "labbook fix" in pages["fixes/index.md"]


def test_open_problems_are_failures_without_a_later_fix():
    source = cured()
    rows = [failure(3, 20, "cuda_out_of_memory"), failure(4, 19, "cuda_out_of_memory"), failure(5, 2), *source.rows]
    before = failure(6, 17)

    def kinds(rows, fixes):
        found = open_problems(symptom_view(SiteSource(rows, now=NOW, fixes=fixes)))
        return [(problem.kind, len(problem.runs)) for problem in found]

    assert kinds([*rows, before], source.fixes) == [("cuda_out_of_memory", 2)]
    assert kinds([failure(7, 20), *rows], source.fixes)[0] == ("loss_nonfinite", 1)
    assert ("loss_nonfinite", 1) in kinds([*rows, before], [])
    returned = [SiteFix(fix.run, fix.text, fix.by, 0, AGAIN) for fix in source.fixes]
    assert ("loss_nonfinite", 1) in kinds([*rows, before], returned)


def test_a_run_that_finished_with_a_finding_is_a_problem_until_one_of_its_script_is_free_of_it():
    ill = replace(failure(8, 20, "dead_relu"), status="finished", script="train.py")
    well = replace(failure(9, 21), status="finished", script="train.py", symptoms=())

    def kinds(*rows):
        newest_first = sorted(rows, key=lambda row: -row.started)
        return [problem.kind for problem in open_problems(symptom_view(SiteSource(newest_first, now=NOW)))]

    assert kinds(ill) == ["dead_relu"]
    assert kinds(ill, well) == []
    assert kinds(ill, replace(well, script="other.py")) == ["dead_relu"]
    assert kinds(ill, replace(well, started=ill.started - 60)) == ["dead_relu"]
    assert kinds(ill, replace(well, status="failed", symptoms=("loss_nonfinite",))) == ["loss_nonfinite", "dead_relu"]


def test_the_home_page_tells_open_problems_and_fixes():
    source = cured()
    exit_code = replace(failure(4, 21), symptoms=(), title="train.py: failed, exit code 3")
    rows = [exit_code, failure(3, 20, "cuda_out_of_memory"), *source.rows]
    source = SiteSource(rows, now=NOW, symptoms=source.symptoms, fixes=source.fixes)
    home = {page.path: page.text() for page in site_pages(source, Templates(None, "en"))}["index.md"]

    problems = home.split("## Open problems")[1].split("## ")[0]
    assert "[GPU out of memory](symptoms/cuda_out_of_memory.md)" in problems and "exit code 3" in problems
    assert "loss_nonfinite" not in problems
    assert "--lr 3.0 → 0.1" in home.split("## Latest fixes")[1]


def test_runs_of_one_script_know_each_other():
    rows = [row(3, 20), row(2, 19, script="other.py"), row(1, 18), row(0, 17, script="")]

    assert same_script(rows) == {
        rows[0].path: (rows[2], None),
        rows[2].path: (None, rows[0]),
        rows[1].path: (None, None),
    }


def test_the_difference_is_taken_out_of_an_entry_without_its_links():
    diff = "```diff\n--- a\n+++ b\n- [x](gone.md)\n+ y\n```"
    section = "## Fix\n\nCured in [r](r.md): text\n\n| what | before | now |\n|---|---|---|\n| lr | 3 | 1 |\n"
    section += f"| bad | [x](gone.md) | |\n\n<details><summary>code</summary>\n\n{diff}\n\n</details>\n"

    found = fix_difference("# t\n\n" + block("fix", section))

    assert found.startswith("| what |") and "| lr | 3 | 1 |" in found and diff in found
    assert found.count("gone.md") == 1 and 'markdown="1"' in found
    assert fix_difference("# t\n\n| a | b |\n") == "" and fix_difference(block("fix", "## Fix\n\nin words")) == ""
    assert fix_difference(block("fix", "| a |\n|---|\n\n```text\nno end")) == ""
    assert fix_difference(block("fix", "| a |\n|---|\n" + "| long |\n" * 5000)) == ""


class _Active(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        bad = ("script", "iframe", "style", "math", "img", "form", "object")
        self.found += [tag] * (tag in bad) + [name for name, _ in attrs if name.startswith("on")]
        self.found += [
            value for name, value in attrs if name == "href" and not re.fullmatch(r"[^:#]+\.md(#[\w=,&-]+)?|#.*", value)
        ]


def test_hostile_titles_symptoms_and_fixes_are_inert():
    lines = HOSTILE.splitlines()
    rows = [
        failure(
            n % 60, 20, line or "x", title=line, script=line, author=line, fix=line, run_id=f"20261120-12{n:04d}-aaaa"
        )
        for n, line in enumerate(lines)
    ]
    rows += [failure(1, 19, author=EVIL, title=EVIL, fix=EVIL)]
    fixes = [SiteFix(row.path, row.fix, row.author, 1, row.title) for row in rows]
    source = SiteSource(rows, now=NOW, symptoms=load_catalogue().symptoms, fixes=fixes)

    for page in site_pages(source, Templates(None, "en")):
        if page.path.startswith(("symptoms/", "fixes/", "index")):
            parsed = _Active()
            parsed.feed(markdown.markdown(page.text(), extensions=list(EXTENSIONS), extension_configs=EXTENSIONS))
            assert parsed.found == [], page.path
            assert "{{" not in page.text() and "{%" not in page.text()


def test_a_hostile_difference_is_inert():
    diff = fence("-x\n+" + HOSTILE + "\n</details></div><script>alert(1)</script>\n" + EVIL, "diff")
    section = f"## Fix\n\n| what | now |\n|---|---|\n| {table_cell(EVIL)} | 1 |\n\n"
    found = fix_difference(block("fix", section + f"<details><summary>code</summary>\n\n{diff}\n\n</details>\n"))
    source = cured()
    hostile = SiteFix(source.fixes[0].run, "t", CURED, difference=found)
    text = page(SiteSource(source.rows, now=NOW, fixes=[hostile]), "loss_nonfinite")

    parsed = _Active()
    parsed.feed(markdown.markdown(text, extensions=list(EXTENSIONS), extension_configs=EXTENSIONS))

    assert found and parsed.found == []


@pytest.fixture
def book(notes):
    write_site_settings(notes.folder)
    return notes


@pytest.mark.process
def test_the_built_site_joins_runs_symptoms_and_fixes(book):
    """Strict: a link that leads nowhere ends this build."""
    failed = {"status": "failed", "script": "train.py", "symptoms": ["loss_nonfinite", EVIL]}
    section = block("fix", "## Fix\n\n| what | before | now |\n|---|---|---|\n| lr | 3 | 1 |\n")
    book.run(FAILED, section, **failed, fix=CURED, fix_text="--lr 3 → 1")
    book.run(CURED, script="train.py", cures=[FAILED])
    book.run(AGAIN, script="other.py", status="failed", symptoms=["our_thing"])
    book.page("symptoms/our_thing.md", "---\nid: our_thing\ntitle: Our thing\n---\n\n# Our thing\n\nAsk Wei.\n")
    book.page("symptoms/.draft.md", "# hidden\n")

    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(command, cwd=book.folder, capture_output=True, text=True, timeout=100)

    assert done.returncode == 0, done.stderr
    site = book.folder / "site"
    run = (site / f"runs/2026/11/18/{FAILED}.html").read_text()
    assert 'href="../../../../symptoms/loss_nonfinite.html"' in run and f'href="../19/{CURED}.html"' in run
    assert (
        f'class="lb-cure">Fix of: <a href="../18/{FAILED}.html"' in (site / f"runs/2026/11/19/{CURED}.html").read_text()
    )
    symptom = (site / "symptoms/loss_nonfinite.html").read_text()
    assert f"../runs/2026/11/19/{CURED}.html" in symptom and "<td>lr</td>" in symptom
    ours = (site / "symptoms/our_thing.html").read_text()
    assert "Ask Wei." in ours and f"../runs/2026/11/20/{AGAIN}.html" in ours
    assert "symptoms/loss_nonfinite.html" in (site / "fixes/index.html").read_text().replace("../", "")


@pytest.mark.process
def test_a_broken_page_of_a_symptom_is_named_and_the_rest_is_built(book):
    book.run(FAILED, status="failed", symptoms=["loss_nonfinite"])
    book.page("symptoms/loss_nonfinite.md", "---\nid: [\n---\nour words\n")
    book.page("symptoms/bad_family.md", "---\nid: bad_family\ntitle: x\nfamily: nonsense\n---\n\nkept\n")
    book.page("symptoms/README.md", "# read me\n")

    built = build_site(book.notebook)

    said = " ".join(built.warnings)
    assert "notes/symptoms/loss_nonfinite.md: line 3" in said and "'nonsense' is no family" in said
    assert "README.md: left out" in said and str(book.folder) not in said
    symptom = (built.folder / "symptoms/loss_nonfinite.html").read_text()
    assert "our words" in symptom and "What you see" in symptom and FAILED in symptom
    assert "kept" in (built.folder / "symptoms/bad_family.html").read_text()
    home = (built.folder / "index.html").read_text()
    assert "is no family" in home and str(book.folder) not in home
