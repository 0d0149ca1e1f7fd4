"""Builds a site with the parts of MkDocs, rendering only pages that would differ.

MkDocs renders every page in every build and holds all of them in memory. Here each page has a key of its sources. A
page with the key of the last build whose file is unchanged is skipped. The result equals a build of MkDocs into an
empty folder, byte for byte.
"""

from __future__ import annotations

import gc
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mkdocs.commands.build import _build_extra_template, _build_theme_template, _populate_page, get_context
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, InclusionLevel, set_exclusions
from mkdocs.structure.nav import get_navigation
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import TableOfContents
from mkdocs.utils import get_build_date

from labbook.publish.html.theme import REPLACED
from labbook.publish.pages.build_record import (
    BuildRecord,
    WrittenFile,
    content_key,
    file_state,
    files_below,
    read_record,
    write_record,
)
from labbook.publish.pages.page_context import Day
from labbook.publish.site.post_build import POST_BUILD_FOLDERS
from labbook.publish.site.site_files import (
    is_the_same_all_day,
    key_of_settings,
    navigation_data,
    site_files,
    theme_files,
)
from labbook.publish.site.site_folder import (
    check_kept_folders,
    note_written,
    remove_left_over,
    write_site_file,
    written_files,
)
from labbook.publish.site.worker_processes import (
    can_have_some,
    map_in_processes,
    run_aside_or_later,
    run_in_worker,
    share_out,
)

if TYPE_CHECKING:
    from mkdocs.structure.nav import Navigation

    from labbook.publish.plugin import LabbookPlugin

_FOR_MANY = 60
"""Fewest pages for several processes. Source: chosen by us; starting them takes 50 ms."""


class BuildResult(NamedTuple):
    """Result of a build: numbers of pages, rendered pages, removed files."""

    pages: int
    rendered: int
    removed: int


def can_build(config: MkDocsConfig) -> bool:
    """Whether the site can be built incrementally; other plugins and hooks may need to see every page."""
    return (
        set(config.plugins) - set(REPLACED) == {"labbook"}
        and not config.hooks
        and not config.strict
        and config.validation.links.anchors <= logging.INFO
    )


def build_changed(
    config: MkDocsConfig,
    record_path: Path,
    warnings: list[str],
    *,
    workers: int = 1,
    everything: bool = False,
    on_pages_ready: Callable[[], None] | None = None,
    notify: Callable[[int, int], None] | None = None,
) -> BuildResult:
    """Updates the folder of the site.

    Args:
        config: Configuration of MkDocs for which `can_build` is true.
        record_path: Record of the last build.
        warnings: Warnings of MkDocs; those of skipped pages are added.
        on_pages_ready: Called when all pages are written, before the search.
        notify: Called with (pages rendered, pages to render).

    Raises:
        OSError: The site cannot be written.

    Cost: less than 10 ms of CPU time for a page; see `make bench-site` for one new entry of 10,000.
    """
    gc.disable()
    try:
        before = BuildRecord() if everything else read_record(record_path)
        return _Build(config, before, warnings, on_pages_ready, notify).run(record_path, workers)
    finally:
        gc.enable()


class _Build:
    """One build."""

    def __init__(
        self,
        config: MkDocsConfig,
        before: BuildRecord,
        warnings: list[str],
        on_pages_ready: Callable[[], None] | None,
        notify: Callable[[int, int], None] | None,
    ) -> None:
        self._before = before
        self._on_pages_ready = on_pages_ready
        self._notify = notify
        self._warnings = warnings
        self._plugin: LabbookPlugin = config.plugins["labbook"]  # type: ignore[assignment]
        self._plugin.lazy = True
        self._config = config.plugins.on_config(config)
        self._site = Path(config.site_dir)
        self._now_ns = time.time_ns()

    def run(self, record_path: Path, workers: int) -> BuildResult:
        """Runs the build."""
        self._config.plugins.on_pre_build(config=self._config)
        self._plugin.read()
        self._there = files_below(self._site, POST_BUILD_FOLDERS)
        self._own = written_files(self._site, record_path)
        # Before the search is built beside the pages: it writes into one of these folders.
        check_kept_folders(self._site, self._own)
        if workers < 2 or not can_have_some():
            return self._update_all(record_path, 1, partial(self._config.plugins.on_post_build, config=self._config))
        # Noted first, so that the search of a killed build is known to be labbook's.
        for name in POST_BUILD_FOLDERS:
            with suppress(FileExistsError):
                (self._site / name).mkdir(parents=True, exist_ok=True)
        note_written(self._site, self._own)
        # The search needs no pages, so it is built from here on, in parallel.
        with run_in_worker(partial(self._plugin.finish, self._config)) as problem:
            return self._update_all(record_path, workers, lambda: self._plugin.log_problem(problem()))

    def _update_all(self, record_path: Path, workers: int, finish: Callable[[], None]) -> BuildResult:
        """Updates pages and files."""
        self._list_files()
        settings = key_of_settings(self._config)
        others = {
            f.src_uri
            for f in self._files
            if f.src_uri not in self._pages and f.inclusion.value > InclusionLevel.DRAFT.value
        }
        self._templates = {path for template in self._config.theme.static_templates for path in theme_files(template)}
        self._changed = self._before.pages.keys() ^ self._pages.keys()
        self._changed |= (self._before.files.keys() ^ others) - self._templates
        days = self._plugin.around.keys_of_days(self._files.src_uris)
        keys = self._keys(settings, days)
        self._name_the_navigation(keys)
        self._frame = content_key(settings, navigation_data(self._nav.items))
        stale = self._stale(keys)
        expected = self._expected_files(others)
        # Noted before anything is written, so that files of a killed build are known to be labbook's.
        note_written(self._site, self._own | expected)
        copied = {source: self._other_file(source) for source in sorted(others)} | self._write_templates()
        made: dict[str, WrittenFile] = {}
        for source, written in self._render_stale(stale, keys, workers):
            made[source] = written
            if self._notify is not None:
                self._notify(len(made), len(stale))
        for source in self._pages:
            if source not in made:
                self._warnings += self._before.pages[source].warnings
        removed = remove_left_over(self._site, self._there, expected, self._own)
        if self._on_pages_ready is not None:
            self._on_pages_ready()
        finish()
        note_written(self._site, {path for path in expected if path not in self._templates or path in copied})
        known = {source: made.get(source) or self._refreshed(source, keys[source]) for source in self._pages}
        around = {day: content_key(settings, key) for day, (key, _) in days.items()}
        write_record(record_path, BuildRecord(self._frame, known, copied, around))
        return BuildResult(len(self._pages), len(stale), removed)

    def _list_files(self) -> None:
        """Lists files, pages and navigation, and prepares the theme, in the order in which MkDocs calls its plugins."""
        config = self._config
        env = config.theme.get_env()
        self._files, self._stats = site_files(config)
        # labbook's plugin adds files; there is no other plugin.
        config.plugins.on_files(self._files, config=config)
        set_exclusions(self._files, config)
        self._pages = {file.src_uri: file for file in self._files.documentation_pages()}
        self._files.in_nav_only = True
        nav = get_navigation(self._files, config)
        self._files.in_nav_only = False
        self._nav: Navigation = config.plugins.on_nav(nav, config=config, files=self._files)
        # The sitemap, which needs the address of the site, lists the pages of files.
        for file in self._pages.values() if config.site_url else ():
            if file.page is None:
                Page(None, file, config)
        self._env = config.plugins.on_env(env, config=config, files=self._files)

    def _keys(self, settings: str, days: Mapping[str, Day]) -> dict[str, tuple[str, str, str]]:
        """Returns key, state and digest of each page.

        If nothing changed around the runs of a day, an unchanged entry has its previous key.
        """
        keys = {}
        before = self._before.pages
        for day, (key, sources) in days.items():
            if self._before.days.get(day) != content_key(settings, key):
                continue
            for source in sources:
                known = before.get(source)
                if known is not None and known.key and known.stat and known.stat == self._stats.get(source):
                    keys[source] = (known.key, known.stat, known.digest)
        return {source: keys.get(source) or self._key(source, settings) for source in self._pages}

    def _key(self, source: str, settings: str) -> tuple[str, str, str]:
        """Returns key, state and digest of the source file of a page."""
        around = self._plugin.key_of_page(source)
        if source in self._plugin.pages:
            return content_key(settings, around), "", ""
        before = self._before.pages.get(source)
        stat = self._stats.get(source, "")
        if before is not None and stat and before.stat == stat:
            digest = before.digest
        else:
            try:
                digest = content_key(Path(str(self._pages[source].abs_src_path)).read_bytes())
            except OSError as error:
                digest = f"unreadable: {error.errno}"
        return content_key(settings, around, digest), stat, digest

    def _stale(self, keys: Mapping[str, tuple[str, str, str]]) -> list[str]:
        """Returns the pages that are missing or would differ."""
        if self._frame != self._before.frame:
            return list(self._pages)
        nothing = WrittenFile("")
        there, changed, before = self._there, self._changed, self._before.pages
        stale = []
        for source, file in self._pages.items():
            known = before.get(source, nothing)
            same = known.key == keys[source][0] and there.get(file.dest_uri) == (known.size, known.written_ns)
            if not same or not changed.isdisjoint(known.linked):
                stale.append(source)
        return stale

    def _is_as_it_was(self, template: str) -> bool:
        """Whether the files of a template of the theme are up to date."""
        if self._frame != self._before.frame or not is_the_same_all_day(template, self._env, self._config):
            return False
        known, there = self._before.files, self._there
        return all(
            path in known and known[path] == WrittenFile(get_build_date(), *there.get(path, ()))
            for path in theme_files(template)
        )

    def _refreshed(self, source: str, key: tuple[str, str, str]) -> WrittenFile:
        """Returns the record of a skipped page, with the current time of its note."""
        known = self._before.pages[source]
        return known if known.stat == key[1] else known._replace(stat=key[1])

    def _name_the_navigation(self, keys: Mapping[str, tuple[str, str, str]]) -> None:
        """Gives the pages in the navigation their titles, recorded or from rendering."""
        for page in self._nav.pages:
            source = page.file.src_uri
            before = self._before.pages.get(source)
            if page.title is not None:
                continue
            if before is not None and before.title and before.key == keys[source][0]:
                page.title = before.title
            else:
                self._populate(page.file)
                page.title = page.title

    def _populate(self, file: File) -> Page:
        page = file.page or Page(None, file, self._config)
        _populate_page(page, self._config, self._files)
        return page

    def _render_stale(
        self, stale: Sequence[str], keys: Mapping[str, tuple[str, str, str]], workers: int
    ) -> Iterator[tuple[str, WrittenFile]]:
        """Renders pages and returns their records."""
        doc_files = list(self._pages.values())
        work: Callable[[str], tuple[str, WrittenFile]] = partial(self._make, keys=keys, doc_files=doc_files)
        if not stale:
            return
        # The first page fills the caches that every process needs.
        yield work(stale[0])
        if workers > 1 and len(stale) >= _FOR_MANY:
            for source, known in map_in_processes(work, stale[1:], workers):
                self._warnings += known.warnings
                yield source, known
            return
        ours, others = share_out(stale[1:], {source: known.size for source, known in self._before.pages.items()})
        with run_aside_or_later(lambda: [work(source) for source in others], workers if others else 1) as made:
            yield from map(work, ours)
            for source, known in made():
                self._warnings += known.warnings
                yield source, known

    def _make(
        self, source: str, keys: Mapping[str, tuple[str, str, str]], doc_files: Sequence[File]
    ) -> tuple[str, WrittenFile]:
        file = self._pages[source]
        config, files = self._config, self._files
        first = len(self._warnings)
        linked: set[str] = set()
        files.linked = linked
        page = self._populate(file)
        files.linked = None
        config._current_page = page
        page.active = True
        try:
            context = get_context(self._nav, doc_files, config, page)
            template = self._env.get_template(page.meta.get("template", "main.html"))
            context = config.plugins.on_page_context(context, page=page, config=config, nav=self._nav)
            output = config.plugins.on_post_page(template.render(context), page=page, config=config)
        finally:
            page.active = False
            config._current_page = None
        title = str(page.title or "")
        content = output.encode("utf-8", errors="xmlcharrefreplace")
        size, at = write_site_file(self._site, file.dest_uri, content, self._own)
        # Saves memory with ten thousand pages.
        page.content, page.markdown, page.toc = None, "", TableOfContents([])
        key, stat, digest = keys[source]
        if digest and self._plugin.digests.get(source, digest) != digest:
            # Changed since its key was made: the next build checks again.
            key = stat = ""
        return source, WrittenFile(
            key, size, at, stat, digest, tuple(sorted(linked)), tuple(self._warnings[first:]), title
        )

    def _other_file(self, source: str) -> WrittenFile:
        """Copies or writes a file that is not a page, unless it is up to date."""
        file = self._files.src_uris[source]
        before = self._before.files.get(source)
        data = self._plugin.data.get(source)
        if data is not None:
            content = None if data.key else data.read()
            key = content_key(data.key) if data.key else content_key(content)
            stat = "made"
        else:
            content = None
            stat = self._stats.get(source) or file_state(Path(str(file.abs_src_path)).stat(), self._now_ns)
            key = content_key(stat or secrets.token_hex(8))
        there = self._there.get(file.dest_uri)
        if before is not None and stat and before.key == key and there == (before.size, before.written_ns):
            return before
        if content is None:
            content = data.read() if data is not None else file.content_bytes
        return WrittenFile(key, *write_site_file(self._site, file.dest_uri, content, self._own))

    def _write_templates(self) -> dict[str, WrittenFile]:
        """Builds the templates of the theme that are not up to date, and those of the user.

        Returns:
            The records of the files of the theme.
        """
        for template in sorted(self._config.theme.static_templates):
            if not self._is_as_it_was(template):
                _build_theme_template(template, self._env, self._files, self._config, self._nav)
        for template in self._config.extra_templates:
            _build_extra_template(template, self._files, self._config, self._nav)
        found = {}
        for path in sorted(self._templates):
            try:
                state = (self._site / path).stat()
            except OSError:
                continue
            found[path] = WrittenFile(get_build_date(), state.st_size, state.st_mtime_ns)
        return found

    def _expected_files(self, others: Iterable[str]) -> set[str]:
        files = self._files.src_uris
        templates = {*self._config.extra_templates, *self._templates}
        return (
            {file.dest_uri for file in self._pages.values()} | {files[other].dest_uri for other in others} | templates
        )
