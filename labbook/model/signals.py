"""Measurements of the probe in one training process, other than series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from labbook.model.events.data_kinds import Batch, Loader, Memory, Prints
from labbook.model.events.inspection_kinds import Flight, Graph, LoadedState, Model, Tensors
from labbook.model.events.loop_kinds import Loop
from labbook.model.events.request_kinds import Moment
from labbook.model.events.training_kinds import Evaluation, LossCall, Optimizer
from labbook.model.series import Series


@dataclass(frozen=True, eq=False)
class Signals:
    """Signals of one framework in one process; events are in the order in which they were written.

    Compared by identity, so that derived values can be cached per instance.

    Args:
        framework: "torch" or "paddle".
        label: Prefix of this process's series in `Run.series`, or "".
        rank: Rank in distributed training, else `None`.
        mode: "dynamic", "static", "compiled" or "".
        losses: The last record of each loss function by line and mode.
        loop: The last totals of the training loop; empty if none were written.
        flight: Report of the flight recorder; empty if there was no non-finite value.
        phases: Step phase ("data", "forward", "backward", "optimizer", "other", "probe") -> seconds per step; also
            `samples`.
        optimizers: Facts of each optimizer, recorded at its first step.
        spans: Optimizer number -> (time of its first step, time of its last step); Unix seconds.
        trainings: Begin and end of each training where new models repeat it (folds, seeds), else empty; Unix seconds.
        ended: Time of the last event; Unix seconds.
    """

    framework: str
    label: str = ""
    rank: int | None = None
    pid: int = 0
    mode: str = ""
    models: tuple[Model, ...] = ()
    tensors: tuple[Tensors, ...] = ()
    batches: tuple[Batch, ...] = ()
    prints: tuple[Prints, ...] = ()
    losses: tuple[LossCall, ...] = ()
    loaded: tuple[LoadedState, ...] = ()
    graphs: tuple[Graph, ...] = ()
    loop: Loop = field(default_factory=Loop)
    evaluations: tuple[Evaluation, ...] = ()
    loaders: tuple[Loader, ...] = ()
    memory: tuple[Memory, ...] = ()
    flight: Flight = field(default_factory=Flight)
    moments: tuple[Moment, ...] = ()
    phases: Mapping[str, Series] = field(default_factory=dict)
    optimizers: tuple[Optimizer, ...] = ()
    spans: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    trainings: tuple[tuple[float, float], ...] = ()
    ended: float = 0.0


def optimizer_was_restored(processes: Iterable[Signals]) -> bool:
    """Whether a process loaded the state of an optimizer, so that it goes on with the training that had saved it.

    Weights alone may be those of another task or of a teacher.
    """
    return any(state.get("what") == "optimizer" for signals in processes for state in signals.loaded)
