"""Screenshots of pages in Chromium, as small PNG files."""

from __future__ import annotations

import functools
import http.server
import io
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder on this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()


def screenshots(
    site: Path, wanted: dict[str, Path], size: tuple[int, int], language: str, scale: float = 1.5, start: str = ""
) -> None:
    """Takes a picture of the upper part of pages of a site.

    Args:
        site: The built site.
        wanted: Address of a page in the site -> file of the picture.
        size: Width and height of the window in CSS pixels.
        language: Of the browser.
        scale: Device pixels a CSS pixel.
        start: Text at which the picture begins, below the head of the page; "" for the top.
    """
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise SystemExit("make pictures: chromium is not installed; on Debian: apt-get install chromium fonts-noto-cjk")
    with served(site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_FLAGS)
        page = browser.new_page(
            viewport={"width": size[0], "height": size[1]},
            device_scale_factor=scale,
            color_scheme="light",
            locale="zh-CN" if language == "zh" else "en-US",
        )
        for path, file in wanted.items():
            page.goto(address + path, wait_until="load")
            page.wait_for_timeout(1500)  # curves and tables are drawn by scripts
            if start:
                page.add_style_tag(content=".md-top { visibility: hidden }")
                page.get_by_text(start).first.evaluate("e => scrollBy(0, e.getBoundingClientRect().top - 120)")
                page.wait_for_timeout(300)
            file.write_bytes(_small(page.screenshot()))
        browser.close()


def _small(png: bytes) -> bytes:
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(96, dither=Image.Dither.NONE)
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()
