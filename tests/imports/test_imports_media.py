"""Tables, alerts, captions and changed notes that a tool stores besides numbers."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import struct
import zlib

from labbook.imports.logged_content import LEFT_OUT
from labbook.imports.wire_format import encode_message
from tests.imports.test_imports_readers import files_of, read


def test_alerts_tables_captions_and_changed_notes_of_wandb_are_read(tmp_path):
    """As wandb 0.31 writes them: a run again with other notes, an alert, a table in a file, captions in the value."""
    (source,) = (run.path for run in read("wandb", files_of("wandb", tmp_path / "real")) if run.pictures)
    folder = shutil.copytree(source, tmp_path / "wandb" / source.name)
    picture = next((folder / "files").rglob("*.png")).relative_to(folder / "files").as_posix()
    (folder / "files" / "t.json").write_text(json.dumps({"columns": ["q", "n"], "data": [["x\ny", 1]] * 30}))
    many = {"_type": "images/separated", "filenames": [picture, picture], "captions": ["one", "two"]}
    values = {
        "one": {"_type": "image-file", "path": picture, "caption": "a square"},
        "many": many,
        "table": {"_type": "table-file", "path": "t.json"},
    }
    items = [(1, encode_message((1, name), (16, json.dumps(value)))) for name, value in values.items()]
    records = [
        encode_message((17, encode_message((1, "r1"), (8, "first"), (9, "old")))),
        encode_message((2, encode_message(*items))),
        encode_message((10, encode_message((1, "Low"), (2, "0.1 < 0.5"), (3, "WARN")))),
        encode_message((17, encode_message((1, "r1"), (8, "renamed"), (9, "new notes")))),
    ]
    (file,) = folder.glob("*.wandb")
    heads = [struct.pack("<IHB", zlib.crc32(b"\1" + each), len(each), 1) for each in records]
    parts = [part for pair in zip(heads, records, strict=True) for part in pair]
    file.write_bytes(file.read_bytes()[:7] + b"".join(parts))

    (run,) = read("wandb", tmp_path / "wandb")

    assert (run.name, run.description) == ("renamed", "new notes")
    assert [picture.caption for picture in run.pictures] == ["a square", "one", "two"]
    table, alert = run.texts
    assert table.text.splitlines()[::20] == ["| q | n |", "| x y | 1 |"] and table.text.endswith("\n...")
    assert (alert.tag, alert.text) == ("alert: Low", "WARN 0.1 < 0.5")


def insert_row(connection: sqlite3.Connection, table: str, **values) -> None:
    """Adds a row to a table that the tool made; columns that must have a value get 1."""
    required = {row[1]: 1 for row in connection.execute(f"PRAGMA table_info({table})") if row[3]}
    row = {**required, **values}
    marks = ", ".join("?" for _ in row)
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


def test_alerts_and_tables_of_trackio_are_read(tmp_path):
    folder = files_of("trackio", tmp_path)
    (file,) = folder.glob("*.db")
    table = {"rows": {"_type": "trackio.table", "_value": [{"q": "x"}, {"q": "y", "n": 2}]}}
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        (run_id,) = connection.execute("SELECT run_id FROM metrics").fetchone()
        insert_row(connection, "alerts", run_id=run_id, title="Spike", text="3 > 1", level="warn", step=3)
        connection.execute("UPDATE metrics SET metrics = ? WHERE id = 1", (json.dumps(table),))

    (run,) = read("trackio", folder)

    texts = {text.tag: (text.step, text.text) for text in run.texts}
    assert texts["alert: Spike"] == (3, "warn 3 > 1")
    assert texts["rows"][1] == "| q | n |\n| --- | --- |\n| x |  |\n| y | 2 |"


def test_what_mlflow_stores_besides_numbers_is_read_or_named(tmp_path):
    folder = files_of("mlflow_sqlite", tmp_path)
    with contextlib.closing(sqlite3.connect(folder / "mlflow.db")) as connection, connection:
        (run_id,) = connection.execute("SELECT run_uuid FROM runs").fetchone()
        connection.execute("UPDATE runs SET artifact_uri = 'artifacts' WHERE run_uuid = ?", (run_id,))
        insert_row(connection, "logged_models", source_run_id=run_id)
        insert_row(connection, "inputs", source_type="DATASET", destination_id=run_id)
    artifacts = folder / "artifacts"
    artifacts.mkdir()
    (artifacts / "table.json").write_text(json.dumps({"columns": ["q"], "data": [["x"]]}))
    (artifacts / "model.pt").write_bytes(b"1")

    run = next(run for run in read("mlflow", folder) if run.identity == run_id)

    assert [(text.tag, text.text) for text in run.texts] == [("table.json", "| q |\n| --- |\n| x |")]
    assert run.unobserved == (("artifacts (*.pt), datasets, logged models", LEFT_OUT),)
