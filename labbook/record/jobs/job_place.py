"""The folder of a job on disk: its tasks, which of them live, and what its entry already contains."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from labbook.capture.job_identity import JobTask
from labbook.frozen import dataclass
from labbook.store.journal import Journal, write_atomically
from labbook.store.locks import is_locked
from labbook.store.paths import NotebookPaths, is_run_id

LEFT = "left"
"""Status in `done.json` of a task that has ended and whose journal belongs to its job."""

LOST = "lost"
"""Status in `done.json` of a task whose recorder died."""

_JOIN_S = 600.0
"""A job without a living task takes no further tasks this long after its first one: a later launch may get the same
id. Source: chosen by us."""

_SIGN_OF_LIFE_S = 15.0
"""A recorder of another host whose lock is not visible may live if its journal changed this recently: it samples
resources every few seconds. Source: chosen by us."""

_MOST_GENERATIONS = 1000


@dataclass(frozen=True)
class Member:
    """One task of a job.

    Args:
        start: Its `run.json`.
    """

    rank: int
    journal: Journal
    start: dict[str, Any]

    @property
    def state(self) -> str:
        """`LEFT`, `LOST`, or "" while it is open."""
        return str(self.journal.read(self.journal.paths.done).get("task") or "")

    def is_alive(self) -> bool:
        """Whether its recorder lives and will look after the entry when it ends."""
        return not self.journal.paths.done.exists() and is_locked(self.journal.paths.alive)

    def may_live(self) -> bool:
        """Whether it may live on another host whose locks are not visible here."""
        if self.journal.paths.done.exists() or self.start.get("host") in (None, os.uname().nodename):
            return False
        return time.time() - last_sign(self.journal) < _SIGN_OF_LIFE_S


@dataclass(frozen=True)
class JobPlace:
    """The folder of one job.

    Args:
        root: The folder `.labbook/jobs/<key>/<generation>`; a launcher that starts two recorders one after the other in
            each task, or that gives an id twice, makes several generations.
    """

    root: Path
    paths: NotebookPaths

    @property
    def key(self) -> str:
        """Names the job in all notebooks: key and generation."""
        generation = self.root.name
        return self.root.parent.name if generation == "1" else f"{self.root.parent.name}+{generation}"

    @property
    def write_lock(self) -> Path:
        """Locked by the task that writes the entry."""
        return self.root / "write"

    @property
    def open_mark(self) -> Path:
        """Exists while the entry may lack a task."""
        return self.paths.jobs / "open" / f"{self.root.parent.name}+{self.root.name}"

    def lead(self) -> str:
        """Return the run id of the entry: that of the first task; "" if it cannot be read."""
        for name in _names(self.root / "lead"):
            return name
        return ""

    def members(self) -> list[Member]:
        """Return the tasks that have joined, by rank."""
        found = []
        for name in _names(self.root / "ranks"):
            run_id = _read(self.root / "ranks" / name)
            if name.isdigit() and is_run_id(run_id) and self.paths.journal(run_id).root.is_dir():
                journal = Journal(self.paths.journal(run_id))
                found.append(Member(int(name), journal, journal.read(journal.paths.start)))
        return sorted(found, key=lambda member: member.rank)

    def read_written(self) -> dict[str, Any]:
        """Return what the entry contains: run id of a task -> its state when the entry was written."""
        journal = Journal(self.paths.journal(self.lead())) if is_run_id(self.lead()) else None
        return journal.read(self.root / "entry.json") if journal is not None else {}

    def note_written(self, states: dict[str, str]) -> None:
        """Write down which tasks the entry contains."""
        Journal(self.paths.journal(self.lead())).write(self.root / "entry.json", states, durable=False)

    def reopen(self) -> None:
        """Mark that the entry may lack a task."""
        with suppress(OSError):
            self.open_mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.open_mark.touch()

    def close(self) -> None:
        """Take the mark away."""
        with suppress(OSError):
            self.open_mark.unlink(missing_ok=True)


def join_job(paths: NotebookPaths, task: JobTask, run_id: str) -> JobPlace:
    """Puts a task into the folder of its job, and returns the folder.

    Exclusive creation of a file decides who has a rank and who came first; this works on NFS, too.

    Args:
        run_id: Id of its journal, which must exist.

    Raises:
        OSError: The folder cannot be written.
    """
    folder = paths.jobs / task.key
    for generation in range(1, _MOST_GENERATIONS):
        place = JobPlace(folder / str(generation), paths)
        if (place.root / "ranks" / str(task.rank)).exists():
            continue
        (place.root / "ranks").mkdir(mode=0o700, parents=True, exist_ok=True)
        (place.root / "lead").mkdir(mode=0o700, exist_ok=True)
        if _is_over(place) or not _create(place.root / "ranks" / str(task.rank), run_id):
            continue
        place.reopen()
        _claim_lead(place, run_id)
        return place
    raise OSError(f"{folder} has too many generations")


def _is_over(place: JobPlace) -> bool:
    """Whether a job has ended so long ago that a new task belongs to a later launch."""
    begun = (place.root / "ranks").stat().st_ctime
    members = place.members() if time.time() - begun > _JOIN_S else []
    return bool(members) and not any(member.is_alive() or member.may_live() for member in members)


def _claim_lead(place: JobPlace, run_id: str) -> None:
    """Makes this task the first one, unless there is one: of several names at once, the smallest counts."""
    if not _names(place.root / "lead"):
        # Several may get here at once. `rename` of a folder onto a folder that is not empty fails: the first one wins.
        draft = place.root / f".lead-{run_id}"
        draft.mkdir(mode=0o700)
        (draft / run_id).touch()
        with suppress(OSError):
            draft.rename(place.root / "lead")
        with suppress(OSError):
            (draft / run_id).unlink()
            draft.rmdir()


def _create(path: Path, text: str) -> bool:
    """Creates a file with its content in one step; false if it exists."""
    draft = path.with_name(f".{path.name}.{text}")
    write_atomically(draft, text.encode(), durable=False)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        try:
            with path.open("x", encoding="utf-8") as stream:
                stream.write(text)
        except FileExistsError:
            return False
    finally:
        with suppress(OSError):
            draft.unlink()
    return True


def place_of(paths: NotebookPaths, start: dict[str, Any]) -> JobPlace | None:
    """Returns the folder of the job that a journal belongs to, or `None`."""
    job = start.get("job")
    if not isinstance(job, dict) or not job.get("key") or not job.get("generation"):
        return None
    place = JobPlace(paths.jobs / Path(str(job["key"])).name / Path(str(job["generation"])).name, paths)
    return place if place.root.is_dir() else None


def open_places(paths: NotebookPaths) -> list[JobPlace]:
    """Returns the folders of jobs whose entry may lack a task."""
    found = []
    for name in _names(paths.jobs / "open"):
        key, _, generation = name.rpartition("+")
        place = JobPlace(paths.jobs / key / generation, paths)
        if key and generation.isdigit() and place.root.is_dir():
            found.append(place)
    return found


def note_attempt(paths: NotebookPaths, key: str, number: int, run_id: str) -> str:
    """Notes the run of one attempt of a batch job; returns the run of the attempt before it, "" without one.

    Args:
        key: Of `job_identity.batch_attempt`.
        number: Number of restarts so far.
    """
    folder = paths.jobs / "attempts"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(folder / f"{key}.{number}", run_id.encode(), durable=False)
    earlier = [_read(folder / f"{key}.{before}") for before in range(number - 1, max(-1, number - 100), -1)]
    return next((one for one in earlier if is_run_id(one)), "")


def last_sign(journal: Journal) -> float:
    """Returns when a journal last changed; Unix time, s."""
    paths = journal.paths
    times = []
    for path in (paths.start, paths.resources, *paths.console.glob("*"), *paths.events.glob("*")):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times, default=0.0)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208 - names, not paths
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
