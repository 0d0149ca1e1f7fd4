"""A real browser, real sites, and a page on which nothing may go wrong unseen."""

from __future__ import annotations

import functools
import gzip
import http.server
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from order_of_tests import without_long

sys.path.insert(0, str(Path(__file__).parent))
import written_notebooks

# The shell, a package of its own, has no windows to draw and takes a third of the time.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = next(filter(None, map(shutil.which, PROGRAMS)), None)
FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_PACKED = {".html", ".js", ".css", ".json", ".svg", ".csv", ".xml"}


def pytest_collection_modifyitems(items) -> None:
    """More time than other tests have: whichever comes first builds the site that all share."""
    for item in items:
        if item.nodeid.startswith("tests/browser/"):
            item.add_marker(pytest.mark.timeout(400))


class Files(http.server.SimpleHTTPRequestHandler):
    """Files of a folder as web servers give them: text is compressed, nothing is logged."""

    extensions_map: ClassVar = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.is_dir():
            path /= "index.html"
        if path.suffix not in _PACKED or not path.is_file():
            super().do_GET()
            return
        body = gzip.compress(path.read_bytes(), 6)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    """Says nothing of pages that were left before they were loaded."""

    def handle_error(self, request, client_address) -> None:
        pass


class Site:
    """A built site and where it is served.

    Args:
        folder: The built files.
        notes: The notes that it was built from.
        url: Ends with a slash.

    Attributes:
        run_count: How many runs it has.
    """

    def __init__(self, folder: Path, notes: Path, url: str) -> None:
        self.folder, self.notes, self.url = folder, notes, url
        self.run_count = sum(1 for _ in (notes / "runs").rglob("*-*-*.md"))

    def run(self, part: str) -> str:
        """Address of the first run page whose text has `part`."""
        for path in sorted((self.folder / "runs").rglob("*-*-*.html")):
            if part in path.read_text(encoding="utf-8"):
                return self.url + path.relative_to(self.folder).as_posix()
        raise AssertionError(f"no run page has {part!r}")


def _built(top: Path, write) -> Iterator[Site]:
    from labbook.publish.site.site_build import build_site
    from labbook.store.notebook_finder import find_notebook

    book = top / "book"
    write(book)
    built = build_site(find_notebook(book, chosen=book, environ={}))
    with _served(built.folder) as url:
        yield Site(built.folder, book / "notes", url)


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serves the files of a folder; the address ends with a slash."""
    server = Server(("127.0.0.1", 0), functools.partial(Files, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@pytest.fixture(scope="session")
def serve():
    """Serves the files of a folder while a block runs: `with serve(folder) as url`."""
    return _served


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Iterator[Site]:
    """The site of a small notebook: recorded runs, Chinese ones, hostile ones, notes."""
    yield from _built(tmp_path_factory.mktemp("small"), written_notebooks.small)


@pytest.fixture(scope="session")
def large_site(tmp_path_factory, request) -> Iterator[Site]:
    """The site of many invented runs; only run pages of the newest day are in it.

    Ten thousand of them take a minute to write and to build: without the long tests it has fewer.
    """
    count = 600 if without_long(request.config) else 10_000
    yield from _built(tmp_path_factory.mktemp("large"), functools.partial(written_notebooks.large, count=count))


@pytest.fixture(scope="session")
def browser():
    """Chromium, started once."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS, chromium_sandbox=False)
        yield opened
        opened.close()


class Watched:
    """What a page did that it must not do, and what it fetched."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.fetched: list[str] = []


_LISTEN = """
window.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy report: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""


@pytest.fixture(scope="session")
def windows(browser):
    """Windows that all tests open their pages in, with and without scripts: a window costs more than its pages.

    Each keeps an empty page: the window closes with its last one.
    """
    opened = {}

    def window(scripts: bool):
        if scripts not in opened:
            opened[scripts] = new_window(browser, scripts)
            opened[scripts].new_page()
        return opened[scripts]

    return window


def new_window(browser, scripts: bool):
    context = browser.new_context(java_script_enabled=scripts, locale="en-GB")
    context.add_init_script(_LISTEN)
    return context


@pytest.fixture
def open_page(browser, windows):
    """Opens pages: `open_page(url, width=, dark=, scripts=, fresh=)`; all are watched.

    Nothing that a test's pages kept in the browser is there for the next test but its cache of files, which a `fresh`
    page lacks. Fails the test when a page logs an error, throws, asks another host, breaks the content policy, or lets
    hostile text act.
    """
    watched, used, own = Watched(), set(), set()

    def call(
        url: str = "about:blank",
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
        fresh: bool = False,
    ):
        context = new_window(browser, scripts) if fresh else windows(scripts)
        used.add(context)
        own.update({context} if fresh else ())
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")

        def fetched(request) -> None:
            watched.fetched.append(request.url)
            if not request.url.startswith(("http://127.0.0.1:", "about:", "data:", "blob:", "file:")):
                watched.wrong.append(f"asked another host: {request.url}")

        page.on("request", fetched)
        page.on("pageerror", lambda error: watched.wrong.append(f"threw: {error}"))
        page.on("console", lambda said: said.type == "error" and watched.wrong.append(f"logged: {said.text}"))
        page.on("dialog", lambda dialog: (watched.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.watched = watched
        if url != "about:blank":
            page.goto(url)
        return page

    yield call
    for context in used:
        for page in context.pages:
            if page.url == "about:blank":
                continue
            if acted := page.evaluate("window.pwned"):
                watched.wrong.append(f"hostile text acted: {acted} on {page.url}")
            page.evaluate("localStorage.clear()")
        if context in own:
            context.close()
            continue
        for page in context.pages[1:]:
            page.close()
        context.clear_cookies()
        context.clear_permissions()
    assert not watched.wrong, "\n".join(watched.wrong)


@pytest.fixture
def page(open_page):
    """A watched page of usual size: `page.goto(site.url)`."""
    return open_page()
