"""Whether 200 runs of a real tool are imported without loss, and how fast.

    python -m benchmarks.imports [runs] [TOOL=PYTHON ...]

Writes runs with PyTorch's `SummaryWriter`, and with each further tool by the interpreter that has it, as in
`mlflow=/tmp/mlflow/bin/python` (see `tests/imports/write_files.py`). Imports them into a notebook in git, and compares
every point and parameter in `run.json` with what was logged. Prints lost points and parameters, and runs per second and
per second of CPU time, which other work on the machine does not change; importing again has to add nothing.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labbook.imports.batch_import import import_runs
from labbook.imports.formats import FORMATS
from labbook.imports.imported_run import flat
from labbook.model.run import Run
from labbook.report.run_data import load_run
from labbook.store.notebook_finder import create_notebook
from labbook.store.sentences import Sentences

_WRITER = Path(__file__).resolve().parents[1] / "tests" / "imports" / "write_files.py"
_RUNS_A_TIME = {
    "tensorboard": 2,
    "visualdl": 1,
    "mlflow": 3,
    "mlflow_sqlite": 3,
    "wandb": 2,
    "swanlab": 1,
    "trackio": 1,
}
"""How many runs the tool writes at a time; the first one has all series."""


def main() -> None:
    """Writes, imports and compares; prints a line for each tool."""
    runs = next((int(word) for word in sys.argv[1:] if word.isdigit()), 200)
    tools = {"tensorboard": sys.executable} | dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    for tool, python in tools.items():
        with tempfile.TemporaryDirectory() as folder:
            _measure(tool, python, Path(folder), -(-runs // _RUNS_A_TIME[tool]))


def _measure(tool: str, python: str, folder: Path, times: int) -> None:
    subprocess.run([python, str(_WRITER), tool, str(folder), str(times)], check=True, capture_output=True)
    notebook, _ = create_notebook(folder / "notebook")
    reader = FORMATS[tool.partition("_")[0]]
    roots = sorted((folder / tool).iterdir()) if tool in ("mlflow_sqlite", "trackio") else [folder / tool]
    began, busy = time.monotonic(), time.process_time()
    first = [import_runs(notebook, reader, root, say=Sentences("en")) for root in roots]
    took, busy = time.monotonic() - began, time.process_time() - busy
    began = time.monotonic()
    again = [import_runs(notebook, reader, root, say=Sentences("en")) for root in roots]
    second = time.monotonic() - began
    added = [run for done in first for run in done.runs]
    unchanged = sum(run.action == "unchanged" for done in again for run in done.runs)
    lost, compared = 0, 0
    for each in added:
        run = load_run(notebook.paths, each.id)
        if run is not None and each.points > 10 and each.name.endswith("lr0.1_sgd"):
            missing, total = _lost(run)
            lost, compared = lost + missing, compared + total
    rate = f"{len(added) / took:.1f} runs/s, {len(added) / busy:.1f} a CPU second"
    speed = f"{len(added)} runs added in {took:.1f} s ({rate})"
    print(
        f"{tool}: {speed}; lost {lost} of {compared} points and options; again: {second:.1f} s, {unchanged} unchanged"
    )


def _lost(run: Run) -> tuple[int, int]:
    """Returns how many of the logged points and parameters a run lacks, and how many there were."""
    spec = importlib.util.spec_from_file_location("write_files", _WRITER)
    assert spec is not None and spec.loader is not None
    logged = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(logged)
    expected: dict[str, dict[int, float]] = {
        "loss": {step: logged.loss(step) for step in range(logged.STEPS)},
        "odd": {step: logged.odd(step) for step in range(logged.STEPS)},
        "acc": {step: logged.accuracy(step) for step in (9, 19, 29)},
    }
    found: dict[str, dict[int, float]] = {}
    for series in run.series:
        found[series.name.replace("_", "/").replace(".", "/").rpartition("/")[2]] = dict(
            zip(series.steps, series.values, strict=True)
        )
    missing = total = 0
    for name, points in expected.items():
        for step, value in points.items():
            got = found.get(name, {}).get(step)
            total += 1
            missing += got is None or not (got == value or abs(got - value) < 1e-6 or (got != got and value != value))
    params = {name: value for arguments in run.arguments for name, value in flat(arguments.values)}
    total += len(logged.PARAMS)
    return missing + sum(str(params.get(n)) not in (str(v), "1") for n, v in logged.PARAMS.items()), total


if __name__ == "__main__":
    main()
