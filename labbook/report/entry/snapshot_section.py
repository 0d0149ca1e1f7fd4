"""The section of an entry on the snapshot of a run: its files, and how to load them."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any

from labbook.model.run import Run
from labbook.report import numbers
from labbook.report.entry.section_limits import Limits, shorten_middle

_LOAD = {
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".bin", ".tar"), "torch.load"),
    **dict.fromkeys((".pdparams", ".pdopt"), "paddle.load"),
    ".safetensors": "safetensors.torch.load_file",
    ".npz": "numpy.load",
}
"""Ending -> the function that reads such a file. Source: the frameworks' documentation."""

_METHOD = {".pt": "load_state_dict", ".pdparams": "set_state_dict"}


def snapshot_section(run: Run, limits: Limits) -> dict[str, Any] | None:
    """Returns the files of the snapshot, why this checkpoint was chosen, and what loads it; or `None`."""
    facts = run.captured.get("snapshot") or {}
    files = [one for one in run.artifacts if one.via == "snapshot"]
    if not files or not isinstance(facts, dict):
        return None
    state = next((one for one in files if one.digest and PurePosixPath(one.name).stem == "state"), None)
    chosen = f"snapshot/{facts.get('checkpoint')}"
    name = PurePosixPath(chosen).name
    checkpoint = next((one for one in files if one.digest and PurePosixPath(one.name).name == name), None)
    loaded = state or checkpoint
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
        "load": _loading_code(loaded.name.removeprefix("snapshot/"), is_state=state is not None) if loaded else "",
    }


def _loading_code(name: str, *, is_state: bool) -> str:
    """Returns the lines of Python that load a file of the snapshot; "" for a format that is not known."""
    ending = PurePosixPath(name).suffix
    function = _LOAD.get(ending)
    if function is None:
        return ""
    lines = [f"state = {function}({json.dumps(f'restored/{name}', ensure_ascii=False)})"]
    if is_state:
        lines += [f'{part}.{_METHOD[ending]}(state["{part}"])' for part in ("model", "optimizer")]
    return "\n".join(lines)
