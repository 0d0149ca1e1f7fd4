"""Finds trainings of the same script, each in a process of its own, one after another: a loop of a shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from labbook.model.events import KIND_NAMES
from labbook.model.events.process_kinds import Bye, Trial, UncaughtException
from labbook.model.events.training_kinds import Step
from labbook.model.run import Console
from labbook.record.run_from_journal.option_events import read_options
from labbook.record.run_from_journal.ranks import rank_of_process
from labbook.record.run_from_journal.training_order import times_of_model_loads
from labbook.record.run_from_journal.trial_parts import OF_FILE, OF_RUN, TrialPart, is_child, time_span
from labbook.store.journal import Journal, ProcessEvents

_EXCEPTION = KIND_NAMES[UncaughtException]


def split_processes(
    journal: Journal, processes: Sequence[ProcessEvents], console: Console
) -> tuple[list[ProcessEvents], list[TrialPart]]:
    """Returns the processes without their trainings, and these as trials; none where the output cannot be divided."""
    parts = trainings_of_processes(processes, journal.read_ending().get("stopped"))
    if not parts or len(journal.parts()) > 1:
        return list(processes), []
    from labbook.capture.console.console_reader import split_console

    consoles = split_console(journal.paths.console, console, [part.started for part in parts])
    if not consoles:
        return list(processes), []
    parts = [replace(part, console=text) for part, text in zip(parts, consoles, strict=True)]
    return own_processes(processes, parts), parts


def trainings_of_processes(processes: Sequence[ProcessEvents], stopped: float | None = None) -> list[TrialPart]:
    """Returns the processes that trained in turn with different options, each with the processes that it started.

    Ranks, processes whose times overlap, different scripts, and a training that goes on from the state of the one
    before are no trials.

    Args:
        stopped: When the command was asked to end, Unix seconds; a training that ran then was interrupted, though
            a process may end without an exception.
    """
    trained = sorted((each for each in processes if each.events_of_kind(Step)), key=time_span)
    if len(trained) < 2 or any(each.events_of_kind(Trial) for each in processes):
        return []
    if len({(each.hello.get("host"), _script(each)) for each in trained}) > 1 or not _script(trained[0]):
        return []
    if any(rank_of_process(each) is not None or each.hello.get("role") == "fork" for each in trained):
        return []
    spans = [time_span(each) for each in trained]
    if any(ended > began for (_, ended), (began, _) in pairwise(spans)):
        return []
    if not times_of_model_loads(trained[0]) and any(map(times_of_model_loads, trained[1:])):
        return []
    options = [_plain_options(each) for each in trained]
    names = dict.fromkeys(name for each in options for name in each)
    differing = [name for name in names if len({str(each.get(name)) for each in options}) > 1]
    if not differing:
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


def _script(process: ProcessEvents) -> str:
    return next((word for word in process.hello.get("argv", ()) if word.endswith(".py")), "")


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
