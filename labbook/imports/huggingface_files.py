"""Reads `trainer_state.json`, the log of a `Trainer` of Hugging Face Transformers, in its output folder or checkpoints.

Source: transformers/trainer_callback.py, `TrainerState`: `log_history` has a row for each log and each evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labbook.capture.tables.series_collector import SeriesCollector
from labbook.imports.imported_files import read_object, root_of, walk
from labbook.imports.imported_run import NO_STATUS, NO_TIMES, UNREADABLE, ImportedRun, Reader, experiment_of, name_below

_STATE = "trainer_state.json"
_PARAMS = ("num_train_epochs", "max_steps", "train_batch_size", "logging_steps", "eval_steps", "save_steps")


def _state_files(path: Path) -> Iterator[Path]:
    if path.is_file():
        if path.name == _STATE:
            yield path
        return
    for folder, _, files in walk(path):
        if _STATE in files:
            yield folder / _STATE


def _runs(path: Path) -> Iterator[ImportedRun]:
    """Yields a run for each output folder: its log is that of the checkpoint with the most steps."""
    found: dict[Path, list[tuple[Path, dict[str, Any]]]] = {}
    for file in _state_files(path):
        folder = file.parent.parent if file.parent.name.startswith("checkpoint-") else file.parent
        found.setdefault(folder, []).append((file, read_object(file, root_of(path))))
    for folder, states in found.items():
        # A checkpoint is written before the evaluation of its step is logged.
        file, state = max(states, key=lambda each: (_number(each[1].get("global_step")), len(_rows(each[1]))))
        yield _run(folder, file, state, path)


def _run(folder: Path, file: Path, state: dict[str, Any], root: Path) -> ImportedRun:
    points = SeriesCollector("huggingface")
    rows = _rows(state)
    for row in rows:
        for name, value in row.items():
            if name != "step":
                points.add_number(name, int(_number(row.get("step"))), value)
    modified = file.stat().st_mtime
    runtime = max((_number(row.get("train_runtime")) for row in rows), default=0)
    trial = state.get("trial_params")
    damaged = () if "log_history" in state else ((_STATE, UNREADABLE),)
    return ImportedRun(
        tool="huggingface",
        path=folder,
        identity=f"{folder.resolve().name}/{next(iter(rows), '')}",
        name=name_below(folder, root) if folder.is_relative_to(root_of(root)) else folder.resolve().name,
        experiment=experiment_of(folder, root),
        params={name: state[name] for name in _PARAMS if name in state} | (trial if isinstance(trial, dict) else {}),
        series=points.series(),
        started=modified - runtime,
        ended=modified,
        unobserved=(NO_STATUS, NO_TIMES, *damaged),
    )


def _rows(state: dict[str, Any]) -> list[dict[str, Any]]:
    history = state.get("log_history")
    return [row for row in history if isinstance(row, dict)] if isinstance(history, list) else []


def _number(value: object) -> float:
    return value if isinstance(value, (int, float)) else 0


HUGGINGFACE = Reader("huggingface", "Hugging Face", _state_files, _runs)
"""Reads the states of trainers."""
