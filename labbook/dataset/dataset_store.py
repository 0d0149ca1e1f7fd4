"""The files of a data set in a folder or in any store of fsspec, and its manifest.

Layout: `<table>/month=2026-11/part-0.parquet`, `manifest.json` (months and their digests), `_manifest/2026-11.json`
(runs of the month and the digests of their entries). New files are written below `_staging/`; when all are there, the
manifest says which months are being exchanged, the files are moved into place, and the manifest says that they are.
Each file is replaced as a whole. An export that was killed goes on from `_staging/`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from labbook.dataset.dataset_tables import DATASET_SCHEMA, TABLES
from labbook.errors import NotebookError, UsageError
from labbook.frozen import dataclass
from labbook.store.remote_files import display_address, make_parent, open_files, replace_file

MANIFEST = "manifest.json"
_STAGING = "_staging"
Runs = Mapping[str, str]
"""Run id -> digest of its entry."""


@dataclass(frozen=True)
class Manifest:
    """What is in a data set.

    Args:
        months: Month -> digest of its runs.
        exchanging: Months whose files are being replaced; not trusted if the export was killed.
    """

    months: Mapping[str, str]
    exchanging: tuple[str, ...] = ()


def month_digest(runs: Runs) -> str:
    """Returns the digest of the runs of a month."""
    lines = "".join(f"{run} {digest}\n" for run, digest in sorted(runs.items()))
    return hashlib.blake2b(f"{DATASET_SCHEMA}\n{lines}".encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


class DatasetStore:
    """A data set at a path or an address such as `s3://bucket/runs`.

    Raises:
        NotebookError: The address is unknown to fsspec, or the package for it is not installed.
    """

    def __init__(self, address: str) -> None:
        self.label = display_address(address)
        self._files, self._root = open_files(address, "errors.store.dataset_advice")

    def manifest(self) -> Manifest | None:
        """Returns the manifest; `None` without one, or with one of another version.

        Raises:
            UsageError: The place has other files and no manifest: nothing may be mixed with them.
        """
        text = self._read(MANIFEST)
        if text is None:
            with self._errors():
                names = [str(name).rstrip("/").rpartition("/")[2] for name in self._list_files()]
            others = sorted(name for name in names if name not in (*TABLES, _STAGING, "_manifest"))
            if others:
                raise UsageError("errors.dataset.other_files", address=self.label, others=others[:3])
            return None
        try:
            data = json.loads(text)
            if data["schema"] != DATASET_SCHEMA:
                return None
            return Manifest({str(k): str(v) for k, v in data["months"].items()}, tuple(data.get("exchanging", ())))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                "errors.dataset.no_manifest", address=self.label, manifest=MANIFEST, reason=error
            ) from error

    def _list_files(self) -> list[Any]:
        try:
            found: list[Any] = self._files.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        return [name for name in found if str(name).rstrip("/") != self._root]

    def runs(self, month: str) -> dict[str, str]:
        """Returns the runs of a month of the data set; empty if they are not known."""
        return _runs(self._read(f"_manifest/{month}.json"))

    def table(self, table: str, month: str) -> bytes | None:
        """Returns the file of a table and month, or `None`."""
        return self._read(_file(table, month))

    def is_staged(self, month: str, runs: Runs) -> bool:
        """Whether an earlier export has written all files of this content of a month."""
        return _runs(self._read(f"{_STAGING}/{month}.json")) == dict(runs)

    def stage(self, month: str, files: Iterator[tuple[str, bytes]], runs: Runs) -> None:
        """Writes the files of a month aside."""
        with contextlib.suppress(FileNotFoundError), self._errors():
            self._files.rm_file(self._path(f"{_STAGING}/{month}.json"))
        for table, content in files:
            self._write(f"{_STAGING}/{_file(table, month)}", content)
        self._write(f"{_STAGING}/{month}.json", _json(dict(sorted(runs.items()))))

    def exchange(self, months: Mapping[str, Runs], gone: Iterator[str] | list[str], before: Manifest | None) -> None:
        """Moves the staged files of months into place and removes the files of months that are gone.

        Args:
            months: Staged months with their runs.
            gone: Months without runs.
            before: The manifest so far.
        """
        gone = list(gone)
        known = dict(before.months) if before else {}
        self._write_manifest(Manifest(known, tuple(sorted((*months, *gone)))))
        for month in sorted(months):
            for table in TABLES:
                self._move(f"{_STAGING}/{_file(table, month)}", _file(table, month))
            self._write(f"_manifest/{month}.json", _json(dict(sorted(months[month].items()))))
            known[month] = month_digest(months[month])
        for month in gone:
            for name in (*(_file(table, month) for table in TABLES), f"_manifest/{month}.json"):
                with contextlib.suppress(FileNotFoundError), self._errors():
                    self._files.rm_file(self._path(name))
            known.pop(month, None)
        self._write_manifest(Manifest(known))
        self.clean()

    def clean(self) -> None:
        """Removes staged files that are not needed any more."""
        with contextlib.suppress(FileNotFoundError), self._errors():
            if self._files.exists(self._path(_STAGING)):
                self._files.rm(self._path(_STAGING), recursive=True)

    def _write_manifest(self, manifest: Manifest) -> None:
        data: dict[str, object] = {
            "schema": DATASET_SCHEMA,
            "complete": not manifest.exchanging,
            "tables": {table: f"{table}/month=*/part-0.parquet" for table in TABLES},
            "months": dict(sorted(manifest.months.items())),
        }
        if manifest.exchanging:
            data["exchanging"] = list(manifest.exchanging)
        self._write(f"{_STAGING}/{MANIFEST}", _json(data))
        self._move(f"{_STAGING}/{MANIFEST}", MANIFEST)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _read(self, name: str) -> bytes | None:
        with self._errors():
            try:
                content: bytes = self._files.cat_file(self._path(name))
            except (FileNotFoundError, NotADirectoryError):
                return None
            return content

    def _write(self, name: str, content: bytes) -> None:
        path = self._path(name)
        with self._errors():
            make_parent(self._files, path)
            self._files.pipe_file(path, content)

    def _move(self, name: str, to: str) -> None:
        """Moves a file; one that is not there was moved by an export that was killed then."""
        path = self._path(to)
        with contextlib.suppress(FileNotFoundError), self._errors():
            replace_file(self._files, self._path(name), path)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:  # stores have errors of their own
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise NotebookError("errors.dataset.store_fails", address=self.label, reason=first) from error


def _file(table: str, month: str) -> str:
    return f"{table}/month={month}/part-0.parquet"


def _json(data: object) -> bytes:
    return (json.dumps(data, ensure_ascii=True, indent=0) + "\n").encode("ascii")


def _runs(text: bytes | None) -> dict[str, str]:
    try:
        data = json.loads(text or b"{}")
    except ValueError:
        return {}
    return {str(run): str(digest) for run, digest in data.items()} if isinstance(data, dict) else {}
