"""Parameters and modules of a process with their history over the dense steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Literal

from labbook.frozen import dataclass
from labbook.model.events.inspection_kinds import (
    FunctionInspection,
    InitialValues,
    ModuleInspection,
    ModuleOptions,
    ModuleRow,
    ParameterInspection,
)
from labbook.model.message import Message, message
from labbook.model.signals import Signals

_FEWEST_STILL = 5
"""Steps that leave a matrix as it was, after which it does not train. Source: chosen by us."""
_BOUNDED = ("relu", "relu6", "sigmoid", "hardsigmoid", "tanh", "softmax")


@dataclass(frozen=True)
class Parameter:
    """A parameter, `history` being (step, row of a `tensors` event) in order of time."""

    name: str
    shape: tuple[int, ...]
    trainable: bool
    module: str
    options: ModuleOptions
    init: InitialValues
    order: float
    model: int = 0
    history: list[tuple[int, ParameterInspection]] = field(default_factory=list)
    dtype: str = ""

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def is_matrix(self) -> bool:
        """Whether it is the weight of a layer that mixes features: no bias, no norm, no lookup table, no token."""
        mixes = not any(word in self.module.lower() for word in ("embedding", "norm"))
        return mixes and len([n for n in self.shape if n > 1]) >= 2

    @property
    def is_table(self) -> bool:
        """Whether it is the weight of a lookup table."""
        return "embedding" in self.module.lower() and len(self.shape) == 2

    @property
    def is_bias(self) -> bool:
        """Whether it is the bias of a layer that mixes features."""
        mixes = any(word in self.module.lower() for word in ("linear", "conv"))
        return mixes and len(self.shape) == 1 and "bias" in self.name

    @property
    def is_trained(self) -> bool:
        """Whether it is trainable and, of a matrix, any step with a gradient changed it."""
        ratios = [row.get("ratio") for _, row in self.history if row.get("g")]
        stands_still = self.is_matrix and len(ratios) >= _FEWEST_STILL and all(ratio == 0.0 for ratio in ratios)
        return self.trainable and not stands_still

    def values(self, key: Literal["w", "g", "ratio"], since: int = 0) -> list[float]:
        """The finite numbers under `key` from step `since` on."""
        found = (row.get(key) for step, row in self.history if step >= since)
        return [value for value in found if value is not None and math.isfinite(value)]


@dataclass(frozen=True)
class Module:
    """A module, `history` being (step, row of a `tensors` event) in order of time."""

    model: int
    number: int
    name: str
    type: str
    options: ModuleOptions
    order: float
    parameters: int
    facts: ModuleRow
    history: list[tuple[int, ModuleInspection]] = field(default_factory=list)

    @property
    def label(self) -> Message | str:
        """Name and type, as the value of a message."""
        return message("health.module", name=self.name, type=self.type) if self.name else self.type

    def last_values(self, key: Literal["across", "sat"], most: int = 5, since: int = 0) -> list[float]:
        """The last `most` finite numbers under `key` from step `since` on."""
        found = (row.get(key) for step, row in self.history if step >= since)
        return [value for value in found if value is not None][-most:]


@lru_cache(maxsize=16)
def parameters_of(signals: Signals) -> tuple[Parameter, ...]:
    """All parameters of all models, in the order in which their modules ran."""
    found: dict[tuple[int, int], Parameter] = {}
    known: dict[tuple[int, int], tuple[int, ...]] = {}
    for model in signals.models:
        key = model.get("model", 0)
        modules = {m.get("i", 0): m for m in model.get("modules", [])}
        for row in model.get("parameters", []):
            module = modules.get(row.get("module", 0), {})
            order = module.get("order")
            known[key, row.get("i", 0)] = row.get("same", ())
            found[key, row.get("i", 0)] = Parameter(
                name=row.get("name", ""),
                shape=row.get("shape", ()),
                trainable=row.get("trainable", False),
                module=module.get("type", ""),
                options=module.get("options", {}),
                init=row.get("init", {}),
                order=math.inf if order is None else order,
                model=key,
                dtype=row.get("dtype", ""),
            )
    for event in signals.tensors:
        key, step = event.get("model", 0), event.get("step", 0)
        for look in event.get("params", []):
            place = key, look.get("i", 0)
            if place not in found:
                found[place] = Parameter(f"parameter {place[1]}", (), True, "", {}, {}, math.inf)
            found[place].history.append((step, look))
    for place, (*same,) in known.items():
        earlier, own = found.get((same[0], same[1])) if same else None, found[place]
        if earlier is not None and earlier.history and own.history:
            # The same tensor, looked at in a whole model and, once only parts of it are called, in one of these.
            history = sorted(earlier.history + own.history, key=lambda look: look[0])
            left, gone = (place, (same[0], same[1]))[:: 1 if len(own.history) >= len(earlier.history) else -1]
            found[left] = replace(found[left], init=earlier.init, history=history)
            del found[gone]
        elif earlier is not None and any(row.get("ratio") for _, row in earlier.history):
            found[place] = replace(own, init={})  # what an earlier optimizer has changed is no initial value
    return tuple(sorted(found.values(), key=lambda p: p.order))


def name_in_models(signals: Signals, parameters: Sequence[str]) -> list[str]:
    """Returns names of parameters without gradient, with their model if others have them, too: "G.0.weight"."""
    variables = {model.get("model", 0): model.get("variable", "") for model in signals.models}
    named = list(parameters)
    for at, name in enumerate(parameters):
        own = [p for p in parameters_of(signals) if p.name == name]
        silent = [p for p in own if not any(row.get("g") for _, row in p.history)]
        if len(own) > len(silent) == 1 and (variable := variables.get(silent[0].model)):
            named[at] = f"{variable}.{name}"
    return named


@lru_cache(maxsize=16)
def modules_of(signals: Signals) -> tuple[Module, ...]:
    """All modules of all models, in the order in which they ran; those that never ran come last."""
    found: dict[tuple[int, int], Module] = {}
    for model in signals.models:
        key = model.get("model", 0)
        for row in model.get("modules", []):
            order = row.get("order")
            i = row.get("i", 0)
            found[key, i] = Module(
                model=key,
                number=i,
                name=row.get("name", ""),
                type=row.get("type", ""),
                options=row.get("options", {}),
                order=math.inf if order is None else order,
                parameters=row.get("parameters", 0),
                facts=row,
            )
    for event in signals.tensors:
        key, step = event.get("model", 0), event.get("step", 0)
        for look in event.get("modules", []):
            module = found.get((key, look.get("i", 0)))
            if module is not None:
                module.history.append((step, look))
    return tuple(sorted(found.values(), key=lambda m: (m.model, m.order)))


def roots_of(signals: Signals) -> list[Module]:
    """The outermost module of each model."""
    return [module for module in modules_of(signals) if not module.name]


def functions_of(signals: Signals) -> dict[tuple[str, str], list[tuple[int, FunctionInspection]]]:
    """Watched functions by name and line, with their rows over the dense steps."""
    found: dict[tuple[str, str], list[tuple[int, FunctionInspection]]] = {}
    for event in signals.tensors:
        for row in event.get("functions", []):
            found.setdefault((row.get("fn", ""), row.get("line", "")), []).append((event.get("step", 0), row))
    return found


def has_returned_range(signals: Signals, names: tuple[str, ...], low: float, high: float) -> bool:
    """Whether a module or function of these names (lower case) has returned values of exactly this range."""
    outputs: list[ModuleInspection] = [
        row for (fn, _), history in functions_of(signals).items() if fn.rstrip("_") in names for _, row in history
    ]
    outputs += [row for one in modules_of(signals) if one.type.lower() in names for _, row in one.history]
    near = 1e-4 * max(abs(low), abs(high), 1.0)
    return any(
        least is not None and most is not None and abs(least - low) <= near and abs(most - high) <= near
        for least, most in ((row.get("min"), row.get("max")) for row in outputs)
    )


def output_activation(signals: Signals) -> str:
    """Returns the activation, in lower case, whose values a model returns at every look; empty where none is known."""
    made: dict[str, Sequence[tuple[int, ModuleInspection]]] = {}
    for (fn, line), calls in functions_of(signals).items():
        made[f"{fn} {line}"] = calls
    for one in modules_of(signals):
        if one.name:
            made[f"{one.type.lower()} {one.model} {one.number}"] = one.history
    for root in roots_of(signals):
        returned = {step: (row.get("min"), row.get("max")) for step, row in root.history if row.get("min") is not None}
        for name, history in made.items():
            both = [(step, row) for step, row in history if step in returned]
            alike = all((row.get("min"), row.get("max")) == returned[step] for step, row in both)
            if len(both) >= 3 and alike and name.split()[0] in _BOUNDED:
                return name.split()[0]
    return ""


def recovers(front: Parameter, back: Parameter) -> bool:
    """Whether the front's gradient is over a hundredth of the back's at the end, as after a slow warm-up.

    Source: chosen by us; in each of the last 5 of at least 15 looks.
    """
    of_back = {step: row.get("g") for step, row in back.history}
    pairs = [(row.get("g"), of_back.get(step)) for step, row in front.history]
    shares = [own / other for own, other in pairs if own is not None and other]
    return len(shares) >= 15 and min(shares[-5:]) > 0.01
