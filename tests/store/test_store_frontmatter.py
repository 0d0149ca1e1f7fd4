"""Front matter keeps what people wrote and gives back what was written."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.errors import EntryError
from labbook.store.text import frontmatter

META = {
    "schema": 1,
    "id": "20261121-153012-k3f9",
    "title": "train.py: loss is NaN since step 412",
    "status": "failed",
    "exit_code": 1,
    "started": "2026-11-21T15:30:12Z",
    "duration_s": 84.2,
    "frameworks": ["torch 2.13.0"],
    "fix": None,
    "metrics": {"loss": {"first": 2.31, "last": "nan"}},
    "code": {"commit": "12e4567", "dirty": True},
}

_text = st.text(max_size=30)
_scalar = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text
_value = st.recursive(_scalar, lambda x: st.lists(x, max_size=4) | st.dictionaries(_text, x, max_size=4), max_leaves=6)
_key = st.text(min_size=1, max_size=12).filter(lambda k: k != "<<")
_meta = st.dictionaries(_key, _value, min_size=1, max_size=6)


def test_it_looks_like_the_design():
    assert frontmatter.emit(META).splitlines() == [
        "---",
        "schema: 1",
        "id: 20261121-153012-k3f9",
        'title: "train.py: loss is NaN since step 412"',
        "status: failed",
        "exit_code: 1",
        "started: 2026-11-21T15:30:12Z",
        "duration_s: 84.2",
        "frameworks: [torch 2.13.0]",
        "fix: null",
        "metrics: {loss: {first: 2.31, last: nan}}",
        'code: {commit: "12e4567", dirty: true}',
        "---",
    ]


@given(_meta)
def test_values_round_trip(meta):
    text = frontmatter.emit(meta)
    assert frontmatter.parse(text + "body", "x") == (meta, "body")


@given(_meta)
def test_other_yaml_readers_agree_on_text(meta):
    def texts(value):
        if isinstance(value, dict):
            return {k: texts(v) for k, v in value.items()}
        if isinstance(value, list):
            return [texts(v) for v in value]
        return value if isinstance(value, str) else None

    text = frontmatter.emit(meta)
    assert texts(yaml.safe_load(text.split("---\n", 2)[1] if "\n---\n" not in text[4:-4] else text[4:-4])) == texts(
        meta
    )


def test_raw_text_wakes_no_macro_and_no_markup():
    text = frontmatter.emit({"title": "{{ config }} {% x %} {# y #} <script>alert(1)</script>"})
    assert "{{" not in text and "{%" not in text and "{#" not in text and "<" not in text


def test_numbers_are_numbers_for_every_reader():
    meta = {"a": 1e-05, "b": 1.5e300, "c": -0.0, "d": 10**20}
    assert yaml.safe_load(frontmatter.emit(meta)[4:-4]) == meta


PEOPLES = (
    "---\n"
    "# how this began\n"
    'title: "old"   # mine\n'
    "question: why?\n"
    "tags:\n"
    "  - mine # since May\n"
    "\n"
    "# about the status\n"
    "status: running\n"
    "later: {a: 1}  # keep\n"
    "---\n"
    "\n"
    "text --- with dashes\n---\n"
)


def test_an_update_preserves_order_comments_and_other_keys():
    new = frontmatter.update(PEOPLES, {"title": "new", "status": "failed", "exit_code": 1})
    assert new == PEOPLES.replace('"old"   # mine', "new  # mine").replace("running", "failed\nexit_code: 1")


def test_equal_values_change_no_byte():
    meta, _ = frontmatter.parse(PEOPLES, "x")
    assert frontmatter.update(PEOPLES, meta) == PEOPLES
    assert frontmatter.update(PEOPLES, {"status": "running"}) == PEOPLES


@in_one_test(
    "text",
    [
        "---\r\na: 1\r\nb: 2 # c\r\n---\r\nbody\r\n",
        "\ufeff---\na: 1\n---\nbody",
        "---\n{a: 1, mine: [2]}\n---\nbody\n",
        "---\n---\nbody",
        "---\na: &x 1\nmine: *x\n---\n",
        "---\na: 1\na: 2\nmine: 3\n---\n",
        "---\na: |\n  # no comment\n  text\nmine: >\n  folded\n---\n",
        "---\n# only a comment\n---\n",
        "no front matter\n",
        "---\na: 1\u2028\nmine: 2\n---\n",
        "---\n? a\n: 1\nmine: 2\n---\n...\n",
        "---\na: 'x\n  y'\nmine: 1\n---\n",
    ],
)
def test_odd_front_matter_is_updated_too(text):
    before, body = frontmatter.parse(text, "x")
    new = frontmatter.update(text, {"a": "changed", "b": [1, 2]})
    after, new_body = frontmatter.parse(new, "x")
    assert after == {**before, "a": "changed", "b": [1, 2]}
    assert new_body == (body if before or text.lstrip("\ufeff").startswith("---") else text)
    assert all(line in new for line in text.split("\n") if line.strip().startswith("#") and "no comment" not in line)
    assert ("\r\n" in new) == ("\r\n" in text)
    assert frontmatter.update(new, {"a": "changed", "b": [1, 2]}) == new


@given(_meta, _meta, st.text(max_size=40), st.sampled_from(["\n", "\r\n"]))
def test_any_update_changes_exactly_its_keys(first, second, body, newline):
    text = frontmatter.emit(first).replace("\n", newline) + body
    new = frontmatter.update(text, second)
    assert frontmatter.parse(new, "x") == ({**first, **second}, body)


@in_one_test(
    ("text", "line"),
    [
        ("---\ntitle: a: b\n---\n", "line 2"),
        ("---\na: 1\nb: [1\n---\n", "line 3"),
        ("---\na: 1\n", "line 1"),
        ("---\n- a\n---\n", "line 2"),
        ("---\na: 1\n\tb: 2\n---\n", "line 3"),
        ("---\na: \x07\n---\n", "line 2"),
        ("---\na: !!python/object:os.system x\n---\n", "line 2"),
        ("---\na: *nowhere\n---\n", "line 2"),
    ],
)
def test_broken_front_matter_is_named_with_its_line(text, line):
    with pytest.raises(EntryError) as caught:
        frontmatter.parse(text, "notes/a.md")
    assert caught.value.message.startswith("notes/a.md") and line in caught.value.message
    assert caught.value.hint


def test_dates_and_words_stay_text():
    meta, _ = frontmatter.parse("---\nd: 2026-11-21\nt: 12:30:45\ny: yes\no: 0123\nn: ~\nb: true\n---\n", "x")
    assert meta == {"d": "2026-11-21", "t": "12:30:45", "y": "yes", "o": "0123", "n": None, "b": True}
