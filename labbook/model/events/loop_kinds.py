"""The running totals of a training loop: forwards, optimizers, gradients, modes, clipping, schedulers, collectives."""

from __future__ import annotations

from typing import TypedDict

from labbook.model.events.field_types import Count, Finite, Options
from labbook.model.events.inspection_kinds import ProgramRuns
from labbook.model.events.process_kinds import Event


class Forwards(TypedDict, total=False):
    """Forwards of outermost models."""

    train_grad: Count
    train_nograd: Count
    eval_nograd: Count
    of_others: Count
    raised: Count
    small: Count
    compared: Count
    looked: Count
    chained: Count


class Cleared(TypedDict, total=False):
    """Steps of an optimizer at which its gradients had not been cleared."""

    checked: Count
    not_cleared: Count
    streak: Count
    largest: Finite


class WithoutGradient(TypedDict, total=False):
    """Steps of an optimizer after a backward that gave it no gradient."""

    checked: Count
    none: Count
    zero: Count
    streak: Count


class Unchanged(TypedDict, total=False):
    """Steps of an optimizer that left every sampled element as it was."""

    checked: Count
    unchanged: Count
    streak: Count


class Accumulated(TypedDict, total=False):
    """Steps of an optimizer after several micro-batches, by what became of the gradients before the last one."""

    kept: Count
    rescaled: Count
    reduced: Count
    discarded: Count
    set_aside: Count


class Stale(TypedDict, total=False):
    """Parameters of an optimizer that are in no model seen in a forward."""

    tensors: Count
    elements: Count
    held: Count


class ModeCounts(TypedDict, total=False):
    """Calls in a mode."""

    count: Count
    in_train: Count
    first_step: Count
    stochastic: bool


class Scheduler(TypedDict, total=False):
    """The scheduler of an optimizer's learning rate."""

    type: str
    beside: list[str]
    options: Options
    steps: Count
    before_optimizer: Count
    optimizer_steps: Count


class GeneratorStates(TypedDict, total=False):
    """States of the CPU generator at step boundaries."""

    checked: Count
    same: Count
    seeded: Count
    line: str


class Idle(TypedDict, total=False):
    """Optimizers that never stepped though their parameters got gradients."""

    optimizers: Count
    parameters: Count


class Clipping(TypedDict, total=False):
    """Calls that clip gradients."""

    calls: Count
    read: Count
    clipped: Count
    empty: Count
    scaled: Count
    changed: Count
    limit: Finite
    kind: str


class ClippedNorms(TypedDict, total=False):
    """Gradient norms of an optimizer whose gradients are clipped by a call: before it, or after it."""

    before: Count
    after: Count


class Scaling(TypedDict, total=False):
    """Steps of a gradient scaler."""

    steps: Count
    skipped: Count
    scale_last: Finite
    stepped: Count
    raw: Count


class IdleScheduler(TypedDict, total=False):
    """A scheduler that is stepped, of an optimizer that is not, or, `loose`, of none."""

    type: str
    steps: Count
    loose: bool


class Collectives(TypedDict, total=False):
    """Collective calls that the program makes itself."""

    first: list[tuple[str, str | int]]
    of_gradients: Count


class ModelCopy(TypedDict, total=False):
    """A copy of the trained model."""

    type: str
    calls: Count
    steps: Count
    last: Count
    changed: bool
    fixed: Count
    untrained: bool
    compared: Count
    equal: Count
    stale_norms: Count


class StoredData(TypedDict, total=False):
    """Batches around which the arrays of a data set were compared, and those that changed the last named one."""

    looks: Count
    changed: Count
    name: str


class EvaluatedWeights(TypedDict, total=False):
    """How far the weights of a model that is called without gradients have gone of the way of the trained ones."""

    type: str
    copy: bool
    steps: Count
    rows: list[list[float]]


class OutOfBounds(TypedDict, total=False):
    """Reads outside of a tensor."""

    op: str
    line: str
    max: Finite
    min: Finite
    size: Finite
    count: Count


class Loop(Event, total=False):
    """Running totals of the training loop; objects without a type of their own are keyed by the optimizer's number."""

    optimizers: Count
    steps: Count
    backwards: Count
    forwards: Forwards
    forwards_lonely: Count
    losses_lonely: Count
    cleared: dict[str, Cleared]
    steps_without_backward: dict[str, Count]
    steps_without_gradient: dict[str, WithoutGradient]
    unchanged: dict[str, Unchanged]
    accumulated: dict[str, Accumulated]
    never_grad: list[str]
    never_grad_n: Count
    never_called: list[str]
    never_called_n: Count
    trainable_n: Count
    judged: Count
    outside: list[str]
    outside_n: Count
    stale: dict[str, Stale]
    backward_in_eval: ModeCounts
    scheduler: dict[str, Scheduler]
    idle_schedulers: list[IdleScheduler]
    rng: GeneratorStates
    accumulation: dict[str, Count]
    clip: Clipping
    clipped_norms: dict[str, ClippedNorms]
    scaler: Scaling
    toggled: list[str]
    toggled_n: Count
    idle_flags: list[str]
    idle_flags_n: Count
    wrapper: str
    collectives: Collectives
    copies: list[ModelCopy]
    teachers: list[ModelCopy]
    stored_data: StoredData
    evaluated_weights: list[EvaluatedWeights]
    recompiles: Count
    out_of_bounds: list[OutOfBounds]
    cast_ignored: dict[str, str]
    outside_models: bool
    passes: dict[str, dict[str, Count]]
    models_left_out: list[str]
    models_left_out_n: Count
    held_twice: Count
    idle: Idle
    restarts: ProgramRuns
    evaluation_updates: ProgramRuns
    metrics_carried: ProgramRuns
    frozen: Count
    elements: Count
