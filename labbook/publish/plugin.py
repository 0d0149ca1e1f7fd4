"""The MkDocs plugin `labbook`: adds the generated pages, and shows each note safely. Everything else is MkDocs' own."""

from __future__ import annotations

import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mkdocs.config.base import Config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import BasePlugin
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page as MkDocsPage

from labbook.errors import LabbookError
from labbook.publish import theme
from labbook.publish.notes import SiteNote, inert, site_note, with_block
from labbook.publish.page import Page, SiteSource
from labbook.publish.pages import experiment_runs, neighbours, same_script, site_files, site_pages
from labbook.publish.source import site_source
from labbook.publish.symptom_pages import symptom_page
from labbook.publish.symptom_view import SymptomView, symptom_path, symptom_view
from labbook.report.context import local_time
from labbook.report.run_row import RunRow
from labbook.store.notebook import Notebook, find_notebook
from labbook.store.templates import Templates

log = logging.getLogger("mkdocs.plugins.labbook")

_MOST_LINKS = 5
"""Symptoms, and runs that it cured, named above an entry. Source: chosen by us; all of them stand in the entry."""

_BAR_WORDS = ("older", "newer", "all_runs", "shows", "cured_in", "has_cured", "of_script")


class PluginSettings(Config):  # type: ignore[no-untyped-call]
    """The plugin takes no settings in `mkdocs.yml`; those of the notebook stand in `labbook.toml`."""


class LabbookPlugin(BasePlugin[PluginSettings]):  # type: ignore[no-untyped-call]
    """Turns the notebook beside `mkdocs.yml` into a site."""

    def __init__(self) -> None:
        self.notebook: Notebook
        self.templates: Templates
        self.language = "en"
        self.source = SiteSource(())
        self.view: SymptomView = symptom_view(self.source)
        self.pages: dict[str, Page] = {}
        self.notes: dict[str, SiteNote] = {}
        self.rows: dict[str, RunRow] = {}
        self.around: dict[str, tuple[RunRow | None, RunRow | None]] = {}
        self.of_script: dict[str, tuple[RunRow | None, RunRow | None]] = {}
        self.cured: dict[str, list[RunRow]] = {}
        self.cures: dict[str, str] = {}

    def on_config(self, config: MkDocsConfig) -> MkDocsConfig:
        """Adds the theme's overrides, the Markdown extensions that entries need, and defaults for what is not set."""
        root = Path(config.docs_dir).parent
        try:
            self.notebook = find_notebook(root, chosen=root, environ=os.environ)
        except LabbookError as error:
            raise PluginError(f"labbook: {error.message}; {error.hint}") from error
        if self.notebook.paths.notes.resolve() != Path(config.docs_dir).resolve():
            raise PluginError(f"labbook: docs_dir must be the notes/ of a notebook, not {config.docs_dir}")
        language = str(config.theme.get("language") or "")
        self.language = "zh" if language.startswith("zh") else "en"
        self.templates = Templates(self.notebook.paths.templates, self.language)
        theme.prepare(config, self.notebook.paths.templates / "site")
        return config

    def on_files(self, files: Files, *, config: MkDocsConfig) -> Files:
        """Adds the generated pages, and keeps runs, experiments, symptoms and reports out of the navigation."""
        self.source = site_source(self.notebook, time.time(), self.language)
        self.view = symptom_view(self.source)
        self.rows = {row.path: row for row in self.source.rows}
        self.around = neighbours(self.source.rows)
        self.of_script = same_script(self.source.rows)
        self.cures = {fix.run: fix.by for fix in self.source.fixes if fix.by}
        self.cured = defaultdict(list)
        for fix in self.source.fixes:
            if fix.by and fix.run in self.rows:
                self.cured[fix.by].append(self.rows[fix.run])
        self.notes = {}
        self.pages = {}
        taken = {file.dest_uri: file for file in files}
        for page in site_pages(self.source, self.templates):
            if files.get_file_from_path(page.path) is None:
                made = File.generated(config, page.path, content=page.markdown)
                if made.dest_uri in taken:
                    # A README.md beside it would become the same page, and one of them would be lost unsaid.
                    other = taken[made.dest_uri]
                    log.warning("notes/%s: left out, the site has a page there; call it index.md", other.src_uri)
                    files.remove(other)
                files.append(made)
                self.pages[page.path] = page
        for data in site_files(self.source, self.templates):
            files.append(File.generated(config, data.path, content=data.read()))
        for file in list(files):
            if file.src_uri.startswith("runs/") and file.name == "run" and file.src_uri.endswith("/run.json"):
                files.remove(file)
            elif file.is_documentation_page() and file.src_uri.count("/") and theme.is_listed(file.src_uri):
                file.inclusion = InclusionLevel.NOT_IN_NAV
        if config.nav is None:
            config.nav = theme.navigation(
                [file.src_uri for file in files.documentation_pages()], self.templates.words["site"]
            )
        return files

    def on_page_read_source(self, *, page: MkDocsPage, config: MkDocsConfig) -> str | None:
        """The text of a note, its front matter read by labbook: MkDocs never sees it."""
        source = page.file.src_uri
        if source in self.pages:
            return None
        path = f"notes/{source}"
        try:
            content = Path(str(page.file.abs_src_path)).read_bytes()
        except OSError as error:
            content = f"{path}: {error.strerror}".encode()
        note = site_note(content, path, str(self.templates.words["site"]["broken_note"]))
        self.notes[source] = note
        if note.problem:
            log.warning("%s; it is shown as text", note.problem)
        elif path in (unread := dict(self.source.problems)):
            log.warning("%s; the symptom is told without it", unread[path])
        # The empty line keeps MkDocs from taking the first lines for front matter of another kind.
        return f"\n{note.markdown}"

    def on_page_markdown(self, markdown: str, *, page: MkDocsPage, config: MkDocsConfig, files: Files) -> str:
        """Gives the page its title, and an experiment the table of its runs."""
        source = page.file.src_uri
        generated = self.pages.get(source)
        if generated is not None:
            hidden = ["navigation", "toc"] if generated.wide else ["navigation"]
            page.meta = {"title": inert(generated.title), "hide": hidden, "scripts": list(generated.scripts)}
            return markdown
        note = self.notes[source]
        page.meta = dict(note.meta)
        if source.startswith("experiments/") and not note.problem:
            table = experiment_runs(page.file.name, self.source, self.templates)
            markdown = with_block(markdown, "runs", table)
        symptom = source.removeprefix("symptoms/").removesuffix(".md")
        if symptom in self.view.paged and source == symptom_path(symptom):
            page.meta["title"] = inert(self.view.title(symptom))
            markdown = symptom_page(self.view, symptom, self.templates, markdown).markdown
        if f"notes/{source}" in self.rows:
            page.meta["labbook"] = self._bar(source, files)
        if theme.is_listed(source):
            page.meta.setdefault("hide", ["navigation"])
        # An instance attribute, so that MkDocs' own way of rendering stays as it is for every other page.
        page.render = partial(_render_or_show, page, page.render)  # type: ignore[method-assign]
        return markdown

    def on_page_content(self, html: str, *, page: MkDocsPage, config: MkDocsConfig, files: Files) -> str:
        """Colours the verdicts of an entry, and keeps tables and console out of the search."""
        if "labbook" not in page.meta:
            return html
        return theme.coloured(html)

    def _bar(self, source: str, files: Files) -> dict[str, Any]:
        """What stands above an entry: where it belongs in time."""
        row = self.rows[f"notes/{source}"]
        older, newer = self.around[row.path]

        def url(other: RunRow | None) -> str:
            return at(other.path.removeprefix("notes/")) if other is not None else ""

        def at(path: str) -> str:
            file = files.get_file_from_path(path)
            return file.url if file is not None else ""

        said = self.templates.words["site"]
        earlier, later = self.of_script.get(row.path, (None, None))
        cure = self.view.by_id.get(self.cures.get(row.path, ""))
        return {
            "status": row.status,
            "id": row.id,
            "when": local_time(row.started),
            "author": row.author,
            "older": url(older),
            "newer": url(newer),
            "all": at("runs/index.md"),
            "symptoms": [
                {"title": self.view.title(name), "url": at(symptom_path(name))}
                for name in row.symptoms[:_MOST_LINKS]
                if name in self.view.paged
            ],
            "cure": {"title": local_time(cure.started) or cure.id, "url": url(cure)} if cure is not None else None,
            "cured": [
                {"title": f"{local_time(failed.started) or failed.id} {failed.subject}", "url": url(failed)}
                for failed in self.cured.get(row.id, ())[:_MOST_LINKS]
            ],
            "script": row.script,
            "script_older": url(earlier) if earlier is not older else "",
            "script_newer": url(later) if later is not newer else "",
            "said": {key: str(said[key]) for key in _BAR_WORDS},
        }


def _render_or_show(page: MkDocsPage, render: Callable[..., None], config: MkDocsConfig, files: Files) -> None:
    """Renders a page; one that the Markdown parser cannot take is shown as text."""
    from labbook.store import escape

    try:
        render(config, files)
    except Exception as error:  # whatever one page does, the site is built
        log.warning("notes/%s: %s: %s; it is shown as text", page.file.src_uri, type(error).__name__, error)
        page.markdown = escape.fence(page.markdown or "", "text")
        render(config, files)
