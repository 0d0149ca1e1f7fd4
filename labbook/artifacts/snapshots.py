"""Keeps what brings a run back: a checkpoint, the packages, the patch, the configuration files, the notebook."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from labbook.artifacts.keep_files import FileKeeper, find_written_files
from labbook.capture.used_files import display_path
from labbook.frozen import dataclass
from labbook.model.events.process_kinds import FileItem
from labbook.model.run import Run
from labbook.model.run_files import WEIGHT_ENDINGS, Artifact, is_beside_weights, name_without_part

FOLDER = "snapshot"
"""Folder in the names of the files of a snapshot."""

VIA = "snapshot"
_SLACK_S = 2.0
"""Some file systems round times of files to two seconds."""

_BEST = re.compile(r"(?<![a-z])best(?![a-z])", re.IGNORECASE)
_OF_ONE_CHECKPOINT = re.compile(
    r"(?:check-?point|ckpt|epoch|step|iter|global_step)[-_=]?\d+|(?:best|last|final|latest)(?:[-_].*)?", re.IGNORECASE
)
"""Folders that are one checkpoint, such as `checkpoint-500`. Source: Transformers, PaddleNLP, DeepSpeed, Accelerate."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that a run has written.

    Args:
        written: Unix time (s) of its last change.
    """

    path: Path
    written: float


@dataclass(frozen=True)
class Choice:
    """The chosen checkpoint, and why.

    Args:
        reason: "named" (the program calls it best), "metric" (the best value when it was written) or "last".
        value: Value of the primary metric when it was written, or `None`.
    """

    checkpoint: Checkpoint
    reason: str
    value: float | None = None


def find_checkpoints(items: Iterable[FileItem], cwd: Path, started: float, ended: float) -> list[Checkpoint]:
    """Returns the checkpoints that a run has written and nobody has changed since, oldest first.

    Args:
        started: Unix time of the start of the run.
    """
    found = []
    for path in find_written_files(items, [f"*{ending}" for ending in WEIGHT_ENDINGS], cwd, started):
        with suppress(OSError):
            written = path.stat().st_mtime
            if started - _SLACK_S <= written <= ended + _SLACK_S:
                found.append(Checkpoint(path, written))
    return sorted(found, key=lambda one: (one.written, str(one.path)))


def choose_checkpoint(
    checkpoints: Sequence[Checkpoint],
    which: str,
    value_at: Callable[[float], float | None] = lambda _: None,
    direction: str = "",
) -> Choice | None:
    """Returns the best or the last checkpoint of a run, or `None` without any.

    The best is the one that the program calls so; else the one written when the primary metric was best, the later of
    equal ones; else the last.

    Args:
        checkpoints: Oldest first.
        which: "best", or anything else for the last.
        value_at: Gives the value of the primary metric at a Unix time, or `None` if it was not logged with times.
        direction: Which of its values are better: "max", "min", or "" if that is unknown.
    """
    if not checkpoints:
        return None
    checkpoints = [one for one in checkpoints if not is_beside_weights(one.path)] or checkpoints
    last = Choice(checkpoints[-1], "last")
    if which != "best":
        return last
    named = [one for one in checkpoints if _BEST.search(one.path.name) or _BEST.search(one.path.parent.name)]
    if named:
        return Choice(named[-1], "named", value_at(named[-1].written))
    rated = [(value, one) for one in checkpoints if (value := value_at(one.written)) is not None and value == value]
    if not rated or direction not in ("max", "min"):
        return last
    sign = 1 if direction == "max" else -1
    value, chosen = max(rated, key=lambda row: (sign * row[0], row[1].written))
    return Choice(chosen, "metric", value)


def files_of_checkpoint(chosen: Checkpoint, written: Iterable[Path]) -> list[Path]:
    """Returns the files that belong to a checkpoint: those of its folder, or those of its name.

    The name is that without the ending and the part that a file has: `model_3.pt` and `optimizer_3.pt` belong together.

    Args:
        written: All files that the run has written.
    """
    folder = chosen.path.parent
    same = [path for path in written if path.parent == folder]
    if not _OF_ONE_CHECKPOINT.fullmatch(folder.name):
        name, own = name_without_part(chosen.path), chosen.path.stem
        same = [p for p in same if p.stem == own or (is_beside_weights(p) and name_without_part(p) == name)]
    return sorted({chosen.path, *same})


def keep_snapshot(
    keeper: FileKeeper, run: Run, items: Sequence[FileItem], which: str, value_at: Callable[[float], float | None]
) -> tuple[list[Artifact], dict[str, Any]]:
    """Keeps the files of a snapshot; returns them, and the facts of the choice.

    Args:
        run: The run, which has ended; its own files of a snapshot, such as the state that the probe saved, stay.
        which: "best", "last" or "failed".
        value_at: As for `choose_checkpoint`.

    Returns:
        The artifacts, and `which`, `checkpoint` (path, or ""), `reason`, `metric` and `value`.
    """
    ended = run.ended or run.started
    checkpoints = find_checkpoints(items, keeper.cwd, run.started, ended)
    choice = choose_checkpoint(checkpoints, which, value_at, run.direction)
    kept: list[Artifact] = []
    facts: dict[str, Any] = {"which": which, "checkpoint": "", "reason": "", "metric": "", "value": None}
    if choice is not None:
        written = find_written_files(items, ["*"], keeper.cwd, run.started)
        for path in files_of_checkpoint(choice.checkpoint, written):
            shown = display_path(str(path), keeper.cwd)
            inside = path.name if shown.startswith(("/", "~", "..")) else shown
            kept += _list_present(keeper.keep_file(path, f"{FOLDER}/{inside}", VIA))
        facts |= {
            "checkpoint": keeper.redactor.text(display_path(str(choice.checkpoint.path), keeper.cwd)),
            "reason": choice.reason,
        }
        if choice.value is not None:
            facts |= {"metric": run.primary, "value": choice.value}
    attachments = keeper.notebook.paths.attachments(run.id)
    for name, file in _iter_attachments(run):
        kept += _keep_own(keeper, attachments / file, name)
    with tempfile.TemporaryDirectory(prefix="labbook-") as folder:
        for name, text in _texts(run):
            draft = Path(folder) / "text"
            draft.write_text(text, "utf-8")
            kept += _keep_own(keeper, draft, name)
    return kept, facts


def _list_present(artifact: Artifact | None) -> list[Artifact]:
    return [artifact] if artifact is not None else []


def _keep_own(keeper: FileKeeper, path: Path, name: str) -> list[Artifact]:
    """Keeps a file of labbook, whose path says nothing to the user."""
    named = f"{FOLDER}/{name}"
    return [replace(one, path=named) for one in _list_present(keeper.keep_file(path, named, VIA))]


def _iter_attachments(run: Run) -> Iterator[tuple[str, str]]:
    """Yields the names, and the files in the folder of the entry, of the patch and the executed notebook."""
    for source, key, name in (("code", "patch", "code.patch"), ("notebook", "file", "notebook.ipynb")):
        facts = run.captured.get(source)
        file = str(facts.get(key) or "") if isinstance(facts, Mapping) else ""
        if file:
            yield name, PurePosixPath(file).name


def _texts(run: Run) -> Iterator[tuple[str, str]]:
    """Yields the names and texts of the packages and the configuration files, as they were recorded."""
    python = run.facts("python")
    packages = python.get("packages")
    if isinstance(packages, Mapping) and packages:
        wanted = sorted(f"{name}=={version}" for name, version in packages.items() if version)
        yield "requirements.txt", "\n".join([f"# Python {python.get('version') or ''}", *wanted, ""])
    seen: set[str] = set()
    for config in run.configs:
        name = PurePosixPath(config.path).name
        if name not in seen and not config.truncated:
            seen.add(name)
            yield f"config/{name}", config.text
