"""Diagnosing for every caller: `labbook diagnose`, `labbook search`, the recorder and the Python interface.

A caller gets evidence from one of the readers (`read_log`, `read_file`, `run_evidence.collect_run_evidence`, or its own
exception) and passes it to a `Diagnoser`, which knows the pages of one notebook.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import Catalogue, load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.cell_names import describe_missing_name
from labbook.diagnosis.fingerprint import fingerprint_exception
from labbook.diagnosis.text.log_reader import read_stream, read_text
from labbook.model.evidence import Evidence
from labbook.model.finding import Diagnosis

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook

_CHUNK_BYTES = 1 << 20
_MAX_NOTEBOOK_BYTES = 64 << 20
_FINGERPRINTED = 4
"""The last exceptions of a text get fingerprints."""


class Diagnoser:
    """Diagnoses failures with the pages of labbook and of a notebook; the pages are read when the first failure comes.

    Args:
        notebook: Whose pages and language count; `None`: only those of labbook, in English.
        language: "en" or "zh"; "" for that of the notebook's settings.
    """

    def __init__(self, notebook: Notebook | None = None, language: str = "") -> None:
        self._notebook = notebook
        self.language = language or (notebook.config.language_in_use() if notebook else "en")

    @functools.cached_property
    def catalogue(self) -> Catalogue:
        """The pages."""
        folders = [self._notebook.paths.symptoms] if self._notebook else []
        return load_catalogue(*folders, language=self.language)

    @functools.cached_property
    def _matcher(self) -> Matcher:
        return Matcher(self.catalogue)

    def diagnose(self, evidence: Evidence) -> Diagnosis:
        """The findings of a failure, the cause first."""
        return diagnose(evidence, self._matcher, self.language)


def read_file(path: Path) -> Evidence:
    """The evidence in a log, or in the outputs of a Jupyter notebook.

    Raises:
        OSError: The file cannot be read.
    """
    if path.suffix == ".ipynb" and path.stat().st_size <= _MAX_NOTEBOOK_BYTES:
        from labbook.diagnosis.text.ipynb import read_cell_outputs, read_cells

        content = path.read_bytes()
        evidence = read_text(read_cell_outputs(content))
        names = describe_missing_name(read_cells(content), evidence.exceptions)
        return replace(evidence, facts={**evidence.facts, **names})
    with path.open("rb") as stream:
        return read_log(stream)


def read_log(stream: BinaryIO) -> Evidence:
    """The evidence in a log of any length, read in pieces."""
    return read_stream(iter(functools.partial(stream.read, _CHUNK_BYTES), b""))


def list_fingerprints(evidence: Evidence) -> list[str]:
    """The fingerprints that the last exceptions of a text may have in entries, whatever framework recorded them."""
    frameworks = dict.fromkeys((evidence.framework, "torch", "paddle", ""))
    return [fingerprint_exception(one, name) for one in evidence.exceptions[-_FINGERPRINTED:] for name in frameworks]
