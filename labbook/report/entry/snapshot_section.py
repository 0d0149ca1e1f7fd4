"""The section of an entry on the snapshot of a run: its files, and how to load them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from labbook.model.run import Run
from labbook.model.run_files import Artifact, is_beside_weights
from labbook.report import numbers
from labbook.report.entry.section_limits import Limits, shorten_middle

_LOAD = {
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".bin", ".tar"), "torch.load"),
    **dict.fromkeys((".pdparams", ".pdopt"), "paddle.load"),
    ".safetensors": "safetensors.torch.load_file",
    ".npz": "numpy.load",
}
"""Ending -> the function that reads such a file. Source: the frameworks' documentation."""

_OPTIMIZER = re.compile(r"opt", re.IGNORECASE)
_METHOD = {".pt": "load_state_dict", ".pdparams": "set_state_dict"}


def snapshot_section(run: Run, limits: Limits) -> dict[str, Any] | None:
    """Returns the files of the snapshot, why this checkpoint was chosen, and what loads it; or `None`."""
    facts = run.facts("snapshot")
    files = [one for one in run.artifacts if one.via == "snapshot"]
    if not files or not isinstance(facts, dict):
        return None
    state = next((one for one in files if one.digest and PurePosixPath(one.name).stem == "state"), None)
    chosen = f"snapshot/{facts.get('checkpoint')}"
    name = PurePosixPath(chosen).name
    checkpoint = next((one for one in files if one.digest and PurePosixPath(one.name).name == name), None)
    beside = [one for one in files if one.digest and checkpoint and is_beside_weights(PurePosixPath(one.name))]
    value = facts.get("value")
    return {
        "checkpoint": shorten_middle(str(facts.get("checkpoint") or ""), limits.cell),
        "reason": str(facts.get("reason") or ""),
        "metric": str(facts.get("metric") or ""),
        "value": numbers.number(float(value), 5) if isinstance(value, (int, float)) else "",
        "state": state.name.removeprefix("snapshot/") if state is not None else "",
        "note": str(facts.get("note") or ""),
        "files": [
            {
                "name": shorten_middle(one.name.removeprefix("snapshot/"), limits.cell),
                "size": numbers.size(one.size_bytes),
                "digest": one.digest.partition(":")[2][:12],
                "reason": one.reason,
                "step": one.step,
            }
            for one in files[: limits.rows]
        ],
        "more": max(0, len(files) - limits.rows),
        "restore": f"labbook artifact get {run.id} snapshot --to restored",
        "load": "\n".join(_loading_lines(state, checkpoint, beside)),
    }


def _loading_lines(state: Artifact | None, checkpoint: Artifact | None, beside: Sequence[Artifact]) -> Iterator[str]:
    """Yields the lines of Python that load the files of the snapshot; none for a format that is not known."""
    if state is not None:
        ending = PurePosixPath(state.name).suffix
        yield f"state = {_call(state)}"
        yield from (f'{part}.{_METHOD[ending]}(state["{part}"])' for part in ("model", "optimizer"))
        return
    optimizer = next((one for one in beside if _OPTIMIZER.search(PurePosixPath(one.name).name)), None)
    if checkpoint is not None and optimizer is not None and optimizer.name.endswith(".pdopt"):
        yield f"model.set_state_dict({_call(checkpoint)})"
        yield f"optimizer.set_state_dict({_call(optimizer)})"
    elif checkpoint is not None and _call(checkpoint):
        yield f"state = {_call(checkpoint)}"
        if optimizer is not None and optimizer is not checkpoint and _call(optimizer):
            yield f"optimizer_state = {_call(optimizer)}"


def _call(file: Artifact) -> str:
    """Returns the call that reads a file of the snapshot, "" if its format is not known."""
    name = file.name.removeprefix("snapshot/")
    function = _LOAD.get(PurePosixPath(name).suffix)
    return f"{function}({json.dumps(f'restored/{name}', ensure_ascii=False)})" if function else ""
