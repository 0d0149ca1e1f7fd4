"""The MkDocs plugin `labbook`: adds the generated pages and makes each note safe."""

from __future__ import annotations

import logging
import os
import posixpath
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import click
from mkdocs.config.base import Config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import BasePlugin
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page as MkDocsPage

from labbook.errors import LabbookError, NotebookError
from labbook.index.folders import is_text
from labbook.publish.html import theme
from labbook.publish.html.cached_fragments import FrameParts, can_use_parts
from labbook.publish.html.notes import SiteNote, site_note, unlink_missing
from labbook.publish.html.page_safety import add_policy, foreign_pictures, page_problems, script_hashes, without_indents
from labbook.publish.html.rendering import PageRenderer
from labbook.publish.pages.build_record import content_key, files_below
from labbook.publish.pages.feed import feed_file
from labbook.publish.pages.generated_pages import site_files, site_pages
from labbook.publish.pages.page import Page, SiteFile, SiteSource
from labbook.publish.pages.page_context import PageContext
from labbook.publish.pages.site_data import site_source
from labbook.publish.pages.symptom_view import SymptomView, symptom_view
from labbook.publish.search.search_page import interface
from labbook.publish.site.post_build import POST_BUILD_FOLDERS, finish_site
from labbook.publish.site.site_folder import check_site_folder, note_written
from labbook.store.notebook import Notebook
from labbook.store.notebook_finder import find_notebook
from labbook.store.paths import stays_inside
from labbook.store.text import escape
from labbook.store.text.sentences import Sentences
from labbook.store.text.templates import Templates, compiled_templates

log = logging.getLogger("mkdocs.plugins.labbook")


class PluginSettings(Config):  # type: ignore[no-untyped-call]
    """The plugin has no settings in `mkdocs.yml`; those of the notebook are in `labbook.toml`."""


class LabbookPlugin(BasePlugin[PluginSettings]):  # type: ignore[no-untyped-call]
    """Turns the notebook next to `mkdocs.yml` into a site."""

    def __init__(self) -> None:
        self.notebook: Notebook
        self.templates: Templates
        self.around: PageContext
        self.renderer: PageRenderer
        self.nav: Navigation
        self.env: Any = None
        self.language = "en"
        self.say = Sentences("en")
        self.source = SiteSource(())
        self.pages: dict[str, Page] = {}
        self.notes: dict[str, SiteNote] = {}
        self.digests: dict[str, str] = {}
        self.data: dict[str, SiteFile] = {}
        self.lazy = False
        """Whether the caller calls `read` and takes the data files from `data`."""
        self.trusted = True
        """Whether theme templates of the notebook are used; MkDocs itself runs all code of the settings."""
        self.folder_is_checked = False
        """Whether the caller has checked the folder of the site."""
        self.state: Path | None = None
        """Folder of cached data for `--cache`; `None`: the private folder of the notebook."""
        self.foreign: set[str] = set()
        """Files in the folder of the site that labbook did not write."""
        self._dirty = False
        self._scripts: dict[str, tuple[str, ...]] = {}

    def on_config(self, config: MkDocsConfig) -> MkDocsConfig:
        """Adds theme overrides, the Markdown extensions of entries, and defaults."""
        root = Path(config.docs_dir).parent
        language = str(config.theme.get("language") or "")
        self.language = "zh" if language.startswith("zh") else "en"
        try:
            self.notebook = find_notebook(root, chosen=root, environ=os.environ)
            if self.notebook.paths.notes.resolve() != Path(config.docs_dir).resolve():
                raise NotebookError("errors.site.docs_dir", path=config.docs_dir)
            if not stays_inside(self.notebook.paths.notes, root):
                raise NotebookError("errors.site.link_folder", path="notes/")
        except LabbookError as error:
            raise _plugin_error(error, self.language) from error
        if self.notebook.config.language != "auto":
            # The setting of the notebook decides; `mkdocs.yml` has the language that `labbook init` found.
            self.language = self.notebook.config.language
            if language[:2] in ("", "en", "zh") and language[:2] != self.language:
                config.theme["language"] = self.language
        if not self.folder_is_checked:
            # With the command of MkDocs, --site-dir is a choice of a person, and `mkdocs serve` makes its own folder.
            # With `on_startup`, MkDocs would use one plugin for all builds of a process.
            context = click.get_current_context(silent=True)
            named = context and (context.params.get("site_dir") or context.info_name == "serve")
            self._dirty = bool(context and not context.params.get("clean", True))
            try:
                site = Path(config.site_dir)
                check_site_folder(self.notebook.paths.root, site, site if named else None)
            except LabbookError as error:
                raise _plugin_error(error, self.language) from error
        self.templates = Templates(self.notebook.paths.templates, self.language)
        self.say = Sentences(self.notebook.config.language_in_use())
        config.site_name = self.notebook.config.name_of_site(config.site_name)
        theme.without_built_in_search(config.plugins)
        theme.prepare(config, self.notebook.paths.templates / "site" if self.trusted else None)
        config.extra["labbook"] = interface(self.templates)
        return config

    def read(self) -> None:
        """Reads the notebook; the incremental build calls it before it lists files."""
        self.source = site_source(self.notebook, time.time(), self.language, state=self.state)

    def on_files(self, files: Files, *, config: MkDocsConfig) -> Files:
        """Adds the generated pages, and removes listed notes from the navigation."""
        if not self.lazy:
            self.read()
        self.renderer = PageRenderer(config, anchors=not self.lazy)
        self.notes, self.pages, self._scripts = {}, {}, {}
        self._leave_out_files(files, config.docs_dir)
        view = symptom_view(self.source)
        self._add_pages(files, config, view)
        self.data = {data.path: data for data in site_files(self.source, view)}
        words, directories = self.templates.words, bool(config.use_directory_urls)
        feed = feed_file(self.source, words, config.site_name, config.site_url or "", directory_urls=directories)
        self.data[feed.path] = feed
        for path, data in self.data.items():
            files.append(File.generated(config, path, content=b"" if self.lazy else data.read()))
        _hide_listed_notes(files, config)
        if config.nav is None:
            config.nav = theme.navigation([file.src_uri for file in files.documentation_pages()], words["site"])

        def find_file(path: str) -> str:
            file = files.src_uris.get(path)
            return file.url if file is not None else ""

        self.around = PageContext(self.source, self.templates, find_file, view)
        return files

    def _leave_out_files(self, files: Files, docs: str) -> None:
        """Removes data of runs, files with secrets, links out of the notebook, and names that are not UTF-8."""
        root = self.notebook.paths.root
        for file in list(files):
            path = file.src_uri
            if path in self.source.withheld:
                files.remove(file)
                if file.is_documentation_page():
                    self.warn("terminal.site.left_out_secret", path=path)
            elif not self.lazy and file.src_dir == docs and not stays_inside(Path(docs, path), root):
                files.remove(file)
                self.warn("terminal.site.left_out_link", path=path)
            elif not is_text(path):
                files.remove(file)
                self.warn("terminal.site.left_out_name", path=path.encode("utf-8", "backslashreplace").decode())
            elif path.startswith("runs/") and path.endswith("/run.json"):
                files.remove(file)

    def _add_pages(self, files: Files, config: MkDocsConfig, view: SymptomView) -> None:
        """Adds the generated pages that the notebook does not have itself."""
        taken = {file.dest_uri: file for file in files if not file.src_uri.startswith("runs/2")}
        for page in site_pages(self.source, self.templates, view):
            if page.path in files.src_uris:
                continue
            made = File.generated(config, page.path, content="")
            if made.dest_uri in taken:
                # A README.md next to it would become the same page, and one of them would be lost silently.
                other = taken[made.dest_uri]
                self.warn("terminal.site.left_out_taken", path=other.src_uri)
                files.remove(other)
            files.append(made)
            self.pages[page.path] = page

    def on_nav(self, nav: Navigation, *, config: MkDocsConfig, files: Files) -> Navigation:
        """Stores the navigation, for the page from which the scripts of the theme are read."""
        self.nav = nav
        return nav

    def on_env(self, env: Any, *, config: MkDocsConfig, files: Files) -> Any:  # noqa: ANN401 - of Jinja2
        """Stores the theme, without reloading of its templates."""
        env.auto_reload = False
        # Compiling the theme takes 0.3 s.
        env.bytecode_cache = compiled_templates()
        self.env = env
        if self.lazy and can_use_parts(config):
            shown = {page.file.src_uri for page in self.nav.pages}
            addresses = [page.url for page in self.nav.pages]

            def is_outside(page: MkDocsPage) -> bool:
                return page.parent is None and page.file.src_uri not in shown

            FrameParts(config, is_outside, addresses).install(env)
        return env

    def key_of_page(self, source: str) -> str:
        """Returns the key of a page besides its note and what all pages share."""
        made = self.pages.get(source)
        if made is not None:
            return content_key(made.key or made.text(), made.title, made.wide, made.scripts)
        return content_key(self.around.context_of(source))

    def on_page_read_source(self, *, page: MkDocsPage, config: MkDocsConfig) -> str | None:
        """Returns the text of a note without the front matter, which labbook reads."""
        source = page.file.src_uri
        if source in self.pages:
            return self.pages[source].text()
        path = f"notes/{source}"
        try:
            content = Path(str(page.file.abs_src_path)).read_bytes()
            self.digests[source] = content_key(content)
        except OSError as error:
            content = f"{path}: {error.strerror}".encode()
            self.warn("terminal.site.not_readable", path=path, reason=error.strerror or "")
        front = self.source.front_of(path, content)
        note = site_note(content, path, str(self.templates.words["site"]["broken_note"]), front, self.say)
        self.notes[source] = note
        if note.problem:
            self.warn("terminal.site.shown_as_text", problem=note.problem)
        elif path in (unread := dict(self.source.problems)):
            self.warn("terminal.site.built_in_page", problem=unread[path])
        # Without the empty line, MkDocs could read the first lines as front matter.
        return f"\n{note.markdown}"

    def on_page_markdown(self, markdown: str, *, page: MkDocsPage, config: MkDocsConfig, files: Files) -> str:
        """Adds title and context to the page of a note."""
        source = page.file.src_uri
        generated = self.pages.get(source)
        # An instance attribute, so that other pages are rendered by MkDocs.
        page.render = partial(_render_or_show, page, self, generated is not None)  # type: ignore[method-assign]
        if generated is not None:
            page.meta = generated.front_matter()
            return markdown
        text, page.meta = self.around.text_and_front_matter(source, self.notes.pop(source))
        folder = source.rpartition("/")[0]

        def has_note(address: str) -> bool:
            return files.get_file_from_path(posixpath.normpath(f"{folder}/{unquote(address)}".lstrip("/"))) is not None

        return f"\n{unlink_missing(text, has_note)}"

    def on_page_content(self, html: str, *, page: MkDocsPage, config: MkDocsConfig, files: Files) -> str:
        """Colours the verdicts of an entry, and excludes tables and console from the search."""
        if page.file.src_uri not in self.pages:
            for address in foreign_pictures(html)[:3]:
                self.warn("terminal.site.foreign_picture", path=page.file.src_uri, address=address[:200])
        if "labbook" not in page.meta:
            return html
        return theme.coloured(html)

    def on_post_page(self, output: str, *, page: MkDocsPage, config: MkDocsConfig) -> str:
        """Returns the finished page with its policy.

        Raises:
            PluginError: It has active content, or loads files of other hosts.
        """
        scripts = self._theme_scripts(page.url, config)
        # The content has been checked, and is in the page once, unchanged.
        before, content, after = output.partition(page.content) if page.content else (output, "", "")
        before, after = without_indents(before), without_indents(after)
        return _protect_page(
            before + content + after, before + after, scripts, f"notes/{page.file.src_uri}", config, self.say
        )

    def on_post_template(self, output_content: str, *, template_name: str, config: MkDocsConfig) -> str:
        """Returns the 404 page with its policy."""
        if not template_name.endswith(".html"):
            return output_content
        output_content = without_indents(output_content)
        return _protect_page(
            output_content, output_content, script_hashes(output_content), template_name, config, self.say
        )

    def on_post_build(self, *, config: MkDocsConfig) -> None:
        """Writes files made from the whole site."""
        self.log_problem(self.finish(config))
        if not self.lazy and not self._dirty:
            # MkDocs has emptied the folder.
            site = Path(config.site_dir)
            note_written(site, files_below(site, POST_BUILD_FOLDERS).keys() - self.foreign)

    def finish(self, config: MkDocsConfig) -> str:
        """Writes them, in any process; returns why the site has no search, or ""."""
        return finish_site(
            self.notebook,
            self.source,
            Path(config.site_dir),
            directory_urls=config.use_directory_urls,
            state=self.state,
        )

    def warn(self, key: str, **values: object) -> None:
        """Logs a warning in the language of the notebook."""
        log.warning("%s", self.say.line(key, **values))

    def log_problem(self, problem: str) -> None:
        """Logs a warning if there is a problem."""
        if problem:
            log.warning("%s", problem)

    def _theme_scripts(self, url: str, config: MkDocsConfig) -> tuple[str, ...]:
        """Returns the hashes of the scripts in the frame of the theme, from a page without content."""
        folder = str(PurePosixPath(url).parent) if not url.endswith("/") else url
        place = "/".join("x" for _ in PurePosixPath(folder).parts)
        if place not in self._scripts:
            from mkdocs.commands.build import get_context

            file = File.generated(config, f"{place}/empty.md" if place else "empty.md", content="")
            file.url = f"{place}/empty.html" if place else "empty.html"
            empty = MkDocsPage(None, file, config)
            empty.markdown, empty.content, empty.meta = "", "", {"title": "empty"}
            template = self.env.get_template("main.html")
            frame = without_indents(template.render(get_context(self.nav, [], config, empty)))
            self._scripts[place] = script_hashes(frame)
        return self._scripts[place]


def _hide_listed_notes(files: Files, config: MkDocsConfig) -> None:
    """Takes notes that a page lists out of the navigation, except copies of JupyterLab in `.ipynb_checkpoints`.

    Files excluded in `mkdocs.yml` stay excluded; MkDocs applies that only to files without inclusion level.
    """
    left_out = [matched.match_file for matched in (config.exclude_docs, config.draft_docs) if matched is not None]
    for file in files:
        path = file.src_uri
        is_listed = file.is_documentation_page() and "/" in path and theme.is_listed(path)
        if is_listed and "/." not in path and not any(matches(path) for matches in left_out):
            file.inclusion = InclusionLevel.NOT_IN_NAV


def _plugin_error(error: LabbookError, language: str) -> PluginError:
    """Returns an error of labbook as one of MkDocs, which prints it and ends."""
    parts = [text for text in error.texts(language) if text]
    return PluginError(Sentences(language).line("terminal.site.stopped", parts=parts))


def _protect_page(
    output: str, frame: str, scripts: tuple[str, ...], what: str, config: MkDocsConfig, say: Sentences
) -> str:
    """Returns the page with its policy, after checking the part not checked before."""
    policy = theme.policy(config.extra)
    problems = page_problems(frame, scripts) if policy == theme.POLICY else []
    if problems:
        raise _unsafe(what, problems, say)
    return add_policy(output, scripts, policy)


def _unsafe(page: str, problems: Sequence[str], say: Sentences) -> PluginError:
    return PluginError(say.line("terminal.site.unsafe", page=page, problems=list(map(say, dict.fromkeys(problems)))))


def _render_or_show(page: MkDocsPage, plugin: LabbookPlugin, ours: bool, config: MkDocsConfig, files: Files) -> None:
    """Renders a page; one that the parser rejects, or with active content, is shown as text."""

    def show(problem: str) -> None:
        plugin.warn("terminal.site.shown_as_text", problem=f"notes/{page.file.src_uri}: {problem}")

    try:
        plugin.renderer.render(page, files)
        problems = page_problems(page.content or "")
        if not problems:
            return
        show(plugin.say.line("terminal.site.has", names=list(map(plugin.say, dict.fromkeys(problems)))))
        if ours:
            raise _unsafe(page.file.src_uri, problems, plugin.say)
    except PluginError:
        raise
    except Exception as error:  # one page must not stop the build
        show(f"{type(error).__name__}: {error}")
    page.markdown = escape.fence(page.markdown or "", "text")
    plugin.renderer.render(page, files)
