"""Whether runs of the real tools are imported without loss, and how fast.

    python -m benchmarks.imports [runs] [TOOL=PYTHON ...]

Writes 200 different runs with PyTorch's `SummaryWriter`, and with each further tool by the interpreter that has it, as
in `mlflow=/tmp/mlflow/bin/python`; tools and what their runs have are in `write_runs.py`. Imports them into a notebook
and compares names, parameters, points, texts, images, tags, notes, times and status in `run.json` with what the tool
was given. Prints each difference, and runs per second and per second of CPU time, which other work on the machine
does not change; importing again has to change nothing. Of runs that were killed, the last points may be missing: their
tools had not written them.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from struct import pack, unpack
from typing import Any

from labbook.imports.batch_import import ImportOutcome, import_runs
from labbook.imports.formats import FORMATS
from labbook.model.run import Run
from labbook.model.run_fields import flatten
from labbook.report.run_data import load_run
from labbook.store.notebook_finder import create_notebook

_WRITER = Path(__file__).resolve().parent / "write_runs.py"
_SHOWN = 20


def main() -> None:
    """Writes, imports and compares; prints a line for each tool."""
    count = next((int(word) for word in sys.argv[1:] if word.isdigit()), 200)
    tools = {"tensorboard": sys.executable} | dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    for tool, python in tools.items():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [python, str(_WRITER), tool, f"{folder}/{tool}", str(count)], check=True, capture_output=True
            )
            _measure(tool, Path(folder, tool))


def _measure(tool: str, folder: Path) -> None:
    given = [json.loads(line) for line in folder.with_suffix(".jsonl").read_text("utf-8").splitlines()]
    notebook, _ = create_notebook(folder.parent / "notebook")
    reader = FORMATS[tool.partition("_")[0]]
    began, busy = time.monotonic(), time.process_time()
    added = import_runs(notebook, reader, folder).runs
    took, busy = time.monotonic() - began, time.process_time() - busy
    again = import_runs(notebook, reader, folder).runs
    entries = {each.id: (each, load_run(notebook.paths, each.id)) for each in added}
    points = sum(len(series) for each in given for series in each["series"].values())
    faults: list[str] = []
    for each in given:
        found = next((i for i, (entry, run) in entries.items() if run is not None and _is_of(each, entry, run)), "")
        run = entries.pop(found)[1] if found else None
        faults += [
            f"run {each['number']}: {fault}" for fault in (_faults(each, run) if run is not None else ["no entry"])
        ]
    rate = f"{len(added) / took:.1f} runs/s, {len(added) / busy:.1f} a CPU second"
    print(f"{tool}: {len(given)} runs with {points} points, {len(added)} added ({rate}), {len(faults)} differences")
    print(f"  {len(entries)} entries too many; again: {sum(run.action != 'unchanged' for run in again)} changed")
    print("".join(f"  {fault}\n" for fault in faults[:_SHOWN]), end="")


def _is_of(given: Mapping[str, Any], entry: ImportOutcome, run: Run) -> bool:
    """Whether an entry is that of a run: names may be equal, seeds are not."""
    seed = _params(run).get("seed", given["number"])
    return entry.name == given["name"] and str(seed) == str(given["number"])


def _params(run: Run) -> dict[str, Any]:
    return {name: value for arguments in run.arguments for name, value in flatten(arguments.values)}


def _faults(given: Mapping[str, Any], run: Run) -> Iterator[str]:
    found = {series.name: list(zip(series.steps, series.values, strict=True)) for series in run.series}
    for name, points in given["series"].items():
        got = found.pop(name, [])
        if given["is_killed"]:
            points = points[: len(got)]
        if len(got) != len(points):
            yield f"{name} has {len(got)} of {len(points)} points"
        for (step, value), (right_step, right) in zip(got, points, strict=False):
            if right_step not in (None, step) or not _same(value, right, single=given.get("is_single")):
                yield f"{name} has {value} at step {step}, not {right} at {right_step}"
                break
    yield from (f"{name} was not logged" for name in found)
    params = _params(run)
    for name, value in given["params"].items():
        if name not in params or not (_same(params[name], value) or str(params[name]) == str(value)):
            yield f"parameter {name} is {params.get(name)!r}, not {value!r}"
    texts = [[text["tag"], text["step"], text["text"]] for text in run.imported_from["texts"]]
    pictures = sorted([picture["tag"], picture["step"]] for picture in run.imported_from["pictures"])
    kept = [each for each in given["texts"] if each in texts] if given["is_killed"] else given["texts"]
    if texts != kept:
        yield f"texts are {texts}, not {given['texts']}"
    if pictures != sorted(given["images"]) and not given["is_killed"]:
        yield f"images are {pictures}, not {given['images']}"
    has_tags = not given.get("is_single")
    for what, got, right in (
        ("tags", sorted(run.tags), sorted(given["tags"] if has_tags else run.tags)),
        ("notes", run.imported_from["description"], given["notes"] if has_tags else ""),
        ("status", run.status, given["status"]),
    ):
        if got != right:
            yield f"{what}: {got!r}, not {right!r}"
    if not (given["begun"] - 2 <= run.started <= (run.ended or 0.0) <= given["ended"] + 3):
        yield f"times: {run.started} to {run.ended}, not {given['begun']} to {given['ended']}"


def _same(value: object, right: object, *, single: bool | None = False) -> bool:
    """Whether two values are equal; as 32-bit floats where the tool stores them so."""
    if isinstance(value, str) or isinstance(right, str) or not isinstance(value, (int, float)):
        try:
            return value == right or (isinstance(right, str) and float(right) == value)
        except ValueError:
            return False
    if not isinstance(right, (int, float)):
        return False
    if single and math.isfinite(right):
        right = unpack("<f", pack("<f", right))[0]
    return value == right or (math.isnan(value) and math.isnan(right))


if __name__ == "__main__":
    main()
