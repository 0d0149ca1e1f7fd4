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
    from pathlib import Path

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


def add_late_end(journal: Journal, note: Path) -> None:
    """Changes how a run ended that had begun well: as the trainings which went on after its command.

    Other processes, such as a server that is stopped some day, do not decide. Where nothing trained, an error does.
    """
    from labbook.model.events.training_kinds import Step
    from labbook.record.run_from_journal.roll_call import written_signal
    from labbook.record.run_from_journal.trial_parts import time_span

    end = journal.read_ending()
    if end.get("code") != 0 or end.get("status"):
        return
    processes, rows = journal.processes(), note.read_text(encoding="ascii").splitlines()
    trained = [process for process in processes if process.events_of_kind(Step)]
    late = [p for p in trained or processes if f"{p.hello.get('pid')} {p.hello.get('start_ticks')}" in rows]
    found = {_status_of(process, written_signal(process), is_training=bool(trained)) for process in late}
    status = next((one for one in ("failed", "killed", "interrupted") if one in found), "")
    ended = max([float(end.get("ended") or 0.0), *(time_span(process)[1] for process in late)])
    journal.write(journal.paths.end, {**end, "ended": ended, **({"status": status, "code": None} if status else {})})


def _status_of(process: ProcessEvents, signal: str, *, is_training: bool) -> str:
    from labbook.model.events.process_kinds import Bye, UncaughtException
    from labbook.model.run import INTERRUPTS

    raised = [event.get("type", "") for event in process.events_of_kind(UncaughtException) if event.get("exit")]
    if any(kind not in INTERRUPTS for kind in raised):
        return "failed"
    if "KeyboardInterrupt" in raised:
        return "interrupted"
    if process.events_of_kind(Bye) or not is_training:
        return "finished"
    return {"": "killed", "SIGTERM": "interrupted"}.get(signal, "failed")
