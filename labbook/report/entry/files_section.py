"""The section of an entry on the files of the run: read, written, kept, and the runs that wrote what it read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from labbook.model.run import Run
from labbook.model.run_files import Artifact, FileUse, is_checkpoint
from labbook.model.signals import optimizer_was_restored
from labbook.report import numbers
from labbook.report.entry.section_limits import Limits, shorten_middle
from labbook.store.paths import NotebookPaths

_FEW_ALIKE = 4
"""Files with names that differ only in numbers, as of checkpoints, which have a row each; more are one row."""

_NUMBER = re.compile(r"(\d+(?:\.\d+)*)")


def files_section(run: Run, paths: NotebookPaths, store: str, limits: Limits) -> dict[str, Any] | None:
    """Returns files read and written, written ones and the largest first, with kept files and lineage, or `None`.

    Args:
        store: Where kept files go, without credentials; "" for this machine.
    """
    if not run.files and not run.artifacts:
        return None
    kept = [one for one in run.artifacts if one.via != "snapshot"]
    order = {"written": 0, "read and written": 1, "read": 2}
    gone = [f for f in run.files if _is_deleted(f)]
    files = _merge_numbered([f for f in run.files if not _is_deleted(f)])
    files.sort(key=lambda f: (order.get(f.mode, 3), -f.size_bytes, f.path))
    return {
        "gone": sum(f.members for f in gone),
        "gone_names": shorten_middle(", ".join(sorted({f.path for f in _merge_numbered(gone)})), limits.cell),
        "rows": [_file(f, limits) for f in files[: limits.rows]],
        "more": max(0, len(files) - limits.rows),
        "kept": [_artifact(one, limits) for one in kept[: limits.rows]],
        "more_kept": max(0, len(kept) - limits.rows),
        "store": store,
        "parents": [
            {
                "run": parent.run,
                "url": paths.link(run.id, paths.entry(parent.run)),
                "path": shorten_middle(parent.path, limits.cell),
                "wrote": shorten_middle(parent.wrote, limits.cell) if parent.wrote != parent.path else "",
                "loaded": parent.run == run.resumed_from and is_checkpoint(parent.path),
            }
            for parent in run.parents
        ],
        "goes_on": optimizer_was_restored(run.signals),
        "figure": run.id,
    }


def _is_deleted(use: FileUse) -> bool:
    """Whether the run wrote a file that is gone."""
    return use.reason == "gone" and use.mode != "read"


def _merge_numbered(files: Sequence[FileUse]) -> list[FileUse]:
    """Returns the files, of which many with names that differ only in numbers are one row, as `epoch=*.ckpt`."""
    alike: dict[tuple[str, str, str], list[FileUse]] = {}
    for use in files:
        alike.setdefault((_NUMBER.sub("*", use.path), use.mode, use.reason), []).append(use)
    rows: list[FileUse] = []
    for (_, mode, reason), group in alike.items():
        # A number that all have, as in the name of a folder, is no difference.
        parts = [set(each) for each in zip(*(_NUMBER.split(use.path) for use in group), strict=True)]
        pattern = "".join(part.pop() if len(part) == 1 else "*" for part in parts)
        size = sum(max(0, use.size_bytes) for use in group)
        merged = FileUse(pattern, mode, size, reason=reason, members=sum(use.members for use in group))
        rows += group if len(group) <= _FEW_ALIKE else [merged]
    return rows


def _artifact(artifact: Artifact, limits: Limits) -> dict[str, Any]:
    return {
        "name": shorten_middle(artifact.name, limits.cell),
        "path": shorten_middle(artifact.path, limits.cell) if artifact.path != artifact.name else "",
        "size": numbers.size(artifact.size_bytes),
        "digest": artifact.digest.partition(":")[2][:12],
        "reason": artifact.reason,
        "step": artifact.step,
    }


def _file(use: FileUse, limits: Limits) -> dict[str, Any]:
    prints = [one.partition(":") for one in (use.before, use.fingerprint) if one]
    return {
        "path": shorten_middle(use.path, limits.cell),
        "mode": use.mode,
        "size": numbers.size(use.size_bytes),
        "fingerprint": " → ".join(f"{kind}:{digest[:12]}" for kind, _, digest in prints),
        "tracked": shorten_middle(use.tracked, limits.cell),
        "reason": use.reason,
        "members": use.members,
    }
