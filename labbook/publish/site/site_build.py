"""Builds and serves the site with MkDocs."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.errors import LabbookError, NotebookError, UsageError
from labbook.frozen import dataclass
from labbook.index.build import refresh
from labbook.publish.pages.build_record import files_below
from labbook.publish.site.mkdocs_settings import read_settings
from labbook.publish.site.post_build import POST_BUILD_FOLDERS
from labbook.publish.site.site_cache import keep_index, note_times, restore_index, restore_times, state_in
from labbook.publish.site.site_folder import check_site_folder, note_written, remove_written
from labbook.screen import print_error
from labbook.store.locks import hold_lock
from labbook.store.notebook import Notebook
from labbook.store.text.sentences import Sentences

if TYPE_CHECKING:
    from labbook.publish.site.serving import View

_LONGEST_WAIT_S = 600.0
_PORTS = range(8000, 8050)


@dataclass(frozen=True)
class BuiltSite:
    """A built site.

    Args:
        warnings: Distinct warnings of MkDocs on the notes.
        rendered: Number of rendered pages; the others did not change.
    """

    folder: Path
    pages: int
    seconds: float
    warnings: tuple[str, ...]
    rendered: int


ENGINES = ("mkdocs", "zensical")


def build_site(
    notebook: Notebook,
    *,
    everything: bool = False,
    workers: int | None = None,
    engine: str = "mkdocs",
    on_pages_ready: Callable[[], None] | None = None,
    folder: Path | None = None,
    trusted: bool = False,
    cache: Path | None = None,
    notify: Callable[[int, int], None] | None = None,
) -> BuiltSite:
    """Builds the site of a notebook; unchanged pages are not rendered.

    If `mkdocs.yml` has other plugins or hooks, MkDocs builds the whole site, because they may need every page.

    Args:
        workers: Maximum number of processes; by default the number of cores, at most eight.
        engine: One of `ENGINES`; "zensical" renders every page.
        on_pages_ready: Called when all pages are written, before the search.
        folder: Folder of the site, anywhere; by default the one of `mkdocs.yml`, which must be in the notebook.
        trusted: Whether to run code of the notebook: MkDocs reads `mkdocs.yml` itself, and theme templates in
            `templates/site` are used.
        cache: Folder for the site and the record of its build, which a CI job archives and restores; see `site_cache`.
        notify: Called with (pages rendered, pages to render).

    Raises:
        UsageError: MkDocs and its theme are not installed, or `cache` was combined with Zensical.
        NotebookError: `mkdocs.yml` is missing or unusable, or the folder of the site is refused.
    """
    started = time.monotonic()
    many = min(8, len(os.sched_getaffinity(0))) if workers is None else workers
    if cache is not None:
        if engine != "mkdocs":
            raise UsageError("errors.site.cache_with_engine", engine=engine)
        cache = cache.absolute()
        folder = folder or cache / "site"
    notebook.paths.private.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Two builds at the same time would write the same files.
    with hold_lock(notebook.paths.private / "site.lock", _LONGEST_WAIT_S), _Warnings() as log:
        if engine == "zensical":
            from labbook.publish.site.zensical_build import build_with_zensical

            site, pages, own = build_with_zensical(notebook, folder, trusted=trusted)
            warnings = tuple(dict.fromkeys([*own, *log.messages]))
            return BuiltSite(site, pages, time.monotonic() - started, warnings, pages)
        config = _config(notebook, log, folder, trusted=trusted, state=state_in(cache) if cache is not None else None)
        site = Path(config.site_dir)
        if cache is not None:
            restore_times(cache, site)
            restore_index(cache, notebook.paths.index)
        build = partial(_build, config, notebook, log, many, on_pages_ready, everything=everything, notify=notify)
        pages, rendered = _call(build, log)
        if cache is not None:
            _call(lambda: note_times(cache, site), log)
            keep_index(cache, notebook.paths.index)
    warnings = tuple(dict.fromkeys(log.messages))
    return BuiltSite(Path(config.site_dir), pages, time.monotonic() - started, warnings, rendered)


def serve_site(
    notebook: Notebook,
    port: int | None,
    print_line: Callable[[str], None],
    *,
    polling: bool = False,
    on_build: Callable[[BuiltSite], None] | None = None,
    site: Path | None = None,
    trusted: bool = False,
    notify: Callable[[int, int], None] | None = None,
    view: View | None = None,
) -> None:
    """Serves the site on this machine until interrupted, and rebuilds it when a note changes.

    Args:
        port: Port; by default the first free one from 8000 on.
        polling: Poll for changes (needed on network file systems).
        on_build: Called after each build.
        site: Folder of the site; by default the one of `mkdocs.yml`.
        trusted: Whether to run code of the notebook.
        notify: Called with (pages rendered, pages to render) during the first build.
        view: Looks at runs that go on, for their open pages.

    Raises:
        UsageError: MkDocs is not installed, or the port is taken.
        NotebookError: `mkdocs.yml` is missing or unusable, or the folder of the site is refused.
    """
    _require()
    from labbook.publish.site.file_watch import changes
    from labbook.publish.site.serving import HOST, Builds, SiteServer

    report = on_build or (lambda built: None)
    with _Warnings() as log:
        folder = Path(_config(notebook, log, site, trusted=trusted).site_dir)
    builds = Builds()
    try:
        server = SiteServer(_free_port(port), folder, builds, view)
    except OSError as error:
        raise UsageError("errors.site.not_listening", host=HOST, reason=error) from error
    language = notebook.config.language_in_use()
    print_line(Sentences(language).line("terminal.site.serving", address=f"http://{HOST}:{server.server_port}/"))
    with contextlib.ExitStack() as stack:
        stack.enter_context(server)
        # The server starts after the first build: processes are forked, which must not happen beside threads.
        done = build_site(notebook, folder=site, trusted=trusted, notify=notify)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        report(done)
        for changed in changes(notebook, polling=polling, yield_start=True):
            try:
                # In a large notebook, not every note is checked for each query.
                refresh(notebook, only=[notebook.paths.root / name for name in changed if name.startswith("notes/")])
                book = _reopened(notebook)
                done = build_site(book, workers=1, on_pages_ready=builds.count_build, folder=site, trusted=trusted)
            except LabbookError as error:
                print_error(*error.texts(language))
                continue
            if done.rendered or changed:
                builds.count_build()
                report(done)


def _reopened(notebook: Notebook) -> Notebook:
    """Returns the notebook with its current settings."""
    from labbook.store.notebook_finder import find_notebook

    return find_notebook(notebook.paths.root, chosen=notebook.paths.root, environ=os.environ)


def _require() -> None:
    """Checks that the libraries of the site are installed."""
    # The theme prints a notice about its future on every start, which does not concern users.
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "true")
    missing = [name for name in ("mkdocs", "material") if find_spec(name) is None]
    if missing:
        raise UsageError("errors.site.not_installed", missing=missing[0], packages=" ".join(_requirements()))


def _requirements() -> list[str]:
    """Returns the requirements of `labbook[site]`, quoted for a shell."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        wanted = requires("labbook") or []
    except PackageNotFoundError:
        wanted = []
    marked = [line.partition(";") for line in wanted if "extra == 'site'" in line or 'extra == "site"' in line]
    return [f'"{name.strip()}"' for name, _, _ in marked] or ['"mkdocs-material>=9.8.1"', '"watchdog>=6"']


def _settings_file(notebook: Notebook) -> Path:
    path = notebook.paths.root / "mkdocs.yml"
    if not path.is_file():
        raise NotebookError("errors.site.no_file", path=path, root=notebook.paths.root)
    notebook.paths.notes.mkdir(parents=True, exist_ok=True)
    return path


def _config(
    notebook: Notebook, log: _Warnings, folder: Path | None, *, trusted: bool, state: Path | None = None
) -> Any:  # noqa: ANN401 - a configuration of MkDocs
    _require()
    from mkdocs.config import load_config

    path = _settings_file(notebook)
    chosen = str(folder.absolute()) if folder is not None else None
    safe = read_settings(notebook.paths.root)
    if trusted:
        config = _call(lambda: _load_with_mkdocs(path, chosen), log)
    else:
        log.messages += [safe.warning(Sentences(notebook.config.language_in_use()))] if safe.left_out else []
        values = {**safe.values, "site_dir": chosen or safe.values.get("site_dir")}
        config = _call(lambda: load_config(io.BytesIO(b"{}"), config_file_path=str(path), **values), log)
    plugin = config.plugins.get("labbook")
    if plugin is not None:
        plugin.folder_is_checked, plugin.trusted, plugin.state = True, trusted, state
    check_site_folder(notebook.paths.root, Path(config.site_dir), folder)
    return config


def _load_with_mkdocs(path: Path, site_dir: str | None) -> Any:  # noqa: ANN401 - a configuration of MkDocs
    """Returns the configuration of a trusted notebook.

    Raises:
        NotebookError: Code of the settings failed, or a file that they inherit from has no settings.
    """
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort, MkDocsException

    try:
        return load_config(str(path), site_dir=site_dir)
    except (MkDocsException, Abort, OSError):
        raise
    except Exception as error:
        raise NotebookError(
            "errors.site.mkdocs_not_readable", path=path, kind=type(error).__name__, reason=str(error)
        ) from error


def _build(
    config: Any,  # noqa: ANN401 - a configuration of MkDocs
    notebook: Notebook,
    log: _Warnings,
    workers: int,
    on_pages_ready: Callable[[], None] | None,
    *,
    everything: bool,
    notify: Callable[[int, int], None] | None,
) -> tuple[int, int]:
    """Builds the site; returns the numbers of pages and of rendered pages."""
    from labbook.publish.site.incremental_build import build_changed, can_build

    plugin = config.plugins.get("labbook")
    state = plugin.state if plugin is not None else None
    record = (state or notebook.paths.private) / "site.json"
    config.plugins.on_startup(command="build", dirty=False)
    try:
        if can_build(config):
            built = build_changed(
                config,
                record,
                log.messages,
                workers=workers,
                everything=everything,
                on_pages_ready=on_pages_ready,
                notify=notify,
            )
            return built.pages, built.rendered
        site = Path(config.site_dir)
        foreign = remove_written(site, record)
        if plugin is not None:
            plugin.foreign = foreign
        with _without_cleaning():
            from mkdocs.commands.build import build

            build(config)
        made = files_below(site, POST_BUILD_FOLDERS).keys() - foreign
        note_written(site, made)
        record.unlink(missing_ok=True)
        pages = sum(name.endswith(".html") for name in made)
        return pages, pages
    finally:
        config.plugins.on_shutdown()


@contextlib.contextmanager
def _without_cleaning() -> Iterator[None]:
    """Prevents MkDocs from emptying the folder of the site, which may have other files."""
    from mkdocs import utils

    cleaning = utils.clean_directory
    utils.clean_directory = lambda directory: None
    try:
        yield
    finally:
        utils.clean_directory = cleaning


def _call(work: Callable[[], Any], log: _Warnings) -> Any:  # noqa: ANN401 - whatever MkDocs returns
    """Calls `work` and turns errors of MkDocs into `NotebookError`."""
    from mkdocs.exceptions import Abort, MkDocsException

    try:
        return work()
    except (MkDocsException, Abort, SystemExit) as error:
        # MkDocs logs the reason before it aborts.
        reason = log.messages[-1] if isinstance(error, (Abort, SystemExit)) and log.messages else str(error)
        raise NotebookError("errors.site.mkdocs_failed", reason=reason) from error
    except OSError as error:
        raise NotebookError("errors.site.not_written", path=str(error.filename or ""), reason=error) from error


def _free_port(port: int | None) -> int:
    from labbook.publish.site.serving import HOST

    for candidate in [port] if port is not None else _PORTS:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if probe.connect_ex((HOST, candidate)) != 0:
                return candidate
    if port is not None:
        raise UsageError("errors.site.port_taken", port=str(port), host=HOST)
    raise UsageError("errors.site.ports_taken", first=str(_PORTS.start), last=str(_PORTS.stop - 1), host=HOST)


class _Warnings(logging.Handler):
    """Collects the warnings of MkDocs instead of printing them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Stores one message."""
        self.messages.append(record.getMessage())

    def __enter__(self) -> _Warnings:
        logger = logging.getLogger("mkdocs")
        self._propagated = logger.propagate
        logger.propagate = False
        logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("mkdocs")
        logger.removeHandler(self)
        logger.propagate = self._propagated
