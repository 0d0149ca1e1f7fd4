"""Finds runs with processes that go on after the command (`nohup python train.py &`), and those that have ended."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.store.journal import Journal
from labbook.store.paths import NotebookPaths, is_run_id
from labbook.store.process_identity import start_ticks

if TYPE_CHECKING:  # every command looks for such runs, and reads none most often
    from labbook.model.run import Facts
    from labbook.store.journal import ProcessEvents


def note_background(paths: NotebookPaths, journal: Journal, start: Facts, processes: Sequence[ProcessEvents]) -> int:
    """Notes the processes of a run that live on after its command, and returns how many there are.

    A shell that is going to start a training is one of them. The process of a program that records itself
    (`labbook.recording()`, a kernel) is none of them.
    """
    from labbook.model.events.process_kinds import Bye

    known = {process.name for process in processes}
    if any(path.name not in known for path in journal.paths.events.glob("*.jsonl")):
        processes = journal.processes()  # one has begun since they were read
    living = {
        hello["pid"]: hello["start_ticks"]
        for hello in (process.hello for process in processes if not process.events_of_kind(Bye))
        if hello.get("host") == os.uname().nodename
        and hello.get("role") == "python"
        and hello.get("pid") != start.get("child_pid")
        and hello.get("start_ticks")
        and start_ticks(hello["pid"]) == hello["start_ticks"]
        and not _is_of_ray(hello["pid"])
    }
    return _write_note(paths.background / journal.run_id, {**living, **_processes_of_run(journal.run_id)})


def _processes_of_run(run_id: str) -> dict[int, int]:
    """Returns process id -> start ticks of living processes that have the probe's variable of a run.

    Cost: one small file for each process of this user; 1 ms for 100 processes.
    """
    found = {}
    sign = f'"run": "{run_id}"'.encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            pid = int(path.parent.name)
            if sign in path.read_bytes() and (ticks := start_ticks(pid)) and not _is_of_ray(pid):
                found[pid] = ticks
    return found


def _is_of_ray(pid: int) -> bool:
    """Whether a cluster of Ray keeps a process for later programs, such as a worker that waits for a task."""
    from labbook.model.run_fields import ray_node

    with suppress(OSError):
        return bool(ray_node(os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")))
    return False


def _write_note(note: Path, living: Mapping[int, int]) -> int:
    with suppress(OSError):
        if living:
            note.parent.mkdir(exist_ok=True)
            note.write_text("".join(f"{pid} {ticks}\n" for pid, ticks in living.items()), encoding="ascii")
        else:
            note.unlink(missing_ok=True)
    return len(living)


def journals_with_late_ends(paths: NotebookPaths) -> Iterator[Journal]:
    """Returns the journals of runs of which all processes have ended that had gone on after the command."""
    with suppress(OSError):
        for note in sorted(paths.background.iterdir()):
            rows = [line.split() for line in note.read_text(encoding="ascii").splitlines()]
            if not is_run_id(note.name) or any(start_ticks(int(pid)) == int(ticks) for pid, ticks in rows):
                continue
            if started := _processes_of_run(note.name):  # by one that has ended
                _write_note(note, {**{int(pid): int(ticks) for pid, ticks in rows}, **started})
            else:
                yield Journal(paths.journal(note.name))


def add_late_end(journal: Journal, note: Path) -> bool:
    """Changes how a run ended that had begun well: as the trainings which went on after its command.

    Other processes, such as a server that is stopped some day, do not decide. Where nothing trained, an error does.

    Returns:
        Whether a Python process went on after the command, so that the entry lacks something.
    """
    from labbook.model.events.training_kinds import Step
    from labbook.record.run_from_journal.rank_rows import written_signal
    from labbook.record.run_from_journal.trial_parts import time_span

    end = journal.read_ending()
    command_ended = float(end.get("ended") or 0.0)
    processes, rows = journal.processes(), note.read_text(encoding="ascii").splitlines()
    late = [
        process
        for process in processes
        if f"{process.hello.get('pid')} {process.hello.get('start_ticks')}" in rows
        or time_span(process)[0] > command_ended
    ]
    if not late or end.get("code") != 0 or end.get("status"):
        return bool(late)
    is_training = any(process.events_of_kind(Step) for process in processes)
    deciding = [process for process in late if process.events_of_kind(Step) or not is_training]
    found = {_status_of(process, written_signal(process), is_training=is_training) for process in deciding}
    status = next((one for one in ("failed", "killed", "interrupted") if one in found), "")
    ended = max([command_ended, *(time_span(process)[1] for process in deciding)])
    journal.write(journal.paths.end, {**end, "ended": ended, **({"status": status, "code": None} if status else {})})
    return True


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
