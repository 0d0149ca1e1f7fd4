from __future__ import annotations

import markdown
import pytest
from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.publish.html.notes import inert, replace_block, site_note, unlink_missing
from labbook.publish.html.theme import EXTENSIONS, _slug, coloured, navigation
from labbook.store.text.entry_text import block
from labbook.store.text.sentences import Sentences
from labbook.store.text.templates import words


def shown(text: str | bytes):
    return site_note(text if isinstance(text, bytes) else text.encode(), "notes/x.md", "it is shown as it is")


def test_front_matter_is_taken_off_and_only_known_keys_stay():
    note = shown(
        "---\ntitle: A <b> {{x}}\nstatus: failed\ntemplate: evil.html\nrender_macros: true\nhide: [toc, x]\n---\n"
        "\n# T\n"
    )

    assert note.markdown == "\n# T\n" and not note.problem
    assert note.meta == {"title": "A &lt;b&gt; &#123;&#123;x&#125;&#125;", "hide": ["toc"]}


def test_folds_are_opened_for_markdown_and_fences_left_alone():
    text = "<details><summary>s</summary>\n\n```text\n<details>\n```\n\n</details>\n\n"
    text += "````\n```\n<details>\n````\n<details>\n"

    lines = shown(text).markdown.splitlines()

    assert [line for line in lines if "markdown=" in line] == [
        '<details markdown="1"><summary>s</summary>',
        '<details markdown="1">',
    ]


def test_a_heading_under_which_nobody_wrote_is_left_out():
    prompt = "## Goal\n\n<!-- What is this run for? -->\n\n"
    health = block("health", "## Health\n\nall well")
    own = "## Mine\n\n## Next\n\nwords\n\n```\n## Goal\n<!-- code -->\n```\n"

    assert shown(f"# T\n\n{prompt}{health}{own}{prompt}").markdown == f"# T\n\n{prompt[8:]}{health}{own}{prompt[8:]}"
    assert shown(f"{prompt}Written.\n").markdown == f"{prompt}Written.\n"


@in_one_test(
    ("heading", "listed"),
    [
        ("### NaN loss (`loss_nonfinite`, certain)", "NaN loss"),
        ("### `zero_grad()` missing (`grad_not_cleared`, likely)", "zero_grad() missing"),
        ("### 损失为 NaN（`loss_nonfinite`，确定）", "损失为 NaN"),
        ("### A remark (my own)", "A remark (my own)"),
        ("### Say &quot;no&quot; (`x_y`, hint)", "Say &quot;no&quot; (x_y, hint)"),
    ],
)
def test_the_contents_list_a_finding_without_its_id(heading, listed):
    parser = markdown.Markdown(extensions=list(EXTENSIONS))
    page = parser.convert(shown(f"# T\n\n{heading}\n\ntext\n").markdown)
    assert parser.toc_tokens[0]["children"][0]["name"] == listed
    assert "data-toc-label" not in page and ("`" not in heading or "<code>" in page)


def test_a_preformatted_block_hides_its_fences():
    note = shown("<pre><code>a\n```\n# no heading\n~~~\n</code></pre>\n\n## Yes\n\n```\nfence\n```\n")
    html = markdown.markdown(note.markdown, extensions=list(EXTENSIONS), extension_configs=EXTENSIONS)

    assert "<h2" in html and "<h1" not in html and "&#96;&#96;&#96;" in html


@in_one_test(
    ("text", "reason"),
    [
        ("---\nid: [\n---\nbody", "line"),
        ("---\nid: x\nbody", "no end"),
        ("[" * 20_000, "brackets"),
        ("- " * 10_000 + "x", "nested"),
        ("> " * 10_000 + "x", "nested"),
        (" " * 9000 + "- x", "nested"),
        ("x" * 700_000, "longer"),
    ],
)
def test_what_would_stop_the_parser_is_shown_as_text(text, reason):
    note = shown(text)
    html = markdown.markdown(note.markdown, extensions=list(EXTENSIONS), extension_configs=EXTENSIONS)

    assert reason in note.problem
    assert "it is shown as it is" in html and "<h1" in html


def test_the_reason_is_given_in_the_language_of_the_notebook():
    assert (
        site_note(b"[" * 20_000, "notes/x.md", "", say=Sentences("zh")).problem
        == "notes/x.md: 第 1 行有 20000 个方括号"
    )
    assert "第 3 行" in site_note(b"---\nid: [\n---\n", "notes/x.md", "", say=Sentences("zh")).problem


def test_bytes_that_are_no_text_are_shown():
    note = shown(b"\xff\xfe\x00\x80 \xe6\x8d\x9f")
    assert "損" not in note.markdown and "损" in note.markdown and "\x00" not in note.markdown


@given(st.text(alphabet="`~<>pre/details \n#-[]!&;:{}\"'x", max_size=200))
def test_no_note_stops_the_build(text):
    markdown.markdown(shown(text).markdown, extensions=list(EXTENSIONS), extension_configs=EXTENSIONS)


def test_inert_text():
    assert (
        inert('<a href="x">{{ 1 }}\n{% x %}')
        == "&lt;a href=&quot;x&quot;&gt;&#123;&#123; 1 &#125;&#125; &#123;% x %&#125;"
    )


def test_a_block_is_replaced():
    page = f"mine\n\n{block('runs', 'None yet.')}\nafter\n"

    assert replace_block(page, "runs", "| a |") == "mine\n\n\n| a |\n\nafter\n"
    assert replace_block("no block\n", "runs", "x") == "no block\n"


def test_the_navigation_holds_what_people_wrote():
    said = words("en")["site"]
    found = navigation(["index.md", "runs/index.md", "runs/2026/11/21/x.md", "ideas.md", "symptoms/oom.md"], said)

    assert found == [
        {"Home": "index.md"},
        {"Runs": "runs/index.md"},
        {"Experiments": "experiments/index.md"},
        {"Symptoms": "symptoms/index.md"},
        {"Fixes": "fixes/index.md"},
        {"Reports": "reports/index.md"},
        {"Notes": ["ideas.md"]},
    ]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_verdicts_are_coloured(language):
    said = words(language)
    fail = str(said["verdicts"]["fail"]).strip("*")
    html = f"<p><strong>{said['status']['failed']}</strong> after</p>"
    html += f"<table><tr><td><strong>{fail}</strong></td></tr></table>"

    page = coloured(html)

    assert 'class="lb-status lb-failed"' in page and 'class="lb-verdict lb-fail"' in page
    assert "<table data-search-exclude>" in page


def test_anchors_are_those_of_git_hosts():
    assert _slug("What was not observed", "-") == "what-was-not-observed"
    assert _slug("  未观察到的内容: x ", "-") == "未观察到的内容-x"


def test_links_to_deleted_entries_and_experiments_become_text():
    gone, there = "20261126-080747-3fkw", "20261126-080747-k3f9"
    text = f"[{gone}]({gone}.md) [{there}](../26/{there}.md) [exp001_a_dynamic](../../exp001_a_dynamic.md) [x](plan.md)"
    shown = unlink_missing(text, lambda address: there in address)
    assert shown == f"{gone} [{there}](../26/{there}.md) exp001_a_dynamic [x](plan.md)"
