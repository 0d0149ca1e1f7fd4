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
