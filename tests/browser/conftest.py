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

sys.path.insert(0, str(Path(__file__).parent))
import written_notebooks

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
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
    from labbook.publish.site_build import build_site
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
    count = 2_000 if request.config.getoption("markexpr") == "not long" else 10_000
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


@pytest.fixture
def open_page(browser):
    """Opens pages in a window of its own: `open_page(url, width=, dark=, scripts=)`; all are watched.

    Fails the test when a page logs an error, throws, asks another host, breaks the content policy, or lets hostile text
    act.
    """
    watched, contexts = Watched(), []

    def call(url: str = "about:blank", *, width: int = 1280, height: int = 900, dark: bool = False, scripts=True):
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            locale="en-GB",
            reduced_motion="reduce",
        )
        contexts.append(context)
        context.add_init_script(_LISTEN)
        page = context.new_page()

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
    for context in contexts:
        for page in context.pages:
            acted = page.evaluate("window.pwned") if page.url != "about:blank" else None
            if acted:
                watched.wrong.append(f"hostile text acted: {acted} on {page.url}")
        context.close()
    assert not watched.wrong, "\n".join(watched.wrong)


@pytest.fixture
def page(open_page):
    """A watched page of usual size: `page.goto(site.url)`."""
    return open_page()
