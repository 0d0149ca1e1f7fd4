"""Describes a model in tables: its modules, its parameters, and how they were initialised.

A framework's `model_table.py` lists the modules and parameters and reads options and initial values.
"""

import sys
from weakref import ref

from ..events.measurement_kinds import MODEL
from ..process.user_files import is_user_file
from .model_lookup import children_of, class_name, variable_of

_LISTS = ("ModuleList", "LayerList", "Sequential")
MOST_MODULES = 400
MOST_PARAMETERS = 800
_MOST_WRITES = 100000


class ModelTable:
    """The modules and parameters of one model, numbered.

    A framework implements `named_modules(module)`, `own_parameters(module)` and `key_of(module)`.

    Attributes:
        modules: id of a module -> its number.
        parameters: id of a parameter -> its number.
        names: Number of a parameter -> its name.
        owners: Number of a parameter -> the number of its module.
        kinds: Number of a parameter -> the class of its module.
        key: Changes when the parameters do.
        initial: Their initial values, until the event is written.
        same: For each parameter `[model, number]` of it in a model that was described before, or `None`.
        is_described: Whether the `model` event was written.
    """

    def __init__(self, module):
        self.modules = {}
        self.parameters = {}
        self.names = []
        self.owners = []
        self.listed = []
        self.held = []
        self.kinds = []
        self.shared = {}
        self.repeated = []
        self.left = [0, 0]
        self.same = []
        for name, one in self.named_modules(module):
            number = None
            if len(self.listed) < MOST_MODULES:
                number = self.modules[id(one)] = len(self.listed)
                self.listed.append((name, ref(one)))
            else:
                self.left[0] += 1
            self._find_repeats(name, one)
            for own, parameter in self.own_parameters(one):
                self._take("%s.%s" % (name, own) if name else own, parameter, number, type(one).__name__)
        self.key = self.key_of(module)
        self.initial = None
        self.is_described = False

    def link(self, tables):
        """Notes which parameters a model has that was described before: [its number, theirs in it].

        Args:
            tables: Number of a model -> its table.
        """
        known = {}
        for index, other in tables.items():
            if other is not self and other.is_described:
                known.update(
                    (id(p), [index, at]) for at, p in enumerate(held() for held in other.held) if p is not None
                )
        self.same = [known.get(id(held())) for held in self.held]

    def _find_repeats(self, name, container):
        """Notes a module that a list of modules holds several times, where it is all of them."""
        if type(container).__name__ in _LISTS:
            held = [one for one in children_of(container).values() if one is not None]
            if len(held) > 1 and all(one is held[0] for one in held):
                self.repeated.append((name, ref(held[0]), len(held)))

    def _take(self, name, parameter, number, kind):
        known = self.parameters.get(id(parameter))
        if known is not None:
            self.shared.setdefault(known, [self.names[known]]).append(name)
        elif len(self.held) >= MOST_PARAMETERS:
            self.left[1] += 1
        else:
            self.parameters[id(parameter)] = len(self.held)
            self.held.append(ref(parameter))
            self.names.append(name)
            self.owners.append(number)
            self.kinds.append(kind)


def key_of_parameters(parameters):
    """What shows whether the parameters of a model are still the same ones."""
    count = total = 0
    dtypes = set()
    for parameter in parameters:
        count += 1
        total ^= id(parameter)
        dtypes.add(parameter.dtype)
    return (count, total, frozenset(dtypes))


class Describer:
    """Writes the `model` event.

    A framework has `FLAG`, the name of the attribute by which a parameter is frozen, and implements
    `_own_parameters(module)`, `_count(parameter)`, `is_trainable(parameter)` and `_options(module)`.
    """

    FRAMEWORK = ""

    def __init__(self, stats, emit, writes):
        self.stats = stats
        self.emit = emit
        self.writes = writes

    def write_event(self, root, table, initial, modules, spectral, related):
        """Writes the event.

        Args:
            table: Its `ModelTable`.
            initial: From `initial`, or `None` when training had begun.
            modules: `ModuleOutputs` after the first forward, or `None` when nothing could be seen inside.
            spectral: Names of spectral norms that were evaluated first.
            related: Fields that name the models that it is part of or consists of.
        """
        order = {number: at for at, number in enumerate(modules.order)} if modules is not None else {}
        facts = modules.facts if modules is not None else {}
        self.emit(
            MODEL,
            framework=self.FRAMEWORK,
            root=root.name,
            variable=variable_of(root.module()),
            model=root.index,
            modules=[self._module(at, name, held(), order, facts) for at, (name, held) in enumerate(table.listed)],
            parameters=[self._parameter(at, table, initial) for at in range(len(table.held))],
            feeds=modules.feeds if modules is not None else [],
            shared=list(table.shared.values())[:100],
            repeated=[[name, table.modules.get(id(held()), -1), times] for name, held, times in table.repeated[:20]],
            left_out={"modules": table.left[0], "parameters": table.left[1]},
            spectral_eval_first=spectral,
            **related,
        )

    def _module(self, at, name, one, order, facts):
        own = self._own_parameters(one) if one is not None else []
        seen = facts.get(at, {})
        return {
            "i": at,
            "name": name,
            "type": _class_of(one, at),
            "package": _package_of(one),
            "depth": name.count(".") + 1 if name else 0,
            "order": order.get(at),
            "parameters": sum(self._count(p) for p in own),
            "trainable": sum(self._count(p) for p in own if self.is_trainable(p)),
            "options": self._options(one) if one is not None else {},
            "input": seen.get("input", []),
            "output": seen.get("output", []),
            **{name: seen[name] for name in ("view_of", "steps_read") if name in seen},
        }

    def _parameter(self, at, table, initial):
        parameter = table.held[at]()
        if parameter is None:
            return {"i": at, "name": table.names[at], "shape": [], "trainable": False, "module": None, "init": None}
        fields = {"i": at, "name": table.names[at], "trainable": self.is_trainable(parameter)}
        if table.same[at] is not None:
            fields["same"] = table.same[at]
        fields["module"] = table.owners[at]
        fields.update(self.stats.kind(parameter))
        fields["init"] = initial[at] if initial is not None else None
        return fields

    def _initial_fields(self, parameter, look, rows_equal, fan_in):
        """Fields of the initial values of one parameter."""
        fields = {name: look[name] for name in ("mean", "std", "min", "max", "zero", "bad")}
        fields.update(rows_equal=rows_equal, fan_in=fan_in)
        writes = self.writes.count_writes(parameter)
        if writes:
            fields["writes"] = writes
        return fields


def _class_of(module, at):
    if module is None:  # gone since its model was called
        return ""
    return type(module).__name__ if at else class_name(module)


def _package_of(module):
    """The package with the class of a module, such as "torch" or "transformers"; "" if it is the user's own."""
    home = type(module).__module__
    file = getattr(sys.modules.get(home), "__file__", None)
    return "" if module is None or not file or is_user_file(file) else home.partition(".")[0]


class InitialWrites:
    """How often initialisers were called on a tensor.

    Args:
        failed: `failed(where, error)` takes failures of ours.

    Attributes:
        FRAMEWORK: Name of the framework in failures.
        ARGUMENT: Name of the argument of an initialiser that is the tensor.
        closed: Whether training has begun, so that nothing is counted any more.
    """

    FRAMEWORK = ""
    ARGUMENT = "tensor"

    def __init__(self, failed):
        self._failed = failed
        self._counts = {}
        self._depth = 0
        self.closed = False

    def count_writes(self, parameter):
        """Name of an initialiser -> most calls on this tensor with the same numbers.

        One that is called with a scale of its own after a general one, as for residual branches, writes on purpose.
        """
        known = self._counts.get(id(parameter))
        most = {}
        if known is not None and known[0]() is parameter:
            for (name, _), times in known[1].items():
                most[name] = max(times, most.get(name, 0))
        return most

    def _take(self, name, args, kwargs):
        try:
            tensor = args[0] if args else kwargs.get(self.ARGUMENT)
            if tensor is None or len(self._counts) > _MOST_WRITES:
                return
            known = self._counts.get(id(tensor))
            if known is None or known[0]() is not tensor:
                known = self._counts[id(tensor)] = (ref(tensor), {})
            numbers = [value for value in (*args[1:], *kwargs.values()) if type(value) in (int, float)]
            key = name, tuple(numbers)
            known[1][key] = known[1].get(key, 0) + 1
        except Exception as error:
            self._failed(self.FRAMEWORK + ".init", error)
