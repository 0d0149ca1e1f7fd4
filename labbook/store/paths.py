"""All file names of a notebook and of a run. No other module constructs them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from labbook.errors import NotebookError, UsageError
from labbook.frozen import dataclass

SETTINGS_FILE = "labbook.toml"
_ALPHABET = "23456789abcdefghijkmnpqrstuvwxyz"
"""Characters of ids, without look-alikes, in sort order."""
_TAIL = 4


def new_run_id(now: float | None = None, others: Iterable[str] = ()) -> str:
    """Create a run id, `YYYYMMDD-HHMMSS-xxxx`: UTC time and four random characters.

    Args:
        now: Unix time (s); default: the current time.
        others: Existing ids: within a second, later ids sort after earlier ones while numbers are left.
    """
    from random import SystemRandom  # 0.7 ms, and most commands create no run

    randrange = SystemRandom().randrange
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    size = len(_ALPHABET) ** _TAIL
    last = max((_number(i) for i in others if i.startswith(stamp)), default=None)
    # Half of the remaining numbers is left to later ids of the same second.
    number = randrange(size // 2) if last is None else last + 1 + randrange(max(1, (size - last) // 64))
    return f"{stamp}-{_tail(number if number < size else randrange(size))}"


def _tail(number: int) -> str:
    letters = []
    for _ in range(_TAIL):
        number, place = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return "".join(reversed(letters))


def _number(run_id: str) -> int:
    """Return the last characters of an id as a number; unknown characters count as the last one."""
    number = 0
    for character in run_id.rpartition("-")[2][:_TAIL]:
        place = _ALPHABET.find(character)
        number = number * len(_ALPHABET) + (place if place >= 0 else len(_ALPHABET) - 1)
    return number


def trial_run_id(run_id: str, number: int) -> str:
    """Return the id of a trial in a run that has several; it sorts behind the run."""
    return f"{run_id}t{number:04d}"


def is_trial_id(run_id: str) -> bool:
    """Whether a run id is that of a trial in another run."""
    tail = run_id.rpartition("-")[2]
    return len(tail) > _TAIL + 4 and tail[_TAIL] == "t" and tail[_TAIL + 1 :].isdecimal()


def run_of_trial(run_id: str) -> str:
    """Return the id of the run that a trial is part of, "" for any other run."""
    return run_id.rpartition("t")[0] if is_trial_id(run_id) else ""


def is_run_id(text: str) -> bool:
    """Whether `text` has the format of a run id."""
    date, _, rest = text.partition("-")
    clock, _, tail = rest.partition("-")
    shaped = len(date) == 8 and len(clock) == 6 and 3 <= len(tail) <= 16
    return shaped and (date + clock).isdigit() and (date + clock).isascii() and tail.isalnum() and tail.isascii()


def stays_inside(path: Path, root: Path) -> bool:
    """Whether a path, links resolved, is inside the notebook and not in a hidden folder such as `.git`.

    A cloned notebook may contain symbolic links.

    Args:
        path: A file or folder below `root`; it may not exist.
    """
    try:
        place, top = path.resolve(), root.resolve()
    except (OSError, RuntimeError):
        return False
    return place.is_relative_to(top) and not any(part.startswith(".") for part in place.relative_to(top).parts)


def check_stays_inside(path: Path, root: Path) -> None:
    """Check that no link leads a path out of the notebook.

    Raises:
        NotebookError: A link leads out.
    """
    if not stays_inside(path, root):
        raise NotebookError("errors.notebook.link_out", path=path, root=root)


class _ChildPath:
    """A property: the path `name` below the `root` of its object."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, paths: NotebookPaths | JournalPaths, owner: type) -> Path:
        """The path of these paths' root."""
        return paths.root / self._name


@dataclass(frozen=True)
class NotebookPaths:
    """Folders and files of one notebook."""

    root: Path

    settings = _ChildPath(SETTINGS_FILE)
    """The settings file."""
    notes = _ChildPath("notes")
    """All Markdown files: the primary data."""
    runs = _ChildPath("notes/runs")
    """Entries, by year, month and day."""
    experiments = _ChildPath("notes/experiments")
    """Pages of experiments."""
    symptoms = _ChildPath("notes/symptoms")
    """Symptom pages of the notebook, in addition to the built-in ones."""
    reports = _ChildPath("notes/reports")
    """Weekly reports."""
    templates = _ChildPath("templates")
    """Templates of the notebook, which override the built-in ones."""
    site = _ChildPath("site")
    """The built site."""
    private = _ChildPath(".labbook")
    """Journals, index, queue and kept files; ignored by git, mode 0700; without kept files it may be deleted."""
    journals = _ChildPath(".labbook/runs")
    """Journals, one folder per run."""
    background = _ChildPath(".labbook/background")
    """Processes that go on after the command of their run, one file per run."""
    artifacts = _ChildPath(".labbook/artifacts")
    """Kept files: all of them without the setting `artifact_store`, else those that are not uploaded yet."""
    jobs = _ChildPath(".labbook/jobs")
    """Jobs of several recorded tasks, one folder per job."""
    index = _ChildPath(".labbook/index.sqlite")
    """The search index; may be deleted."""

    def journal(self, run_id: str) -> JournalPaths:
        """Paths of one run's journal."""
        return JournalPaths(self.journals / checked_run_id(run_id))

    def entry(self, run_id: str) -> Path:
        """Path of the Markdown file of a run's entry."""
        checked = checked_run_id(run_id)
        return self.runs / checked[0:4] / checked[4:6] / checked[6:8] / f"{checked}.md"

    def sweep(self, name: str) -> Path:
        """Return the path of the page of a sweep."""
        return self.notes / "sweeps" / f"{name}.md"

    def relative(self, path: Path) -> str:
        """Path of a file of the notebook as the index, git and `run.json` have it: below the root, with slashes."""
        return path.relative_to(self.root).as_posix()

    def link(self, run_id: str, target: Path) -> str:
        """Relative path from a run's entry to another file of the notebook, for links."""
        return os.path.relpath(target, self.entry(run_id).parent).replace(os.sep, "/")

    def attachments(self, run_id: str) -> Path:
        """Path of the folder next to a run's entry: curves, patch, package list."""
        return self.entry(run_id).with_suffix("")


@dataclass(frozen=True)
class JournalPaths:
    """Files of one run's journal, all redacted."""

    root: Path

    start = _ChildPath("run.json")
    """`run.json`: facts known before the command started; written once, first."""
    before = _ChildPath("before.json")
    """`before.json`: facts of the capture sources at the start."""
    stopped = _ChildPath("stopped.json")
    """`stopped.json`: the time `t` of the first SIGINT or SIGTERM to the recorder."""
    end = _ChildPath("end.json")
    """`end.json`: how the command ended; written once."""
    after = _ChildPath("after.json")
    """`after.json`: facts of the capture sources after the end."""
    done = _ChildPath("done.json")
    """`done.json`: the entry is written and committed, or why it could not be committed."""
    alive = _ChildPath("alive")
    """Locked with `flock` by the recorder while it lives."""
    events = _ChildPath("events")
    """Folder of the event files of the probes, one per process."""
    console = _ChildPath("console")
    """Folder of the stored output."""
    code = _ChildPath("code")
    """Folder of the source files as they were at the start; exists while the entry is written."""
    artifacts = _ChildPath("artifacts.jsonl")
    """`artifacts.jsonl`: calls of `labbook.keep()` whose files were copied while the command ran."""
    resources = _ChildPath("resources.jsonl")
    """`resources.jsonl`: samples of CPU, memory and devices."""


def checked_run_id(run_id: str) -> str:
    """Return `run_id` if it has the format of a run id.

    Raises:
        UsageError: It has not. A run id cannot name a file outside the notebook.
    """
    if not is_run_id(run_id):
        raise UsageError("errors.run.bad_id", run=run_id)
    return run_id
