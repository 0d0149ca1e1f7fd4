from __future__ import annotations

import re
from pathlib import Path

import pytest

from labbook.dataset.dataset_export import export

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pages" / "dataset.md"
RUN = PAGE.read_text(encoding="utf-8").split("## Other readers")[1].partition("The tests of labbook run")[0]
SNIPPETS = {code.split()[1].split(".")[0]: code for code in re.findall(r"```python\n(.*?)```", RUN, re.DOTALL)}


@pytest.mark.process
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", SNIPPETS)
def test_the_snippets_of_the_docs_read_the_files(book, tmp_path, monkeypatch, library):
    pytest.importorskip(library, reason=f"{library} is not installed")
    export(book, str(tmp_path / "dataset"), executor="threads")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(SNIPPETS[library], names)
    if library == "pandas":
        assert len(names["runs"]) == 41
    if library == "polars":
        assert names["runs"].collect().height == 41
    if library == "pyarrow":
        assert names["loss"].num_rows > 100
