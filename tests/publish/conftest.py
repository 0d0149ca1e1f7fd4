"""Sites are built in every second test here; equal parts of their search index are made once a worker."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from labbook.publish.search import search_page
from labbook.publish.search.search_shards import FOLDER, SearchReport, Shard, write_shards

BUILD_ALL = ("test_publish_search", "test_publish_site_cache")
"""Files that test the search index or its cache: there Pagefind builds every part."""


@pytest.fixture(scope="session")
def built_shards(tmp_path_factory) -> Path:
    """Folder of parts of search indexes, each named with the digest of its records."""
    return tmp_path_factory.mktemp("shards")


@pytest.fixture(autouse=True)
def equal_shards_are_built_once(request, monkeypatch, built_shards) -> None:
    """Puts parts of earlier tests into the cache of the notebook: the 300 symptoms are the same in most of them."""
    if request.path.stem in BUILD_ALL:
        return

    def write(site: Path, parts: Sequence[Shard], cache: Path, **options: object) -> SearchReport:
        folders = [(built_shards / part.key, cache / FOLDER / part.key) for part in parts]
        for known, cached in folders:
            if known.is_dir() and not cached.exists():
                shutil.copytree(known, cached)
        report = write_shards(site, parts, cache, **options)
        for known, cached in folders:
            if cached.is_dir() and not known.exists():
                shutil.copytree(cached, known)
        return report

    monkeypatch.setattr(search_page, "write_shards", write)
