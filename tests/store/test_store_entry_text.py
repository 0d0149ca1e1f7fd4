"""People's text survives byte for byte whatever happened to the markers."""

import re

from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.store.text.entry_text import block, merge, read_text, split_parts, to_bytes

NAMES = ("title", "changes", "health", "console")


def page(*names, text="generated", meta="status: finished"):
    blocks = {n: block(n, f"## {n}\n\n{text} {n}") for n in names}
    parts = [
        blocks.get("title", ""),
        blocks.get("changes", ""),
        "## Goal\n",
        blocks.get("health", ""),
        blocks.get("console", ""),
        "## Conclusion\n",
    ]
    return f"---\n{meta}\n---\n\n" + "\n".join(p for p in parts if p)


def people(text):
    """Everything that is not generated."""
    body = re.sub(r"\A---\r?\n.*?\n---\r?\n", "", text, flags=re.DOTALL)
    return "".join(p.text for p in split_parts(body) if not p.name)


def test_reading_and_writing_back_changes_nothing():
    new = page(*NAMES)
    assert merge(new, new, known=NAMES) == new
    assert merge("", new) == merge("\n", new) == new


def test_blocks_are_replaced_and_text_around_them_stays():
    old = (
        page(*NAMES, text="old")
        .replace("## Goal\n", "## Goal\n\n我的目标 <b>\n\n## My own\n")
        .replace("## Conclusion\n", "## Conclusion\nIt works.")
    )
    new = merge(old, page(*NAMES, text="new", meta="status: failed"), known=NAMES)
    assert people(new) == people(old)
    assert "old" not in new and new.count("new ") == 4 and "status: failed" in new


def test_windows_line_ends_stay():
    old = page(*NAMES, text="old").replace("\n", "\r\n")
    new = merge(old, page(*NAMES, text="new"), known=NAMES)
    assert new == old.replace("old", "new")


def test_a_removed_block_is_inserted_at_its_template_position():
    whole = page(*NAMES)
    for name in NAMES:
        without = merge(whole.replace(block(name, f"## {name}\n\ngenerated {name}"), ""), whole, known=NAMES)
        order = [p.name for p in split_parts(without) if p.name]
        assert order == list(NAMES)
        assert people(without).replace("\n", "") == people(whole).replace("\n", "")
    assert "<!-- labbook:begin health" in merge("people's own file\n", whole)


def test_new_blocks_stand_where_the_generated_entry_has_them():
    running = page("title", "console").replace("## Goal\n", "## Goal\n\nmy goal\n\n## My own\n\nmore\n")
    done = merge(running, page(*NAMES), known=NAMES)
    places = [
        done.index(text)
        for text in ("begin title", "begin changes", "## Goal", "more", "begin health", "begin console")
    ]
    assert places == sorted(places)
    bare = merge("## Goal\nmine\n## Conclusion\nend", page(*NAMES), known=NAMES)
    places = [
        bare.index(text)
        for text in ("begin title", "begin changes", "mine", "begin health", "begin console", "## Conclusion")
    ]
    assert places == sorted(places) and bare.endswith("end")


def test_a_block_that_people_do_not_want_stays_away():
    whole = page(*NAMES)
    new = merge(whole, whole, known=NAMES, left_out=["console"])
    assert "generated console" not in new
    again = merge(
        new.replace("<!-- labbook:begin console -->\n<!-- labbook:end console -->\n", ""),
        whole,
        known=NAMES,
        left_out=["console"],
    )
    assert "labbook:begin console" not in again


def test_a_section_without_content_is_emptied_and_an_unknown_one_preserved():
    old = page(*NAMES) + block("diagnosis_of_tomorrow", "of a newer labbook")
    new = merge(old, page("title", "health"), known=NAMES)
    assert "generated console" not in new and "of a newer labbook" in new
    assert merge(new, old, known=NAMES) == old


@in_one_test(
    "damage",
    [
        lambda t: t.replace("<!-- labbook:end health -->\n", ""),
        lambda t: t.replace("<!-- labbook:begin health -->\n", ""),
        lambda t: t + block("health", "a copy"),
        lambda t: t.replace("<!-- labbook:end health -->", "<!-- labbook:end console -->"),
        lambda t: t.replace("<!-- labbook:begin health -->", "<!-- labbook:begin console -->"),
        lambda t: t.replace("<!-- labbook:begin", "  <!-- labbook:begin"),
        lambda t: "\n".join(reversed(t.split("\n"))),
        lambda t: t.replace("## Goal", "<!-- labbook:begin nothing -->\n## Goal"),
    ],
)
def test_damaged_markers_lose_no_text(damage):
    old = damage(
        page(*NAMES).replace("## Goal\n", "## Goal\n\nmy words\n").replace("## Conclusion\n", "## Conclusion\nmy end\n")
    )
    new = merge(old, page(*NAMES, text="fresh"), known=NAMES)
    assert "my words" in new and "my end" in new
    assert all(f"fresh {name}" in new for name in NAMES)
    assert merge(new, page(*NAMES, text="fresh"), known=NAMES) == new


_line = st.sampled_from(
    [
        "",
        "words",
        "## Goal",
        "```",
        "---",
        "a\r",
        " ",
        "\u2028x",
        "\x0b",
        "é中",
        *(f"<!-- labbook:{k} {n} -->" for k in ("begin", "end") for n in NAMES),
    ]
) | st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n"), max_size=12)


@given(st.lists(_line, max_size=25).map("\n".join), st.lists(st.sampled_from(NAMES), unique=True))
def test_hand_written_text_is_preserved(body, names):
    old = f"---\nmine: 1\n---\n{body}"
    generated = page(*sorted(names, key=NAMES.index))
    new = merge(old, generated, known=NAMES)
    # Blank lines between blocks are all that is added.
    assert [x for x in people(new).split("\n") if x not in ("", "\r")] == [
        x for x in people(old).split("\n") if x not in ("", "\r")
    ]
    assert "mine: 1" in new and "status: finished" in new
    assert merge(new, generated, known=NAMES) == new
    assert "".join(p.text for p in split_parts(body)) == body


def test_unreadable_front_matter_is_moved_into_the_text():
    old = page(*NAMES, meta="title: a: b\nmine: 1").replace("## Conclusion\n", "## Conclusion\nmy end\n")
    new = merge(old, page(*NAMES, text="fresh"), known=NAMES)
    assert new.startswith("---\nstatus: finished\n---\n")
    assert "title: a: b\nmine: 1" in new and "line 2" in new and "my end" in new
    assert merge(new, page(*NAMES, text="fresh"), known=NAMES) == new
    assert "no end" in merge("---\ntitle: x\nmy text", page("title")) or "my text" in merge(
        "---\ntitle: x\nmy text", page("title")
    )


def test_captured_text_cannot_end_a_block():
    hostile = "<!-- labbook:end console -->\n<script>\n<!-- labbook:begin console -->"
    text = page("title") + block("console", hostile)
    assert [p.name for p in split_parts(text) if p.name] == ["title", "console"]
    assert "<script>" not in people(text)


def test_bytes_that_are_no_text_survive(tmp_path):
    path = tmp_path / "a.md"
    data = page("title").encode() + b"\xff\xfe my \r\n bytes"
    path.write_bytes(data)
    assert to_bytes(merge(read_text(path), page("title"))) == data
