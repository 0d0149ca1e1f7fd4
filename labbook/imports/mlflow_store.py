"""Reads MLflow's file store (`mlruns/`) and its SQLite store (`mlflow.db`).

Source: mlflow/store/tracking/file_store.py and mlflow/store/tracking/dbmodels/models.py of MLflow 3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Set
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from labbook.capture.tables.series_collector import SeriesCollector
from labbook.imports.imported_files import is_inside, read_object, read_yaml, root_of, walk
from labbook.imports.imported_run import OUTSIDE, UNREADABLE, ImportedRun, Reader, parse_typed
from labbook.imports.logged_content import MAX_PICTURES, MAX_TEXT, MAX_TEXTS, LoggedContent, stored_table
from labbook.imports.sqlite_files import columns, databases, open_database, runs_of_databases

if TYPE_CHECKING:
    from sqlite3 import Connection

_STATUS = {1: "lost", 2: "lost", 3: "finished", 4: "failed", 5: "killed"}
"""`RunStatus` of the file store. Source: mlflow/protos/service.proto."""
_STATUS_NAMES = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "killed"}
_PARENT = "mlflow.parentRunId"
_TEXT_SUFFIXES = (".txt", ".md")
_LINES = ("metrics", "some lines cannot be read")
_DATABASES = ("*.db", "*.sqlite", "*.sqlite3")
_LOGGED_IMAGE = re.compile(r"images/(.+)[+%]step[+%](-?\d+)[+%]timestamp[+%].*")
"""Path of an image of `mlflow.log_image(image, key=..., step=...)`."""

_SMALL_COPY = re.compile(r"images/.+[+%]compressed\.webp")
_FOLDERS = {"datasets": "inputs", "logged models": "outputs"}
_LINKED = {
    "datasets": "SELECT 1 FROM inputs WHERE source_type = 'DATASET' AND destination_id = ?",
    "logged models": "SELECT 1 FROM logged_models WHERE source_run_id = ?",
}
"""What MLflow stores about a run in tables of its own. Source: mlflow/store/tracking/dbmodels/models.py."""


def _runs(path: Path) -> Iterator[ImportedRun]:
    """Yields the runs of all stores at the path and below it; deleted runs are left out."""
    yield from runs_of_databases("mlflow", path, _DATABASES, lambda file: _database_runs(file, root_of(path)))
    for folder in _run_folders(path):
        run = _folder_run(folder, path)
        if run is not None:
            yield run


def _databases(path: Path) -> Iterator[Path]:
    for file in databases(path, *_DATABASES):
        with suppress(ValueError):
            if _is_store(file):
                yield file


def _is_store(file: Path) -> bool:
    return all(columns(file, "runs", "metrics", "params", "experiments"))


def _run_folders(path: Path) -> Iterator[Path]:
    """Yields the folders of runs; `meta.yaml` of an experiment, a model or a dataset has no id of a run."""
    for folder, folders, files in walk(path):
        meta = read_yaml(folder / "meta.yaml", path) if "meta.yaml" in files else {"": ""}
        if {"run_id", "run_uuid"} & meta.keys() or (not meta and {"metrics", "params"} & {*folders}):
            folders.clear()
            yield folder


def _folder_run(folder: Path, root: Path) -> ImportedRun | None:
    meta = read_yaml(folder / "meta.yaml", root)
    if meta.get("lifecycle_stage") == "deleted":
        return None
    experiment = read_yaml(folder.parent / "meta.yaml", folder.parent if folder == root else root)
    points = SeriesCollector("mlflow")
    times: list[int] = []
    unobserved = [] if meta else [("meta.yaml", UNREADABLE)]
    for name, file in _files(folder / "metrics", root):
        for line in file.read_text("utf-8", "replace").splitlines():
            words = line.split()
            try:
                points.add(name, int(words[2]) if len(words) > 2 else 0, float(words[1]))
                times.append(int(words[0]))
            except (ValueError, IndexError):
                unobserved = [*unobserved, _LINES] if _LINES not in unobserved else unobserved
    params = {name: parse_typed(file.read_text("utf-8", "replace")) for name, file in _files(folder / "params", root)}
    tags = {name: file.read_text("utf-8", "replace") for name, file in _files(folder / "tags", root)}
    status = meta.get("status")
    parent = read_yaml(folder.parent / Path(tags.get(_PARENT) or "-").name / "meta.yaml", root)
    run = ImportedRun(
        tool="mlflow",
        path=folder,
        identity=str(meta.get("run_id") or meta.get("run_uuid") or folder.name),
        name=str(meta.get("run_name") or tags.get("mlflow.runName") or folder.name),
        experiment=_experiment(experiment.get("name")),
        params=params,
        series=points.series(),
        started=_seconds(meta.get("start_time")) or min(times, default=0) / 1000,
        ended=_seconds(meta.get("end_time")) or max(times, default=0) / 1000 or None,
        status=_STATUS.get(status, "lost") if isinstance(status, int) else _STATUS_NAMES.get(str(status), "lost"),
        author=str(meta.get("user_id") or ""),
        unobserved=tuple(unobserved),
    )
    run = _with_tags(run, tags, str(parent.get("run_name") or ""))
    linked = {name for name, place in _FOLDERS.items() if any((folder / place).glob("*"))}
    return _with_artifacts(run, folder / "artifacts", root, linked)


def _database_runs(path: Path, root: Path) -> Iterator[ImportedRun]:
    if not _is_store(path):
        return
    with closing(open_database(path)) as database:
        experiments = dict(database.execute("SELECT experiment_id, name FROM experiments"))
        inputs, models = columns(path, "inputs", "logged_models")
        linked = [*(["datasets"] if inputs else []), *(["logged models"] if models else [])]
        rows = database.execute(
            "SELECT run_uuid, name, status, start_time, end_time, artifact_uri, experiment_id, user_id, source_name"
            " FROM runs WHERE lifecycle_stage IS NOT 'deleted' ORDER BY start_time, run_uuid"
        ).fetchall()
        names = {uuid: name for uuid, name, *_ in rows}
        for uuid, name, status, start, end, artifacts, experiment, user, source in rows:
            points, last = _stored_metrics(database, uuid)
            params = database.execute("SELECT key, value FROM params WHERE run_uuid = ?", (uuid,))
            tags = dict(database.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (uuid,)))
            tags.setdefault("mlflow.source.name", source or "")
            run = ImportedRun(
                tool="mlflow",
                path=path,
                identity=uuid,
                name=name or tags.get("mlflow.runName") or uuid,
                experiment=_experiment(experiments.get(experiment)),
                params={key: parse_typed(text) for key, text in params},
                series=points.series(),
                started=_seconds(start),
                ended=_seconds(end) or last or None,
                status=_STATUS_NAMES.get(status, "lost"),
                author=user or "",
            )
            run = _with_tags(run, tags, names.get(tags.get(_PARENT)) or "")
            kinds = {kind for kind in linked if database.execute(_LINKED[kind], (uuid,)).fetchone()}
            yield _with_artifacts(run, _local_path(artifacts, path.parent), root, kinds)


def _stored_metrics(database: Connection, uuid: str) -> tuple[SeriesCollector, float]:
    """Returns the metrics of a run in a database, and the Unix time of the last one."""
    points = SeriesCollector("mlflow")
    last = 0
    for key, value, moment, step, is_nan in database.execute(
        "SELECT key, value, timestamp, step, is_nan FROM metrics WHERE run_uuid = ? ORDER BY key, step, timestamp",
        (uuid,),
    ):
        points.add(key, step or 0, _stored_value(value, is_nan))
        last = max(last, moment or 0)
    return points, last / 1000


def _stored_value(value: float, is_nan: object) -> float:
    """Returns a value as it was logged; the database stores infinities as the largest numbers."""
    if is_nan:
        return math.nan
    return math.copysign(math.inf, value) if abs(value) >= 1.7976931348623157e308 else float(value)


def _experiment(name: object) -> str:
    """Returns the name of an experiment; runs that were given none are in "Default"."""
    return "" if name == "Default" else str(name or "")


def _with_tags(run: ImportedRun, tags: Mapping[str, str], parent: str) -> ImportedRun:
    """Returns a run with its tags, and with what tags of MLflow say about it.

    Args:
        parent: Name of the run that the tag of the parent names, "" if it is not stored.
    """
    own = [f"{key}:{value}" if value else key for key, value in sorted(tags.items()) if not key.startswith("mlflow.")]
    return replace(
        run,
        tags=(*own, *([f"parent:{parent or tags[_PARENT]}"] if tags.get(_PARENT) else [])),
        description=tags.get("mlflow.note.content") or "",
        script=Path(tags.get("mlflow.source.name") or "").name,
        author=tags.get("mlflow.user") or run.author,
    )


def _with_artifacts(run: ImportedRun, folder: Path | None, root: Path, linked: Set[str]) -> ImportedRun:
    """Returns a run with the texts and pictures of its artifacts.

    Args:
        linked: What else is stored about the run, in tables or folders of its own.
    """
    logged = LoggedContent("mlflow")
    for name, file in _files(folder, root) if folder is not None else ():
        _add_artifact(logged, name, file, root)
    logged.left_out |= linked
    is_outside = folder is not None and folder.is_dir() and not is_inside(folder, root)
    unobserved = (*run.unobserved, *logged.unobserved(), *([OUTSIDE] if is_outside else []))
    return replace(run, texts=tuple(logged.texts), pictures=tuple(logged.pictures), unobserved=unobserved)


def _add_artifact(logged: LoggedContent, name: str, file: Path, root: Path) -> None:
    """Adds a text, a table or a picture, else the ending of the file to what is left out."""
    has_room = len(logged.texts) < MAX_TEXTS
    if file.suffix in _TEXT_SUFFIXES and has_room:
        with file.open("rb") as stream:
            logged.add_text(name, 0, stream.read(MAX_TEXT).decode("utf-8", "replace"))
    elif file.suffix == ".json" and has_room and (table := stored_table(read_object(file, root))):
        logged.add_text(name, 0, table)
    elif file.suffix in (".png", ".jpg", ".jpeg", ".gif") and len(logged.pictures) < MAX_PICTURES:
        image = _LOGGED_IMAGE.fullmatch(name)
        tag, step = (unquote(image[1]).replace("#", "/"), int(image[2])) if image else (name, 0)
        logged.add_picture_file(tag, step, file, root)
    elif not _SMALL_COPY.fullmatch(name):
        logged.left_out.add(f"artifacts (*{file.suffix})" if file.suffix else "artifacts")


def _files(folder: Path, root: Path) -> Iterator[tuple[str, Path]]:
    """Yields the files below a folder with their relative names; a metric `val/acc` is a file in a folder."""
    for file in sorted(folder.rglob("*")) if is_inside(folder, root) else ():
        if file.is_file() and is_inside(file, root):
            yield file.relative_to(folder).as_posix(), file


def _local_path(uri: object, beside: Path) -> Path | None:
    """Returns the folder of an artifact URI on this machine, or `None`."""
    parsed = urlparse(str(uri or ""))
    if parsed.scheme not in ("", "file") or not parsed.path:
        return None
    path = Path(unquote(parsed.path))
    return path if path.is_absolute() else beside / path


def _seconds(milliseconds: object) -> float:
    return milliseconds / 1000 if isinstance(milliseconds, (int, float)) else 0.0


MLFLOW = Reader("mlflow", "MLflow", lambda path: chain(_databases(path), _run_folders(path)), _runs)
"""Reads `mlruns` folders and SQLite databases."""
