"""The documentation is built once and read as a visitor would: whole by `make test-all`, else with some symptoms."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import pytest
from order_of_tests import without_long

from labbook import __version__
from labbook.cli import labbook as command_table
from labbook.store.config import Config, environment_name, setting_help
from labbook.store.text.sentences import Sentences

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),  # the whole catalogue in two languages: 8 s of one core
    pytest.mark.skipif(sys.version_info < (3, 11), reason="MkDocs Material needs Python 3.11"),
]
ROOT = Path(__file__).resolve().parents[2]
SYMPTOMS = sorted(path.stem for path in (ROOT / "labbook" / "symptoms").glob("*.md"))
_FETCHED = re.compile(r"""<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//""")


@pytest.fixture(scope="module")
def symptoms(request) -> list[str]:
    """Ids of the symptoms that have pages: without the long tests some that name one another, and each twelfth."""
    if not without_long(request.config):
        return SYMPTOMS
    return sorted(
        {"cuda_out_of_memory", "loss_nonfinite", "nonfinite_gradient", "nonfinite_parameter", *SYMPTOMS[::12]}
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory, symptoms) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(ROOT / "docs" / "mkdocs.yml")]
    built = subprocess.run(
        [*command, "-d", str(folder)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "DOCS_SYMPTOMS": " ".join(symptoms)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0 and "WARNING" not in built.stderr, built.stdout + built.stderr
    return folder


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def every_command(command: click.Command, context: click.Context):
    yield context.command_path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            yield from every_command(found, click.Context(found, info_name=name, parent=context))


def test_every_command_and_option_is_in_the_reference(site):
    text = text_of(site / "reference" / "commands.html")
    context = click.Context(command_table, info_name="labbook")
    for path, command in every_command(command_table, context):
        assert path in text
        for option in (
            each for each in command.params if isinstance(each, click.Option) and command is not command_table
        ):
            assert option.hidden or all(name in text for name in option.opts), (path, option.opts)


@pytest.mark.parametrize(
    ("language", "page"), [("en", "reference/settings.html"), ("zh", "zh/reference/settings.html")]
)
def test_every_setting_is_in_the_reference(site, language, page):
    text, say = text_of(site / page), Sentences(language)
    for setting in fields(Config):
        for wanted in (setting.name, environment_name(setting), say(setting_help(setting))):
            assert wanted in text


def test_every_export_is_in_the_python_reference(site):
    import labbook

    text = text_of(site / "reference" / "python.html")
    exported = [f"labbook.{name}" for name in labbook.__all__ if name != "__version__"]
    for name in [*exported, *(f"labbook.checks.{name}" for name in labbook.checks.__all__)]:
        assert name in text
    assert "diagnose_exception(" not in text and "diagnose(" in text


@pytest.mark.parametrize("folder", ["symptoms", "zh/symptoms"])
def test_every_symptom_has_a_page_and_is_in_the_index(site, symptoms, folder):
    index = (site / folder / "index.html").read_text(encoding="utf-8")
    pages = {path.stem for path in (site / folder).glob("*.html")} - {"index"}
    assert pages == set(symptoms)
    assert all(f'href="{name}.html"' in index for name in symptoms)


def test_pages_say_their_language(site, symptoms):
    for name in symptoms[:5]:
        assert '<html lang="zh"' in (site / "zh" / "symptoms" / f"{name}.html").read_text(encoding="utf-8")
        assert '<html lang="en"' in (site / "symptoms" / f"{name}.html").read_text(encoding="utf-8")


def test_no_page_loads_anything_from_another_host(site):
    loading = [
        (page.relative_to(site).as_posix(), found[0])
        for page in site.rglob("*.html")
        if (found := _FETCHED.search(page.read_text(encoding="utf-8"))) and 'rel="canonical"' not in found[0]
    ]
    assert not loading


def test_every_link_of_the_site_leads_somewhere(site):
    anchors: dict[Path, set[str]] = defaultdict(set)
    links = []
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        anchors[page] = set(re.findall(r'\bid="([^"]+)"', text))
        if page.name != "404.html":
            links += [(page, html.unescape(link)) for link in re.findall(r'(?:href|src)="([^"]+)"', text)]
    broken = []
    for page, link in links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        target = target / "index.html" if target.is_dir() else target
        missing = parts.fragment and target in anchors and unquote(parts.fragment) not in anchors[target]
        if not target.is_file() or (missing and not parts.fragment.startswith("__")):
            broken.append(f"{page.relative_to(site)}: {link}")
    assert not broken, broken[:20]


def test_chinese_words_inside_a_sentence_are_in_the_search_index(site):
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "显\u200b存" in index


def test_the_version_is_the_same_everywhere():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f'\nversion = "{__version__}"\n' in project
    assert re.findall(r"^## \[(\d[^]]*)\]", changes, re.MULTILINE)[0] == __version__
