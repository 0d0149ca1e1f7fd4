from __future__ import annotations

import json
import random
import re
import uuid
from pathlib import Path

import pyarrow.dataset
import pytest

from labbook.dataset import dataset_export
from labbook.dataset.dataset_export import export
from labbook.dataset.dataset_store import DatasetStore
from labbook.dataset.dataset_tables import TABLES
from labbook.dataset.entry_rows import add_run, empty_rows
from labbook.errors import UsageError


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def table(folder: Path, name: str) -> pyarrow.Table:
    return pyarrow.dataset.dataset(folder / name, format="parquet", partitioning="hive").to_table()


def change_something(rng: random.Random, notes: Path) -> None:
    entries = sorted(notes.glob("runs/**/*.md"))
    for path in rng.sample(entries, 3):
        path.write_text(re.sub(r"^title: .*$", f"title: edited {rng.random()}", path.read_text(), flags=re.MULTILINE))
    for path in rng.sample(entries, 2):
        path.unlink()
    old = rng.choice([path for path in entries if path.exists()])
    day = f"2026{rng.randint(1, 9):02d}{rng.randint(10, 28)}"
    new_id = f"{day}-120000-{rng.randrange(16**4):04x}"
    new = notes / "runs" / day[:4] / day[4:6] / day[6:] / f"{new_id}.md"
    new.parent.mkdir(parents=True, exist_ok=True)
    new.write_text(old.read_text().replace(old.stem, new_id))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_an_incremental_export_is_the_same_as_a_new_one(book, tmp_path, seed):
    rng = random.Random(seed)
    for number in range(3):
        done = export(book, str(tmp_path / "incremental"), executor="threads")
        export(book, str(tmp_path / f"new-{number}"), executor="threads")
        assert files(tmp_path / "incremental") == files(tmp_path / f"new-{number}")
        assert done.read == (41 if number == 0 else done.read) <= 41
        assert done.runs == len(list(book.paths.runs.rglob("*.md")))
        change_something(rng, book.paths.notes)


def test_unchanged_runs_are_neither_read_nor_written_again(book, tmp_path, monkeypatch):
    target = tmp_path / "set"
    export(book, str(target), executor="threads")
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*.parquet")}
    path = min(book.paths.runs.rglob("*.md"))
    path.write_text(path.read_text() + "\nA remark.\n")
    read = []
    monkeypatch.setattr(dataset_export, "add_run", lambda *args: (read.append(args[2]), add_run(*args)))

    done = export(book, str(target), executor="threads")

    assert (done.read, done.removed, len(done.months)) == (1, 0, 1)
    assert read == [path.relative_to(book.paths.root).as_posix()]
    written = {path for path in target.rglob("*.parquet") if path.stat().st_mtime_ns != before[path]}
    assert {path.parent.name for path in written} == {f"month={done.months[0]}"}
    again = export(book, str(target), executor="threads")
    assert (again.read, again.months) == (0, ())


def test_an_export_killed_anywhere_leaves_whole_tables_and_goes_on(book, tmp_path, monkeypatch):
    """Killed before every 17th operation of the store: what a reader finds is the old or the new content of a file."""
    whole = tmp_path / "whole"
    export(book, str(whole), executor="threads")
    change_something(random.Random(7), book.paths.notes)
    old = files(whole)
    new = tmp_path / "new"
    export(book, str(new), executor="threads")
    expected = files(new)
    operations = {name: getattr(DatasetStore, name) for name in ("_write", "_move")}

    class KilledError(BaseException):
        pass

    def limited(most: int) -> list[int]:
        count = [0]
        for name, real in operations.items():

            def call(self, *args, real=real):
                count[0] += 1
                if count[0] > most:
                    raise KilledError
                return real(self, *args)

            monkeypatch.setattr(DatasetStore, name, call)
        return count

    finished = False
    most = 1
    while not finished:
        target = tmp_path / f"killed-{most}"
        for path, content in old.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(content)
        limited(most)
        try:
            export(book, str(target), executor="threads")
            finished = True
        except KilledError:
            seen = {path: content for path, content in files(target).items() if path.endswith(".parquet")}
            seen = {path: content for path, content in seen.items() if not path.startswith("_")}
            assert all(content in (old.get(path), expected.get(path)) for path, content in seen.items())
            if json.loads((target / "manifest.json").read_bytes())["complete"]:
                assert seen == {path: old[path] for path in old if path.endswith(".parquet")}
        limited(10**9)
        export(book, str(target), executor="threads")
        assert files(target) == expected, most
        most += 17


def test_a_killed_first_export_does_not_read_finished_months_again(book, tmp_path, monkeypatch):
    real, count = DatasetStore.stage, [0]

    def stage(self, *args):
        count[0] += 1
        if count[0] == 2:
            raise KeyboardInterrupt
        real(self, *args)

    monkeypatch.setattr(DatasetStore, "stage", stage)
    with pytest.raises(KeyboardInterrupt):
        export(book, str(tmp_path / "set"), executor="threads")
    assert not list((tmp_path / "set").glob("runs")), "no table before all of it is written"
    read = []
    monkeypatch.setattr(dataset_export, "add_run", lambda *args: (read.append(args[2]), add_run(*args)))

    export(book, str(tmp_path / "set"), executor="threads")

    assert 0 < len(read) < 41


def test_every_table_has_its_rows(book, tmp_path):
    export(book, str(tmp_path / "set"), executor="threads")
    for name, columns in TABLES.items():
        found = table(tmp_path / "set", name)
        assert found.column_names == [*(column.name for column in columns), "month"]
        assert found.num_rows or name in ("artifacts", "findings"), name
    runs = table(tmp_path / "set", "runs").to_pylist()
    assert len({run["run"] for run in runs}) == 41
    series = table(tmp_path / "set", "series").to_pylist()
    assert {"loss", "val_accuracy"} <= {row["name"] for row in series}


def test_values_of_any_kind_become_rows_or_null(book):
    odd = {"exit_code": 2**70, "duration_s": "nan", "params": {"lr": "1e-3", "note": "\ud800", "deep": {"x": 1}}}
    odd |= {"metrics": {"loss": "inf", "acc": {"best": True}}, "tags": "one", "code": 3, "started": "no date"}
    rows = empty_rows()
    add_run(rows, book.paths, "notes/runs/odd.md", odd, "1")
    from labbook.dataset.parquet_files import pack_rows

    pack_rows(rows)
    assert rows["runs"]["exit_code"] == [None]
    assert rows["params"]["number"] == [0.001, None]
    assert rows["metrics"]["last"] == [float("inf"), None]


def test_a_folder_with_other_files_is_refused(book, tmp_path):
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match="other files"):
        export(book, str(tmp_path))
    assert not list(tmp_path.glob("runs"))


@pytest.mark.process
def test_the_bytes_do_not_depend_on_the_executor(book, tmp_path, monkeypatch):
    monkeypatch.setattr(dataset_export, "_FEW", 0)
    monkeypatch.setattr(dataset_export, "_AT_ONCE", 7)
    for name in ("threads", "processes"):
        export(book, str(tmp_path / name), executor=name)
    assert files(tmp_path / "threads") == files(tmp_path / "processes")


@pytest.mark.process
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_writes_the_same_bytes(book, tmp_path):
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    export(book, str(tmp_path / "threads"), executor="threads")
    with distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        export(book, str(tmp_path / "dask"), executor=cluster.scheduler_address.replace("tcp", "dask"))
    assert files(tmp_path / "threads") == files(tmp_path / "dask")


def test_a_store_by_address_has_the_same_files(book, tmp_path):
    import fsspec

    address = f"memory://{uuid.uuid4().hex}/runs"
    export(book, address, executor="threads")
    change_something(random.Random(1), book.paths.notes)
    export(book, address, executor="threads")
    export(book, str(tmp_path / "set"), executor="threads")
    store = fsspec.filesystem("memory")
    top = address.removeprefix("memory:/")
    assert {path.removeprefix(f"{top}/"): store.cat_file(path) for path in store.find(top)} == files(tmp_path / "set")


@pytest.mark.process
def test_an_unknown_executor_is_refused(book, tmp_path):
    with pytest.raises(UsageError, match="no executor 'slurm'"):
        export(book, str(tmp_path / "set"), executor="slurm")


@pytest.mark.process
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_an_object_store_has_the_same_bytes(book, tmp_path, monkeypatch):
    """An S3-compatible server on loopback; `s3fs` is an ordinary client of it."""
    server = pytest.importorskip("moto.server", reason="moto is not installed").ThreadedMotoServer(port=0)
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    import fsspec

    try:
        bucket = f"bucket-{uuid.uuid4().hex[:8]}"
        fsspec.filesystem("s3").mkdir(bucket)
        export(book, str(tmp_path / "set"), executor="threads")
        export(book, f"s3://{bucket}/team/runs", executor="threads")
        change_something(random.Random(1), book.paths.notes)
        export(book, f"s3://{bucket}/team/runs", executor="threads")
        export(book, str(tmp_path / "set"), executor="threads")
        store = fsspec.filesystem("s3", use_listings_cache=False, skip_instance_cache=True)
        top = f"{bucket}/team/runs"
        there = {path.removeprefix(f"{top}/"): store.cat_file(path) for path in store.find(top)}
        assert there == files(tmp_path / "set")
    finally:
        server.stop()
