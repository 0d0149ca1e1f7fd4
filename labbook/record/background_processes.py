"""Finds runs with processes that go on after the command (`nohup python train.py &`), and those that have ended."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from labbook.store.journal import Journal
from labbook.store.paths import NotebookPaths, is_run_id
from labbook.store.process_identity import start_ticks

if TYPE_CHECKING:  # every command looks for such runs, and reads none most often
    from labbook.model.run import Facts
    from labbook.store.journal import ProcessEvents


def note_background(paths: NotebookPaths, journal: Journal, start: Facts, processes: Sequence[ProcessEvents]) -> int:
    """Notes the Python processes of a run that live on after its command, and returns how many there are.

    The process of a program that records itself (`labbook.recording()`, a kernel) is none of them.
    """
    from labbook.model.events.process_kinds import Bye

    known = {process.name for process in processes}
    if any(path.name not in known for path in journal.paths.events.glob("*.jsonl")):
        processes = journal.processes()  # one has begun since they were read
    living = [
        f"{hello['pid']} {hello['start_ticks']}\n"
        for hello in (process.hello for process in processes if not process.events_of_kind(Bye))
        if hello.get("host") == os.uname().nodename
        and hello.get("role") == "python"
        and hello.get("pid") != start.get("child_pid")
        and hello.get("start_ticks")
        and start_ticks(hello["pid"]) == hello["start_ticks"]
    ]
    note = paths.background / journal.run_id
    with suppress(OSError):
        if living:
            paths.background.mkdir(exist_ok=True)
            note.write_text("".join(living), encoding="ascii")
        else:
            note.unlink(missing_ok=True)
    return len(living)


def journals_with_late_ends(paths: NotebookPaths) -> Iterator[Journal]:
    """Returns the journals of runs of which all processes have ended that had gone on after the command."""
    with suppress(OSError):
        for note in sorted(paths.background.iterdir()):
            rows = [line.split() for line in note.read_text(encoding="ascii").splitlines()]
            if is_run_id(note.name) and not any(start_ticks(int(pid)) == int(ticks) for pid, ticks in rows):
                yield Journal(paths.journal(note.name))
