"""What the probe measured inside one process that trained, beyond its series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labbook.model.series import Series

Facts = Mapping[str, Any]
"""An event of the probe without its envelope; its fields stand in `probe.events.protocol`; any may be missing."""


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
    models: tuple[Facts, ...] = ()
    tensors: tuple[Facts, ...] = ()
    batches: tuple[Facts, ...] = ()
    prints: tuple[Facts, ...] = ()
    losses: tuple[Facts, ...] = ()
    loaded: tuple[Facts, ...] = ()
    graphs: tuple[Facts, ...] = ()
    loop: Facts = field(default_factory=dict)
    evaluations: tuple[Facts, ...] = ()
    loaders: tuple[Facts, ...] = ()
    memory: tuple[Facts, ...] = ()
    flight: Facts = field(default_factory=dict)
    moments: tuple[Facts, ...] = ()
    phases: Mapping[str, Series] = field(default_factory=dict)
    optimizers: tuple[Facts, ...] = ()
    spans: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    ended: float = 0.0
    thinned: tuple[str, ...] = ()
