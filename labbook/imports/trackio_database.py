"""Reads SQLite databases of Trackio, one a project.

Source: trackio/sqlite_storage.py of Trackio 0.43: tables `metrics` and `configs`, values as JSON; images in `media/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from labbook.imports.imported_files import parse_object, root_of
from labbook.imports.imported_run import NO_STATUS, ImportedRun, Reader
from labbook.imports.logged_content import MAX_DEPTH, LoggedContent, table_text
from labbook.imports.sqlite_files import columns, databases, open_database, runs_of_databases
from labbook.store.moments import moment

_COLUMNS = {"run_name", "step", "metrics", "timestamp"}


def _runs(path: Path) -> Iterator[ImportedRun]:
    """Yields the runs of all databases at the path."""
    yield from runs_of_databases("trackio", path, ("*.db",), lambda file: _read(file, root_of(path)))


def _databases(path: Path) -> Iterator[Path]:
    for file in databases(path, "*.db"):
        with suppress(ValueError):
            if columns(file, "metrics")[0] >= _COLUMNS:
                yield file


def _read(path: Path, root: Path) -> Iterator[ImportedRun]:
    found, configured, alerting = columns(path, "metrics", "configs", "alerts")
    if not found >= _COLUMNS:
        return
    with closing(open_database(path)) as database:
        key = "run_id" if "run_id" in found else "run_name"
        configs: dict[str, dict[str, Any]] = {}
        if configured:
            configs = {run: _parse_json(text) for run, text in database.execute(f"SELECT {key}, config FROM configs")}
        runs = database.execute(
            f"SELECT {key}, MIN(run_name), MIN(timestamp), MAX(timestamp) FROM metrics GROUP BY {key} ORDER BY MIN(id)"
        ).fetchall()
        for run, name, first, last in runs:
            logged = _RunLog(path.parent / "media", root)
            for step, data in database.execute(
                f"SELECT step, metrics FROM metrics WHERE {key} = ? ORDER BY step, id", (run,)
            ):
                logged.add(step, _parse_json(data))
            if alerting >= {key, "title", "text", "level", "step"}:
                for title, text, level, step in database.execute(
                    f"SELECT title, text, level, step FROM alerts WHERE {key} = ? ORDER BY id", (run,)
                ):
                    logged.add_text(f"alert: {title}", step or 0, " ".join(filter(None, (level, text))))
            config = configs.get(run, {})
            started = min(filter(None, (moment(config.get("_Created")), moment(first))), default=0.0)
            yield ImportedRun(
                path=path,
                identity=f"{path.stem}/{run}" if key == "run_id" else f"{path.stem}/{run}/{first}",
                name=str(name),
                experiment=path.stem,
                params={k: v for k, v in config.items() if not k.startswith("_")},
                tags=(f"group:{config['_Group']}",) if config.get("_Group") else (),
                started=started,
                ended=moment(last),
                author=str(config.get("_Username") or ""),
                unobserved=(NO_STATUS, *logged.unobserved()),
                **logged.fields(),
            )


class _RunLog(LoggedContent):
    """Collects what one run logged.

    Args:
        media: The folder with the files of the project.
    """

    def __init__(self, media: Path, root: Path) -> None:
        super().__init__("trackio")
        self._media = media
        self._root = root

    def add(self, step: int, values: Mapping[str, Any], prefix: str = "") -> None:
        """Adds the values of one step; values of the tool's own types have a `_type`."""
        for name, value in values.items():
            if isinstance(value, Mapping):
                kind = value.get("_type")
                if kind is None and prefix.count(".") < MAX_DEPTH:
                    self.add(step, value, f"{prefix}{name}.")
                elif kind == "trackio.image":
                    file = self._media / str(value.get("file_path"))
                    self.add_picture_file(prefix + name, step, file, self._root, value.get("caption"))
                elif kind == "trackio.markdown" and isinstance(text := value.get("_value"), str):
                    self.add_text(prefix + name, step, text)
                elif kind == "trackio.table" and (table := _table(value.get("_value"))):
                    self.add_text(prefix + name, step, table)
                elif kind not in (None, "trackio.markdown"):
                    self.left_out.add(str(kind).removeprefix("trackio."))
            elif isinstance(value, list):
                self.left_out.add("list")
            elif not self.points.add_number(prefix + name, step, value) and isinstance(value, str):
                self.add_text(prefix + name, step, value)


def _table(rows: object) -> str:
    """Returns the rows of a table as text, "" if they are none."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return ""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return table_text(columns, [[row.get(name, "") for name in columns] for row in rows])


def _parse_json(data: object) -> dict[str, Any]:
    return parse_object(data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data))


TRACKIO = Reader("trackio", "Trackio", _databases, _runs)
"""Reads databases of Trackio."""
