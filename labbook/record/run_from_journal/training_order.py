"""Finds the trainings of processes: one after another in one process, or at once in a pool of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from labbook.model.events.inspection_kinds import LoadedState
from labbook.model.events.loop_kinds import Loop
from labbook.model.events.training_kinds import LossCall, Optimizer, Step
from labbook.model.run_fields import ray_node
from labbook.record.run_from_journal.ranks import rank_of_process
from labbook.record.run_from_journal.series_events import process_labels
from labbook.store.journal import ProcessEvents

_CONTAINERS = ("Sequential", "ModuleDict", "ModuleList", "LayerList", "LayerDict")
_LATE = 2
"""Rows of steps that an optimizer has if it takes no turns: its own, and the queued ones that are written later."""

_TRIED = 2
_LONGER = 20
"""Steps of a phase that only tries something out, and of the longest training beside it. Source: chosen by us."""


@dataclass(frozen=True)
class Phase:
    """A part of a training in which the same optimizers step.

    Attributes:
        optimizers: They, in order of their first steps.
        begin: Time of the first step.
        end: Time of the last one.
    """

    optimizers: tuple[Optimizer, ...]
    begin: float
    end: float

    @property
    def models(self) -> set[int]:
        """Numbers of the models that are trained."""
        return {optimizer.get("trains", -1) for optimizer in self.optimizers}

    @property
    def suffix(self) -> str:
        """What follows the name of a series of its first optimizer."""
        index = self.optimizers[0].get("index", 0)
        return f".opt{index}" if index else ""


@dataclass(frozen=True)
class Training:
    """One of several trainings of a run.

    Attributes:
        process: The process that did it.
        label: What the names of its series begin with.
        phases: Its phases, in order.
        is_whole: Whether the process did no other training.
        is_of_thread: Whether it ran in a thread, beside those of other threads.
    """

    process: ProcessEvents
    label: str
    phases: Sequence[Phase]
    is_whole: bool = False
    is_of_thread: bool = False

    @property
    def begin(self) -> float:
        """Time at which its optimizer was made."""
        return self.phases[0].optimizers[0].get("t", 0.0)

    @property
    def last_optimizer(self) -> Optimizer:
        """The optimizer that has its options."""
        return self.phases[-1].optimizers[0]

    @property
    def loss_name(self) -> str:
        """Name of the series with its loss."""
        return f"{self.label}/loss{self.phases[-1].suffix}" if self.label else f"loss{self.phases[-1].suffix}"


def find_trainings(processes: Sequence[ProcessEvents]) -> list[Training]:
    """Returns the trainings of a run if there are several, in order of their beginning.

    With several ranks, or several programs, those of the first process that trained count.
    """
    labels = process_labels(processes)
    trained = [
        (process, label) for process, label in zip(processes, labels, strict=True) if process.events_of_kind(Step)
    ]
    if len(trained) > 1 and (pool := _trainings_of_pool(trained, {process.hello.get("pid") for process in processes})):
        return pool
    process, label = next(iter(trained), (None, ""))
    if process is None:
        return []
    threads = _trainings_of_threads(process, label)
    return threads or [Training(process, label, phases) for phases in trainings_in_turn(process)]


def _trainings_of_threads(process: ProcessEvents, label: str) -> list[Training]:
    """Returns the trainings of a process that trained in several threads, each a model of its own with other options.

    With the same options, one model in several threads, or models that get the state of others, threads may train one
    model together.
    """
    made: dict[int, list[int]] = {}
    for optimizer in process.events_of_kind(Optimizer):
        made.setdefault(optimizer.get("thread", 0), []).append(optimizer.get("index", 0))
    if len(made) < 2 or 0 in made or times_of_model_loads(process):
        return []
    found: list[Training] = []
    for indices in made.values():
        several: list[list[Phase]] = []
        for phase in phases_in_turn(process, indices):
            if several and phase.models & several[-1][-1].models:
                several[-1].append(phase)
            else:
                several.append([phase])
        found += [Training(process, label, phases, is_of_thread=True) for phases in several]
    models = [set().union(*(phase.models for phase in one.phases)) for one in found]
    are_own = sum(map(len, models)) == len(set().union(*models))
    return _in_order(found) if are_own and _differ_in_options_only(found) else []


def _trainings_of_pool(trained: Sequence[tuple[ProcessEvents, str]], pids: set[int | None]) -> list[Training]:
    """Returns the trainings of the workers of one Python program, or of Ray, that run at the same time without ranks.

    All train models of the same classes with other options: workers with the same ones may train one model together.
    """
    parents = {process.hello.get("ppid") for process, _ in trained}
    are_workers = (len(parents) == 1 and parents <= pids) or all(ray_node(p.hello.get("argv", [])) for p, _ in trained)
    times = [[event.get("t", 0.0) for event in process.events] for process, _ in trained]
    is_at_once = max(map(min, times)) < min(map(max, times))
    if not are_workers or not is_at_once:
        return []
    if any(rank_of_process(process) is not None for process, _ in trained):
        return []
    found = []
    for process, label in trained:
        several = trainings_in_turn(process)
        found += [Training(process, label, phases, not several) for phases in several or [phases_in_turn(process)]]
    return _in_order(found) if _differ_in_options_only(found) else []


def _in_order(found: Sequence[Training]) -> list[Training]:
    return sorted(found, key=lambda one: (one.begin, one.label))


def _differ_in_options_only(found: Sequence[Training]) -> bool:
    """Whether all train models of the same classes, not all with the same options of the optimizer."""
    kinds = {_kind_of(one.phases) for one in found}
    options = {str((one.last_optimizer.get("type"), one.last_optimizer.get("options"))) for one in found if one.phases}
    return len(kinds) == 1 and not any("" in kind or not kind for kind in kinds) and len(options) > 1


def trainings_in_turn(process: ProcessEvents) -> list[list[Phase]]:
    """Returns the phases of each training if there are several, and each trains a new model after the one before.

    One line of the program makes the steps of all: a teacher and its student, or an encoder and the classifier on it,
    are no repeated training. All train models of the same classes, and of the same sizes where a model is called in the
    steps of another one. Models of other classes are compared where one function trains all of them. A model that goes
    on where the one before ended, from its checkpoint, belongs to the same training. A phase of one or two steps beside
    a longer one is none: a test of the installation.
    """
    found: list[list[Phase]] = []
    counts, before = count_steps(process), 0
    for phase in phases_in_turn(process):
        steps = max(counts.get(optimizer.get("index", 0), 0) for optimizer in phase.optimizers)
        if steps <= _TRIED and max(counts.values()) >= _LONGER:
            continue
        goes_on = bool(found) and any(phase.models & one.models for one in found[-1])
        if goes_on or (found and _begins_from_checkpoint(process, found[-1][-1], phase, before)):
            found[-1].append(phase)
        else:
            found.append([phase])
        before += steps
    kinds = {_kind_of(each) for each in found}
    are_alike = (len(kinds) == 1 or _has_one_loss_line(process)) and not any("" in kind for kind in kinds)
    sizes = {tuple(o.get("parameters", 0) for phase in each for o in phase.optimizers) for each in found}
    others = max(
        (loop.get("forwards", {}).get("of_others", 0) for loop in process.events_of_kind(Loop)[-1:]), default=0
    )
    if max(len(sizes), len(kinds)) > 1 and 2 * others >= min(counts.values(), default=1):
        return []
    if len({tuple(_line_of(o) for phase in each for o in phase.optimizers) for each in found}) > 1:
        return []
    models = [set().union(*(phase.models for phase in each)) for each in found]
    are_new = sum(map(len, models)) == len(set().union(*models))
    return found if len(found) > 1 and are_new and are_alike else []


def _line_of(optimizer: Optimizer) -> str:
    """Returns the line of the program that steps an optimizer; "" in a notebook, where a cell may run again."""
    line = optimizer.get("line", "")
    return "" if line.startswith("In[") else line


def _has_one_loss_line(process: ProcessEvents) -> bool:
    """Whether the losses of all trainings are computed on one line of the program."""
    return len({loss.get("line") for loss in process.events_of_kind(LossCall) if loss.get("training")}) == 1


def times_of_model_loads(process: ProcessEvents) -> list[float]:
    """Returns the times at which a process loaded the state of a model."""
    loads = process.events_of_kind(LoadedState)
    return [e.get("t", 0.0) for e in loads if e.get("what") == "model" and e.get("matched", 0) > 0]


def phases_in_turn(process: ProcessEvents, indices: Sequence[int] | None = None) -> list[Phase]:
    """Returns the phases of a process in order; optimizers whose steps overlap in time are in one.

    Args:
        indices: Optimizers that count, by default all.
    """
    made = {event.get("index", 0): event for event in process.events_of_kind(Optimizer)}
    spans = {at: span for at, span in step_spans(process).items() if indices is None or at in indices}
    if not spans or not spans.keys() <= made.keys():
        return []
    found: list[Phase] = []
    for index, (begin, end) in spans.items():
        if found and begin < found[-1].end:
            last = found.pop()
            found.append(Phase((*last.optimizers, made[index]), last.begin, max(last.end, end)))
        else:
            found.append(Phase((made[index],), begin, end))
    return found


def _begins_from_checkpoint(process: ProcessEvents, before: Phase, after: Phase, steps: int) -> bool:
    """Whether a state was loaded between two phases, and the loss begins nearer to where the last one ended.

    So does a model that gets a part of that state, as fine-tuning with another head does, unless the first one did too.

    Args:
        steps: Number of steps until the end of the phase before: their events may be written later than that of a load.
    """
    states = [e for e in process.events_of_kind(LoadedState) if e.get("matched", 0) > 0]
    between = [e for e in states if e.get("t", 0.0) <= after.begin and (before.end <= e["t"] or e.get("step") == steps)]
    models = [e["t"] for e in between if e.get("what") == "model"]
    if not models:
        return False
    if models[0] == times_of_model_loads(process)[0] and any(e.get("missing_n") for e in between):
        return True
    first, last = _ends_of_loss(process, before.optimizers[0])
    again, _ = _ends_of_loss(process, after.optimizers[0])
    return last < first and again < (first + last) / 2


def _ends_of_loss(process: ProcessEvents, optimizer: Optimizer) -> tuple[float, float]:
    """Returns the first and the last loss of an optimizer, NaN where unknown."""
    steps = [step for step in process.events_of_kind(Step) if step.get("opt", 0) == optimizer.get("index", 0)]
    values = [v for step in steps if isinstance(v := step.get("step_loss", step.get("loss")), float)]
    return (values[0], values[-1]) if values else (math.nan, math.nan)


def _kind_of(phases: Sequence[Phase]) -> tuple[str, ...]:
    """Returns the classes of the models of a training; those that only contain others with their size, too.

    Of models that were not found only the number of parameters is known; one alone may be an optimised input.
    """
    names: dict[int, tuple[str, int]] = {}
    for optimizer in (optimizer for phase in phases for optimizer in phase.optimizers):
        _, size = names.get(optimizer.get("trains", -1), ("", 0))
        names[optimizer.get("trains", -1)] = (optimizer.get("root", ""), max(size, optimizer.get("tensors", 0)))
    sized = ("", *_CONTAINERS)
    return tuple(sorted(f"{name} {size}" if name in sized and size > 1 else name for name, size in names.values()))


def count_steps(process: ProcessEvents) -> dict[int, int]:
    """Returns optimizer -> its steps."""
    counts: dict[int, int] = {}
    for event in process.events_of_kind(Step):
        counts[event.get("opt", 0)] = max(counts.get(event.get("opt", 0), 0), event.get("step", 0))
    return counts


def step_spans(process: ProcessEvents) -> dict[int, tuple[float, float]]:
    """Returns optimizer -> times of its first and last step, in the order in which they began.

    The last queued steps of an optimizer are written when another one is made or at the exit: those do not count.
    """
    times: dict[int, list[tuple[float, float]]] = {}
    last = None
    for step in process.events_of_kind(Step):
        index, t = step.get("opt", 0), step.get("t", 0.0)
        found = times.setdefault(index, [])
        if index == last:
            found[-1] = (found[-1][0], t)
        else:
            found.append((t, t))
        last = index
    return {index: (each[0][0], each[0 if len(each) <= _LATE else -1][1]) for index, each in times.items()}


def steps_in_all(process: ProcessEvents) -> int:
    """Returns the steps of a process: those of optimizers that take turns count once, of one after another all."""
    counts = count_steps(process)
    total, most, until = 0, 0, -math.inf
    for index, (begin, end) in step_spans(process).items():
        if begin > until:
            total, most = total + most, 0
        most, until = max(most, counts[index]), max(until, end)
    return total + most
