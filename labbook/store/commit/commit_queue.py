"""Queued and withheld commits, one small file each.

A commit is queued in `.labbook/queue/` while git is busy. It is withheld in `.labbook/withheld/` if the secret scan
before the commit found a possible secret; its files are then neither published nor quoted.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from labbook.frozen import dataclass
from labbook.store.journal import write_atomically
from labbook.store.paths import NotebookPaths
from labbook.store.private_folder import make_private

QUEUE = "queue"
WITHHELD = "withheld"


@dataclass(frozen=True)
class QueuedCommit:
    """A queued commit.

    Args:
        slip: File in the queue.
        files: Paths relative to the notebook's root.
        when: Unix time (s) of the commit.
        reason: Why it was queued.
        only_new: Whether to skip files that exist on the branch by then.
    """

    slip: Path
    files: tuple[str, ...]
    message: str
    when: float
    reason: str
    only_new: bool = False


def enqueue(
    paths: NotebookPaths,
    files: tuple[str, ...],
    message: str,
    when: float,
    reason: str,
    *,
    queue: str = QUEUE,
    only_new: bool = False,
) -> Path:
    """Queue a commit and return its file; a set of files is queued only once.

    Raises:
        OSError: The queue cannot be written.
    """
    folder = paths.private / queue
    make_private(paths.private)
    folder.mkdir(exist_ok=True)
    replaced = [other for other in pending_commits(paths, queue=queue) if set(other.files) <= set(files)]
    slip = folder / f"{time.time_ns():020d}-{os.urandom(3).hex()}.json"
    content = {"files": files, "message": message, "when": when, "reason": reason, "only_new": only_new}
    # Durable: without its slip a withheld entry would be published.
    write_atomically(slip, json.dumps(content).encode("utf-8"))
    for other in replaced:
        remove_commit(other)
    return slip


def pending_commits(paths: NotebookPaths, *, queue: str = QUEUE) -> list[QueuedCommit]:
    """Return queued commits, oldest first; a damaged file is moved aside.

    Raises:
        OSError: A file cannot be read now; it is unknown what must not be published.
    """
    return [item for slip in sorted((paths.private / queue).glob("*.json")) if (item := _read(slip)) is not None]


def withheld_files(paths: NotebookPaths) -> frozenset[str]:
    """Return files of withheld commits, relative to the notebook; they must not be published or quoted."""
    return frozenset(file for item in pending_commits(paths, queue=WITHHELD) for file in item.files)


def remove_commit(item: QueuedCommit) -> None:
    """Remove a commit from the queue."""
    item.slip.unlink(missing_ok=True)


def _read(slip: Path) -> QueuedCommit | None:
    try:
        data = json.loads(slip.read_bytes())
        files = tuple(str(file) for file in data["files"])
        only_new = bool(data.get("only_new"))
        return QueuedCommit(slip, files, str(data["message"]), float(data["when"]), str(data["reason"]), only_new)
    except FileNotFoundError:
        return None  # another command was faster
    except (ValueError, KeyError, TypeError):
        slip.rename(slip.with_suffix(".broken"))
        return None
