"""Finds trainings of the same script, each in a process of its own: a loop of a shell, in turn or at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

from labbook.model.events import KIND_NAMES
from labbook.model.events.process_kinds import Bye, Hello, Trial, UncaughtException
from labbook.model.events.training_kinds import Step
from labbook.model.run import Console
from labbook.model.run_fields import differing_names, ray_node
from labbook.probe.redaction.redactor import Redactor
from labbook.record.run_from_journal.option_events import read_options
from labbook.record.run_from_journal.ranks import rank_of_process
from labbook.record.run_from_journal.training_order import times_of_model_loads
from labbook.record.run_from_journal.trial_parts import OF_FILE, OF_RUN, TrialPart, is_child, time_span
from labbook.store.journal import Journal, ProcessEvents

_EXCEPTION = KIND_NAMES[UncaughtException]

_PLACES = frozenset(
    (
        *("rank", "local_rank", "node_rank", "global_rank", "machine_rank", "worker", "worker_id", "worker_rank"),
        *("task", "task_id", "task_index", "role", "job_name", "process_id", "process_index", "proc_id", "node_id"),
        *("client", "client_id", "cid", "party", "agent_id", "actor_id", "stage", "shard", "shard_id"),
    )
)
"""Options by which processes that run at the same time divide one training among them. Source: chosen by us."""


def split_processes(
    journal: Journal, processes: Sequence[ProcessEvents], console: Console, redactor: Redactor
) -> tuple[list[ProcessEvents], list[TrialPart]]:
    """Returns the processes without their trainings, and these as trials, each with its output where that is known.

    Args:
        redactor: Masks output that a process wrote to a file.
    """
    parts = trainings_of_processes(processes, journal.read_ending().get("stopped"))
    if not parts or len(journal.parts()) > 1:
        return list(processes), []
    from labbook.capture.console.console_reader import split_console

    shown: Sequence[Console | None] = ()
    if all(before.ended <= after.started for before, after in pairwise(parts)):
        shown = split_console(journal.paths.console, console, [part.started for part in parts])
    pairs = zip(parts, shown or [None] * len(parts), strict=True)
    found = [replace(part, console=output_of_part(part, lines, processes, redactor)) for part, lines in pairs]
    return own_processes(processes, parts), found


def trainings_of_processes(processes: Sequence[ProcessEvents], stopped: float | None = None) -> list[TrialPart]:
    """Returns the processes that trained with different options, each with the processes that it started.

    A process of the same script that an error ended before its first step, and after which another one trained, is a
    failed trial. Ranks, different scripts, and a training that goes on from the state of the one before are no trials.
    Processes that run at the same time are trials unless their options divide the work among them.

    Args:
        stopped: When the command was asked to end, Unix seconds; a training that ran then was interrupted, though
            a process may end without an exception.
    """
    trained = sorted((each for each in processes if each.events_of_kind(Step)), key=time_span)
    trained = sorted([*trained, *_find_crashed(processes, trained)], key=time_span)
    if any(each.events_of_kind(Trial) for each in processes) or not _are_runs_of_a_script(trained):
        return []
    options = [_plain_options(each) for each in trained]
    differing = differing_names(options)
    spans = [time_span(each) for each in trained]
    are_at_once = any(ended > began for (_, ended), (began, _) in pairwise(spans))
    if not differing or (are_at_once and not _are_independent(trained, differing)):
        return []
    found = []
    for at, (process, (began, ended)) in enumerate(zip(trained, spans, strict=True)):
        members = [process]
        for parent in members:  # grows while it is walked: a child may have children
            members += [each for each in processes if each not in members and is_child(each, parent)]
        params = {name: options[at][name] for name in differing if name in options[at]}
        state = _state(process)
        if stopped and began <= stopped <= ended and state == "complete":
            state = "interrupted"
        found.append(TrialPart(("", "", at + 1), params, state, (), (), began, ended, tuple(members)))
    return found


def _are_runs_of_a_script(trained: Sequence[ProcessEvents]) -> bool:
    """Whether these processes run one script on one host, and none is a rank or goes on from the one before."""
    if len(trained) < 2 or not _script(trained[0]):
        return False
    if len({(each.hello.get("host"), _script(each)) for each in trained}) > 1:
        return False
    if any(rank_of_process(each) is not None or each.hello.get("role") == "fork" for each in trained):
        return False
    stepped = [each for each in trained if each.events_of_kind(Step)]
    return bool(times_of_model_loads(stepped[0])) or not any(map(times_of_model_loads, stepped[1:]))


def _find_crashed(processes: Sequence[ProcessEvents], trained: Sequence[ProcessEvents]) -> list[ProcessEvents]:
    """Returns the processes of the script that ended with an error before a step, before a training began."""
    if not trained or not _script(trained[-1]):
        return []
    begin = time_span(trained[-1])[0]
    return [
        each
        for each in processes
        if each not in trained
        and _state(each) == "failed"
        and _script(each) == _script(trained[-1])
        and time_span(each)[1] <= begin
        and _plain_options(each)
        and not any(is_child(each, other) for other in processes)
    ]


def own_processes(processes: Sequence[ProcessEvents], parts: Sequence[TrialPart]) -> list[ProcessEvents]:
    """Returns the processes without the trainings; of these what belongs to the run, and the error of the last one."""
    trials = {id(each): part for part in parts for each in part.processes}
    found = []
    for process in processes:
        part = trials.get(id(process))
        kinds = OF_FILE | OF_RUN | ({_EXCEPTION} if part is parts[-1] else set())
        events = process.events if part is None else tuple(e for e in process.events if e.get("k") in kinds)
        found.append(replace(process, events=events))
    return found


def _are_independent(trained: Sequence[ProcessEvents], differing: Sequence[str]) -> bool:
    """Whether processes that run at the same time train a model each."""
    is_divided = any(name.rpartition(".")[2].replace("-", "_").lower() in _PLACES for name in differing)
    return not is_divided and not any(ray_node(each.hello.get("argv", [])) for each in trained)


def output_of_part(
    part: TrialPart, shown: Console | None, processes: Sequence[ProcessEvents], redactor: Redactor
) -> Console | None:
    """Returns what a process printed: its lines of the command's output and of files; `None` if its stdout is unknown.

    Args:
        shown: Lines of the command's output that were printed while it ran.
    """
    from labbook.capture.console.console_reader import join_consoles, read_file_part

    first, second = _streams(part.processes[0].hello)
    found: list[Console | None] = []
    for path, place in [first] if first == second else [first, second]:
        if place:
            end = _end_in_file(part, path, place, processes)
            read = None if end is None else read_file_part(Path(path).expanduser(), place[0], place[1], end, redactor)
            found.append(read)
        elif path in ("", "/dev/null"):
            found.append(Console())
        elif shown not in found:
            found.append(shown)
    known = [console for console in found if console is not None]
    return reduce(join_consoles, known) if found[0] is not None else None


def _streams(hello: Hello) -> list[tuple[str, list[int]]]:
    """Returns the targets of stdout and stderr, each with inode and place if it is a file."""
    pairs = ((hello.get("fd1", ""), hello.get("fd1_file", [])), (hello.get("fd2", ""), hello.get("fd2_file", [])))
    return [(path, place if len(place) == 2 else []) for path, place in pairs]


def _end_in_file(part: TrialPart, path: str, place: Sequence[int], processes: Sequence[ProcessEvents]) -> int | None:
    """Returns where the output of a process in its file ends, 0 at the end of the file; `None` if it is not known.

    It ends where a later process begins to write, unless that one has emptied the file, or both run at the same time.
    A program that started it, and waits for it, has its output in the same file.
    """
    end = 0
    for other in processes:
        places = [at for target, at in _streams(other.hello) if target == path and at[:1] == place[:1]]
        if not places or any(other is each for each in part.processes) or is_child(part.processes[0], other):
            continue
        began, ended = time_span(other)
        begin = min(at[1] for at in places)
        if began >= part.ended and begin > place[1]:
            end = min(end or begin, begin)
        elif ended > part.started:
            return None
    return end


def _script(process: ProcessEvents) -> str:
    """Returns the script of a process, or the module behind `-m`."""
    words = list(process.hello.get("argv", ()))
    module = words[words.index("-m") + 1 :][:1] if "-m" in words else []
    return next((word for word in words if word.endswith(".py") or word in module), "")


def _plain_options(process: ProcessEvents) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for options in read_options([process]):
        plain = {name: v for name, v in options.values.items() if isinstance(v, (bool, int, float, str))}
        found = plain | found
    return found


def _state(process: ProcessEvents) -> str:
    errors = [error.get("type", "") for error in process.events_of_kind(UncaughtException)]
    if errors:
        return "interrupted" if errors[-1] == "KeyboardInterrupt" else "failed"
    return "complete" if process.events_of_kind(Bye) else ""
