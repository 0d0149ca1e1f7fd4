"""Brings a data set up to date with the notebook: only months with changed runs are written, only these runs read."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from labbook.dataset.dataset_store import DatasetStore, month_digest
from labbook.dataset.dataset_tables import TABLES
from labbook.dataset.entry_rows import add_run, empty_rows, entry_month
from labbook.dataset.parquet_files import pack_rows, parquet_bytes
from labbook.executors import map_in_order, open_executor
from labbook.frozen import dataclass
from labbook.index.build import query_index
from labbook.index.database import with_index
from labbook.store.commit.commit_queue import withheld_files
from labbook.store.locks import hold_lock
from labbook.store.notebook import Notebook, prepare_private
from labbook.store.paths import NotebookPaths

if TYPE_CHECKING:
    import sqlite3

_AT_ONCE = 100
"""Runs that a worker reads at a time."""
_FEW = 200
"""Up to this number of changed runs no processes are started. Source: chosen by us; a process starts in 0.3 s."""
_LOCK_WAIT_S = 600.0

Chunk = tuple[NotebookPaths, list[tuple[str, str, str]]]
"""Paths of the notebook, and path, front matter as JSON and digest of runs."""


@dataclass(frozen=True)
class ExportResult:
    """Result of an export.

    Args:
        runs: Number of runs in the data set.
        read: Number of new and changed runs.
        removed: Number of runs that are not in the notebook any more.
        months: Months whose files were written or removed.
    """

    runs: int
    read: int
    removed: int
    months: tuple[str, ...]


class _Run(NamedTuple):
    path: str
    digest: str


def export(
    notebook: Notebook,
    address: str,
    *,
    executor: str = "processes",
    withheld: bool = False,
    notify: Callable[[int, int], None] | None = None,
) -> ExportResult:
    """Brings the data set at an address up to date and returns what was done.

    Args:
        address: A folder, or an address of fsspec: `s3://bucket/runs`.
        executor: One of `labbook.executors.CHOICES`.
        withheld: Whether runs whose commit was withheld because of a secret are included.
        notify: Called with (runs read, runs to read).

    Raises:
        UsageError: The address or the executor cannot be used.
        NotebookError: The store fails.
    """
    store = DatasetStore(address)
    prepare_private(notebook)
    with hold_lock(notebook.paths.private / "export.lock", _LOCK_WAIT_S):
        wanted = _select_entries(notebook, frozenset() if withheld else withheld_files(notebook.paths), executor)
        return _export(notebook, store, wanted, executor, notify)


def _select_entries(notebook: Notebook, left_out: Collection[str], executor: str) -> dict[str, dict[str, _Run]]:
    """Returns month -> run id -> its entry; of two entries with the same id, the first by path."""

    def rows(index: sqlite3.Connection) -> list[tuple[str, str, str]]:
        return index.execute(
            "SELECT n.name, n.path, f.hash FROM notes n JOIN files f ON f.path = n.path"
            " WHERE n.kind = 'run' ORDER BY n.path"
        ).fetchall()

    months: dict[str, dict[str, _Run]] = defaultdict(dict)
    for run_id, path, digest in query_index(notebook, rows, executor=executor)[0]:
        if path not in left_out:
            months[entry_month(path, run_id)].setdefault(run_id, _Run(path, digest))
    return months


def _export(
    notebook: Notebook,
    store: DatasetStore,
    wanted: Mapping[str, Mapping[str, _Run]],
    executor: str,
    notify: Callable[[int, int], None] | None,
) -> ExportResult:
    manifest = store.manifest()
    present = dict(manifest.months) if manifest else {}
    unsure = set(manifest.exchanging) if manifest else set()
    digests = {month: {run: one.digest for run, one in runs.items()} for month, runs in wanted.items()}
    changed = [m for m in sorted(digests) if m in unsure or present.get(m) != month_digest(digests[m])]
    gone = sorted((present.keys() | unsure) - digests.keys())
    old = {m: store.runs(m) if m in present and m not in unsure else {} for m in (*changed, *gone)}
    to_read = {m: [r for r, d in digests[m].items() if old[m].get(r) != d] for m in changed}
    waiting = [month for month in changed if not store.is_staged(month, digests[month])]
    _stage(notebook, store, wanted, {m: to_read[m] for m in waiting}, old, executor, notify)
    if changed or gone:
        store.exchange({month: digests[month] for month in changed}, gone, manifest)
    elif manifest is None:
        store.exchange({}, [], None)
    return ExportResult(
        sum(map(len, wanted.values())),
        sum(map(len, to_read.values())),
        sum(len(old[m].keys() - digests.get(m, {}).keys()) for m in old),
        (*changed, *gone),
    )


def _stage(
    notebook: Notebook,
    store: DatasetStore,
    wanted: Mapping[str, Mapping[str, _Run]],
    to_read: Mapping[str, list[str]],
    old: Mapping[str, Mapping[str, str]],
    executor: str,
    notify: Callable[[int, int], None] | None,
) -> None:
    """Reads the changed runs of months and writes their files aside."""
    total = done = sum(map(len, to_read.values()))
    done = 0
    packed: dict[str, list[bytes]] = {}

    def chunks() -> Iterator[tuple[str, Chunk | None]]:
        for month, runs in to_read.items():
            for start in range(0, len(runs), _AT_ONCE):
                yield month, _chunk(notebook, [wanted[month][run] for run in runs[start : start + _AT_ONCE]])
            yield month, None

    with contextlib.ExitStack() as stack:
        # An executor that the user chose is tried even for little work: a wrong address is an error.
        pool, workers = (
            stack.enter_context(open_executor("threads", 1))
            if executor == "processes" and total <= _FEW
            else stack.enter_context(open_executor(executor))
        )
        for (month, chunk), made in map_in_order(pool, workers, _read, chunks()):
            if chunk is not None:
                for table, content in made.items():
                    packed.setdefault(table, []).append(content)
                done += len(chunk[1])
                if notify is not None:
                    notify(done, total)
                continue
            runs = {run: one.digest for run, one in wanted[month].items()}
            replaced = {run for run, digest in old[month].items() if runs.get(run) != digest}
            keeps = len(old[month]) > len(replaced)
            store.stage(month, _files(store, month, packed, keeps, replaced), runs)
            packed = {}


def _files(
    store: DatasetStore, month: str, packed: Mapping[str, list[bytes]], keeps: bool, replaced: Collection[str]
) -> Iterator[tuple[str, bytes]]:
    for table in TABLES:
        kept = store.table(table, month) if keeps else None
        yield table, parquet_bytes(table, packed.get(table, ()), kept, replaced)


def _chunk(notebook: Notebook, runs: list[_Run]) -> Chunk:
    def metas(index: sqlite3.Connection) -> list[tuple[str, str, str]]:
        found = []
        for run in runs:
            row = index.execute("SELECT meta FROM notes WHERE path = ?", (run.path,)).fetchone()
            # Removed since: the next export removes it from the data set.
            found += [(run.path, row[0], run.digest)] if row else []
        return found

    return notebook.paths, with_index(notebook, metas)


def _read(item: tuple[str, Chunk | None]) -> dict[str, bytes]:
    """Returns the packed rows of a chunk of runs; called in the workers."""
    _, chunk = item
    if chunk is None:
        return {}
    paths, runs = chunk
    rows = empty_rows()
    for path, meta, digest in runs:
        add_run(rows, paths, path, json.loads(meta), digest)
    return pack_rows(rows)
