"""Events about data and memory: batches, their order, data loaders, memory in use."""

from __future__ import annotations

from typing import TypedDict

from labbook.model.events.field_types import Count, Counts, Finite, Shape
from labbook.model.events.process_kinds import Event


class Tokens(TypedDict, total=False):
    """The tokens of a batch, without its padding."""

    top: list[tuple[int, float]]
    ids: Count
    count: Count
    pad: int
    inside: list[float]


class Leaf(TypedDict, total=False):
    """A tensor of a batch."""

    path: str
    role: str
    shape: Shape
    dtype: str
    device: str
    min: Finite
    max: Finite
    mean: Finite
    std: Finite
    bad: Count
    nan: bool | Count
    zero: Finite
    integer: bool
    channels: list[tuple[float, float]]
    constant: Count
    constant_at: Shape
    constant_n: Count
    telling: Shape
    telling_n: Count
    marked: Shape
    rows_scaled: bool
    mixed: bool
    ahead: Count
    padded: Finite
    lags: list[float]
    parts: list[tuple[float, float]]
    tokens: Tokens


class Labels(TypedDict, total=False):
    """The labels of a batch."""

    histogram: Counts


class BatchContent(TypedDict, total=False):
    """What a batch held."""

    samples: Count
    print: str
    leaves: list[Leaf]
    labels: Labels
    dims_equal: bool
    indices: list[int]


class Batch(Event, BatchContent, total=False):
    """A batch as it reached the outermost model, or came out of a loader."""

    step: Count
    phase: str
    loader: int


class Prints(Event, total=False):
    """What batches were seen in an epoch, in order."""

    loader: int
    phase: str
    epoch: Count
    batches: Count
    samples: Count
    prints: list[str]
    repeated: Count
    labels: tuple[tuple[float, int | str], ...]
    rows: list[tuple[str] | tuple[str, int | str]]
    histogram: Counts


class Loader(Event, total=False):
    """The first iteration of a DataLoader."""

    index: int
    batch_size: Count
    workers: Count
    shuffle: bool
    sampler: str
    drop_last: bool
    pin_memory: bool
    length: Count
    share: Count
    ranks: Count
    batches: Count
    dataset: str
    iterable: bool
    line: str
    alike: Count
    drawn_alike: bool
    generator: str


class DeviceMemory(TypedDict, total=False):
    """Memory of the devices, in bytes."""

    allocated: Finite
    reserved: Finite
    peak: Finite
    total: Finite


class Memory(Event, total=False):
    """Memory at a step, in bytes."""

    step: Count
    rss: Finite
    workers_rss: Finite
    device: DeviceMemory
    graphs: Count
    graphs_of: Count


class InputStatistics(TypedDict, total=False):
    """The values of an input of a model."""

    shape: Shape
    min: Finite
    max: Finite
    mean: Finite
    std: Finite
