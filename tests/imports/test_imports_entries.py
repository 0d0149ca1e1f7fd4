"""Imported runs become entries: once each, updated when they grow, with health checks as far as they hold."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import pytest

from labbook.errors import NothingFoundError, UsageError
from labbook.imports.batch_import import import_runs
from labbook.imports.formats import FORMATS
from labbook.imports.imported_run import ImportedRun, Reader
from labbook.imports.logged_content import LoggedText
from labbook.imports.series_export import write_csv, write_tensorboard
from labbook.model.entry import Entry
from labbook.report.run_data import load_run
from labbook.report.run_row import run_row
from labbook.store.text.frontmatter import parse

FILES = Path(__file__).parent / "files"


def bring(notebook, tool: str, path: Path, **options):
    return import_runs(notebook, FORMATS[tool], path, **options)


def front(notebook, imported) -> dict:
    return parse((notebook.paths.root / imported.path).read_text("utf-8"), "")[0]


def write_csv_log(path: Path, name: str, values: list[float]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"step,{name}\n" + "".join(f"{step},{value}\n" for step, value in enumerate(values)))
    return path


def test_importing_again_changes_nothing_and_a_run_that_grew_is_updated(notes, tmp_path):
    folder = tmp_path / "logs" / "runs"
    shutil.copytree(FILES / "tensorboard", folder)
    event = max(folder.rglob("*tfevents*"), key=lambda file: file.stat().st_size)
    whole = event.read_bytes()
    event.write_bytes(whole[: len(whole) // 2])

    first = bring(notes.notebook, "tensorboard", folder)
    entry = notes.folder / next(run.path for run in first.runs if run.name == "lr0.1_sgd")
    entry.write_text(entry.read_text("utf-8").replace("## Goal\n", "## Goal\n\nWritten by hand.\n"), "utf-8")
    again = bring(notes.notebook, "tensorboard", folder)
    event.write_bytes(whole)
    shutil.move(tmp_path / "logs", tmp_path / "moved")
    grown = bring(notes.notebook, "tensorboard", tmp_path / "moved" / "runs")

    assert [run.action for run in first.runs] == ["added", "added"]
    assert [run.action for run in again.runs] == ["unchanged", "unchanged"]
    assert sorted(run.action for run in grown.runs) == ["unchanged", "updated"]
    assert {run.id for run in grown.runs} == {run.id for run in first.runs}
    assert "Written by hand." in entry.read_text("utf-8")
    assert len(list(notes.folder.glob("notes/runs/*/*/*/*.md"))) == 2


@pytest.mark.parametrize("length", [9, 5000])
def test_an_import_loses_no_values(notes, tmp_path, length):
    """An earlier state of the same run, and a log without its begin, change nothing; a restarted run is another one."""
    values = [1 / (step + 1) for step in range(length)]

    def bring_rows(rows: dict[int, float], other: dict[int, float] | None = None) -> tuple[str, dict]:
        history = [{"step": step, "loss": value} for step, value in rows.items()]
        history += [{"step": step, "eval_loss": value} for step, value in (other or {}).items()]
        file = tmp_path / "out" / "trainer_state.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"global_step": max(rows), "log_history": [{"step": 0, "begin": 1}, *history]}))
        (outcome,) = bring(notes.notebook, "huggingface", tmp_path / "out").runs
        run = load_run(notes.notebook.paths, outcome.id)
        return outcome.action, {each.name: (each.count, each.last_step, each.last) for each in run.series}

    whole = dict(enumerate(values))
    first, shown = bring_rows(whole, {length: 0.25})
    half = {step: value for step, value in whole.items() if step < length // 2}
    rest = {step: value for step, value in whole.items() if step > length // 2}
    assert (first, shown["loss"]) == ("added", (length, length - 1, values[-1]))
    assert bring_rows(half) == ("unchanged", shown)
    assert bring_rows(rest, {length: 0.25}) == ("unchanged", shown)
    action, grown = bring_rows({**rest, length + 5: 0.5})
    assert action == "updated" and grown["eval_loss"] == shown["eval_loss"]
    assert grown["loss"][0] >= length and grown["loss"][1:] == (length + 5, 0.5)
    again = {step: value + 1 for step, value in half.items()}
    action, restarted = bring_rows(again)
    assert action == "updated" and restarted["loss"][:2] == (length // 2, length // 2 - 1)


def test_an_entry_shows_source_parameters_text_image_and_series(notes):
    done = bring(notes.notebook, "wandb", FILES / "wandb")
    run = next(run for run in done.runs if run.name == "lr0.1_sgd")
    page = (notes.folder / run.path).read_text("utf-8")
    meta = front(notes.notebook, run)

    assert meta["imported_from"]["tool"] == "wandb"
    assert (meta["status"], meta["exit_code"], meta["verdict"], meta["tags"]) == (
        "finished",
        0,
        "healthy",
        ["baseline"],
    )
    assert meta["params"]["model.width"] == 8
    assert run_row(Entry(run.path, meta)).subject.startswith("lr0.1_sgd: "), "its name is no script"
    assert "Imported from W&amp;B" in page and "a run of **tests**" in page
    image = page.partition("![Image batch](")[2].partition(")")[0]
    assert (notes.folder / run.path).parent.joinpath(image).read_bytes()[:4] == b"\x89PNG"
    assert "only its series and parameters are known" in page
    assert "the probe did not start" not in page.lower()
    failed = next(run for run in done.runs if run.name == "failed")
    assert "exit code 3" in failed.title and front(notes.notebook, failed)["verdict"] == "failed"


def test_a_text_that_is_logged_again_is_shown_once_and_names_have_their_spaces(notes):
    texts = tuple(LoggedText("note", step, "same" if step else "first") for step in range(5))
    imported = ImportedRun("trackio", notes.folder, "a", "run 1 *b*", texts=texts, params={"lr": 0.1})
    reader = Reader("trackio", "Trackio", lambda path: iter([path]), lambda _: iter([imported]))
    done = import_runs(notes.notebook, reader, notes.folder)
    page = (notes.folder / done.runs[0].path).read_text("utf-8")

    assert page.count("same\n") == page.count("first\n") == 1
    assert "`note`, the same text 4 times, from step 1 to 4" in page
    assert done.runs[0].title.startswith("run 1 _b_: ")


@pytest.mark.parametrize(
    ("name", "values", "verdict", "reason"),
    [
        ("train_loss", [2.3 * math.exp(-i / 100) + 0.01 * (i % 3) for i in range(400)], "healthy", ""),
        ("train_loss", [1.0] * 50 + [math.nan] * 50, "unhealthy", "loss_nonfinite"),
        ("loss", [2.3 + 0.05 * ((i * 7919) % 13 - 6) / 6 for i in range(400)], "suspect", "loss_not_decreasing"),
        ("loss", [2 - i / 100 for i in range(100)] + [1 + i / 10 for i in range(100)], "unhealthy", "loss_diverging"),
        # Losses that may rise, and values that are no loss.
        ("generator_loss", [1.0 + i * 0.1 for i in range(200)], "unknown", "not_measured"),
        ("policy_loss", [1.0 + i * 0.1 for i in range(200)], "unknown", "not_measured"),
        ("val_loss", [2.3] * 200, "unknown", "not_measured"),
        ("speed", [2.3] * 200, "unknown", "not_measured"),
    ],
)  # fmt: skip
def test_health_checks_judge_imported_series_as_far_as_they_hold(notes, tmp_path, name, values, verdict, reason):
    done = bring(notes.notebook, "csv", write_csv_log(tmp_path / "log.csv", name, values))
    meta = front(notes.notebook, done.runs[0])

    assert (meta["verdict"], meta["verdict_reason"] or "") == (verdict, reason)
    assert "## Configuration" not in (notes.folder / done.runs[0].path).read_text("utf-8"), "it has no parameters"


def test_the_loss_of_a_policy_or_of_an_adversary_is_not_expected_to_fall(notes, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    rows = "".join(f"{i},{2.3 + 0.001 * (i % 5)},{i}\n" for i in range(300))
    for number, other in enumerate(("rollout/ep_rew_mean", "discriminator_loss")):
        logs.joinpath(f"{number}.csv").write_text(f"step,loss,{other}\n{rows}")

    done = bring(notes.notebook, "csv", logs)

    assert [front(notes.notebook, run)["verdict"] for run in done.runs] == ["healthy", "healthy"]


def test_bad_input_is_named(notes, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(NothingFoundError, match="is empty"):
        bring(notes.notebook, "mlflow", tmp_path / "empty")
    with pytest.raises(UsageError, match="it looks like TensorBoard") as caught:
        bring(notes.notebook, "wandb", FILES / "tensorboard")
    assert caught.value.hint.startswith("labbook import tensorboard")
    with pytest.raises(UsageError, match="no file or folder"):
        bring(notes.notebook, "csv", tmp_path / "missing")
    event = tmp_path / "events.out.tfevents.1.x"
    event.write_bytes(b"\0" * 7)
    done = bring(notes.notebook, "tensorboard", event)
    assert not done.runs and "middle of a record" in done.problems[0][1]


def test_names_that_are_equal_or_not_utf8_and_secrets(notes, tmp_path):
    for folder in (b"a\xff", b"b"):
        write_csv_log(Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + folder)) / "run" / "metrics.csv", "loss", [2, 1])
    (tmp_path / "b" / "run" / "hparams.yaml").write_text("api_key: sk-ant-api03-" + "a1B2" * 10 + "\nlr: 0.1\n")

    done = bring(notes.notebook, "csv", tmp_path)
    again = bring(notes.notebook, "csv", tmp_path)

    assert len({run.id for run in done.runs}) == 2
    assert [run.action for run in again.runs] == ["unchanged", "unchanged"]
    written = b"".join(file.read_bytes() for file in notes.folder.rglob("*") if file.is_file())
    assert b"a1B2a1B2" not in written


def test_a_dry_run_writes_nothing(notes):
    before = sorted(notes.folder.rglob("*"))
    done = bring(notes.notebook, "mlflow", FILES / "mlflow", dry_run=True)

    assert [run.action for run in done.runs] == ["added"] * 3
    assert sorted(notes.folder.rglob("*")) == before


def test_a_long_series_is_downsampled_with_its_extremes(notes, tmp_path):
    values = [1000.0 / (i + 1) for i in range(30_000)]
    values[12_345] = 5000.0
    done = bring(notes.notebook, "csv", write_csv_log(tmp_path / "log.csv", "loss", values))
    (series,) = load_run(notes.notebook.paths, done.runs[0].id).series

    assert done.runs[0].points == series.count == 30_000
    assert len(series.values) <= 2100 and 5000.0 in series.values


@pytest.mark.parametrize("tool", ["tensorboard", "csv"])
def test_an_exported_run_is_imported_without_loss(notes, tmp_path, tool):
    done = bring(notes.notebook, "mlflow", FILES / "mlflow")
    run = load_run(notes.notebook.paths, next(r.id for r in done.runs if r.series == 3))
    target = tmp_path / "out"
    if tool == "tensorboard":
        write_tensorboard(run, target / "run")
    else:
        write_csv(run, target / "run.csv")

    (back,) = FORMATS[tool].runs(target)

    assert [(s.name, s.steps) for s in back.series] == [(s.name, s.steps) for s in run.series]
    for ours, theirs in zip(run.series, back.series, strict=True):
        assert theirs.values == pytest.approx(ours.values, rel=1e-7, nan_ok=True)
    if tool == "tensorboard":
        assert back.params == dict(run.arguments[0].values) and "| lr | 0.1 |" in back.texts[0].text


def test_tensorboard_reads_what_is_exported(notes, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    done = bring(notes.notebook, "mlflow", FILES / "mlflow")
    run = load_run(notes.notebook.paths, next(r.id for r in done.runs if r.series == 3))
    write_tensorboard(run, tmp_path / "run")
    loaded = accumulator.EventAccumulator(str(tmp_path / "run"), size_guidance={"tensors": 0})
    loaded.Reload()

    tensors = loaded.Tensors("train_loss")
    assert [event.step for event in tensors] == list(run.series[1].steps)
    assert [event.tensor_proto.float_val[0] for event in tensors] == pytest.approx(run.series[1].values)
    assert loaded.PluginTagToContent("hparams")


@pytest.mark.process
def test_a_batch_is_one_commit_on_the_branch_of_entries(tmp_path, git):
    from labbook.store.notebook_finder import create_notebook

    notebook, _ = create_notebook(tmp_path / "own")
    before = int(git(notebook.paths.root, "rev-list", "--count", "--all"))
    done = bring(notebook, "mlflow", FILES / "mlflow", experiment="Old runs")

    assert int(git(notebook.paths.root, "rev-list", "--count", "--all")) == before + 1
    done_on = "HEAD" if notebook.config.commit == "checkout" else notebook.config.branch
    listed = git(notebook.paths.root, "ls-tree", "-r", "--name-only", done_on).splitlines()
    assert all(run.path in listed for run in done.runs)
    assert {run.experiment for run in done.runs} == {"exp001_old-runs_dynamic"}


@pytest.mark.process
def test_the_command(project, tmp_path):
    said = project("import", "mlflow", str(FILES / "mlflow"), "--json")
    data = json.loads(said.stdout)
    assert [run["action"] for run in data["runs"]] == ["added"] * 3
    wrong = project("import", "mlflow", str(FILES / "wandb"), check=False)
    assert (
        wrong.returncode == 2 and "it looks like Weights & Biases" in wrong.stderr and "Traceback" not in wrong.stderr
    )
    (tmp_path / "elsewhere").mkdir()
    personal = project("import", "mlflow", str(FILES / "mlflow"), cwd=tmp_path / "elsewhere")
    assert "your personal notebook" in personal.stderr and "personal notebook" not in said.stderr
