"""Commits that had to wait, and commits that were withheld: one small file each, until they are made.

A commit waits in `.labbook/queue/` while git is busy. It is withheld in `.labbook/withheld/` when the last look found
what may be a secret: until it is made, its files are neither published nor quoted.
"""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path

from labbook.frozen import dataclass
from labbook.store.paths import NotebookPaths
from labbook.store.private_folder import make_private

QUEUE = "queue"
WITHHELD = "withheld"


@dataclass(frozen=True)
class Waiting:
    """A commit that waits.

    Args:
        slip: Its file in the queue.
        files: Paths relative to the notebook's root.
        message: Commit message.
        when: Unix time (s) of the commit.
        reason: Why it had to wait.
        only_new: Whether files that the branch has by then are left out.
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
    """Writes a commit down to be made later and returns its file; the same files wait only once.

    Raises:
        OSError: The queue cannot be written.
    """
    folder = paths.private / queue
    make_private(paths.private)
    folder.mkdir(exist_ok=True)
    for other in pending_commits(paths, queue=queue):
        if set(other.files) <= set(files):
            remove_commit(other)
    name = f"{time.time_ns():020d}-{secrets.token_hex(3)}"
    draft = folder / f"{name}.tmp"
    slip = folder / f"{name}.json"
    content = {"files": files, "message": message, "when": when, "reason": reason, "only_new": only_new}
    draft.write_text(json.dumps(content), "utf-8")
    draft.replace(slip)
    return slip


def pending_commits(paths: NotebookPaths, *, queue: str = QUEUE) -> list[Waiting]:
    """Everything that waits, oldest first. A slip that cannot be read is put aside."""
    return [item for slip in sorted((paths.private / queue).glob("*.json")) if (item := _read(slip)) is not None]


def withheld_files(paths: NotebookPaths) -> frozenset[str]:
    """Files whose commit is withheld, relative to the notebook: they are not to be published or quoted."""
    return frozenset(file for item in pending_commits(paths, queue=WITHHELD) for file in item.files)


def remove_commit(item: Waiting) -> None:
    """Takes a commit off the queue."""
    item.slip.unlink(missing_ok=True)


def _read(slip: Path) -> Waiting | None:
    try:
        data = json.loads(slip.read_bytes())
        files = tuple(str(file) for file in data["files"])
        only_new = bool(data.get("only_new"))
        return Waiting(slip, files, str(data["message"]), float(data["when"]), str(data["reason"]), only_new)
    except FileNotFoundError:
        return None  # another command was faster
    except (OSError, ValueError, KeyError, TypeError):
        slip.rename(slip.with_suffix(".broken"))
        return None
