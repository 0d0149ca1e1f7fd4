"""Exports the model of a recorded run as ONNX: the program runs to its first optimizer step, in a worktree.

No entry is written. The model is what the program made, with the inputs of its first training step; weights that the
run kept in a snapshot or by `labbook.keep()` are loaded before the export.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

from labbook.artifacts.inventory import get_file, list_kept
from labbook.errors import LabbookError, NotebookError, NothingFoundError
from labbook.frozen import dataclass
from labbook.model.message import Message, message
from labbook.probe.events.protocol import EVENTS_FOLDER
from labbook.record.child.probe_environment import inject_environment, keep_probe
from labbook.record.notebook_command import ENV_FOLDER
from labbook.rerun.recorded_code import recorded_code
from labbook.rerun.recorded_command import rerun_command
from labbook.rerun.recorded_environment import recorded_variables, set_environment
from labbook.rerun.recorded_inputs import prepare_inputs
from labbook.store.notebook import Notebook

_ENDINGS = (".pt", ".pth", ".ckpt", ".bin", ".tar", ".pdparams")
_BUDGET = 0.5


@dataclass(frozen=True)
class OnnxModel:
    """An exported model.

    Args:
        model: Class of the model.
        weights: Name of the kept file with its weights; "" for those of the first step.
        notes: Why kept weights were not used.
    """

    path: Path
    model: str
    weights: str = ""
    notes: tuple[Message, ...] = ()


def export_onnx(
    notebook: Notebook, run: Mapping[str, Any], target: Path, notify: Callable[[Message], None]
) -> list[OnnxModel]:
    """Exports the models of a run: the first to `target`, others with a number before the ending.

    Args:
        run: The `run.json`.
        target: Path that ends in `.onnx`.
        notify: Called with what differs from the recorded run.

    Raises:
        UsageError: The code cannot be restored.
        NothingFoundError: The program made no optimizer step.
        NotebookError: The framework cannot export the model, or the file cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="labbook-onnx-") as place:
        folder = Path(place)
        (folder / EVENTS_FOLDER).mkdir()
        name, weights = _kept_weights(notebook, run, folder)
        status = _run_to_first_step(notebook, run, folder, weights, notify)
        try:
            rows = json.loads((folder / "model.json").read_text("utf-8"))
        except (OSError, ValueError):
            raise NothingFoundError("errors.graph.onnx_no_step", run=run.get("id"), status=status) from None
        found = [_move(row, target, name) for row in rows if not row["error"]]
        if not found:
            _raise_failure(rows)
        return found


def _run_to_first_step(
    notebook: Notebook, run: Mapping[str, Any], folder: Path, weights: Path | None, notify: Callable[[Message], None]
) -> int:
    """Runs the program until it has exported its models; returns its exit status."""
    wanted = {"file": str(folder / "model"), "weights": str(weights or "")}
    settings = {
        "dir": str(folder),
        "run": str(run.get("id")),
        "level": "light",
        "budget": _BUDGET,
        "config_max_bytes": notebook.config.config_max_bytes,
        "asked": {"max_steps": 1, "onnx": wanted},
    }
    with recorded_code(notebook, run, incomplete=True) as code:
        for note in (*code.notes, *prepare_inputs(run, code)):
            notify(note)
        command = rerun_command(run, code)
        with set_environment(recorded_variables(run, code), None):
            environ = inject_environment(dict(os.environ), settings)
        environ[ENV_FOLDER] = str(folder / "notebook")
        try:
            # The output of the program is not the result of the command.
            done = subprocess.run(keep_probe(command, environ), cwd=code.cwd, env=environ, stdout=2, check=False)
        except OSError as error:
            raise NotebookError("errors.graph.onnx_not_started", command=command[0], reason=error) from error
    return done.returncode


def _kept_weights(notebook: Notebook, run: Mapping[str, Any], folder: Path) -> tuple[str, Path | None]:
    """Returns name and copy of the kept file that has the weights of a run, the snapshot before others."""
    kept = [one for one in list_kept(notebook, str(run.get("id"))) if one.hex and one.artifact.name.endswith(_ENDINGS)]
    kept.sort(key=lambda one: (one.artifact.via != "snapshot", PurePath(one.artifact.name).stem != "state"))
    for one in kept[:1]:
        copy = folder / f"weights{PurePath(one.artifact.name).suffix}"
        try:
            get_file(notebook, one, copy)
        except LabbookError:
            return "", None
        return one.artifact.name, copy
    return "", None


def _move(row: Mapping[str, Any], target: Path, weights: str) -> OnnxModel:
    source = Path(row["file"])
    path = target.with_name(target.stem + source.stem.removeprefix("model") + target.suffix)
    try:
        shutil.move(source, path)
    except OSError as error:
        raise NotebookError("errors.file.not_written", path=path, reason=error) from error
    if row["weights"] == "loaded":
        return OnnxModel(path, row["model"], weights)
    notes = (
        (message("terminal.graph.onnx_weights_unfit", name=weights, reason=row["weights"]),) if row["weights"] else ()
    )
    return OnnxModel(path, row["model"], "", notes)


def _raise_failure(rows: list[dict[str, Any]]) -> None:
    missing = sorted({name for row in rows for name in row["missing"]})
    if missing:
        raise NotebookError("errors.graph.onnx_missing", packages=", ".join(missing), command=" ".join(missing))
    reason = rows[0]["error"] if rows else "-"
    raise NotebookError("errors.graph.onnx_failed", model=rows[0]["model"] if rows else "-", reason=reason)
