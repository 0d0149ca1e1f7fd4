"""Events about models and their tensors: modules, parameters, activations, graphs, the first non-finite value."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from labbook.model.events.data_kinds import BatchContent, InputStatistics
from labbook.model.events.field_types import LONG, Count, Finite, Shape, Text
from labbook.model.events.process_kinds import Event


class ModuleOptions(TypedDict, total=False):
    """Scalar options of a module."""

    p: Finite
    negative_slope: Finite
    num_features: Finite
    eps: Finite
    momentum: Finite
    affine: bool
    dim: Finite
    axis: Finite
    in_features: Finite
    out_features: Finite
    in_channels: Finite
    out_channels: Finite
    kernel_size: Finite | list[int]
    groups: Finite
    bias: bool
    num_embeddings: Finite
    embedding_dim: Finite
    padding_idx: Finite
    batch_first: bool
    bidirectional: bool
    hidden_size: Finite
    num_layers: Finite


class TensorForm(TypedDict, total=False):
    """Form of a tensor that a module received or returned."""

    shape: Shape
    dtype: str
    device: str


class ModuleRow(TypedDict, total=False):
    """A module of a model."""

    i: Count
    name: str
    type: str
    package: str
    depth: Count
    order: Finite
    parameters: Count
    trainable: Count
    options: ModuleOptions
    input: list[TensorForm]
    output: list[TensorForm]
    view_of: Shape
    steps_read: list[int]


class InitialValues(TypedDict, total=False):
    """Values of a parameter before training."""

    mean: Finite
    std: Finite
    min: Finite
    max: Finite
    zero: Finite
    bad: Count
    rows_equal: bool
    fan_in: Count
    writes: dict[str, Count]


class ParameterRow(TypedDict, total=False):
    """A parameter of a model."""

    i: Count
    name: str
    shape: Shape
    dtype: str
    device: str
    trainable: bool
    module: Count
    init: InitialValues
    same: tuple[Count, Count]


class Model(Event, total=False):
    """A model, at its first training forward and when its parameters change."""

    root: str
    variable: str
    model: Count
    modules: list[ModuleRow]
    parameters: list[ParameterRow]
    feeds: list[tuple[int, int]]
    shared: list[list[str]]
    repeated: list[tuple[str, int, int]]
    left_out: dict[str, Count]
    spectral_eval_first: list[str]
    parts: list[Count]
    part_of: list[Count]
    holder: str


class ParameterInspection(TypedDict, total=False):
    """A parameter at a dense step."""

    i: Count
    w: float
    g: Finite
    g_zero: Finite
    ratio: Finite
    moved: Finite
    bad: Count
    g_bad: Count


class BatchNorm(TypedDict, total=False):
    """A batch norm in training mode."""

    n: Finite
    ratio: Finite


class ModuleInspection(TypedDict, total=False):
    """What a module returned at a dense step."""

    i: Count
    calls: Count
    training: bool
    shape: Shape
    dtype: str
    min: Finite
    max: Finite
    mean: Finite
    std: Finite
    zero: Finite
    bad: Count
    nan: bool | Count
    in_bad: Count
    sat: Finite
    across: Finite
    alike: bool
    dead: Finite
    dead_n: Count
    carried: bool
    ids: list[int]
    given: InputStatistics
    row_var: Finite
    cast: str
    bn: BatchNorm


class FunctionInspection(ModuleInspection, total=False):
    """What a function returned that the program calls itself."""

    fn: str
    line: str
    viewed: Shape
    dim: Count
    size: Count
    of_output: bool
    masked: bool
    hides: bool
    padding_only: bool
    flags: bool
    hidden: Finite
    ahead: int
    even: bool
    unordered: bool
    placed: Finite
    scale: list[Finite]


class Tensors(Event, total=False):
    """Tensors at a dense step."""

    step: Count
    opt: Count
    model: Count
    param_print: str
    params: list[ParameterInspection]
    modules: list[ModuleInspection]
    functions: list[FunctionInspection]


class LoadedState(Event, total=False):
    """A state was loaded into a model or an optimizer."""

    what: str
    type: str
    step: Count
    keys: Count
    matched: Count
    missing: list[str]
    mismatched: list[str]
    missing_n: Count
    unexpected_n: Count
    mismatched_n: Count
    elements: Finite
    alias: bool
    trained: bool
    line: str


class SourcePlace(TypedDict, total=False):
    """A line of the user's code."""

    file: Text
    line: Count
    function: str
    source: str


class Cut(SourcePlace, total=False):
    """Where a tensor lost its graph."""

    op: str


class BroadcastLoss(TypedDict, total=False):
    """A loss that sets a column of outputs against a row of targets."""

    op: str
    shape: Shape
    of: Shape
    sure: bool
    line: str


class ConstantTerm(TypedDict, total=False):
    """A term of the loss that has no gradient."""

    line: str
    number: bool
    values: list[float]


class ForeignLeaf(TypedDict, total=False):
    """A leaf that is in no module and in no optimizer."""

    shape: Shape
    parameter: bool


class Graph(Event, total=False):
    """The autograd graph of a backward call."""

    step: Count
    backward: Count
    reachable: Count
    unreachable: list[str]
    unreachable_n: Count
    held: Count
    foreign: list[ForeignLeaf]
    cut: Cut
    blown: BroadcastLoss
    constant: list[ConstantTerm]
    penalised: Count
    bootstrapped: str
    advantage: str
    inverted: str
    ratios: Count
    ratios_one: Count
    ascends: bool
    operations: Annotated[list[list[Any]], LONG]
    more: bool


class ProgramRuns(TypedDict, total=False):
    """Runs of a static program that are no steps, or should be none; passes over the data that a metric collects."""

    count: Count
    rising: Count
    function: str
    held_out: bool
    line: str


class NamedModule(TypedDict, total=False):
    """Name and class of a module."""

    name: str
    type: str


class NanOperation(TypedDict, total=False):
    """The operation that made NaN of an infinity."""

    op: str
    nan: Count


class NonfiniteOperation(TypedDict, total=False):
    """The operation that is shown to have made a non-finite value."""

    op: str
    nan: Count
    inf: Count
    of: Count
    low: float
    high: float
    zeros: Count
    exponent: float
    then: NanOperation
    given: bool


class RecentStep(TypedDict, total=False):
    """A step before the non-finite value."""

    step: Count
    loss: float
    grad_norm: float
    lr: float
    ratio: float


class Flight(SourcePlace, Event, total=False):
    """The first value that was not finite."""

    step: Count
    trigger: str
    finding: str
    reason: str
    module: NamedModule
    op: str
    value: str
    batch: BatchContent
    parameters: list[str]
    made: NonfiniteOperation
    may: list[Cut]
    recent: list[RecentStep]
