"""Decides which files of a run are kept, and copies them: at calls of `labbook.keep()` and at the end of the run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from labbook.artifacts.object_store import ObjectFolder
from labbook.capture.fingerprints import list_files
from labbook.capture.tracked_files import holds_current_version
from labbook.capture.used_files import display_path
from labbook.frozen import dataclass
from labbook.model.events.process_kinds import FileItem
from labbook.model.events.request_kinds import Keep
from labbook.model.run_files import Artifact
from labbook.store.event_reader import read_event
from labbook.store.journal import readable_text
from labbook.store.json_files import read_json_lines

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor
    from labbook.store.journal import ProcessEvents
    from labbook.store.notebook import Notebook
    from labbook.store.paths import JournalPaths

_MOST_FILES = 1000
"""Most files that one run keeps. Source: chosen by us; a folder of images is a data set, not an artifact."""

_POLL_S = 0.5
_CHANGED = "changed after `labbook.keep()` was called"
_IN_A_KEY = b'"k":"keep"'


@dataclass(frozen=True)
class FileKeeper:
    """Keeps files of one run.

    Args:
        notebook: Its settings name the patterns and the limit; its private folder takes the copies.
        cwd: Working folder of the run; paths below it are shown relative to it.
    """

    notebook: Notebook
    journal: JournalPaths
    cwd: Path
    redactor: Redactor

    def keep_outputs(
        self, items: Iterable[FileItem], processes: Sequence[ProcessEvents], started: float
    ) -> list[Artifact]:
        """Copies what the run was to keep and has not been copied yet; returns all artifacts of the run.

        Args:
            items: Items of the probe's `files` events, over all processes.
            processes: Events of all processes; calls of `labbook.keep()` without a copy are carried out now.
            started: Unix time of the start of the run: of folders in which files were only counted, older files are
                left out.
        """
        done = self._read_noted_artifacts()
        kept = [artifact for artifacts in done.values() for artifact in artifacts]
        for process in processes:
            for event in process.events_of_kind(Keep):
                if (process.name, event.get("n", -1)) not in done:
                    kept += self.keep_requested(event)
        config = self.notebook.config
        kept = _last_versions(kept, config.artifact_keep_last)
        known = {(artifact.path, artifact.digest) for artifact in kept}
        written = find_written_files(items, config.artifacts, self.cwd, started)
        for path in _last_files(written, config.artifacts, self.cwd, config.artifact_keep_last):
            if len(kept) >= _MOST_FILES:
                break
            artifact = self.keep_file(path, "", "setting")
            if artifact is not None and (artifact.path, artifact.digest) not in known:
                kept.append(artifact)
        # Each rank of a job may have called `keep` for the same file.
        return list({(one.path, one.name, one.digest): one for one in reversed(kept)}.values())[::-1]

    def keep_requested(self, event: Keep) -> list[Artifact]:
        """Copies the file, or the files of the folder, of one call of `labbook.keep()`."""
        path, name, step = Path(event.get("path", "")).expanduser(), event.get("name", ""), event.get("step")
        if path.is_relative_to(self.journal.root):
            return self._take_over(path, name, step)
        if not path.is_dir():
            artifact = self.keep_file(path, name, "keep", event.get("mtime_ns", 0))
            return [replace(artifact, step=step)] if artifact else []
        kept = []
        for inner in sorted(path.rglob("*"))[:_MOST_FILES]:
            if inner.is_file():
                inner_name = f"{name}/{inner.relative_to(path).as_posix()}" if name else ""
                artifact = self.keep_file(inner, inner_name, "keep")
                kept += [replace(artifact, step=step)] if artifact else []
        return kept

    def _take_over(self, path: Path, name: str, step: int | None) -> list[Artifact]:
        """Moves a file that the probe has written into the journal to the kept files."""
        artifact = self.keep_file(path, name, "snapshot")
        if artifact is None or not artifact.digest:
            return []
        path.unlink(missing_ok=True)
        return [replace(artifact, path=artifact.name, step=step)]

    def keep_file(self, path: Path, name: str, via: str, mtime_ns: int = 0) -> Artifact | None:
        """Copies one file; `None` for one that DVC or git-annex holds in this version.

        Args:
            name: Its name, or "" for its path. A file of a snapshot that is not in the working folder has no path.
            via: "setting", "keep" or "snapshot".
            mtime_ns: Time of its last change when it was to be kept, or 0.
        """
        shown = self.redactor.text(readable_text(display_path(str(path), self.cwd)))
        if holds_current_version(path):
            return None
        copied = ObjectFolder(self.notebook.paths.artifacts).add(path, self.notebook.config.artifact_limit)
        reason = copied.reason
        if copied.digest and not reason and mtime_ns and copied.mtime_ns != mtime_ns:
            reason = _CHANGED
        digest = f"sha256:{copied.digest}" if copied.digest else ""
        return Artifact(shown, self.redactor.text(readable_text(name)) or shown, digest, copied.size, via, reason)

    def note(self, process: str, number: int, artifacts: Sequence[Artifact]) -> None:
        """Notes in the journal that a call was carried out."""
        line = json.dumps({"process": process, "n": number, "artifacts": [asdict(one) for one in artifacts]})
        with self.journal.artifacts.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")

    def _read_noted_artifacts(self) -> dict[tuple[str, int], list[Artifact]]:
        found: dict[tuple[str, int], list[Artifact]] = {}
        for fact in read_json_lines(self.journal.artifacts):
            with contextlib.suppress(TypeError, LookupError):
                found[(fact["process"], fact["n"])] = [Artifact(**one) for one in fact["artifacts"]]
        return found


class KeepWatcher:
    """Carries out calls of `labbook.keep()` while the command runs, in a thread of the recorder.

    Cost:
        A look at the sizes of the event files twice a second; new events are searched for calls, not parsed.
    """

    def __init__(self, keeper: FileKeeper) -> None:
        self._keeper = keeper
        self._read: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="labbook_keep", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, after the copy that it is making."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while not self._stop.wait(_POLL_S):
            with contextlib.suppress(OSError):
                self.poll()

    def poll(self) -> None:
        """Carries out the calls that were written since the last look."""
        for name, size in list_files(self._keeper.journal.events).items():
            if name.endswith(".jsonl") and size[0] > self._read.get(name, 0):
                for event in self._new_events(name):
                    self._keeper.note(name, event.get("n", -1), self._keeper.keep_requested(event))

    def _new_events(self, name: str) -> Iterator[Keep]:
        with (self._keeper.journal.events / name).open("rb") as stream:
            stream.seek(self._read.get(name, 0))
            data = stream.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read[name] = self._read.get(name, 0) + len(whole)
        if _IN_A_KEY not in whole:
            return
        for line in whole.splitlines():
            if _IN_A_KEY in line:
                with contextlib.suppress(ValueError, RecursionError):
                    event: Any = read_event(json.loads(line))
                    if event is not None and event.get("k") == "keep":
                        yield event


def find_written_files(items: Iterable[FileItem], patterns: Sequence[str], cwd: Path, started: float) -> list[Path]:
    """Returns the written files that match a pattern and still exist, in order.

    Args:
        items: Items of the probe's `files` events.
        patterns: Patterns, see `compile_patterns`.
        started: Unix time of its start: of folders in which files were only counted, older files are left out.
    """
    if not patterns:
        return []
    matches = compile_patterns(patterns)
    found: dict[Path, None] = {}
    for item in items:
        path = Path(item.get("path", "")).expanduser()
        if "w" not in (item.get("mode") or ""):
            continue
        members = [path / name for name in list_files(path)] if item.get("folder") else [path]
        for member in members:
            if matches(display_path(str(member), cwd)) and not (item.get("folder") and _is_older(member, started)):
                found[member] = None
    # A draft that was renamed is gone: the file has its final name in another item.
    return sorted(path for path in found if os.path.lexists(path))


def _last_versions(kept: Sequence[Artifact], most: int) -> list[Artifact]:
    """Returns the last `most` versions of each path, in order; all of them for 0."""
    places: dict[str, list[int]] = {}
    for at, artifact in enumerate(kept):
        places.setdefault(artifact.path, []).append(at)
    chosen = {at for those in places.values() for at in (those[-most:] if most else those)}
    return [artifact for at, artifact in enumerate(kept) if at in chosen]


def _last_files(paths: Sequence[Path], patterns: Sequence[str], cwd: Path, most: int) -> list[Path]:
    """Returns the `most` files written last of those that a pattern is the first to match; all of them for 0."""
    if not most:
        return list(paths)
    chosen: set[Path] = set()
    left = list(paths)
    for matches in (compile_patterns([pattern]) for pattern in patterns):
        mine = {path for path in left if matches(display_path(str(path), cwd))}
        left = [path for path in left if path not in mine]
        chosen.update(sorted(mine, key=_written_at)[-most:])
    return [path for path in paths if path in chosen]


def _written_at(path: Path) -> tuple[int, Path]:
    try:
        return path.stat().st_mtime_ns, path
    except OSError:
        return 0, path


def _is_older(path: Path, started: float) -> bool:
    try:
        return path.stat().st_mtime < started - 1.0
    except OSError:
        return True


def compile_patterns(patterns: Sequence[str]) -> Any:  # noqa: ANN401 - a method of a compiled expression
    """Returns a function that checks whether a path matches one of the patterns.

    As in `.gitignore`, a pattern without a slash matches the name of a file in any folder, and `**` any number of
    folders; one with a slash matches the end of the path.
    """
    return re.compile("|".join(f"(?:{_expression(pattern)})" for pattern in patterns), re.DOTALL).fullmatch


def _expression(pattern: str) -> str:
    parts = [part for part in PurePosixPath(pattern.strip()).parts if part != "/"]
    text = "" if pattern.startswith("/") else "(?:.*/)?"
    text += "/" if pattern.startswith("/") else ""
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            text += ".*" if last else "(?:.*/)?"
        else:
            text += _segment(part) + ("" if last else "/")
    return text


def _segment(part: str) -> str:
    text, at = "", 0
    while at < len(part):
        character = part[at]
        end = part.find("]", at + 2)
        if character == "*":
            text += "[^/]*"
        elif character == "?":
            text += "[^/]"
        elif character == "[" and end > 0:
            inside = part[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            text += f"[{'^' + inside[1:] if inside.startswith(('!', '^')) else inside}]"
            at = end
        else:
            text += re.escape(character)
        at += 1
    return text


def artifact_facts(artifacts: Iterable[Artifact]) -> list[Mapping[str, Any]]:
    """Returns artifacts as JSON data."""
    return [asdict(artifact) for artifact in artifacts]
