"""Measurements of the probe in one training process, other than series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labbook.model.series import Series

Facts = Mapping[str, Any]
"""An event of the probe without its envelope. `probe.events.protocol` lists the fields; any of them may be missing."""


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
        phases: Step phase ("data", "forward", "backward", "optimizer", "other") -> seconds per step; also `samples`.
        optimizers: Facts of each optimizer, recorded at its first step.
        spans: Optimizer number -> (time of its first step, time of its last step); Unix seconds.
        ended: Time of the last event; Unix seconds.
        thinned: Kinds of events of which some were dropped to limit the size.
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
