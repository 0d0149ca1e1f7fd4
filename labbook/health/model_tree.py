"""The modules of a model as a tree with folded repetitions and the health of each part, for the diagram of an entry."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any

from labbook.frozen import dataclass
from labbook.health.evidence.layer_history import Module, modules_of, parameters_of
from labbook.health.evidence.trend_tests import median
from labbook.health.parameter_counts import count_parameters
from labbook.health.rules.activation import dead_share, saturated_share
from labbook.health.rules.gradient import exploding_layers, vanishing_layers
from labbook.health.rules.wiring import unreached_parameters
from labbook.model.events.inspection_kinds import Model, ModuleRow
from labbook.model.signals import Signals

STATES = ("nonfinite", "exploding", "vanishing", "no_gradient", "dead", "saturated", "frozen", "not_called")
"""States of a part, the worst first."""

MOST_ROWS = 36
"""Most parts in one tree. Source: chosen by us; about 1000 pixels of height."""

_LISTS = ("ModuleList", "LayerList")
_SMALLEST = 2
_POINTS = 20
"""Points of a history. Source: chosen by us; 74 rows of them take 20 kB in a picture."""
_History = dict[int, tuple[float, float]]
_LEADING = re.compile(r"(?<![x\d])(\d+)(?=x)")
"""The first numbers of the shapes in a text."""


@dataclass(frozen=True)
class _Part:
    """A module, or `count` equal ones in a row, with what is below it.

    `history` has the least and the largest norm of the gradients at each inspected step.

    `modules` are those in one of them, `total` those in all, `gradients` the least and the largest norm, and `states`
    the values of a state (a share, a norm, or 1.0) in the modules at and below it, by the name of the module.
    """

    names: tuple[str, ...]
    type: str
    shape: str
    order: float
    parameters: int
    trainable: int
    modules: int
    total: int
    gradients: tuple[float, ...]
    states: dict[str, dict[str, float]]
    history: _History
    own: tuple[str, ...] = ()
    children: tuple[_Part, ...] = ()

    @property
    def pattern(self) -> str:
        """The name without its numbers: `layer#` of `layer1` and `layer2`; a head and a decoder do not repeat."""
        return re.sub(r"\d+", "#", self.names[0])

    @property
    def form(self) -> tuple[Any, ...]:
        """What is equal in parts that are drawn as one: a router gives each expert another number of rows."""
        below = tuple((child.names[0].rpartition(".")[2], len(child.names), child.form) for child in self.children)
        return self.type, _LEADING.sub("#", self.shape), self.parameters, self.trainable, below


def model_tree(model: Model, signals: Signals) -> list[dict[str, Any]]:
    """Returns the parts of a model in the order in which they run, at most `MOST_ROWS` of them; empty if not observed.

    Returns:
        Rows in the order of drawing: `depth`, `name` (from the parent on), `last` (name of the last of equal ones, ""
        for one), `count`, `type` ("" for parts without room of their own), `output` (shape), `parameters` and
        `trainable` (of one of them, with all modules in it), `inside` (modules in it that have no row), `total` (all
        modules of the row), `gradient` ([smallest, largest] norm of the gradients, or nothing), `history` (the same at
        up to 20 inspected steps, [step, smallest, largest]), `states`: list of
        {`state`, `value`, `modules` (how many have it), `name` (the worst of them)}, the worst state first.
    """
    rows = model.get("modules", [])
    if len(rows) < _SMALLEST or not any(row.get("output") for row in rows):
        return []
    key = model.get("model", 0)
    norms = _gradients(key, signals), _histories(key, signals)
    root = _build(rows, count_parameters(model), _states(key, rows, signals), *norms)
    if root is None or not root.children:
        return []
    return [_row(part, depth, parent, open_) for part, depth, parent, open_ in _choose(root)]


def _states(key: int, rows: Sequence[ModuleRow], signals: Signals) -> dict[str, dict[str, float]]:
    """Name of a module -> its states with their values."""
    found: dict[str, dict[str, float]] = {}
    for name, state, value in chain(_measured_states(key, signals), _states_of_rows(key, rows, signals)):
        found.setdefault(name, {}).setdefault(state, value)
    return found


def _measured_states(key: int, signals: Signals) -> Iterator[tuple[str, str, float]]:
    """Yield (module, state, value) of outputs and gradients."""
    every = [m for m in modules_of(signals) if m.model == key]
    for module in every:
        for state, value in _activation_values(module, every):
            yield module.name, state, value
    for state, layers in (("vanishing", vanishing_layers(signals)), ("exploding", exploding_layers(signals))):
        for parameter, norm in layers:
            if parameter.model == key:
                yield _owner(parameter.name), state, norm
    names = {p.name for p in parameters_of(signals) if p.model == key}
    for name in unreached_parameters(signals):
        if name in names:
            yield _owner(name), "no_gradient", 1.0


def _states_of_rows(key: int, rows: Sequence[ModuleRow], signals: Signals) -> Iterator[tuple[str, str, float]]:
    """Yield (module, state, value) of modules that are frozen or were not called."""
    used = _gradients(key, signals)
    ran = {row.get("name", "") for row in rows if row.get("order") is not None}
    for row in rows:
        name = row.get("name", "")
        if row.get("parameters") and not row.get("trainable"):
            yield name, "frozen", 1.0
        # The weights of a module may be used without calling it, as attention does.
        if ran and row.get("parameters") and name not in ran and name and not used.get(name):
            yield name, "not_called", 1.0


def _activation_values(module: Module, every: Sequence[Module]) -> Iterable[tuple[str, float]]:
    history = [row for _, row in module.history]
    if history and history[-1].get("bad") and module.name:
        yield "nonfinite", float(history[-1]["bad"])
    dead = dead_share(history)
    if dead is not None and dead > 0.5:
        yield "dead", dead
    saturated = saturated_share(module, every)
    if saturated is not None and saturated > 0.5:
        yield "saturated", saturated


def _gradients(key: int, signals: Signals) -> dict[str, float]:
    """Name of a module -> the median norm of the gradients of its own parameters, over the inspected steps."""
    histories = _histories(key, signals).items()
    return {name: median([norm for norm, _ in steps.values()]) for name, steps in histories if steps}


def _histories(key: int, signals: Signals) -> dict[str, _History]:
    """Name of a module -> the norm of the gradients of its own parameters at each inspected step."""
    squares: dict[str, dict[int, float]] = {}
    for parameter in parameters_of(signals):
        if parameter.model == key:
            owned = squares.setdefault(_owner(parameter.name), {})
            for step, row in parameter.history:
                norm = row.get("g")
                if norm is not None and math.isfinite(norm):
                    owned[step] = owned.get(step, 0.0) + norm**2
    return {
        name: {step: (math.sqrt(square), math.sqrt(square)) for step, square in owned.items()}
        for name, owned in squares.items()
    }


def _owner(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _build(
    rows: Sequence[ModuleRow],
    counts: dict[str, tuple[int, int]],
    states: dict[str, dict[str, float]],
    gradients: dict[str, float],
    histories: dict[str, _History],
) -> _Part | None:
    """Returns the tree of all modules, repetitions folded."""
    known = {row.get("name", ""): row for row in rows}
    below: dict[str, list[str]] = {}
    for name in known:
        if name:
            parent = name.rpartition(".")[0]
            while parent and parent not in known:
                parent = parent.rpartition(".")[0]
            below.setdefault(parent, []).append(name)
    made: dict[str, _Part] = {}
    # A child has a longer path than its parent.
    for name in sorted(known, key=lambda name: name.count(".") + bool(name), reverse=True):
        children = [made[child] for child in below.get(name, [])]
        count = counts.get(name, (0, 0))
        own = states.get(name, {}), gradients.get(name), histories.get(name, {})
        made[name] = _module(known[name], count, children, *own)
    return made.get("")


def _module(
    row: ModuleRow,
    count: tuple[int, int],
    children: Sequence[_Part],
    states: dict[str, float],
    gradient: float | None,
    history: _History,
) -> _Part:
    name, order = row.get("name", ""), row.get("order")
    orders = [child.order for child in children] + ([float(order)] if order is not None else [])
    norms, collected = _merge_parts(children)
    for state, value in states.items():
        collected.setdefault(state, {})[name] = value
    if gradient is not None:
        norms = (min(*norms, gradient), max(*norms, gradient)) if norms else (gradient, gradient)
    shapes = ["x".join(str(n) for n in each.get("shape", ())) or "scalar" for each in row.get("output", [])[:2]]
    return _Part(
        names=(name,),
        type=row.get("type", ""),
        shape=", ".join(shapes),
        order=min(orders, default=math.inf),
        parameters=count[0],
        trainable=count[1],
        modules=1 + sum(child.modules for child in children),
        total=1 + sum(child.modules for child in children),
        gradients=norms,
        states=collected,
        history=_merge_histories([*(child.history for child in children), history]),
        own=tuple(states),
        children=_fold(sorted(children, key=lambda child: child.order)),
    )


def _fold(children: Sequence[_Part]) -> tuple[_Part, ...]:
    """Joins neighbours of equal form, from blocks on; the parts of a list that are all equal replace the list."""
    found: list[_Part] = []
    for child in children:
        is_list = child.type in _LISTS and not child.own and len(child.children) == 1
        found.append(child.children[0] if is_list else child)
    if len(found) == 1:
        return tuple(found)
    return tuple(_join(list(group)) for _, group in groupby(found, key=lambda part: (part.pattern, part.form)))


def _join(parts: list[_Part], names: tuple[str, ...] = ()) -> _Part:
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    norms, states = _merge_parts(parts)
    columns = zip(*(part.children for part in parts), strict=True)
    return _Part(
        names=names or tuple(name for part in parts for name in part.names),
        type=first.type,
        shape=_join_shapes([part.shape for part in parts]),
        order=first.order,
        parameters=first.parameters,
        trainable=first.trainable,
        modules=first.modules,
        total=sum(part.total for part in parts),
        gradients=norms,
        states=states,
        history=_merge_histories([part.history for part in parts]),
        own=tuple(dict.fromkeys(state for part in parts for state in part.own)),
        # A part of equal blocks is drawn once, inside the block, with the name that it has in the first of them.
        children=tuple(_join(list(column), column[0].names) for column in columns),
    )


def _join_shapes(shapes: Sequence[str]) -> str:
    """Returns the shape of equal parts; numbers that differ as `least-greatest`."""
    columns = zip(*(_LEADING.split(shape) for shape in shapes), strict=True)
    return "".join(each[0] if len(set(each)) == 1 else f"{min(each, key=int)}-{max(each, key=int)}" for each in columns)


def _merge_parts(parts: Sequence[_Part]) -> tuple[tuple[float, ...], dict[str, dict[str, float]]]:
    norms = [norm for part in parts for norm in part.gradients]
    states: dict[str, dict[str, float]] = {}
    for part in parts:
        for state, places in part.states.items():
            states.setdefault(state, {}).update(places)
    return (min(norms), max(norms)) if norms else (), states


def _merge_histories(histories: Sequence[_History]) -> _History:
    found: _History = {}
    for step, (low, high) in (point for history in histories for point in history.items()):
        known = found.get(step, (low, high))
        found[step] = min(known[0], low), max(known[1], high)
    return found


def _omitted_part(parts: Sequence[_Part]) -> _Part:
    """Returns one part without a type for neighbours for which there is no room."""
    norms, states = _merge_parts(parts)
    return _Part(
        names=tuple(name for part in parts for name in part.names),
        type="",
        shape="",
        order=parts[0].order,
        parameters=sum(part.parameters * len(part.names) for part in parts),
        trainable=sum(part.trainable * len(part.names) for part in parts),
        modules=1,
        total=sum(part.total for part in parts),
        gradients=norms,
        states=states,
        history=_merge_histories([part.history for part in parts]),
    )


def _choose(root: _Part) -> list[tuple[_Part, int, str, bool]]:
    """Returns the parts to draw, their depth, the name of the parent, and whether the parts inside are drawn, too.

    Parts are opened level by level, those with a state first, while there is room.
    """
    drawn: dict[int, list[_Part]] = {id(root): _select_fitting(root.children)}
    level = drawn[id(root)]
    shown = len(level)
    while level and shown < MOST_ROWS:
        deeper: list[_Part] = []
        for part in sorted(level, key=lambda part: not part.states):
            if part.children and shown + len(part.children) <= MOST_ROWS:
                drawn[id(part)] = list(part.children)
                shown += len(part.children)
                deeper += part.children
        level = deeper
    found: list[tuple[_Part, int, str, bool]] = []

    def walk(part: _Part, depth: int, parent: str) -> None:
        found.append((part, depth, parent, id(part) in drawn))
        for child in drawn.get(id(part), ()):
            walk(child, depth + 1, part.names[0])

    walk(root, 0, "")
    return found


def _select_fitting(parts: Sequence[_Part]) -> list[_Part]:
    if len(parts) <= MOST_ROWS:
        return list(parts)
    half = MOST_ROWS // 2
    return [*parts[:half], _omitted_part(parts[half : len(parts) + 1 - half]), *parts[len(parts) + 1 - half :]]


def _row(part: _Part, depth: int, parent: str, is_open: bool) -> dict[str, Any]:
    # What the parts inside show is not repeated at the part around them.
    states = [state for state in STATES if (state in part.own if is_open else state in part.states)]
    worst = [(state, _worst_state(state, part.states[state])) for state in states if part.states.get(state)]
    return {
        "depth": depth,
        "name": _relative_name(part.names[0], parent),
        "last": _relative_name(part.names[-1], parent) if len(part.names) > 1 else "",
        "count": len(part.names),
        "type": part.type,
        "output": part.shape,
        "parameters": part.parameters,
        "trainable": part.trainable,
        "inside": 0 if is_open else part.modules - 1,
        "total": 1 if is_open else part.total,
        "gradient": [] if is_open else [float(f"{norm:.3g}") for norm in part.gradients],
        "history": [] if is_open else _thin(part.history),
        "states": [
            {"state": state, "value": float(f"{value:.3g}"), "modules": len(part.states[state]), "name": name}
            for state, (name, value) in worst
        ],
    }


def _thin(history: _History) -> list[list[float]]:
    """Returns points that are spread evenly, with the first and the last."""
    steps = sorted(history)
    if len(steps) > _POINTS:
        steps = [steps[place * (len(steps) - 1) // (_POINTS - 1)] for place in range(_POINTS)]
    return [[step, *(float(f"{norm:.3g}") for norm in history[step])] for step in steps]


def _worst_state(state: str, places: dict[str, float]) -> tuple[str, float]:
    least = state == "vanishing"
    return min(places.items(), key=lambda pair: pair[1] if least else -pair[1])


def _relative_name(name: str, parent: str) -> str:
    return name[len(parent) + 1 :] if parent and name.startswith(parent + ".") else name
