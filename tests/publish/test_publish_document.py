from __future__ import annotations

import json
import shutil
from urllib.parse import quote

import pytest
from order_of_tests import in_one_test

from labbook.errors import NotebookError, UsageError
from labbook.publish.document import _BROWSERS, html_document, markdown_document, write_document

NOTE = """---
title: A <run>
---

# A run

<!-- labbook:begin summary -->

| a | b |
|---|---|
| 1 | 损失 |

![curve](run/curve.svg)

<!-- labbook:end summary -->

## Next

[a run](run/other.md) and [its page](https://example.org/x)
"""


@pytest.fixture
def note(tmp_path):
    root = tmp_path / "book"
    (root / "notes" / "run").mkdir(parents=True)
    (root / "notes" / "run" / "curve.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "outside.png").write_bytes(b"secret")
    path = root / "notes" / "run.md"
    path.write_text(NOTE)
    return path


def test_a_page_stands_alone(note):
    page = html_document(note, note.parents[1])
    assert "<td>损失</td>" in page and "data:image/svg+xml;base64," in page and "<title>A &lt;run&gt;</title>" in page
    assert "a run and <a" in page and "other.md" not in page
    assert "labbook:begin" not in page and "<script" not in page


def test_tables_in_folds_are_tables(note):
    note.write_text(NOTE + "\n<details><summary>layers</summary>\n\n| layer |\n|---|\n| conv1 |\n\n</details>\n")
    page = html_document(note, note.parents[1])
    assert "<td>conv1</td>" in page and "<details open" in page and "markdown=" not in page


def test_nothing_in_a_note_runs_or_leaves_the_notebook(note):
    note.write_text(NOTE + "\n<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\n![x](../../outside.png)\n")
    page = html_document(note, note.parents[1])
    assert "<script" not in page and "<img src=x" not in page and "&lt;script&gt;" in page
    assert "c2VjcmV0" not in page and "outside.png" not in page


def test_markdown_and_notebooks_hold_their_pictures(note, tmp_path):
    assert "](data:image/svg+xml;base64," in markdown_document(note, note.parents[1])
    write_document(note, note.parents[1], "ipynb", tmp_path / "a.ipynb")
    cells = json.loads((tmp_path / "a.ipynb").read_text())["cells"]
    assert [cell["source"].splitlines()[0] for cell in cells] == ["# A run", "## Next"]


@in_one_test(
    ("text", "written"),
    [
        ("[a run](../run/o.md), [b](https://e.org) and [c](#next)", "a run, [b](https://e.org) and [c](#next)"),
        ("[![curve](run/none.svg)](run/none.svg)", "![curve](run/none.svg)"),
        (r"| [train \[x\]](20261127.md) | 3 |", r"| train \[x\] | 3 |"),
        ("`m[i](x)`\n\n```python\ny = f[0](x)\n```\n\n[z](z.md)", "`m[i](x)`\n\n```python\ny = f[0](x)\n```\n\nz"),
        ("- > ```\n  > a[0](b)\n  > ```", "- > ```\n  > a[0](b)\n  > ```"),
        ("a[0] (b) and x[1]", "a[0] (b) and x[1]"),
    ],
)
def test_links_to_files_that_are_not_sent_along_are_text(tmp_path, text, written):
    path = tmp_path / "note.md"
    path.write_text(f"# A\n\n{text}\n")
    assert markdown_document(path, tmp_path) == f"# A\n\n{written}\n"


@pytest.mark.process
@pytest.mark.skipif(not any(map(shutil.which, _BROWSERS)), reason="no browser that prints is installed")
def test_a_pdf_is_printed(note, tmp_path):
    write_document(note, note.parents[1], "pdf", tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF-")


def test_what_cannot_be_written_is_told(note, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="not a format"):
        write_document(note, note.parents[1], "gif", tmp_path / "a.gif")
    with pytest.raises(NotebookError, match="cannot write"):
        write_document(note, note.parents[1], "html", note / "a.html")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(__import__("sys").modules, "weasyprint", None)
    for kind in ("pdf", "docx"):
        with pytest.raises(NotebookError, match="install"):
            write_document(note, note.parents[1], kind, tmp_path / f"a.{kind}")


def test_a_section_that_nobody_has_written_is_left_out(note):
    note.write_text(
        NOTE
        + "\n## Goal\n\n<!-- Your text. -->\n\n## Notes\n\n```python\n## a\n## b\n```\n\n## Then\n\n<!-- Text -->\n\n"
        + "## Last\n"
    )
    page = html_document(note, note.parents[1])
    assert not any(title in page for title in ("Goal", "Then", "Last")) and "## a\n## b" in page


def test_a_picture_that_is_inside_a_note_stays(note):
    own = "data:image/svg+xml;base64,PHN2Zy8+"
    note.write_text(f"{NOTE}\n![a]({own})\n\n![b]({quote(own, safe='')})\n")
    assert html_document(note, note.parents[1]).count(f'src="{own}"') == 2
    assert markdown_document(note, note.parents[1]).count(f"]({own})") == 2


def test_export_finds_a_run_a_report_and_an_experiment(book, tmp_path):
    book("record", "--", "true")
    book("report", "--week", "this")
    run, here = book.run()["id"], book.folder
    report = next((here / "notes" / "reports").glob("*.md")).stem
    experiment = next((here / "notes" / "experiments").glob("*.md")).stem
    names = {"last": run, run[-4:]: run, report: report, experiment: experiment, "1": experiment}
    for name, stem in names.items():
        assert book("export", name, "--to", "md").stdout.strip() == f"{stem}.md"
        assert stem != experiment or "| true: finished |" in (here / f"{stem}.md").read_text()
        (here / f"{stem}.md").unlink()
    book("export", "last", "-o", str(tmp_path / "run.html"))
    assert "<h2" in (tmp_path / "run.html").read_text()
    assert book("export", "last", "--to", "tensorboard", "-o", "logs").stdout.startswith("logs/events.out.tfevents.")
    assert book("export", run[-4:], "-o", "curves.csv").stdout.strip() == "curves.csv"
    for words in (
        ("last",),
        ("nothing-such", "--to", "md"),
        (report, "--to", "csv"),
        ("last", "-o", "x.odt"),
        ("d", "--to", "parquet", "-o", "x"),
    ):
        done = book("export", *words, check=False)
        assert done.returncode in (1, 2) and "Traceback" not in done.stderr and "labbook: " in done.stderr


@pytest.mark.process
def test_pandoc_gets_a_page_that_has_all_its_pictures_inside_and_options_that_every_version_knows(
    note, tmp_path, monkeypatch
):
    pandoc = tmp_path / "bin" / "pandoc"
    pandoc.parent.mkdir()
    pandoc.write_text('#!/bin/sh\n[ "$1 $2 $3" = "-f html -o" ] || exit 6\ncp "$5" "$4"\n')
    pandoc.chmod(0o755)
    monkeypatch.setenv("PATH", f"{pandoc.parent}:/bin")  # no browser, no rsvg-convert
    note.write_text(NOTE + "\n<img alt='x' src='../outside.png'> <img src=/etc/a.png>\n\n`<img src=\"kept\">`\n")

    write_document(note, note.parents[1], "docx", tmp_path / "a.docx")

    page = (tmp_path / "a.docx").read_text("utf-8")
    assert "data:image/svg+xml;base64," in page and "损失" in page and "kept" in page
    assert "outside.png" not in page and "/etc/a.png" not in page
    assert "<title>" not in page  # pandoc would write it before the heading that says the same
