"""Moves kept files to the store of the notebook: in the background after a run, or by `labbook artifact push`.

The local objects are the queue: each is removed when the store has been read back and has the same SHA-256. A crash at
any point leaves the object here, and the next upload begins with it. One process at a time uploads.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from labbook.artifacts.object_store import ObjectFolder, ObjectStore, open_store
from labbook.errors import LabbookError
from labbook.frozen import dataclass
from labbook.store.git.remotes import credential_free
from labbook.store.journal import write_atomically
from labbook.store.json_files import read_json_lines, read_json_object
from labbook.store.locks import hold_lock
from labbook.store.notebook import Notebook

_AGAIN_S = 600.0
"""Shortest time between two uploads that no one asked for, after one that failed. Source: chosen by us."""

Notify = Callable[[str, int, int], None]
"""Called with the digest, the number of uploaded objects and that of all, before each upload and at the end."""


@dataclass(frozen=True)
class UploadState:
    """What is known of the last upload.

    Args:
        pending: Number of objects that are not uploaded.
        running: Whether a process uploads now.
        error: Why the last upload stopped, or "".
        failed_at: Unix time of that, 0.0 if it did not.
    """

    pending: int
    pending_bytes: int
    running: bool
    error: str = ""
    failed_at: float = 0.0


def upload_pending(notebook: Notebook, notify: Notify | None = None) -> UploadState:
    """Uploads all local objects and returns the state after that; does nothing without a store.

    Raises:
        NotebookError: The store cannot be used.
    """
    local = ObjectFolder(notebook.paths.artifacts)
    if not notebook.config.artifact_store.strip() or not local.root.is_dir():
        return upload_state(notebook)
    with hold_lock(_lock_file(notebook), 0.0) as lock:
        if lock is None:
            return upload_state(notebook)
        try:
            store = open_store(notebook.config.artifact_store, notebook.paths.root)
            assert store is not None
            _upload_all(notebook, local, store, notify or (lambda *_: None))
        except (OSError, LabbookError) as error:
            _note_failure(notebook, error)
            if isinstance(error, LabbookError):
                raise
        else:
            with suppress(OSError):
                _state_file(notebook).unlink(missing_ok=True)
    return upload_state(notebook)


def _upload_all(notebook: Notebook, local: ObjectFolder, store: ObjectStore, notify: Notify) -> None:
    local.remove_drafts()
    pending = list(local.digests())
    _check_mounted(notebook, store)
    for number, digest in enumerate(pending):
        notify(digest, number, len(pending))
        _upload_one(notebook, local, store, digest)
    notify("", len(pending), len(pending))


def _upload_one(notebook: Notebook, local: ObjectFolder, store: ObjectStore, digest: str) -> None:
    """Uploads one object, reads it back, and removes the local one.

    Raises:
        OSError: The store failed, or what it gives back differs.
    """
    size = local.size(digest)
    if size is None:
        return  # pruned meanwhile
    if store.size(digest) != size:
        # Damaged here: a store is never given bytes under a digest that is not theirs.
        if local.digest_of(digest) != (digest, size):
            raise OSError(f"the local copy of {digest[:12]} is damaged; `labbook artifact verify` names its run")
        store.put(local.path(digest), digest)
    if store.digest_of(digest) != (digest, size):
        with suppress(OSError):
            store.remove(digest)
        raise OSError(f"{store.label}: {digest[:12]} differs after the upload")
    _note_stored(notebook, store.label, digest)
    local.remove(digest)


def _check_mounted(notebook: Notebook, store: ObjectStore) -> None:
    """Raises `OSError` if a folder that already had kept files is empty, as the mount point of a lost share is."""
    if not isinstance(store, ObjectFolder) or (store.root / "sha256").is_dir():
        return
    if any(fact.get("store") == store.label for fact in stored_objects(notebook)):
        raise OSError(f"{store.label}: the kept files that were stored there are gone; is the folder mounted?")


def upload_state(notebook: Notebook) -> UploadState:
    """Returns what waits for an upload, and how the last one ended."""
    local = ObjectFolder(notebook.paths.artifacts)
    waiting = [local.size(digest) or 0 for digest in local.digests()] if notebook.config.artifact_store.strip() else []
    fact = {"error": "", "at": 0.0, **read_json_object(_state_file(notebook))}
    return UploadState(len(waiting), sum(waiting), _is_running(notebook), str(fact["error"]), float(fact["at"]))


def start_upload(notebook: Notebook) -> bool:
    """Starts an upload in a process of its own, if there is something to upload; returns whether it did.

    The process survives the end of this one and has no terminal. After a failure it is not started again for ten
    minutes. Raises nothing.

    Cost: 20 microseconds without kept files.
    """
    if not notebook.config.artifact_store.strip() or not notebook.paths.artifacts.is_dir():
        return False
    with suppress(OSError, ValueError):
        state = upload_state(notebook)
        if not state.pending or state.running or 0 <= time.time() - state.failed_at < _AGAIN_S:
            return False
        process = subprocess.Popen(
            [sys.executable, "-m", "labbook", "artifact", "push", "--notebook", str(notebook.paths.root)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=notebook.paths.root,
            env={**os.environ, "LABBOOK_USE_PROBE": "false"},
            start_new_session=True,
        )
        process.returncode = 0  # it outlives this process, which never waits for it
        return True
    return False


def stored_objects(notebook: Notebook) -> list[dict[str, Any]]:
    """Returns what this copy of the notebook has uploaded: facts with `store` and `digest`."""
    return list(read_json_lines(_stored_file(notebook)))


def _note_stored(notebook: Notebook, label: str, digest: str) -> None:
    line = json.dumps({"store": label, "digest": digest, "at": round(time.time())})
    with _stored_file(notebook).open("a", encoding="utf-8") as stream:
        stream.write(line + "\n")


def _note_failure(notebook: Notebook, error: Exception) -> None:
    """Notes why an upload stopped; the text of a library may hold the URL with its password."""
    from labbook.store.recorder_redaction import make_redactor

    address = notebook.config.artifact_store
    text = str(error).replace(address, credential_free(address))
    fact = {"error": make_redactor(os.environ, []).text(text)[:1000], "at": time.time()}
    with contextlib.suppress(OSError):
        write_atomically(_state_file(notebook), json.dumps(fact).encode("utf-8"), durable=False)


def _is_running(notebook: Notebook) -> bool:
    if not _lock_file(notebook).exists():
        return False
    with hold_lock(_lock_file(notebook), 0.0) as lock:
        return lock is None


def _lock_file(notebook: Notebook) -> Path:
    return notebook.paths.artifacts / "upload.lock"


def _state_file(notebook: Notebook) -> Path:
    return notebook.paths.artifacts / "upload.json"


def _stored_file(notebook: Notebook) -> Path:
    return notebook.paths.artifacts / "stored.jsonl"
