"""Tables that are written at once are those of Python-Markdown, byte for byte."""

from __future__ import annotations

import random
import re

import pytest
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from order_of_tests import in_one_test
from pymdownx.highlight import Highlight

from labbook.publish.html import rendering
from labbook.publish.html.rendering import PageRenderer
from labbook.publish.html.theme import EXTENSIONS

CELLS = [
    *(
        "",
        "plain",
        "中文 text",
        "a_b_c",
        "1_000",
        "_a_",
        "a__b",
        "___",
        "x_",
        "**b**",
        "** b **",
        "**a** **b**",
        "***c***",
    ),
    *(
        "`code`",
        "`a_b` c",
        "`a | b`",
        "``a`b``",
        "`a",
        "`<b>`",
        "`&amp;`",
        "\\|",
        "a\\*b",
        "&amp; &#42;",
        "&",
        "<",
        "a<b",
    ),
    *("[x](other.md)", "[x](other.md){.lb-when}", "[x](nowhere.md)", "![x](other.md)", "[x](other.md){.a} {.b}", "[x]"),
    *(
        "[a_b](other.md) **b**",
        "[x](https://a.example/)",
        "[x](other.md#y)",
        "<span class='x'>y</span>",
        "y {.c}",
        "<br>",
    ),
    *(
        '<span class="lb-x">y</span> z',
        '<span class="lb-x">a_b</span>&#42;',
        "<https://a.example>",
        "[**x**](other.md)",
    ),
    *("[64, 3] -> [64, 10]", "[64, a_b]", "[x] [other]", "[other]", "[other][]", "![other]", "[[other]]", "a > b", ">"),
    *("[x](out.md)", "!", "![", "{", "}", "*", "_", "\u00a0", "--", ":-:", "http://a.example/_x_", "\x02", '"', "a  b"),
]


@pytest.fixture
def render():
    config = MkDocsConfig()
    config.load_dict(
        {"site_name": "x", "docs_dir": ".", "markdown_extensions": [{k: v} for k, v in EXTENSIONS.items()]}
    )
    config.validate()

    def rendered(text: str, name: str = "folder/page.md") -> str:
        files = Files([File(path, "/notes", "/site", use_directory_urls=False) for path in (name, "folder/other.md")])
        page = Page(None, files.src_uris[name], config)
        page.markdown = text
        PageRenderer(config, anchors=False).render(page, files)
        return page.content

    rendered.config = config
    return rendered


@pytest.fixture
def both(render, monkeypatch):
    def same(text: str) -> bool:
        """Asserts that both ways make the same; returns whether the table was written at once."""
        done = []
        real = rendering._QuickTables._render_table

        def noted(tables, block):
            made = real(tables, block)
            done.append(made is not None)
            return made

        with monkeypatch.context() as patched:
            patched.setattr(rendering._QuickTables, "_render_table", noted)
            quick = render(text)
        with monkeypatch.context() as patched:
            patched.setattr(rendering._QuickTables, "_render_table", lambda *_: None)
            assert quick == render(text)
        return any(done)

    return same


def table(*rows: list[str], marks: str = "|---|--:|:-:|") -> str:
    return "\n".join(["| a | b | c |", marks, *(f"| {' | '.join(row)} |" for row in rows)])


@in_one_test("cell", CELLS)
def test_each_kind_of_cell(both, cell):
    text = table([cell, "x", f"x {cell}"], ["y", f"{cell}x", "z"])
    both(text)
    both(f"{text}\n\n[other]: https://a.example/\n")


@pytest.mark.parametrize("text", ["a_b c_\nd", "a  \nb", "_a_ b", "a__b__ c", "a_b_c _d_", "x\n_y_", "中_文", "a_ _b"])
def test_texts_without_marks_are_not_looked_at_and_others_are(render, monkeypatch, text):
    ours = render(f"# {text.split()[0]}\n\n{text}\n\n- {text}\n")
    monkeypatch.setattr(rendering, "_MARKED", re.compile(""))
    assert ours == render(f"# {text.split()[0]}\n\n{text}\n\n- {text}\n")


def test_cells_of_all_kinds_beside_each_other(both):
    rng = random.Random(3)
    for _ in range(150):
        rows = [["".join(rng.choices(CELLS[:4] + CELLS[9:12] + [rng.choice(CELLS)], k=2)) for _ in "abc"] for _ in "ab"]
        both(table(*rows, marks=rng.choice(("|---|--:|:-:|", "---|:--|---", "|-|-|-|"))))


@pytest.mark.parametrize(
    "frame",
    [
        "{}",
        "# Title\n\ntext\n\n{}\n\nmore\n",
        '<div class="x" markdown>\n\n{}\n\n</div>\n',
        '<details markdown="1"><summary>s</summary>\n\n{}\n\n</details>\n',
    ],
)
def test_lists_of_runs_are_written_at_once(both, frame):
    run = ["[2026-11-21 10:00](other.md){.lb-when}", '<span class="lb-status lb-ok">ok</span> loss&#42; 1', "**0.1**"]
    assert both(frame.format(table(run, run, ["`a`", "exp_1", ""])))


def test_rows_that_are_too_short_and_too_long(both):
    assert both("| a | b |\n|---|---|\n| 1 |\n| 1 | 2 | 3 |\n1 | 2\n|\n")
    both("| a |\n|---|\n| 1 |\n")
    both("| a | b |\n|---|---|\n")


def test_a_long_cell_without_an_end_takes_no_longer(both):
    both(table(["**" + "a_b " * 5000, "[" + "x" * 5000, "<span " + "&amp;" * 2000]))


TEXTS = [
    *(
        "a",
        "a & <b> \"c\" 'd'",
        "\n\na\n\n\n b \n\n",
        "  a\n\tb",
        "",
        "\n",
        " \n ",
        "\u2028a\u2029\x0c",
        "here\nhere",
        "{{ a }}",
    ),
    *("\ufeffa", "a\r\nb", "中文\n" * 3, "```", "~~~", "&amp; &#42;"),
]


@in_one_test(
    "head", ["text", "", "python", "text hl_lines='1'", "text linenums='1'", "{.text .more}", "text title='t'"]
)
@in_one_test("settings", [{}, {"line_spans": "x"}, {"stripnl": False}, {"pygments_lang_class": True}])
def test_blocks_of_plain_text_are_those_of_pygments(render, monkeypatch, head, settings):
    text = "\n\n".join(f"````{head}\n{one}\n````" for one in TEXTS)
    render.config.mdx_configs["pymdownx.highlight"] = {**EXTENSIONS["pymdownx.highlight"], **settings}
    ours = render(text)
    monkeypatch.setattr(rendering, "_plain_blocks", lambda: Highlight)
    assert ours == render(text)


def test_blocks_of_plain_text_do_without_pygments(render, monkeypatch):
    render("```text\nfirst\n```\n")
    monkeypatch.setattr(Highlight, "highlight", lambda *_, **__: "by Pygments")
    assert "<code>a &amp; b\n</code>" in render("```text\na & b\n```\n")
    assert "by Pygments" in render("```python\na\n```\n")
