"""An open page of `labbook serve` follows what was written of it, and nothing else."""

from __future__ import annotations

import os
import shutil
import threading
import time

import pytest

from labbook.publish.site.serving import Builds, SiteServer


@pytest.fixture
def live(site, tmp_path):
    folder = shutil.copytree(site.folder, tmp_path / "site")
    builds = Builds()
    server = SiteServer(0, folder, builds)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}/", builds
    server.shutdown()
    server.server_close()


def _written(file) -> None:
    later = time.time() + 5
    os.utime(file, (later, later))


def test_a_page_follows_its_own_file_and_not_the_index_of_the_search(live, open_page):
    folder, url, builds = live
    page = open_page(url + "symptoms/index.html")
    loaded = "performance.getEntriesByType('resource').map((one) => one.name)"
    page.wait_for_function(f"() => {loaded}.some((name) => name.includes('/search/'))")
    page.evaluate("window.stayed = true")
    for file in (folder / "search").glob("*.json"):
        _written(file)
    builds.count_build()
    page.wait_for_timeout(1000)
    assert page.evaluate("window.stayed")

    _written(folder / "symptoms" / "index.html")
    builds.count_build()
    page.wait_for_function("() => window.stayed === undefined")
    page.wait_for_load_state()
    page.evaluate("window.stayed = true")
    # The file's time is still ahead of the clock, as on a disk whose server runs fast.
    builds.count_build()
    page.wait_for_timeout(1000)
    assert page.evaluate("window.stayed")


def test_a_page_of_a_run_that_goes_on_shows_curves_and_output_as_they_grow(site, open_page, tmp_path):
    folder = shutil.copytree(site.folder, tmp_path / "site")
    path = site.run("LogBackward0").removeprefix(site.url)
    file = folder / path
    file.write_text(file.read_text().replace("lb-status lb-failed", "lb-status lb-running", 1))
    run, looks = file.stem, []
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" height="20"/></svg>'

    def view(name):
        looks.append(name)
        shown = {"title": "train.py: running", "facts": "9 s", "curves": svg, "output": f"<b>step</b> {len(looks)}"}
        return shown if name == run else None

    server = SiteServer(0, folder, Builds(), view)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        page = open_page(f"http://127.0.0.1:{server.server_port}/{path}")
        page.wait_for_selector(".lb-live")
        assert page.locator(".lb-live img").evaluate("(one) => one.naturalWidth") == 40
        first = page.locator(".lb-live pre").inner_text()
        assert first.startswith("<b>step</b>")
        page.wait_for_function("(before) => document.querySelector('.lb-live pre').textContent !== before", arg=first)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") and set(looks) == {run}
    finally:
        server.shutdown()
        server.server_close()
