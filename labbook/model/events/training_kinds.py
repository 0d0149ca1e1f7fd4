"""Events of a training: frameworks, optimizers, steps, losses, evaluation."""

from __future__ import annotations

from typing import TypedDict

from labbook.model.events.data_kinds import Leaf
from labbook.model.events.field_types import Count, Finite, Options, Shape, Text
from labbook.model.events.process_kinds import Event


class FrameworkImported(Event, total=False):
    """A framework was imported and attached to."""

    name: str
    version: str
    build: Options
    devices: list[Options]
    threads: int
    attached: list[str]
    declined: dict[str, Text]


class ProcessGroup(TypedDict, total=False):
    """The process group of distributed training."""

    backend: str
    world_size: int
    rank: int


class State(Event, total=False):
    """Facts that may change; the last one wins."""

    seeds: Options
    deterministic: Options
    mode: str
    amp: Options | list[Options]
    distributed: ProcessGroup
    device: str | list[str]
    parameters: int
    trainable: int
    statistics: Count
    model: Text
    dtype: list[str]
    threads: int
    devices: list[Options]
    cudnn: str | int


class Optimizer(Event, total=False):
    """An optimizer took its first step."""

    index: Count
    type: str
    options: Options
    groups: list[Options]
    closure: bool
    trains: Count
    root: str
    tensors: Count
    parameters: Count
    trainable: Count
    dropout: list[Finite]
    shared: tuple[Count, Count]
    thread: Count
    line: str
    trial: Count


Window = tuple[float | None, float | None, float | None, Count, Count]
"""Of several steps: minimum, maximum and mean of the finite values, how many these are, how many were not finite."""


class PhaseSeconds(TypedDict, total=False):
    """Seconds of a step by phase."""

    data: Finite
    forward: Finite
    backward: Finite
    optimizer: Finite
    other: Finite
    probe: Finite


class Windows(TypedDict, total=False):
    """The values in a window of steps."""

    loss: Window
    step_loss: Window
    lr: Window
    grad_norm: Window
    dt: Window
    scale: Window
    data: Window
    forward: Window
    backward: Window
    optimizer: Window
    other: Window
    probe: Window


class Step(Event, total=False):
    """One optimizer step, or a window of consecutive ones."""

    opt: Count
    step: Count
    n: Count
    loss: float | tuple[float, ...]
    step_loss: float
    summed: Count
    parts: dict[str, float]
    lr: float | tuple[float | None, ...]
    grad_norm: float
    norm_step: Count
    dt: float
    agg: Windows
    backwards: Count
    skipped: Count
    scale: float
    local: bool
    samples: Finite
    ph: PhaseSeconds
    collective: float
    calls: Count


class Scalars(Event, total=False):
    """Numbers that the program itself logged."""

    source: str
    step: int
    values: dict[str, float]
    trial: Count


class ValueRange(TypedDict, total=False):
    """Shape, type and values of what a loss function was called with."""

    shape: Shape
    dtype: str
    min: Finite
    max: Finite
    mean: Finite
    std: Finite
    zero: Finite


class LossCall(Event, total=False):
    """Totals of the calls of a loss function from one place in the code."""

    call: Count
    fn: str
    line: str
    training: bool
    step: Count
    calls: Count
    input: ValueRange
    target: ValueRange
    classes: Count
    reduction: str
    items: Count
    weight: bool
    class_weights: list[float]
    soft: bool
    ignored: Finite
    ignore_index: int
    all_ignored: Count
    not_probabilities: Count
    outside: Count
    observed: Count
    prob_rows: Finite
    logprob_rows: Finite
    prob_columns: Finite
    unit_range: Finite
    broadcast: Count
    self_pairs: Count
    self_negatives: Count
    target_trained: Count
    smoothing: Finite
    near: Finite
    far: Finite
    margin: Finite
    value_first: Finite
    value_last: Finite
    value_min: Finite
    negative: Count


class CacheRow(TypedDict, total=False):
    """What became of a cache of keys or values from token to token."""

    line: str
    kept: Count
    moved: Count
    lost: Count
    other: Count


class ComparedPass(TypedDict, total=False):
    """A pass over held-out data: what its outputs and labels give."""

    loader: int
    epoch: int
    batches: Count
    n: Count
    right: Count
    values: dict[str, dict[str, float]]


class Evaluation(Event, total=False):
    """A validation phase."""

    begin_step: Count
    end_step: Count
    root: str
    batches: Count
    of_others: Count
    training: bool
    grad: bool
    asked: bool
    stochastic: bool
    dropout_active: Count
    dropout_line: str
    repeated: Count
    loader: int
    loss: dict[str, float]
    accuracy: Finite
    renumbered: Finite
    compared: list[ComparedPass]
    samples: Count
    inputs: Leaf
    looks: list[Leaf]
    positions: list[list[int]]
    caches: list[CacheRow]
    phases: Count
    short: Count
    whole: Count
