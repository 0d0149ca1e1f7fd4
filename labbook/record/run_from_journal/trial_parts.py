"""Separates the trials of a process that trained several times from what the process did besides. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from labbook.frozen import dataclass
from labbook.model.events import KIND_NAMES
from labbook.model.events.process_kinds import (
    Arguments,
    Bye,
    Config,
    Event,
    Files,
    Hello,
    Note,
    ProbeError,
    PythonWarning,
    Sources,
    Trial,
    UnobservedSignal,
)
from labbook.model.events.training_kinds import FrameworkImported, Optimizer, Scalars, Step
from labbook.model.run import Console
from labbook.store.journal import ProcessEvents

OF_RUN = {
    KIND_NAMES[kind]
    for kind in (
        *(FrameworkImported, Config, Files, Note, ProbeError, PythonWarning, Sources),
        UnobservedSignal,
    )
}
"""Events of a trial that belong to the run, too: its environment, its code, its files."""


OF_FILE = {KIND_NAMES[Hello], KIND_NAMES[Bye]}
_OF_ALL = {KIND_NAMES[Hello], KIND_NAMES[FrameworkImported]}
_TRIAL = KIND_NAMES[Trial]
_OPTIMIZER = KIND_NAMES[Optimizer]
_STEP = KIND_NAMES[Step]
_UNOBSERVED = KIND_NAMES[UnobservedSignal]
_SCALARS = KIND_NAMES[Scalars]


@dataclass(frozen=True)
class TrialPart:
    """One of several trainings of a run.

    Args:
        key: Tool, name of the study, and number.
        state: "complete", "pruned", "failed", "interrupted"; "" if it never ended.
        directions: "minimize" or "maximize", for each of them.
        started: Unix seconds.
        ended: Unix seconds; the last event of one that never ended.
        processes: Its events, one for each rank and each child process; empty if only its options and result are known.
        together: Whether it ran at the same time as others in its process.
        result: Name of its result, where the program has one for it.
        console: What it printed; `None` where that is not known.
    """

    key: tuple[str, str, int]
    params: Mapping[str, Any]
    state: str
    values: tuple[float, ...]
    directions: tuple[str, ...]
    started: float
    ended: float
    processes: tuple[ProcessEvents, ...] = ()
    together: bool = False
    result: str = ""
    console: Console | None = None


def split_trials(processes: Sequence[ProcessEvents]) -> tuple[list[ProcessEvents], list[TrialPart]]:
    """Returns the processes without their trials, and the trials in the order of their beginning.

    The ranks of a trial, and the processes that were started during it, are of the same trial. A file of which it is
    not known which trial it belongs to stays with the process.
    """
    if not any(process.events_of_kind(Trial) for process in processes):
        return list(processes), []
    processes, parts = _take_labelled(processes)
    files = [process for process in processes if _is_trial(process)]
    others = _whole_processes([process for process in processes if not _is_trial(process)])
    found: dict[tuple[str, str, int], list[ProcessEvents]] = {}
    for file in files:
        found.setdefault(_key(file.events_of_kind(Trial)[0]), []).append(file)
    taken: set[int] = set()
    for members in found.values():
        for parent in members:  # grows while it is walked: a child may have children
            for at, process in enumerate(others):
                if at not in taken and is_child(process, parent):
                    taken.add(at)
                    members.append(process)
    own = [process for at, process in enumerate(others) if at not in taken]
    own = [_merge_trials(process, files) for process in own]
    if any(tool == "ray" for tool, _, _ in found):
        own = [replace(each, events=tuple(e for e in each.events if not _is_tune_log(e))) for each in own]
    listed = _only_listed(own)
    trials = [_trial(key, members, listed.pop(key, ())) for key, members in found.items()]
    trials += [_build_part(key, events, parts.get(key, ())) for key, events in listed.items()]
    return own, sorted(trials, key=lambda trial: (trial.started, trial.key))


def _take_labelled(
    files: Sequence[ProcessEvents],
) -> tuple[list[ProcessEvents], dict[tuple[str, str, int], list[ProcessEvents]]]:
    """Returns the files without the events of trials that ran at the same time, and these, by the trial."""
    labels: dict[tuple[tuple[Any, ...], int], tuple[str, str, int]] = {}
    for file in files:
        ended = {_key(event): event for event in file.events_of_kind(Trial) if event.get("together")}
        labels |= {(_identity(file.hello), event.get("label", 0)): key for key, event in ended.items()}
    rest: list[ProcessEvents] = []
    taken: dict[tuple[str, str, int], list[ProcessEvents]] = {}
    for file in files:
        own = [label for identity, label in labels if label and identity == _identity(file.hello)]
        left, found = split_labelled(file, own) if own else (file, {})
        rest.append(left)
        for label, part in found.items():
            taken.setdefault(labels[_identity(file.hello), label], []).append(part)
    return rest, taken


def split_labelled(file: ProcessEvents, labels: Collection[int]) -> tuple[ProcessEvents, dict[int, ProcessEvents]]:
    """Returns a file without the events that are marked by a label, and a file of them for each label.

    Steps are those of the optimizer that has the label. In each file the optimizers are numbered from 0.

    Args:
        labels: Values of the field `trial` that count.
    """
    found: dict[int, list[Event]] = {label: [] for label in (0, *labels)}
    owners: dict[int, tuple[int, int]] = {}
    made: Counter[int] = Counter()
    for event in file.events:
        fields = dict[str, Any](event)
        label = fields["trial"] if fields.get("trial") in found else 0
        if fields.get("k") == _OPTIMIZER:
            owners[fields.get("index", 0)] = (label, made[label])
            fields["index"] = made[label]
            made[label] += 1
        elif fields.get("opt") in owners:
            owner, index = owners[fields["opt"]]
            label = owner if fields["k"] == _STEP else 0
            fields["opt"] = index if owner == label else fields["opt"]
        found[label].append(cast(Event, fields))
    rest = replace(file, events=tuple(found.pop(0)))
    first = [event for event in rest.events if event.get("k") in _OF_ALL]
    return rest, {
        label: replace(file, events=(*first, *events), broken_lines=0) for label, events in found.items() if events
    }


def _is_tune_log(event: Event) -> bool:
    """Whether Ray Tune logs in the process of the program what its trials report."""
    values = cast(Scalars, event).get("values", {})
    return event.get("k") == _SCALARS and all(name.startswith("ray/tune/") for name in values)


def _is_trial(process: ProcessEvents) -> bool:
    marks = process.events_of_kind(Trial)
    return bool(marks) and bool(marks[0].get("own")) and marks[-1].get("state") != "several"


def _whole_processes(files: Sequence[ProcessEvents]) -> list[ProcessEvents]:
    """Returns the processes, each with the events of its files of which it is not known which trial they are of."""
    parts = [file for file in files if file.events_of_kind(Trial)[:1] and file.events_of_kind(Trial)[0].get("own")]
    whole = []
    for process in files:
        mine = [file for file in parts if file is not process and _identity(file.hello) == _identity(process.hello)]
        if process not in parts:
            added = [event for file in mine for event in file.events if not _is_of_file(event)]
            whole.append(replace(process, events=(*process.events, *added)) if added else process)
    return whole


def _is_of_file(event: Event) -> bool:
    """Whether an event is about a file of a trial, not about what happened during it."""
    return event.get("k") in OF_FILE or (event.get("k") == _TRIAL and bool(cast(Trial, event).get("own")))


def _key(event: Trial) -> tuple[str, str, int]:
    return event.get("tool", ""), event.get("group", ""), event.get("number", 0)


def is_child(process: ProcessEvents, parent: ProcessEvents) -> bool:
    """Whether a process was started by another one."""
    hello, of_parent = process.hello, parent.hello
    began = hello.get("t", 0.0)
    first, last = time_span(parent)
    same_host = hello.get("host") == of_parent.get("host")
    return bool(hello) and same_host and hello.get("ppid") == of_parent.get("pid") and first <= began <= last


def time_span(process: ProcessEvents) -> tuple[float, float]:
    """Returns the times of the first and the last event of a process, 0 without any."""
    times = [event["t"] for event in process.events if "t" in event]
    return (times[0], times[-1]) if times else (0.0, 0.0)


def _merge_trials(process: ProcessEvents, files: Sequence[ProcessEvents]) -> ProcessEvents:
    """Returns a process with the events of its trials that belong to the run."""
    hello = process.hello
    mine = [file for file in files if hello and _identity(file.hello) == _identity(hello)]
    added: list[Event] = [event for file in mine for event in file.events if event.get("k") in OF_RUN]
    added += _common_options(mine, files)
    if not added:
        return process
    kept = [event for event in process.events if event.get("k") != _UNOBSERVED or event.get("what") != "training steps"]
    events = sorted((*kept, *added), key=lambda event: event.get("t", 0.0))
    return replace(process, events=tuple(events))


def _common_options(mine: Sequence[ProcessEvents], files: Sequence[ProcessEvents]) -> list[Arguments]:
    """Returns options of the trials of a process that are no trial's own: seen with the same values in all trials."""
    found: dict[tuple[str, str], list[Arguments]] = {}
    for file in (*mine, *files):
        for event in file.events_of_kind(Arguments):
            found.setdefault((event.get("source", ""), event.get("name", "")), []).append(event)
    names = {
        (event.get("source", ""), event.get("name", "")) for file in mine for event in file.events_of_kind(Arguments)
    }
    same = [events for events in found.values() if all(e.get("values") == events[0].get("values") for e in events)]
    return [events[0] for events in same if (events[0].get("source", ""), events[0].get("name", "")) in names]


def _identity(hello: Mapping[str, Any]) -> tuple[Any, ...]:
    return hello.get("host"), hello.get("pid"), hello.get("start_ticks")


def _only_listed(processes: Sequence[ProcessEvents]) -> dict[tuple[str, str, int], list[Trial]]:
    found: dict[tuple[str, str, int], list[Trial]] = {}
    for process in processes:
        for event in process.events_of_kind(Trial):
            if not event.get("own"):
                found.setdefault(_key(event), []).append(event)
    return found


def _build_part(key: tuple[str, str, int], events: Sequence[Trial], parts: Sequence[ProcessEvents]) -> TrialPart:
    times = [event.get("t", 0.0) for event in events]
    together = any(event.get("together", False) for event in events)
    return TrialPart(key, *_result(events), min(times), max(times), tuple(parts), together=together)


def _trial(key: tuple[str, str, int], members: Sequence[ProcessEvents], listed: Sequence[Trial]) -> TrialPart:
    marks = [event for member in members for event in member.events_of_kind(Trial) if _key(event) == key]
    marks += listed  # the process of the program may know that it stopped a trial of another one
    spans = [time_span(member) for member in members if member.events_of_kind(Trial)]
    return TrialPart(
        key, *_result(marks), min(first for first, _ in spans), max(last for _, last in spans), tuple(members)
    )


def _result(events: Sequence[Trial]) -> tuple[Mapping[str, Any], str, tuple[float, ...], tuple[str, ...]]:
    """Returns options, state, results and their directions; of several ranks that of the first one that did not end."""
    params = {name: value for event in events for name, value in event.get("params", {}).items()}
    ended = [event for event in events if event.get("state")]
    pruned = [event for event in ended if event.get("state") == "pruned"]
    bad = [event for event in ended if event.get("state") not in ("complete", "pruned")]
    last = (bad or pruned or ended or [Trial()])[-1]
    values = next((event["values"] for event in reversed(ended) if event.get("values")), [])
    return params, last.get("state", ""), tuple(values), tuple(last.get("directions", ()))
