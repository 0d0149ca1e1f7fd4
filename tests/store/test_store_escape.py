"""Hostile text in every place of a page: inert for every reader, and shown as it is."""

import csv
import functools
import html
import io
import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.store.text import escape

LINES = (Path(__file__).parents[1] / "data" / "hostile_text.txt").read_text(encoding="utf-8").split("\n")[:-1]
PAYLOADS = [
    *LINES,
    "two\nlines",
    "windows\r\nlines\rold",
    "first\n\n# second\n\n- third\n\n<script>x</script>",
    "nul \x00 bell \x07 escape \x1b[31mred\x1b[0m \x9b31m",
    "placeholders \x02wzxhzdk:0\x03 \x02klzzwxh:0000\x03 \x0242\x03",
    "right \u202eto left\u202c and \u2066isolate\u2069 \u200f",
    "lines \u2028 of \u2029 another \x85 kind \x0b and \x0c",
    "broken \udcff \ud800 text",
    "tags \U000e0041\U000e0042 soft\u00ad zero\u200bwidth",
    '{{ x }}\n--8<-- "a.md"\n```\nfence\n```',
    "```\n~~~\n````\n~~~~~",
    "`" * 40 + "\n" + "~" * 40,
    "x" * 3000 + "[" * 200,
]

ALLOWED = {"p", "code", "pre", "table", "thead", "tbody", "tr", "td", "th", "h1", "ul", "li", "div", "span", "sup"}


class Page(HTMLParser):
    """What a browser would make of a page: elements, attributes, text."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.elements, self.attributes, self.cells, self.rows = [], [], [], 0
        self.strange, self.text, self._cell = [], [], None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows += 1
        if tag in ("td", "th"):
            self._cell = []

    def handle_endtag(self, tag):
        if tag in ("td", "th") and self._cell is not None:
            self.cells.append("".join(self._cell))
            self._cell = None

    def handle_data(self, data):
        self.text.append(data)
        if self._cell is not None:
            self._cell.append(data)

    def handle_comment(self, data):
        self.strange.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


@functools.cache
def plain_reader():
    markdown = pytest.importorskip("markdown")
    return markdown.Markdown(extensions=["tables", "fenced_code", "attr_list"])


def plain(text):
    return plain_reader().reset().convert(text)


@functools.cache
def rich_reader():
    """Everything that a team may have turned on."""
    markdown = pytest.importorskip("markdown")
    pytest.importorskip("pymdownx")
    names = [
        "abbr",
        "admonition",
        "attr_list",
        "def_list",
        "footnotes",
        "md_in_html",
        "meta",
        "tables",
        "toc",
        "wikilinks",
        "sane_lists",
        "nl2br",
        "pymdownx.arithmatex",
        "pymdownx.b64",
        "pymdownx.betterem",
        "pymdownx.caret",
        "pymdownx.critic",
        "pymdownx.details",
        "pymdownx.emoji",
        "pymdownx.highlight",
        "pymdownx.inlinehilite",
        "pymdownx.keys",
        "pymdownx.magiclink",
        "pymdownx.mark",
        "pymdownx.progressbar",
        "pymdownx.saneheaders",
        "pymdownx.smartsymbols",
        "pymdownx.snippets",
        "pymdownx.superfences",
        "pymdownx.tabbed",
        "pymdownx.tasklist",
        "pymdownx.tilde",
        "pymdownx.escapeall",
        "pymdownx.blocks.admonition",
        "pymdownx.blocks.details",
        "pymdownx.blocks.html",
        "pymdownx.blocks.tab",
        "pymdownx.fancylists",
        "pymdownx.quotes",
    ]
    configs = {
        "pymdownx.snippets": {"base_path": ["/", str(Path(__file__).parent)], "check_paths": True},
        "pymdownx.magiclink": {"repo_url_shorthand": True, "social_url_shorthand": True, "user": "u", "repo": "r"},
        "pymdownx.critic": {"mode": "view"},
        "pymdownx.highlight": {"use_pygments": False},
        "pymdownx.tabbed": {"alternate_style": True},
        "pymdownx.escapeall": {"hardbreak": True, "nbsp": True},
    }
    return markdown.Markdown(extensions=names, extension_configs=configs)


def rich(text):
    return rich_reader().reset().convert(macros(text))


def macros(text):
    """What mkdocs-macros does before Markdown is read."""
    jinja2 = pytest.importorskip("jinja2")
    return jinja2.Environment(keep_trailing_newline=True).from_string(text).render(config={"site_dir": "EVALUATED"})


@functools.cache
def git_host_reader():
    markdown_it = pytest.importorskip("markdown_it")
    return markdown_it.MarkdownIt("gfm-like", {"linkify": False, "html": True})


def git_host(text):
    return git_host_reader().render(text)


READERS = [plain, rich, git_host]


def assert_inert(page):
    assert not page.strange, page.strange
    assert set(page.elements) <= ALLOWED, page.elements
    for name, value in page.attributes:
        assert (name == "class" and re.fullmatch(r"(language-\w+|highlight|arithmatex)", value)) or name == "id", (
            name,
            value,
        )
    assert "EVALUATED" not in "".join(page.text) and "root:" not in "".join(page.text)


def one_line(text):
    shown = escape.visible(re.sub(r"\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]", " ", text))
    return " ".join(shown.split())


PLACES = ["first\n\n{}", "- {}", "# {}", "before {} after", "**{}**", "before\n{}\n\nafter"]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("place", PLACES)
def test_inline_is_inert_and_shown(reader, place, each):
    def check(text):
        page = Page(reader(place.format(escape.inline(text)) + "\n"))
        assert set(page.elements) - {"strong"} <= {"p", "ul", "li", "h1", "br", "sup"}
        page.elements = []
        assert_inert(page)
        expected = " ".join(place.lstrip("-# ").replace("*", "").replace("{}", one_line(text)).split())
        assert " ".join("".join(page.text).split()) == expected

    each(PAYLOADS, check)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("function", [escape.table_cell, escape.code_span])
def test_a_cell_stays_one_cell_of_one_row(reader, function, each):
    def check(text):
        cell = function(text)
        page = Page(
            reader(f"text\n\n| a | b | c |\n|---|---|---|\n| 1 | {cell} | 3 |\n| {cell} | {cell} | {cell} |\n\nend\n")
        )
        assert_inert(page)
        assert page.rows == 3 and len(page.cells) == 9
        shown = [" ".join(c.split()) for c in page.cells]
        assert shown[3:] == ["1", one_line(text), "3"] + [one_line(text)] * 3

    each(PAYLOADS, check)


@pytest.mark.parametrize("reader", READERS)
def test_code_span_shows_text_as_it_is(reader, each):
    def check(text):
        page = Page(reader(f"before {escape.code_span(text)} after\n"))
        assert_inert(page)
        assert [element for element in page.elements if element != "sup"] == ["p", "code"]
        assert " ".join("".join(page.text).split()) == " ".join(f"before {one_line(text)} after".split())

    each(PAYLOADS, check)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("info", ["", "text", "python"])
def test_fence_shows_text_as_it_is(reader, info, each):
    def check(text):
        page = Page(reader(f"before\n\n{escape.fence(text, info)}\nafter\n"))
        assert_inert(page)
        lines = re.split(r"\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]", text)
        block = "\n".join(escape.visible(line) for line in lines).expandtabs(4).rstrip("\n")
        assert "".join(page.text).expandtabs(4).strip("\n").split("\n", 1)[1].lstrip("\n").startswith(block)
        assert page.elements.count("p") == 2 and page.elements.count("pre") == 1

    each(PAYLOADS, check)


def test_fence_inside_details_stays_inside(each):
    def check(text):
        page = git_host(f"<details><summary>x</summary>\n\n{escape.fence(text)}\n</details>\n\nafter\n")
        assert page.count("</details>") == 1 and page.rstrip().endswith("<p>after</p>")

    each((text for text in PAYLOADS if "\x00" not in text), check)


@given(st.text(alphabet=st.sampled_from("ab1, _*`|\\[](){}<>#+-.!~^=:/@$%&;\"'8\n\t\r\x1b{%"), max_size=40))
@pytest.mark.parametrize("reader", READERS)
def test_any_punctuation_is_inert_and_shown(reader, text):
    page = Page(reader(f"x {escape.inline(text)} x\n"))
    assert set(page.elements) <= {"p", "sup"}
    assert " ".join("".join(page.text).split()) == " ".join(f"x {one_line(text)} x".split())
    page = Page(reader(f"| a | b |\n|---|---|\n| {escape.code_span(text)} | {escape.table_cell(text)} |\n"))
    assert page.rows == 2
    assert [" ".join(c.split()) for c in page.cells[2:]] == [one_line(text)] * 2
    page = Page(reader(f"{escape.fence(text)}\n\nend\n"))
    assert set(page.elements) <= {"pre", "code", "p"} and page.elements.count("p") == 1


@in_one_test(
    "text",
    [
        "train.py: loss 2.31 at step 412",
        "loss_nonfinite",
        "--lr 3.0 --batch-size 32",
        "15:30:12",
        "555.6 times the norm",
        "a/b/c.py",
        "it's 3%",
        "损失",
    ],
)
def test_harmless_text_stays_readable(text):
    assert escape.inline(text) == text == escape.table_cell(text)
    assert escape.code_span(text) == f"`{text}`"


def test_url_path_stays_in_the_notebook(each):
    def check(text):
        target = escape.url_path(text)
        assert re.fullmatch(r"[A-Za-z0-9_.%/-]*", target) and not target.startswith("//")
        page = Page(git_host(f"[x]({target})\n") if target else "")
        assert all(name == "href" and ":" not in value for name, value in page.attributes)

    each(PAYLOADS, check)


def test_url_path_keeps_plain_paths():
    assert escape.url_path("20261121-153012-k3f9/curves.svg") == "20261121-153012-k3f9/curves.svg"
    assert escape.url_path("../a b/ü.md") == "../a%20b/%C3%BC.md"


def test_file_name_is_safe(tmp_path, each):
    def check(text):
        name = escape.file_name(text)
        assert name not in ("", ".", "..") and not name.startswith((".", "-")) and len(name.encode()) < 128
        assert not set(name) & set('/\\<>:"|?*\0\n') and unicodedata.is_normalized("NFC", name)
        (tmp_path / name).write_text("x")
        assert [p.name for p in tmp_path.iterdir()] == [name]
        (tmp_path / name).unlink()
        assert name.split(".")[0].lower() not in ("con", "nul", "index", "readme")

    names = ["../../etc/passwd", "..\\x", "CON", "nul.txt", "index", "README.md", ".git", "", "é" * 200]
    each([*PAYLOADS, *names], check)


def test_file_name_preserves_plain_names_and_makes_others_unique():
    assert escape.file_name("train-2.py") == "train-2.py"
    assert escape.file_name("a/b") != escape.file_name("a_b") != escape.file_name("a:b")


def test_csv_cell_is_one_cell_and_no_formula(each):
    def check(text):
        [[*cells]] = csv.reader(io.StringIO(f"first,{escape.csv_cell(text)},last\n", newline=""), strict=True)
        assert len(cells) == 3
        cell = cells[1]
        try:
            float(cell)
        except ValueError:
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))

    cells = ["=cmd|'/C calc'!A0", "+1+2", "-2+3", "@SUM(A1)", "\t=1", "a,b", 'say "x"', "-1.5", "1e-3"]
    each([*PAYLOADS, *cells], check)


def test_terminal_prints_no_control(each):
    def check(text):
        out = escape.terminal(text)
        assert all(char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs") for char in out)
        assert not set(out) & set("\u202e\u2066\u200f")

    each(PAYLOADS, check)


@in_one_test(
    "text",
    [
        "\x1b]0;title\x07x",
        "\x1b]8;;http://evil\x1b\\x\x1b]8;;\x1b\\",
        "\x1b[2Jx",
        "\x1bPq#0\x1b\\x",
        "\x9b31mx",
        "\x1b(Bx",
        "\x1bcx",
    ],
)
def test_terminal_drops_whole_sequences(text):
    assert escape.terminal(text) == "x"


def test_adversarial_text_is_escaped_in_linear_time():
    for text in ("[" * 20_000, "- " * 10_000, "`" * 20_000, ":" * 20_000, "_" * 20_000, "\x1b]" * 10_000, "{" * 20_000):
        assert len(escape.inline(text)) < 200_000
        assert html.unescape(escape.inline(text)) == text.strip().replace("\x1b", "\u241b")
        escape.fence(text), escape.code_span(text), escape.terminal(text)


@in_one_test(
    "text",
    [
        "[64, 32]",
        '["a", "b_c"]',
        "betas [0.9, 0.999]",
        "[]",
        "[-1, 2] [1, 2]",
        "[64]",
        "[Errno 2] No such file",
        "(y - mu) ** 2 / (2 * x)",
        "Mean <- Log",
        "a < 3 && b > 2",
        "x == 1",
        "val/mAP@0.5",
        "10.33 (expected: 1.1)",
        "step 4: log",
    ],
)
def test_what_is_active_in_no_reader_stays_readable_as_raw_text(text):
    assert escape.table_cell(text) == text == escape.inline(text)


@in_one_test("text", ["[a, b](x)", "[a, b]: x", "[a, b][c]", "![a, b]", "[[a, b]]", "[x]", "[^1, 2]", "[TOC]"])
def test_what_could_be_a_link_is_no_list(text):
    assert "[" not in escape.table_cell(text)


def test_a_name_in_a_table_keeps_its_first_underscore():
    assert escape.table_cell("_functional._params") == "_functional._params"
    assert escape.table_cell("__main__") == "&#95;&#95;main__", "what ends emphasis is harmless without its beginning"


@pytest.mark.parametrize("text", ["yacs_/out", "ValueError, at model_.py:1", "lr_ and x__", "损失_（均值）", "a_b_c"])
def test_an_underscore_behind_a_letter_stays_readable(text):
    assert escape.inline(text) == escape.table_cell(text) == text
    line = f"{escape.inline('_x')} {escape.inline(text)} {escape.inline('__y')} {escape.inline(text)}"
    assert not re.search("<(?:em|strong)>", plain(line) + git_host(line))


def test_colours_of_a_message_are_left_out():
    assert escape.inline("\x1b[1mdo those steps\x1b[0m only \x1b[8mif\x1b[0m") == "do those steps only if"
    assert "\x1b" not in escape.inline("a\x1b]0;title\x07b\x1b[2J")
