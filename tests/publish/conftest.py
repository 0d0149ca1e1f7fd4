"""Sites are built in every second test here: most with few symptoms, equal parts of their search index only once."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from labbook.diagnosis.catalogue import symptom_catalogue
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


FEW = ("bad_input", "cached_fragments", "incremental", "safety", "site", "site_folder", "untrusted")
"""Files whose tests are about other pages: their sites have the pages of few symptoms, not of 330."""


@pytest.fixture
def all_symptoms() -> None:
    """For a test that compares with a site that another process builds."""


@pytest.fixture(autouse=True)
def few_symptoms(request, monkeypatch) -> None:
    """Leaves the built-in symptoms out that no test here names: a site is built in half the time."""
    if request.path.stem.removeprefix("test_publish_") not in FEW or "all_symptoms" in request.fixturenames:
        return
    known = symptom_catalogue.load_catalogue().symptoms
    some = sorted({*sorted(known)[::30], *("cuda_out_of_memory", "dead_relu", "loss_nonfinite", "loss_printed_nan")})
    catalogue = symptom_catalogue.Catalogue({name: known[name] for name in some})
    monkeypatch.setattr(symptom_catalogue, "_load_built_in", lambda: catalogue)
