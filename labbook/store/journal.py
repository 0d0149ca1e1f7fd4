"""The journal: the append-only folder of a run, from which its entry can be generated again.

`.labbook/runs/<run-id>/` is created with mode 0700 and ignored by git. The recorder holds `flock` on its file `alive`;
a journal without `done.json` whose `alive` can be locked belongs to a recorder that died.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from labbook.errors import NotebookError
from labbook.probe.events.protocol import EVENTS_FOLDER, FILES, KEEP, RULES_FILE
from labbook.store.json_files import read_json_object
from labbook.store.paths import JournalPaths, NotebookPaths, is_run_id, new_run_id
from labbook.store.private_folder import make_private

if TYPE_CHECKING:
    # The schemas of events take 10 ms to import, and every command opens journals; only finished runs are read.
    from labbook.model.events.process_kinds import Event, Hello

Kind = TypeVar("Kind", bound="Event")
_RESERVE_BYTES = 8 * 1024
"""Reserved space for `end.json` on a full disk. Source: the file and its temporary name take a block each, 4 KiB on
common file systems."""

_DRAFT_LIFE_S = 3600.0
_MOST_DRAWS = 20

_BEYOND = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Surrogates that do not encode a byte."""

_MAX_LINE_BYTES = 4 * 1024 * 1024
"""A longer line is not an event that the probe writes; it is skipped and counted. Source: chosen by us, the longest
event (a configuration file of 64 KiB, escaped) stays under 1 MiB."""


@dataclass(frozen=True)
class ProcessEvents:
    """Events of one process, in order.

    Args:
        broken_lines: Number of lines that are not events; the last line of a killed process may be incomplete.
    """

    name: str
    events: tuple[Event, ...]
    broken_lines: int = 0
    folder: Path = Path()

    def events_of_kind(self, kind: type[Kind]) -> list[Kind]:
        """The events of one kind, a value of `KINDS`, in order."""
        from labbook.model.events import KIND_NAMES

        name = KIND_NAMES[kind]
        return [cast(Kind, event) for event in self.events if event.get("k") == name]

    @property
    def hello(self) -> Hello:
        """The first event that is a hello, else an empty one."""
        from labbook.model.events.process_kinds import Hello

        return next(iter(self.events_of_kind(Hello)), Hello())


def events_of_kind(processes: Iterable[ProcessEvents], kind: type[Kind]) -> list[Kind]:
    """The events of one kind of several processes, one process after another."""
    return [event for process in processes for event in process.events_of_kind(kind)]


@dataclass
class Journal:
    """Reads and writes the journal of one run."""

    paths: JournalPaths
    _lock: int | None = field(default=None, repr=False)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.paths.root.name

    def create(self) -> None:
        """Create the folder, readable by its owner only, and acquire the recorder's lock.

        Raises:
            NotebookError: The folder cannot be written.
        """
        try:
            make_private(self.paths.root.parent.parent)
            self.paths.root.parent.mkdir(mode=0o700, exist_ok=True)
            self.paths.root.mkdir(mode=0o700)
        except OSError as error:
            raise self._not_writable(error) from error
        try:
            (self.paths.root / EVENTS_FOLDER).mkdir(mode=0o700)
            self.paths.console.mkdir(mode=0o700)
            self._reserve.write_bytes(bytes(_RESERVE_BYTES))
        except OSError as error:
            self.discard()
            raise self._not_writable(error) from error
        self.claim()

    def _not_writable(self, error: OSError) -> NotebookError:
        return NotebookError("errors.journal.not_writable", path=self.paths.root, reason=error)

    def claim(self) -> bool:
        """Acquire the lock of a living recorder; returns false if another process holds it.

        Returns true on a file system without locks: correctness relies on unique names and on git's compare-and-swap,
        the lock only avoids duplicate work. Source: mechanisms, section 6.
        """
        import fcntl

        try:
            handle = os.open(self.paths.alive, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        except OSError:
            pass
        self._lock = handle
        return True

    def lock_descriptors(self) -> tuple[int, ...]:
        """Return the descriptors of the lock for the pump, which stores output if the recorder is killed."""
        return () if self._lock is None else (self._lock,)

    def release(self) -> None:
        """Release the lock; does nothing if it is not held."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def is_deleted(self) -> bool:
        """Whether somebody has deleted what was written at the start, even if some files were written again since."""
        with contextlib.suppress(OSError):
            if self._lock is not None and os.fstat(self._lock).st_nlink == 0:
                return True
        return not self.paths.start.exists()

    def read(self, path: Path) -> dict[str, Any]:
        """Read a JSON object from one of the journal's files; empty if the file is missing or damaged."""
        return read_json_object(path)

    def write(self, path: Path, facts: Mapping[str, Any], *, durable: bool = True) -> None:
        """Replace one of the journal's files atomically; a crash leaves the old or the new content.

        Args:
            durable: Whether it must survive a power loss: the file, its name in the folder and the name of the folder.
        """
        content = _encode_json(facts)
        write_atomically(path, content, durable=durable)
        if durable:
            for folder in (path.parent, self.paths.root.parent):
                _sync_folder(folder)

    def write_end(self, facts: Mapping[str, Any]) -> None:
        """Write how the command ended; on a full disk into the reserved space."""
        try:
            self.write(self.paths.end, facts)
        except OSError:
            self._reserve.unlink(missing_ok=True)
            self.write(self.paths.end, facts)
        with contextlib.suppress(OSError):
            self._reserve.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove the journal of a run that did not start; remaining files are left to `labbook recover`."""
        from shutil import rmtree

        self.release()
        paths = self.paths
        rmtree(paths.root, ignore_errors=True)
        for path in (paths.start, self._reserve, paths.alive, paths.root / RULES_FILE):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            # Again without listing a folder, which needs a descriptor: there may be no free one.
            for folder in (paths.console, paths.events, paths.root):
                folder.rmdir()

    def mask(self, values: Sequence[str]) -> None:
        """Mask values in the files of the journal that became known as secrets only after these were written."""
        longest_first = sorted(values, key=len, reverse=True)
        forms = [form.encode() for value in longest_first for form in dict.fromkeys((value, json.dumps(value)[1:-1]))]
        for path in [path for path in self.paths.root.rglob("*") if forms and path.is_file()]:
            with contextlib.suppress(OSError):
                content = masked = path.read_bytes()
                for form in forms:
                    masked = masked.replace(form, b"[REDACTED:known]")
                if masked != content:
                    write_atomically(path, masked, durable=False)

    @property
    def _reserve(self) -> Path:
        return self.paths.root / ".reserve"

    def parts(self) -> list[Journal]:
        """Return the journals that make up the run; of a job of several tasks, one a task, the deciding one first."""
        return [self]

    def read_ending(self) -> dict[str, Any]:
        """Return how the run ended: `end.json`; empty if the recorder died."""
        return self.read(self.paths.end)

    def processes(self) -> list[ProcessEvents]:
        """Read the events of all processes, ordered by their "hello" events."""
        try:
            files = sorted(self.paths.events.glob("*.jsonl"))
        except OSError:
            return []
        found = [_read_events(path) for path in files]
        return sorted(found, key=lambda process: process.hello.get("t", 0.0))


def create_journal(paths: NotebookPaths, now: float, others: list[str]) -> Journal:
    """Creates the journal under a new id; of many recorders that start in one second, two may draw the same one.

    Args:
        now: Unix time, s.
        others: Ids of the same day.

    Raises:
        NotebookError: The folder cannot be written.
    """
    for _ in range(_MOST_DRAWS):
        journal = Journal(paths.journal(new_run_id(now, others)))
        try:
            journal.create()
        except NotebookError as error:
            if not isinstance(error.__cause__, FileExistsError):
                raise
            others = [*others, journal.run_id]
            continue
        return journal
    raise NotebookError("errors.journal.not_created", path=paths.journals)


def _read_events(path: Path) -> ProcessEvents:
    events: list[Event] = []
    broken = 0
    try:
        with path.open("rb") as stream:
            for line in stream:
                event = _parse_event(line)
                if event is None:
                    broken += 1
                else:
                    events.append(event)
    except OSError:
        broken += 1
    return ProcessEvents(path.name, tuple(events), broken, path.parent)


def _parse_event(line: bytes) -> Event | None:
    from labbook.store.event_reader import read_event

    if len(line) > _MAX_LINE_BYTES:
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or not isinstance(event.get("k"), str):
        return None
    # Paths of files stay as they are, so that the files are found.
    return read_event(readable_data(event) if b"\\ud" in line and event["k"] not in (FILES, KEEP) else event)


def readable_text(text: str) -> str:
    r"""Make invalid UTF-8 of a command line or path visible, as in `caf\xe9`.

    Python decodes such bytes to lone surrogates, which cannot be encoded in UTF-8. In an ASCII locale this happens to
    every byte of a character; valid sequences of them are decoded.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        data = text.encode("utf-8", "surrogateescape" if _BEYOND.search(text) is None else "backslashreplace")
        return data.decode("utf-8", "backslashreplace")
    return text


def readable_data(value: Any) -> Any:  # noqa: ANN401 - JSON data
    """Apply `readable_text` to all texts in JSON-like data."""
    if isinstance(value, str):
        return readable_text(value)
    if isinstance(value, dict):
        return {readable_text(key): readable_data(item) for key, item in value.items()}
    return [readable_data(item) for item in value] if isinstance(value, list) else value


def _encode_json(facts: Mapping[str, Any]) -> bytes:
    text = json.dumps(facts, ensure_ascii=False, indent=1, default=str)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(readable_data(json.loads(text)), ensure_ascii=False, indent=1).encode("utf-8")


def write_atomically(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file atomically, through a temporary file.

    Args:
        durable: Whether to wait for the disk, so that it survives a power loss (5 ms here). Used for the end of the
            command and for the entry; other files can be generated again.

    Raises:
        OSError: The disk is full or not writable; the old file is unchanged.
    """
    # Not the process id: containers that share a folder have the same ones, and so have threads.
    temporary = path.with_name(f".{path.name}.{int.from_bytes(os.urandom(6), 'big')}.tmp")
    try:
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def remove_drafts(folder: Path) -> None:
    """Removes what writers that were killed left below `folder`: drafts of `write_atomically`, an hour old or more."""
    for draft in folder.rglob(".*.tmp"):
        with contextlib.suppress(OSError):
            number = draft.name.rsplit(".", 2)[-2]
            if number.isdigit() and draft.lstat().st_mtime < time.time() - _DRAFT_LIFE_S:
                draft.unlink()


def _sync_folder(folder: Path) -> None:
    """Sync a folder to disk, if the file system supports it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def open_journals(paths: NotebookPaths) -> Iterator[Journal]:
    """Return journals of runs that are not done, oldest first, including those of living recorders."""
    return (journal for journal in list_journals(paths) if not journal.paths.done.exists())


def list_journals(paths: NotebookPaths) -> list[Journal]:
    """Return the journals of all runs, oldest first."""
    try:
        names = sorted(folder.name for folder in paths.journals.iterdir() if is_run_id(folder.name))
    except OSError:
        return []
    return [Journal(paths.journal(name)) for name in names]
