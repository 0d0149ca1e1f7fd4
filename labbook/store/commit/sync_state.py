"""What this clone remembers about sharing, in `.labbook/sync.json`, and the start of a sharing in the background."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labbook.errors import GitError, LabbookError
from labbook.store.git.git_process import GitFolders
from labbook.store.git.git_state import read_commit
from labbook.store.journal import write_atomically
from labbook.store.json_files import read_json_object, read_text_or_nothing
from labbook.store.locks import hold_lock
from labbook.store.notebook import Notebook
from labbook.store.private_folder import make_private

AFTER_RUN = "after-run"
LOG_NAME = "sync.log"
_MAX_LOG_BYTES = 200_000
_WAIT_S = 5.0
"""Longest wait for another process that writes the state. Source: chosen by us; it takes a millisecond."""


def state_path(notebook: Notebook) -> Path:
    """Return the file with the state."""
    return notebook.paths.private / "sync.json"


def read_state(notebook: Notebook) -> dict[str, Any]:
    """Return the state; empty if there is none or it cannot be read.

    Keys: `time` (UTC) and `remote` of the last sync, `error` and `advice` ("" after a success), `failure` (the same
    error for any language), `printed` (whether a command has printed it), `base` (the commit that the files on disk
    follow), `landing` (the commit that they are being brought to; its `local` is the tip that it contains),
    `shared` (see `shared_commits`), `looked_ns` (time on the clock of the file system: later changes of notes are not
    committed yet), `head` and `tracked` (what was checked out, and where the remote-tracking branches were, at the last
    look for entries).
    """
    return read_json_object(state_path(notebook))


def shared_commits(state: dict[str, Any]) -> dict[str, str]:
    """Return remote -> commit that its branch had after the last sync."""
    found = state.get("shared")
    return found if isinstance(found, dict) else {}


def update_state(notebook: Notebook, **values: object) -> None:
    """Set some keys of the state; a notebook that cannot be written has none.

    A sync in the background and a command of the user set different keys at the same time.
    """
    with contextlib.suppress(OSError):
        make_private(notebook.paths.private)
        with hold_lock(notebook.paths.private / "sync-state.lock", _WAIT_S):
            state = {**read_state(notebook), **values}
            write_atomically(state_path(notebook), json.dumps(state, indent=1).encode(), durable=False)


def file_system_time(notebook: Notebook) -> int:
    """Return the present time (ns) on the clock of the file system that holds the notes, or 0."""
    mark = notebook.paths.private / "sync.clock"
    try:
        mark.write_bytes(b"")
        return mark.stat().st_ctime_ns
    except OSError:
        return 0


def last_failure(state: dict[str, Any]) -> LabbookError | None:
    """Return the error of the last sync from the state, `None` after a success."""
    if not state.get("error"):
        return None
    if state.get("failure"):
        return GitError.from_data(state["failure"])
    return GitError("sync.error.stored", reason=str(state["error"]))  # by a labbook before 0.4


def take_failure(notebook: Notebook) -> LabbookError | None:
    """Return the error of the last sync in the background if it failed and this was not printed yet."""
    state = read_state(notebook)
    if not state.get("error") or state.get("printed", True):
        return None
    update_state(notebook, printed=True)
    return last_failure(state)


def start_background_sync(notebook: Notebook) -> bool:
    """Start `labbook sync` as a process of its own if the settings say so; never raises and never waits.

    Its output goes to `.labbook/sync.log`. It outlives this process and the terminal.
    """
    if notebook.config.sync != AFTER_RUN or notebook.config.commit == "off":
        return False
    environment = {key: value for key, value in os.environ.items() if key != "LABBOOK_PROBE"}
    command = [sys.executable, "-m", "labbook", "sync", "--background", "--notebook", str(notebook.paths.root)]
    try:
        log = notebook.paths.private / LOG_NAME
        if log.exists() and log.stat().st_size > _MAX_LOG_BYTES:
            log.replace(log.with_suffix(".old.log"))
        with log.open("ab") as stream:
            subprocess.Popen(
                command,
                cwd=notebook.paths.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
    except OSError:
        return False
    return True


def tracking_marks(notebook: Notebook, folders: GitFolders) -> list[str]:
    """Return where the remote-tracking branches are, and whether there is the branch: `tracked` of the state."""
    name = notebook.config.branch
    heads = [read_commit(folders, f"refs/heads/{name}") and "branch"]
    packed = _stamp(folders.common_dir / "packed-refs")
    tracked = [
        f"{file}:{read_text_or_nothing(file).strip()}"
        for file in _loose_objects(folders.common_dir / "refs" / "remotes", name)
    ]
    return [*heads, packed, *tracked]


def _loose_objects(folder: Path, name: str) -> Iterator[Path]:
    return (each / name for each in sorted(folder.iterdir()) if each.is_dir()) if folder.is_dir() else iter(())


def _stamp(file: Path) -> str:
    try:
        status = os.stat(file)  # noqa: PTH116 - a small file, looked at by every command
    except OSError:
        return ""
    return f"{status.st_mtime_ns}-{status.st_size}"
