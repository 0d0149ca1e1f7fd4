"""A notebook is data: building its site runs nothing that it brings and reads nothing outside of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from order_of_tests import further
from site_settings import write_site_settings

from labbook.errors import NotebookError
from labbook.publish.site.mkdocs_settings import read_settings
from labbook.publish.site.site_build import build_site

RUN = "20261121-100000-aaaa"
SECRET = "what-only-this-machine-knows"
ENGINES = ["mkdocs", pytest.param("zensical", marks=pytest.mark.long)]
PLAIN = "plugins:\n  - labbook\n"


@pytest.fixture
def book(notes, tmp_path):
    write_site_settings(notes.folder)
    notes.run(RUN, "text")
    (tmp_path / "secret.md").write_text(f"---\nid: secret\ntitle: {SECRET}\n---\n\n# {SECRET}\n")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key.md").write_text(f"# {SECRET}\n")
    return notes


def add(book, text: str) -> None:
    file = book.folder / "mkdocs.yml"
    file.write_text(file.read_text() + text)


def change(book, old: str, new: str) -> None:
    file = book.folder / "mkdocs.yml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def write(book, name: str, text: str) -> None:
    file = book.folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def runs(mark: Path) -> str:
    return f"__import__('pathlib').Path({str(mark)!r}).touch()"


JINJA = "{{ cycler.__init__.__globals__.os.system('touch %s') }}"
BLOCK = '{%% extends "base.html" %%}{%% block content %%}%s{%% endblock %%}'


def hooks(book, mark):
    write(book, "hook.py", runs(mark))
    add(book, "hooks: [hook.py]\n")


def tag_apply(book, mark):
    add(book, f"extra:\n  x: !!python/object/apply:os.system ['touch {mark}']\n")


def tag_in_inherited(book, mark):
    write(book, "base.yml", f"copyright: !!python/object/apply:os.system ['touch {mark}']\n")
    add(book, "INHERIT: base.yml\n")


def custom_dir(book, mark):
    write(book, "own/main.html", BLOCK % (JINJA % mark))
    change(book, "  name: material\n", "  name: material\n  custom_dir: own\n")


def templates_site(book, mark):
    write(
        book,
        "templates/site/main.html",
        '{% extends "base.html" %}{% block content %}' + JINJA % mark + "{% endblock %}",
    )


def extra_template(book, mark):
    write(book, "notes/page.html", JINJA % mark)
    add(book, "extra_templates: [page.html]\n")


def extension(book, mark):
    write(book, "evil.py", f"{runs(mark)}\ndef makeExtension(**_):\n    pass\n")
    change(book, PLAIN, PLAIN + "markdown_extensions: [evil]\n")


def pygments_writes_a_file(book, mark):
    change(book, PLAIN, PLAIN + "markdown_extensions: [fenced_code, codehilite]\n")
    book.page("code.md", f'# Code\n\n``` {{.python full="true" cssfile="{mark}"}}\nx = 1\n```\n')


def plugin(book, mark):
    write(book, "notes/search.md", "x")
    change(book, PLAIN, PLAIN + f"  - material/tags:\n      export: true\n      export_file: {mark}\n")


BRINGS_CODE = [
    *(hooks, tag_apply, templates_site, plugin),
    *further(tag_in_inherited, custom_dir, extra_template, extension, pygments_writes_a_file),
]


@pytest.mark.process
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("way", BRINGS_CODE, ids=lambda way: way.__name__)
def test_code_of_a_cloned_notebook_is_not_run(book, tmp_path, monkeypatch, way, engine):
    mark = tmp_path / "ran"
    monkeypatch.syspath_prepend(str(book.folder))
    way(book, mark)
    built = build_site(book.notebook, workers=1, engine=engine)
    assert not mark.exists()
    assert (built.folder / f"runs/2026/11/21/{RUN}.html").is_file()
    named = [warning for warning in built.warnings if "left out" in warning and "--trust" in warning]
    assert len(named) == 1


@pytest.mark.process
@pytest.mark.parametrize(
    "way",
    [
        hooks,
        *further(tag_apply, custom_dir, templates_site, extra_template),
    ],
    ids=lambda w: w.__name__,
)
def test_a_person_switches_it_on(book, tmp_path, way):
    mark = tmp_path / "ran"
    way(book, mark)
    done = book.labbook("site", "build", check=False)
    assert not mark.exists() and "--trust" in done.stderr
    book.labbook("site", "build", "--trust", check=False)
    assert mark.exists()


def whole_notes(book, tmp_path):
    (book.folder / "notes").rename(tmp_path / "moved")
    (tmp_path / "moved" / "x.md").write_text(f"# {SECRET}\n")
    (book.folder / "notes").symlink_to(tmp_path / "moved")


def linked_file(book, tmp_path):
    (book.folder / "notes" / "x.md").symlink_to(tmp_path / "secret.md")


def linked_picture(book, tmp_path):
    (book.folder / "notes" / "x.txt").symlink_to(tmp_path / "secret.md")


def linked_folder(book, tmp_path):
    (book.folder / "notes" / "more").symlink_to(tmp_path / "private")


def linked_symptom(book, tmp_path):
    (book.folder / "notes" / "symptoms").mkdir()
    (book.folder / "notes" / "symptoms" / "secret.md").symlink_to(tmp_path / "secret.md")


def linked_git(book, tmp_path):
    write(book, ".git/config", SECRET)
    (book.folder / "notes" / "x.txt").symlink_to("../.git/config")


def inherited(book, tmp_path):
    (tmp_path / "base.yml").write_text(f"copyright: {SECRET}\n")
    add(book, "INHERIT: ../base.yml\n")


def snippets(book, tmp_path):
    change(book, PLAIN, PLAIN + f"markdown_extensions:\n  - pymdownx.snippets:\n      base_path: {tmp_path}\n")
    book.page("x.md", '# x\n\n--8<-- "secret.md"\n')


def environment(book, tmp_path):
    add(book, "copyright: !ENV LABORATORY_SECRET\n")


def whole_build(way):
    def both(book, tmp_path):
        change(book, PLAIN, PLAIN + "  - tags\n")
        way(book, tmp_path)

    both.__name__ = f"{way.__name__}_whole"
    return both


READS = [
    *(whole_notes, linked_folder, inherited, environment, whole_build(linked_file)),
    *further(linked_file, linked_picture, linked_symptom, linked_git, snippets, whole_build(linked_folder)),
]


@pytest.mark.process
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("way", READS, ids=lambda way: way.__name__)
def test_nothing_outside_the_notebook_is_published(book, tmp_path, monkeypatch, way, engine):
    monkeypatch.setenv("LABORATORY_SECRET", SECRET)
    way(book, tmp_path)
    if way is whole_notes:
        with pytest.raises(NotebookError, match="leads out of the notebook"):
            build_site(book.notebook, workers=1, engine=engine)
    else:
        built = build_site(book.notebook, workers=1, engine=engine)
        if way is not linked_symptom:
            assert any("left out" in warning for warning in built.warnings), built.warnings
    found = subprocess.run(["grep", "-rlF", SECRET, "site"], cwd=book.folder, capture_output=True, text=True)
    assert found.stdout == ""


@pytest.mark.process
def test_settings_that_are_data_are_used(book):
    write(book, "base.yml", "copyright: 2026 Team\ntheme:\n  palette: {primary: red}\n")
    change(
        book,
        PLAIN,
        PLAIN + "INHERIT: base.yml\nnav:\n  - Home: index.md\nmarkdown_extensions:\n  - footnotes\n"
        "  - pymdownx.emoji:\n      emoji_index: !!python/name:material.extensions.emoji.twemoji\n"
        "      emoji_generator: !!python/name:material.extensions.emoji.to_svg\n",
    )
    book.page("index.md", "# Home\n\n:material-home:[^1]\n\n[^1]: note\n")
    safe = read_settings(book.folder)
    assert safe.left_out == ()
    assert safe.values["theme"]["palette"] == {"primary": "red"} and safe.values["theme"]["language"] == "en"
    built = build_site(book.notebook, workers=1)
    home = (built.folder / "index.html").read_text()
    assert "2026 Team" in home and "twemoji" in home and 'class="footnote"' in home


@pytest.mark.process
def test_html_in_settings_does_not_act(book):
    add(book, "copyright: <script>alert(1)</script>\nextra_javascript: [x.js]\n")
    built = build_site(book.notebook, workers=1)
    assert "alert(1)</script>" not in (built.folder / "index.html").read_text()
    assert any("HTML in copyright" in warning and "extra_javascript" in warning for warning in built.warnings)


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("INHERIT: base.txt\nsite_name: x\n", "base.txt holds no settings"),
        ("INHERIT: nowhere.yml\nsite_name: x\n", "nowhere.yml"),
        ("INHERIT: mkdocs.yml\nsite_name: x\n", ""),
        ("- a list\n", "holds no settings"),
        ("site_name: [\n", "not valid YAML"),
        ("a: &a [x, x]\nb: &b [*a, *a]\n" + "".join(f"c{n}: &c{n} [*b, *b, *b]\n" for n in range(3)), ""),
        ("a: &a [*a]\n", ""),
    ],
)
def test_settings_that_cannot_be_read_are_an_error_with_advice(book, settings, said, trusted):
    write(book, "base.txt", "just text\n")
    write(book, "mkdocs.yml", settings)
    try:
        build_site(book.notebook, workers=1, trusted=trusted)
    except NotebookError as error:
        assert said in error.message and error.hint
    else:
        assert not said


def test_settings_that_grow_without_end_are_refused(book):
    levels = "".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]\n" for n in range(1, 12))
    write(book, "mkdocs.yml", f"k0: &k0 [x]\n{levels}")
    with pytest.raises(NotebookError, match="has more than"):
        build_site(book.notebook, workers=1)
