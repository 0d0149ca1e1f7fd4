from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks._synthetic_notes import write_notes
from labbook.store.notebook_finder import find_notebook

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def data_extra() -> None:
    """Imported when the first of these tests runs: every worker collects all files."""
    for name in ("pyarrow", "duckdb"):
        pytest.importorskip(name, reason="the data set needs the extra `data`")


@pytest.fixture
def book(tmp_path):
    """A notebook of 40 invented runs over two months, and one real one with all its data."""
    root = tmp_path / "notebook"
    root.mkdir()
    (root / "labbook.toml").write_text('title = "Many"\ncommit = "off"\n')
    write_notes(root, 40, now=1_795_000_000, gap_s=90_000)
    real = min((ROOT / "notes" / "runs").rglob("run.json")).parent
    place = root / real.relative_to(ROOT)
    shutil.copytree(real, place)
    shutil.copyfile(real.with_suffix(".md"), place.with_suffix(".md"))
    return find_notebook(root, chosen=root, environ={})
