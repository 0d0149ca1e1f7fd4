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
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from labbook.errors import LabbookError, NotebookError, UsageError
from labbook.frozen import dataclass
from labbook.publish.build_record import files_below
from labbook.publish.mkdocs_settings import read_settings
from labbook.publish.post_build import KEPT_BY_OTHERS
from labbook.publish.site_folder import check_site_folder, note_written, remove_written
from labbook.store.locks import hold_lock
from labbook.store.notebook import Notebook

_LONGEST_WAIT_S = 600.0
_PORTS = range(8000, 8050)


@dataclass(frozen=True)
class BuiltSite:
    """A site that was built.

    Args:
        folder: Where it lies.
        pages: How many pages it has.
        seconds: How long it took.
        warnings: What the notes made MkDocs warn of, each once.
        rendered: How many pages had to be made; the others stood there as they should.
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
    shown: Callable[[], None] | None = None,
    folder: Path | None = None,
    trusted: bool = False,
) -> BuiltSite:
    """Builds the site of a notebook into its `site/`; pages that would not differ are left as they stand.

    Where `mkdocs.yml` names other plugins or hooks, MkDocs builds the whole site: they may want to see every page.

    Args:
        notebook: Whose site.
        everything: Whether to render all pages.
        workers: How many processes may render; by default as many as there are cores, eight at most.
        engine: One of `ENGINES`; "zensical" builds everything each time.
        shown: Called as soon as all pages stand, where the search takes longer.
        folder: Where to, named by a person: it may lie anywhere. By default the one that `mkdocs.yml` names, which
            must lie in the notebook.
        trusted: Whether a person trusts the notebook's authors: MkDocs then reads `mkdocs.yml` itself and runs the
            code that it names, and templates of the theme in `templates/site` are used.

    Raises:
        UsageError: MkDocs and its theme are not installed.
        NotebookError: There is no `mkdocs.yml`, MkDocs cannot build with it, or the site's folder is refused.
    """
    started = time.monotonic()
    many = min(8, _cores()) if workers is None else workers
    notebook.paths.private.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Two builds at once would write the same files twice.
    with hold_lock(notebook.paths.private / "site.lock", _LONGEST_WAIT_S), _Warnings() as heard:
        if engine == "zensical":
            from labbook.publish.zensical_build import build_with_zensical

            site, pages, told = build_with_zensical(notebook, folder, trusted=trusted)
            warnings = tuple(dict.fromkeys([*told, *heard.messages]))
            return BuiltSite(site, pages, time.monotonic() - started, warnings, pages)
        config = _config(notebook, heard, folder, trusted=trusted)
        pages, rendered = _call(lambda: _build(config, notebook, heard, many, shown, everything=everything), heard)
    warnings = tuple(dict.fromkeys(heard.messages))
    return BuiltSite(Path(config.site_dir), pages, time.monotonic() - started, warnings, rendered)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def serve_site(
    notebook: Notebook,
    port: int | None,
    say: Callable[[str], None],
    *,
    polling: bool = False,
    told: Callable[[BuiltSite], None] | None = None,
    site: Path | None = None,
    trusted: bool = False,
) -> None:
    """Serves the site on this machine until it is interrupted, and brings it up to date whenever a note changes.

    Args:
        notebook: Whose site.
        port: Where to listen; the first free one from 8000 by default.
        say: Told the address, and what goes wrong later.
        polling: Look at the notes again and again, for network file systems that do not tell of changes.
        told: Told of each build.
        site: The site's folder, named by a person; by default the one that `mkdocs.yml` names.
        trusted: Whether the code that the notebook brings is run.

    Raises:
        UsageError: MkDocs is not installed, or the port is taken.
        NotebookError: There is no `mkdocs.yml`, MkDocs cannot build with it, or the site's folder is refused.
    """
    _require()
    from labbook.index.build import refresh
    from labbook.publish.file_watch import changes
    from labbook.publish.serving import HOST, Builds, SiteServer

    with _Warnings() as heard:
        folder = Path(_config(notebook, heard, site, trusted=trusted).site_dir)
    builds = Builds()
    try:
        server = SiteServer(_free_port(port), folder, builds)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {HOST}: {error.strerror}", hint="choose another port with --port"
        ) from error
    say(f"http://{HOST}:{server.server_port}/  (Ctrl-C ends it)")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    began = False
    try:
        # Browsers wait for the first build: while it runs in several processes there is no thread beside it.
        done = build_site(notebook, folder=site, trusted=trusted)
        thread.start()
        began = True
        if told is not None:
            told(done)
        for changed in changes(notebook, polling=polling, tell_start=True):
            try:
                # In a large notebook not every note is looked at for each question.
                refresh(notebook, only=[notebook.paths.root / name for name in changed if name.startswith("notes/")])
                done = build_site(_reopened(notebook), workers=1, shown=builds.done, folder=site, trusted=trusted)
            except LabbookError as error:
                say(f"labbook: {error.message}\n         {error.hint}")
                continue
            if done.rendered or changed:
                builds.done()
            if told is not None and (done.rendered or changed):
                told(done)
    finally:
        if began:
            server.shutdown()
        server.server_close()


def _reopened(notebook: Notebook) -> Notebook:
    """The notebook with its settings as they are now."""
    from labbook.store.notebook_finder import find_notebook

    return find_notebook(notebook.paths.root, chosen=notebook.paths.root, environ=os.environ)


def _require() -> None:
    """Checks that the site's libraries are installed."""
    # The theme prints a notice about its own future on every start; it is known here and tells users nothing.
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "true")
    missing = [name for name in ("mkdocs", "material") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"the site needs a library that is not installed: {missing[0]}",
            hint=f"python -m pip install {' '.join(_requirements())}",
        )


def _requirements() -> list[str]:
    """What `labbook[site]` asks for, quoted for a shell."""
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
        raise NotebookError(f"there is no {path}", hint=f"`labbook init {notebook.paths.root}` writes it")
    notebook.paths.notes.mkdir(parents=True, exist_ok=True)
    return path


def _config(notebook: Notebook, heard: _Warnings, folder: Path | None, *, trusted: bool) -> Any:  # noqa: ANN401 - a configuration of MkDocs
    _require()
    from mkdocs.config import load_config

    path = _settings_file(notebook)
    chosen = str(folder.absolute()) if folder is not None else None
    safe = read_settings(notebook.paths.root)
    if trusted:
        config = _call(lambda: _loaded_by_mkdocs(path, chosen), heard)
    else:
        heard.messages += [safe.warning()] if safe.left_out else []
        values = {**safe.values, "site_dir": chosen or safe.values.get("site_dir")}
        config = _call(lambda: load_config(io.BytesIO(b"{}"), config_file_path=str(path), **values), heard)
    plugin = config.plugins.get("labbook")
    if plugin is not None:
        plugin.folder_is_checked, plugin.trusted = True, trusted
    check_site_folder(notebook.paths.root, Path(config.site_dir), folder)
    return config


def _loaded_by_mkdocs(path: Path, site_dir: str | None) -> Any:  # noqa: ANN401 - a configuration of MkDocs
    """The configuration of a notebook that a person trusts.

    Raises:
        NotebookError: Code that it names failed, or it inherits from a file without settings.
    """
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort, MkDocsException

    try:
        return load_config(str(path), site_dir=site_dir)
    except (MkDocsException, Abort, OSError):
        raise
    except Exception as error:
        raise NotebookError(
            f"MkDocs cannot read {path}: {type(error).__name__}: {error}",
            hint="correct mkdocs.yml and the files that it names",
        ) from error


def _build(
    config: Any,  # noqa: ANN401 - a configuration of MkDocs
    notebook: Notebook,
    heard: _Warnings,
    workers: int,
    shown: Callable[[], None] | None,
    *,
    everything: bool,
) -> tuple[int, int]:
    """Builds; returns how many pages there are and how many were rendered."""
    from labbook.publish.incremental_build import build_changed, can_build

    record = notebook.paths.private / "site.json"
    plugin = config.plugins.get("labbook")
    config.plugins.on_startup(command="build", dirty=False)
    try:
        if can_build(config):
            built = build_changed(config, record, heard.messages, workers=workers, everything=everything, shown=shown)
            return built.pages, built.rendered
        site = Path(config.site_dir)
        foreign = remove_written(site, record)
        if plugin is not None:
            plugin.foreign = foreign
        with _without_cleaning():
            from mkdocs.commands.build import build

            build(config)
        made = files_below(site, KEPT_BY_OTHERS).keys() - foreign
        note_written(site, made)
        record.unlink(missing_ok=True)
        pages = sum(name.endswith(".html") for name in made)
        return pages, pages
    finally:
        config.plugins.on_shutdown()


@contextlib.contextmanager
def _without_cleaning() -> Iterator[None]:
    """Keeps MkDocs from emptying the site's folder: files that labbook did not write stay."""
    from mkdocs import utils

    cleaning = utils.clean_directory
    utils.clean_directory = lambda directory: None
    try:
        yield
    finally:
        utils.clean_directory = cleaning


def _call(work: Callable[[], Any], heard: _Warnings) -> Any:  # noqa: ANN401 - whatever MkDocs returns
    """`work`, with MkDocs' own complaints as ours."""
    from mkdocs.exceptions import Abort, MkDocsException

    try:
        return work()
    except (MkDocsException, Abort, SystemExit) as error:
        # MkDocs says why in its log, and then that it has aborted.
        said = heard.messages[-1] if isinstance(error, (Abort, SystemExit)) and heard.messages else str(error)
        raise NotebookError(
            f"MkDocs cannot build the site: {said}", hint="correct mkdocs.yml, then try again"
        ) from error
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        raise NotebookError(f"cannot write the site{where}: {error.strerror or error}") from error


def _free_port(port: int | None) -> int:
    from labbook.publish.serving import HOST

    for candidate in [port] if port is not None else _PORTS:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if probe.connect_ex((HOST, candidate)) != 0:
                return candidate
    taken = f"port {port} is" if port is not None else f"ports {_PORTS.start} to {_PORTS.stop - 1} are"
    raise UsageError(f"{taken} in use on {HOST}", hint="choose another with --port")


class _Warnings(logging.Handler):
    """Collects what MkDocs warns of, instead of printing it line by line."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps one message."""
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
