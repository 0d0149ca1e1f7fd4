"""Files that the real tools wrote, see `write_files.py`, are read completely; damaged ones as far as they are whole."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import json
import math
import shutil
import sqlite3
import struct
import zlib
from pathlib import Path

import pytest

from labbook.imports.formats import FORMATS, likely_formats
from labbook.imports.imported_files import read_yaml
from labbook.imports.imported_run import OUTSIDE, UNREADABLE, ImportedRun, parse_typed
from labbook.imports.logged_content import LEFT_OUT
from labbook.imports.wire_format import Message, RecordFile, encode_message, frame_record

FILES = Path(__file__).parent / "files"
_spec = importlib.util.spec_from_file_location("write_files", Path(__file__).parent / "write_files.py")
logged = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(logged)

TOOLS = ("tensorboard", "visualdl", "mlflow", "mlflow_sqlite", "wandb", "swanlab", "trackio")
WITHOUT_TEXT = ("mlflow_sqlite", "wandb")
WITHOUT_PICTURE = ("mlflow_sqlite",)


def files_of(tool: str, folder: Path) -> Path:
    """Returns a copy of the files of a tool; databases are stored compressed."""
    target = folder / tool
    shutil.copytree(FILES / tool, target)
    for packed in target.glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    return target


def read(tool: str, path: Path) -> list[ImportedRun]:
    return list(FORMATS[tool.partition("_")[0]].runs(path))


def points(run: ImportedRun, name: str) -> list[tuple[int, float]]:
    series = next(each for each in run.series if each.name == name)
    return list(zip(series.steps, series.values, strict=True))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_run_of_a_real_tool_is_read_completely(tool, tmp_path):
    runs = read(tool, files_of(tool, tmp_path))
    run = next(run for run in runs if run.name == "lr0.1_sgd" and len(run.series) > 1)
    loss = "train_loss" if tool.startswith("mlflow") else "train/loss"
    accuracy = "val.acc" if tool == "wandb" else "val/acc"

    assert points(run, loss) == [(step, pytest.approx(logged.loss(step))) for step in range(logged.STEPS)]
    assert points(run, accuracy) == [(step, pytest.approx(logged.accuracy(step))) for step in (9, 19, 29)]
    odd = points(run, "odd")
    assert [step for step, _ in odd] == list(range(logged.STEPS))
    assert [repr(float(value)) for _, value in odd] == [repr(float(logged.odd(step))) for step in range(logged.STEPS)]
    assert {name: run.params[name] for name in ("lr", "batch_size", "optimizer", "seed")} == {
        name: logged.PARAMS[name] for name in ("lr", "batch_size", "optimizer", "seed")
    }
    assert str(run.params["nesterov"]) in ("True", "1")
    assert 1.7e9 < run.started <= run.ended < 2e9
    assert tool in WITHOUT_TEXT or any("**tests**" in text.text for text in run.texts)
    assert tool in WITHOUT_PICTURE or [picture.suffix for picture in run.pictures] == [".png"]
    assert likely_formats(tmp_path / tool)[0] == tool.partition("_")[0]


@pytest.mark.parametrize(
    ("tool", "statuses"),
    [
        ("mlflow", ["failed", "finished", "finished"]),
        ("mlflow_sqlite", ["failed", "finished", "finished"]),
        ("wandb", ["failed", "finished"]),
        ("swanlab", ["finished"]),
    ],
)
def test_how_a_run_ended_is_read_where_the_tool_records_it(tool, statuses, tmp_path):
    assert sorted(run.status for run in read(tool, files_of(tool, tmp_path))) == statuses


def test_folders_that_a_writer_makes_for_parts_of_a_run_belong_to_it(tmp_path):
    runs = read("tensorboard", files_of("tensorboard", tmp_path))

    assert sorted(run.name for run in runs) == ["lr0.1_sgd", "学习率0.2"]
    names = {series.name for run in runs for series in run.series}
    assert {"speed/data", "speed/model", "hparam/accuracy"} <= names


def test_add_scalars_of_tensorboard_x_belongs_to_its_run_and_a_run_may_be_named_like_a_series(tmp_path):
    (run,) = read("tensorboard", files_of("tensorboard_x", tmp_path))

    assert [series.name for series in run.series] == ["lr", "speed/gpu/data", "speed/gpu/model"]


def test_the_folders_of_a_resumed_run_of_wandb_are_one_run(tmp_path):
    """The second folder takes the place of step 2; the third begins again at step 0, and is a run of its own."""
    run, other = read("wandb", files_of("wandb_resumed", tmp_path))

    assert points(run, "loss") == [(0, 10.0), (1, 11.0), (2, 2.0), (3, 3.0), (4, 4.0)]
    assert (run.status, run.exit_code, len(run.pictures)) == ("finished", 0, 2)
    assert points(other, "loss") == [(0, 0.0), (1, 1.0), (2, 2.0)]


def test_an_end_that_wandb_wrote_for_a_program_that_was_gone_is_no_end(tmp_path):
    """Its own process writes an exit code of 0 for a killed program, without the fields that a program adds."""
    source = max(FILES.joinpath("wandb_resumed").rglob("*.wandb"))
    records = list(RecordFile(source).block_records())
    ends = [place for place, record in enumerate(records) if Message(record).has_field(18)]
    records[ends[-1]] = encode_message((1, 99), (18, b""))
    heads = [struct.pack("<IHB", zlib.crc32(each, zlib.crc32(b"\1")), len(each), 1) for each in records]
    parts = [part for pair in zip(heads, records, strict=True) for part in pair]
    (tmp_path / "run-x.wandb").write_bytes(source.read_bytes()[:7] + b"".join(parts))

    (run,) = read("wandb", tmp_path)

    assert (run.status, run.exit_code, len(run.series)) == ("lost", None, 1)


def test_an_experiment_of_mlflow_with_tags_has_its_runs_and_a_model_is_no_run(tmp_path):
    folder = files_of("mlflow", tmp_path)
    before = [run.identity for run in read("mlflow", folder)]
    (experiment,) = {path.parent.parent for path in folder.glob("mlruns/*/*/meta.yaml")}
    (experiment / "tags").mkdir()
    (experiment / "tags" / "team").write_text("vision")
    (experiment / "models" / "m-1" / "params").mkdir(parents=True)
    (experiment / "models" / "m-1" / "meta.yaml").write_text("model_id: m-1\nname: net\nsource_run_id: x\n")

    assert [run.identity for run in read("mlflow", folder)] == before


def test_a_parameter_stored_as_text_is_a_number_only_if_nothing_is_lost(tmp_path):
    written = (
        7,
        -3,
        0.1,
        1e-05,
        1e16,
        123456.75,
        True,
        False,
        None,
        math.inf,
        "1e-4",
        "3.10",
        "007",
        "1_000",
        "12e4567",
        " 1",
    )
    assert [parse_typed(str(value)) for value in written] == list(written)

    (tmp_path / "hparams.yaml").write_text(
        "---\nbetas: !!python/tuple\n- 0.9\n- 0.999\nact: !!python/name:torch.nn.ReLU ''\nlr: 1e-4\nday: 2026-01-05\n"
    )
    found = read_yaml(tmp_path / "hparams.yaml", tmp_path)
    assert (found["betas"], found["act"], found["lr"], str(found["day"])) == (
        [0.9, 0.999],
        "python/name:torch.nn.ReLU",
        "1e-4",  # text for PyYAML, which wrote the file
        "2026-01-05",
    )


def test_training_and_validation_of_one_run_are_one_run(tmp_path):
    event = FILES / "tensorboard" / "学习率0.2"
    for part in ("train", "validation"):
        shutil.copytree(event, tmp_path / "fit" / part)

    (run,) = read("tensorboard", tmp_path)

    assert run.name == "fit"
    assert [series.name for series in run.series] == ["train/train/loss", "validation/train/loss"]


@pytest.mark.parametrize("tool", ["tensorboard", "visualdl", "wandb", "swanlab"])
def test_a_truncated_file_gives_everything_before_its_end(tool, tmp_path):
    """At every length: never an error, never more than there was, and the cut is named."""
    records = {"tensorboard": "*tfevents*", "visualdl": "*vdlrecords*"}.get(tool, f"*.{tool}")
    source = max(FILES.joinpath(tool).rglob(records), key=lambda file: file.stat().st_size)
    content = source.read_bytes()
    file = tmp_path / source.name
    before = 0
    for length in range(0, len(content), 97):
        file.write_bytes(content[:length])
        found = read(tool, file)
        count = sum(series.count for run in found for series in run.series)
        assert count >= before
        before = count
    assert before > 50
    assert any("middle" in reason for run in found for _, reason in run.unobserved)


@pytest.mark.parametrize("tool", ["tensorboard", "wandb", "swanlab"])
def test_a_damaged_record_is_left_out_and_named(tool, tmp_path):
    """At every place: no error, no value that the tool did not write, and never a silent loss."""
    records = {"tensorboard": "*tfevents*"}.get(tool, f"*.{tool}")
    source = max(FILES.joinpath(tool).rglob(records), key=lambda file: file.stat().st_size)
    content = source.read_bytes()
    file = tmp_path / source.name

    def series(data):
        file.write_bytes(data)
        found = read(tool, file)
        values = {repr((one.name, value)) for run in found for one in run.series for value in one.values}
        return values, [reason for run in found for _, reason in run.unobserved if "record" in reason]

    whole, _ = series(content)
    lost = 0
    for place in range(20, len(content), 131):
        values, named = series(content[:place] + bytes((content[place] ^ 0x5A,)) + content[place + 1 :])
        assert values <= whole
        assert named or values == whole
        lost += bool(named)
    assert lost > 20


@pytest.mark.parametrize("tool", ["tensorboard", "visualdl", "wandb", "swanlab"])
@pytest.mark.parametrize("content", [b"", b"\0" * 200, b"\xff" * 200, b"hello\n" * 30, struct.pack("<Q", 2**60)])
def test_a_file_of_another_content_is_no_crash(tool, content, tmp_path):
    name = {"tensorboard": "events.out.tfevents.1.x", "visualdl": "vdlrecords.1.log"}.get(tool, f"run-x.{tool}")
    (tmp_path / name).write_bytes(content)
    try:
        found = read(tool, tmp_path)
    except ValueError:
        return
    assert not any(run.series for run in found)


@pytest.mark.parametrize("share", [0.0, 0.6, 0.9])
def test_a_damaged_database_is_named_and_the_others_are_read(share, tmp_path):
    folder = files_of("mlflow_sqlite", tmp_path)
    whole = next(folder.glob("*.db"))
    content = whole.read_bytes()
    (folder / "damaged.db").write_bytes(content[: int(len(content) * share)] or b"SQLite format 3\0" + b"\1" * 400)

    runs = read("mlflow_sqlite", folder)

    assert [run.unobserved for run in runs if run.name == "damaged.db"] == [(("database", UNREADABLE),)]
    assert len([run for run in runs if run.path == whole]) == 3


def test_a_run_of_mlflow_with_a_damaged_description_has_its_values(tmp_path):
    folder = files_of("mlflow", tmp_path)
    before = {run.identity: run for run in read("mlflow", folder)}
    found = next(run for run in before.values() if run.series)
    (found.path / "meta.yaml").write_text("run_id: [broken")

    after = next(run for run in read("mlflow", folder) if run.identity == found.identity)

    assert (after.series, after.params) == (found.series, found.params)
    assert (after.status, after.unobserved) == ("lost", (("meta.yaml", UNREADABLE),))
    assert 1.7e9 < after.started <= after.ended


def test_negative_steps_and_kinds_that_are_left_out_of_tensorboard(tmp_path):
    def event(step, value):
        return frame_record(encode_message((1, 1.8e9), (2, step), (5, encode_message((1, value)))))

    loss, histogram = encode_message((1, "loss")), encode_message((1, "weight"), (5, encode_message((1, 1.0))))
    scalars = [event(step, loss + b"\x15" + struct.pack("<f", step)) for step in (-1, 0, 2**40)]
    (tmp_path / "events.out.tfevents.1.x").write_bytes(b"".join([*scalars, event(3, histogram)]))

    (run,) = read("tensorboard", tmp_path)

    assert points(run, "loss") == [(-1, -1.0), (0, 0.0), (2**40, float(2**40))]
    assert run.unobserved[1:] == (("histograms", LEFT_OUT),)


def test_a_resumed_run_restarts_its_series(tmp_path):
    """A second event file that begins at step 1 replaces the steps from there on, as in TensorBoard."""
    event = next((FILES / "tensorboard" / "学习率0.2").iterdir())
    records = []
    content = event.read_bytes()
    while content:
        size = 16 + int.from_bytes(content[:8], "little")
        records, content = [*records, content[:size]], content[size:]
    (tmp_path / event.name).write_bytes(b"".join(records))
    (tmp_path / event.name.replace("1795", "1796")).write_bytes(b"".join([records[0], *records[2:]]))

    (run,) = read("tensorboard", tmp_path)

    assert [step for step, _ in points(run, "train/loss")] == [0, 1, 2]


def test_a_database_is_read_while_the_tool_writes_it(tmp_path):
    """Also what is only in its write-ahead log."""
    file = files_of("trackio", tmp_path) / "digits.db"
    writer = sqlite3.connect(file)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) SELECT run_id, timestamp, run_name, 30, '{\"odd\": 30}' FROM metrics LIMIT 1")  # fmt: skip # noqa: E501
    writer.commit()
    try:
        (run,) = read("trackio", file)
        assert points(run, "odd")[-1] == (30, 30.0)
    finally:
        writer.close()


@pytest.mark.parametrize("tool", [*TOOLS, "csv"])
def test_links_that_leave_the_imported_folder_are_not_followed(tool, tmp_path):
    """Neither where all files are links, nor where those beside the records are."""
    records = (".wandb", ".swanlab", ".db", "meta.yaml", "step.csv")
    if tool == "csv":
        (tmp_path / "csv" / "deep").mkdir(parents=True)
        (tmp_path / "csv" / "deep" / "step.csv").write_text("step,loss\n0,1.0\n1,0.5\n")
        (tmp_path / "csv" / "deep" / "hparams.yaml").write_text("lr: 0.1\n")
    folder = tmp_path / "csv" if tool == "csv" else files_of(tool, tmp_path)
    outside = tmp_path / "outside"
    shutil.copytree(folder, outside)
    for place in folder.rglob("*"):
        if place.is_file() and not place.name.endswith(records):
            place.unlink()
            place.symlink_to(outside / place.relative_to(folder))
    runs = read(tool, folder)
    assert [run.pictures for run in runs if run.pictures] == []
    assert tool in ("wandb", "trackio", "mlflow_sqlite") or [run.params for run in runs if run.params] == []
    assert tool not in ("mlflow", "swanlab") or [run.texts for run in runs if run.texts] == []

    shutil.rmtree(folder)
    for place in outside.rglob("*"):
        if place.is_file():
            (folder / place.relative_to(outside)).parent.mkdir(parents=True, exist_ok=True)
            (folder / place.relative_to(outside)).symlink_to(place)
    assert read(tool, folder) == []
    named = tmp_path / "link"
    named.symlink_to(outside)
    assert read(tool, named)  # the user may name a link


@pytest.mark.parametrize("tool", ["mlflow", "mlflow_sqlite", "wandb"])
def test_what_runs_have_in_common_is_a_tag(tool, tmp_path):
    folder = files_of(tool, tmp_path)
    parent, child, *_ = read(tool, folder)
    if tool == "mlflow":
        (child.path / "tags" / "mlflow.parentRunId").write_text(parent.identity)
    elif tool == "mlflow_sqlite":
        with contextlib.closing(sqlite3.connect(folder / "mlflow.db")) as connection, connection:
            row = ("mlflow.parentRunId", parent.identity, child.identity)
            connection.execute("INSERT OR REPLACE INTO tags (key, value, run_uuid) VALUES (?, ?, ?)", row)
    else:
        record = encode_message((17, encode_message((1, child.identity), (6, "folds"), (7, "train"), (12, "k1"))))
        (file,) = child.path.glob("*.wandb")
        file.write_bytes(
            file.read_bytes()[:7] + struct.pack("<IHB", zlib.crc32(b"\1" + record), len(record), 1) + record
        )
    expected = {"group:folds", "job_type:train", "sweep:k1"} if tool == "wandb" else {f"parent:{parent.name}"}

    assert expected in [set(run.tags) - {"baseline"} for run in read(tool, folder)]


def test_paths_in_the_data_cannot_leave_the_imported_folder(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.png").write_bytes(next((FILES / "trackio").rglob("*.png")).read_bytes())
    (outside / "secret.txt").write_text("secret")
    places = (
        str(outside / "secret.png"),
        "../../../../outside/secret.png",
        "../../outside/secret.png",
        "a\0b",
        "x" * 999,
    )

    rows = [json.dumps({"_type": "image-file", "path": place}) for place in places]
    records = [encode_message((2, encode_message((1, encode_message((1, "image"), (16, row)))))) for row in rows]
    (tmp_path / "wandb" / "run-1").mkdir(parents=True)
    header = next(FILES.joinpath("wandb").rglob("*.wandb")).read_bytes()[:7]
    (tmp_path / "wandb" / "run-1" / "run-1.wandb").write_bytes(
        header + b"".join(struct.pack("<IHB", 0, len(each), 1) + each for each in records)
    )
    (run,) = read("wandb", tmp_path / "wandb")
    assert run.pictures == ()

    trackio = files_of("trackio", tmp_path)
    (database,) = trackio.glob("*.db")
    for place in places:
        with contextlib.closing(sqlite3.connect(database)) as connection, connection:
            image = json.dumps({"batch": {"_type": "trackio.image", "file_path": place}})
            connection.execute("UPDATE metrics SET metrics = ?", (image,))
        assert [run.pictures for run in read("trackio", trackio)] == [()]

    mlflow = files_of("mlflow_sqlite", tmp_path)
    for uri in (str(outside), outside.as_uri(), "../outside"):
        with contextlib.closing(sqlite3.connect(mlflow / "mlflow.db")) as connection, connection:
            connection.execute("UPDATE runs SET artifact_uri = ?", (uri,))
        for run in read("mlflow", mlflow):
            assert (run.pictures, run.texts, run.unobserved) == ((), (), (OUTSIDE,))
