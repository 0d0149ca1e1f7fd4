"""Tells the tables of a PyTorch model: its modules, its parameters, and how they were initialised."""

import sys
from weakref import ref

from ..events.protocol import MODEL
from ..inspection.model_lookup import class_name
from ..wrapping import as_import_machinery, transparent_wrapper

MOST_MODULES = 400
MOST_PARAMETERS = 800
_MOST_WRITES = 100000
_OPTIONS = [
    "p",
    "negative_slope",
    "num_features",
    "eps",
    "momentum",
    "affine",
    "dim",
    "axis",
    "in_features",
    "out_features",
    "in_channels",
    "out_channels",
    "kernel_size",
    "groups",
    "bias",
    "num_embeddings",
    "embedding_dim",
    "padding_idx",
]
_INITIALISERS = [
    "uniform_",
    "normal_",
    "trunc_normal_",
    "constant_",
    "ones_",
    "zeros_",
    "eye_",
    "dirac_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "orthogonal_",
    "sparse_",
]


class ModelTable:
    """The modules and parameters of one model, numbered.

    Attributes:
        modules: id of a module -> its number.
        parameters: id of a parameter -> its number.
        names: Number of a parameter -> its name.
        key: Changes when the parameters do.
        initial: Their initial values, until they are told.
        told: Whether the `model` event was written.
    """

    def __init__(self, module):
        self.modules = {}
        self.parameters = {}
        self.names = []
        self.owners = []
        self.listed = []
        self.held = []
        self.shared = {}
        self.left = [0, 0]
        for name, one in module.named_modules():
            number = None
            if len(self.listed) < MOST_MODULES:
                number = self.modules[id(one)] = len(self.listed)
                self.listed.append((name, ref(one)))
            else:
                self.left[0] += 1
            for own, parameter in list(one._parameters.items()):
                if parameter is not None:
                    self._take("%s.%s" % (name, own) if name else own, parameter, number)
        self.key = key_of(module)
        self.initial = None
        self.told = False

    def _take(self, name, parameter, number):
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


def key_of(module):
    """What tells whether the parameters of a model are still the same ones."""
    count = total = 0
    dtypes = set()
    for parameter in module.parameters():
        count += 1
        total ^= id(parameter)
        dtypes.add(parameter.dtype)
    return (count, total, frozenset(dtypes))


class Describer:
    """Writes the `model` event.

    Args:
        torch: The module.
        stats: Looks at tensors.
        without_modes: The context to look in.
        emit: `emit(kind, **fields)` writes an event.
        writes: The calls of initialisers.
    """

    def __init__(self, torch, stats, without_modes, emit, writes):
        self.torch = torch
        self.stats = stats
        self.without_modes = without_modes
        self.emit = emit
        self.writes = writes

    def initial(self, table):
        """The initial values of the parameters, as they are now; `None` for each that cannot be read."""
        if not self.without_modes.is_possible():
            return [None] * len(table.held)
        with self.without_modes:
            return [self._initial(held()) for held in table.held]

    def _initial(self, parameter):
        if parameter is None or not parameter.numel() or not self.stats.is_plain(parameter):
            return None
        look = self.stats.look(parameter)
        told = {name: look[name] for name in ("mean", "std", "min", "max", "zero", "bad")}
        told["rows_equal"] = self._rows_equal(parameter)
        told["fan_in"] = fan_in(parameter)
        writes = self.writes.of(parameter)
        if writes:
            told["writes"] = writes
        return told

    def _rows_equal(self, parameter):
        if parameter.dim() < 2 or parameter.shape[0] < 2:
            return False
        value = parameter.detach()
        if not self.torch.equal(value[0], value[1]):
            return False
        return bool((value == value[:1]).all().item())

    def tell(self, root, table, initial, modules, spectral):
        """Writes the event.

        Args:
            root: The model.
            table: Its `ModelTable`.
            initial: From `initial`, or `None` when training had begun.
            modules: `ModuleOutputs` after the first forward, or `None` when nothing could be seen inside.
            spectral: Names of spectral norms that were evaluated first.
        """
        order = {number: at for at, number in enumerate(modules.order)} if modules is not None else {}
        facts = modules.facts if modules is not None else {}
        self.emit(
            MODEL,
            framework="torch",
            root=root.name,
            model=root.index,
            modules=[self._module(at, name, one(), order, facts) for at, (name, one) in enumerate(table.listed)],
            parameters=[self._parameter(at, table, initial) for at in range(len(table.held))],
            feeds=modules.feeds if modules is not None else [],
            shared=list(table.shared.values())[:100],
            left_out={"modules": table.left[0], "parameters": table.left[1]},
            spectral_eval_first=spectral,
        )

    def _module(self, at, name, one, order, facts):
        if one is None:
            return {"i": at, "name": name, "type": "", "depth": 0, "order": None}
        own = [p for p in list(one._parameters.values()) if p is not None]
        seen = facts.get(at, {})
        return {
            "i": at,
            "name": name,
            "type": class_name(one) if not at else type(one).__name__,
            "depth": name.count(".") + 1 if name else 0,
            "order": order.get(at),
            "parameters": sum(p.numel() for p in own),
            "trainable": sum(p.numel() for p in own if p.requires_grad),
            "options": _options(one),
            "input": seen.get("input", []),
            "output": seen.get("output", []),
        }

    def _parameter(self, at, table, initial):
        parameter = table.held[at]()
        if parameter is None:
            return {"i": at, "name": table.names[at], "shape": [], "trainable": False, "module": None, "init": None}
        told = {"i": at, "name": table.names[at], "trainable": parameter.requires_grad, "module": table.owners[at]}
        told.update(self.stats.kind(parameter))
        told["init"] = initial[at] if initial is not None else None
        return told


def fan_in(parameter):
    """Inputs of one output of a weight of two or more axes, `None` for others."""
    if parameter.dim() < 2:
        return None
    size = 1
    for length in parameter.shape[1:]:
        size *= length
    return size


def _options(module):
    """The options of a module that are plain numbers; of a bias whether there is one."""
    told = {}
    for name in _OPTIONS:
        value = module.__dict__.get(name)
        if name == "bias" and value is None and "bias" in module._parameters:
            value = module._parameters["bias"] is not None
        if type(value) in (bool, int, float, str) or (type(value) is tuple and all(type(v) is int for v in value)):
            told[name] = list(value) if type(value) is tuple else value
    return told


class InitialWrites:
    """How often initialisers were called on a tensor.

    Args:
        failed: `failed(where, error)` takes failures of ours.
    """

    def __init__(self, failed):
        self._failed = failed
        self._counts = {}
        self._depth = 0
        self.closed = False

    def of(self, parameter):
        """Name of an initialiser -> calls on this tensor."""
        known = self._counts.get(id(parameter))
        return known[1] if known is not None and known[0]() is parameter else {}

    def install(self, torch, is_compiling):
        """Watches `torch.nn.init`."""
        init = sys.modules["torch.nn.init"]
        for name in _INITIALISERS:
            original = getattr(init, name, None)
            if original is not None:
                setattr(init, name, self._watched(name, original, is_compiling))

    def _watched(self, name, original, is_compiling):
        take = self._take

        def initialise(*args, **kwargs):
            if is_compiling() or self.closed or self._depth:
                return original(*args, **kwargs)
            self._depth = 1
            try:
                return original(*args, **kwargs)
            finally:
                self._depth = 0
                take(name, args, kwargs)

        return transparent_wrapper(as_import_machinery(initialise), original)

    def _take(self, name, args, kwargs):
        try:
            tensor = args[0] if args else kwargs.get("tensor")
            if tensor is None or len(self._counts) > _MOST_WRITES:
                return
            known = self._counts.get(id(tensor))
            if known is None or known[0]() is not tensor:
                known = self._counts[id(tensor)] = (ref(tensor), {})
            known[1][name] = known[1].get(name, 0) + 1
        except Exception as error:
            self._failed("torch.init", error)
