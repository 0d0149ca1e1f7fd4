"""Templates escape by themselves, run in a sandbox, and a broken one costs nothing but a note."""

import re
import shutil

import pytest

from labbook.errors import EntryError
from labbook.store.text import limited
from labbook.store.text.templates import LANGUAGES, Templates, finished_text, words
from labbook.store.text.words_files import builtin_folder

HOSTILE = "<script>alert(1)</script> [x](javascript:1) | `a` {{ 7*7 }} **b**\n# heading"


@pytest.fixture
def own(tmp_path):
    folder = tmp_path / "templates"
    (folder / "words").mkdir(parents=True)
    return folder


def rendered(own, text, **data):
    (own / "t.md.j2").write_text(text)
    return Templates(own).render("t.md.j2", data)


@pytest.mark.process
def test_everything_printed_is_inert_unless_it_is_finished(own):
    page = rendered(
        own,
        "{{ x }}\n| {{ x | table_cell }} |\n{{ words.metrics.ranks.format(ranks=x, first=1) }}\n{{ ', ' ~ x }}",
        x=HOSTILE,
    )
    assert "<script>" not in page and "](" not in page and "{{" not in page and "**" not in page and "\n#" not in page
    assert page.splitlines()[1].count("|") == 2
    assert rendered(own, "{{ 3 }} {{ n }} {{ nothing }}", n=2.5, nothing=None).strip() == "3 2.5"


@pytest.mark.process
def test_macros_and_calls_do_not_escape_twice(own):
    page = rendered(
        own, "{% macro m(v) %}({{ v }}){% endmacro %}{% set s %}{{ x }}{% endset %}{{ m(x) }}{{ s }}", x="a*b"
    )
    assert page == "(a&#42;b)a&#42;b"


@pytest.mark.process
def test_a_template_of_the_notebook_overrides_and_may_include_the_built_in_one(own):
    assert rendered(own, "mine {% include 'experiment.md.j2' %}", title="Digits").startswith("mine # Digits")
    assert "# Digits" in Templates(None).render("experiment.md.j2", {"title": "Digits"})


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n{% if %}", 2),
        ("a\nb\n{{ nothing_like_this }}", 3),
        ("{{ 1 / 0 }}", 1),
        ("\n{{ ''.__class__.__mro__ }}", 2),
        ("{% include '../../etc/passwd' %}", 0),
    ],
)
def test_a_broken_template_is_reported_with_its_line_and_the_built_in_one_used(own, text, line):
    (own / "experiment.md.j2").write_text(text)
    templates = Templates(own)
    with pytest.raises(EntryError) as caught:
        templates.render("experiment.md.j2", {"title": "Digits"})
    assert not line or (f"line {line}" in caught.value.message and "experiment.md.j2" in caught.value.message)
    page, note = templates.render_anyway("experiment.md.j2", {"title": "Digits"})
    assert "# Digits" in page and caught.value.message in note


def test_a_broken_words_file_is_reported_and_the_built_in_one_used(own):
    (own / "words" / "en.toml").write_text("[headings]\ngoal = oops\n")
    page, note = Templates(own).render_anyway("experiment.md.j2", {"title": "Digits"})
    assert "## Goal" in page and "en.toml" in note and "line 2" in note
    (own / "words" / "zh.toml").write_text("[headings]\ngoal = oops\n")
    assert Templates(own, "zh").render_anyway("experiment.md.j2", {"title": "数字"})[1].endswith("；改用内置模板")


def test_own_words_replace_single_ones(own):
    (own / "words" / "zh.toml").write_text('[headings]\ngoal = "问题"\n')
    page = Templates(own, "zh").render("experiment.md.j2", {"title": "数字"})
    assert "## 问题" in page and "## 结论" in page


@pytest.mark.parametrize("place", sorted(set(re.findall(r"\{(\w+):([^|{}]+)\|([^{}]+)\}", str(words("en"))))))
@pytest.mark.parametrize("count", [1, 2, "1", "1,000"])
def test_a_counted_noun_is_singular_only_for_one(place, count):
    name, one, many = place
    text = finished_text(f"{{{name}}} {{{name}:{one}|{many}}}")
    assert text.format(**{name: count}) == f"{count} {one if str(count) == '1' else many}"


@pytest.mark.process
@pytest.mark.parametrize("place", ["{count.__class__}", "{count[0]}", "{}"])
def test_words_of_a_notebook_read_no_attributes(own, place):
    (own / "words" / "en.toml").write_text(f'own = "{place}"')
    with pytest.raises(EntryError, match="is not a name"):
        rendered(own, "{{ words.own.format(count=1) }}")


def test_every_language_has_the_words_of_english_with_the_same_places():
    import string

    def flat(said, prefix=""):
        for key, value in said.items():
            if isinstance(value, dict):
                yield from flat(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}", value

    english = dict(flat(words("en")))
    for language in LANGUAGES:
        for key, text in flat(words(language)):
            if key in english:
                places = [
                    {f for _, f, _, _ in string.Formatter().parse(str(t)) if f is not None}
                    for t in (text, english[key])
                ]
                assert places[0] <= places[1], key
            else:
                assert key.startswith("site_symptoms.classes."), key
    named = {key for key, text in flat(words("zh")) if str(text) == str(english.get(key))}
    assert {k for k in english if k not in dict(flat(words("zh")))} == set()
    assert named <= {
        "title.title",
        "verdict.span",
        "curves.epoch",
        "environment.python",
        "environment.gpus",
        "exception.in_rank",
        "resources.gpu",
        "resources.rank",
        "verdict.one",
        "sources.labbook",
        "sources.tensorboard",
        "sources.visualdl",
        "sources.wandb",
        "sources.swanlab",
        "sources.trackio",
        "sources.huggingface",
        "sources.csv",
        "sources.mlflow",
        "sources.lightning",
    }


def test_the_built_in_templates_are_where_they_are_looked_for():
    assert (builtin_folder() / "entry.md.j2").is_file()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_word_is_named_like_a_method_of_a_mapping(language):
    """`words.code.copy` in a template is the method, not the word."""

    def names(said, path=""):
        for key, value in said.items():
            yield f"{path}{key}"
            if isinstance(value, dict):
                yield from names(value, f"{path}{key}.")

    assert not [name for name in names(words(language)) if hasattr(dict, name.rsplit(".", 1)[-1])]


ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.process
@pytest.mark.parametrize(
    "text",
    [
        ENDLESS,
        "{{ 'x' * 10**9 }}",
        "{{ 'x'.ljust(n) }}",
        "{{ 10 ** (10 ** 9) % 7 }}",
        "{% for a in range(99999) %}{{ 'y' * 9999 }}{% endfor %}",
    ],
)
def test_an_endless_template_fails_only_its_own_page(own, monkeypatch, text):
    monkeypatch.setattr(limited, "LONGEST_S", 1.0)
    (own / "experiment.md.j2").write_text(text)
    templates = Templates(own)
    for _ in range(5):
        page, trouble = templates.render_anyway("experiment.md.j2", {"title": "Digits", "n": 10**10})
        assert page.startswith("# Digits") and "experiment.md.j2" in trouble


@pytest.mark.long
def test_a_recorder_of_a_notebook_with_an_endless_template_ends(book):
    (book.folder / "templates" / "experiment.md.j2").write_text(ENDLESS)
    book.record("echo", "hi", timeout=60)
    assert "hi" in book.entry()


@pytest.mark.process
@pytest.mark.parametrize("name", ["experiment.md.j2", "part.j2", "words/en.toml", ""])
@pytest.mark.parametrize("target", ["outside", "hidden"])
def test_links_out_of_the_notebook_are_not_followed(tmp_path, name, target):
    root = tmp_path / "book"
    (root / "templates" / "words").mkdir(parents=True)
    place = tmp_path / "outside" if target == "outside" else root / ".git"
    (place / "words").mkdir(parents=True)
    for file in ("experiment.md.j2", "part.j2"):
        (place / file).write_text("only this machine")
    (place / "words" / "en.toml").write_text('[experiment]\ngoal = "only this machine"\n')
    link = root / "templates" / name if name else root / "templates"
    if not name:
        shutil.rmtree(link)
    link.symlink_to(place / name if name else place)
    if name == "part.j2":
        (root / "templates" / "experiment.md.j2").write_text("{% include 'part.j2' %}")
    page, trouble = Templates(root / "templates").render_anyway("experiment.md.j2", {"title": "Digits"})
    assert page.startswith("# Digits") and "only this machine" not in page and "leads out of the notebook" in trouble
