"""What the probe measured inside one process that trained, beyond its series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from labbook.model.events.data_kinds import Batch, Loader, Memory, Prints
from labbook.model.events.inspection_kinds import Flight, Graph, Loaded, Model, Tensors
from labbook.model.events.request_kinds import Moment
from labbook.model.events.training_kinds import Evaluation, Loop, LossCall, Optimizer
from labbook.model.series import Series


@dataclass(frozen=True, eq=False)
class Signals:
    """Signals of one framework in one process; events are in the order in which they were written.

    Equal only to itself, so that what is worked out from it can be kept beside it.

    Args:
        framework: Its name.
        label: Prefix of the names of this process's series in `Run.series`, or "".
        rank: Rank in distributed training, else `None`.
        mode: "dynamic", "static", "compiled" or "".
        losses: The last record of each loss function by line and mode.
        loop: The last totals of the training loop; empty when none were written.
        flight: What the flight recorder found; empty when nothing went wrong.
        phases: Phase of a step ("data", "forward", "backward", "optimizer", "other") -> seconds a step; also `samples`.
        optimizers: Facts of each optimizer, as told at its first step.
        spans: Optimizer number -> (time of its first step, time of its last step); Unix seconds.
        ended: Time of the last event; Unix seconds.
        thinned: Kinds of events of which some were left out to stay bounded.
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
    loaded: tuple[Loaded, ...] = ()
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
    ended: float = 0.0
    thinned: tuple[str, ...] = ()
