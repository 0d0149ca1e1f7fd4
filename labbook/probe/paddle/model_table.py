"""Tells the tables of a PaddlePaddle model: its layers, its parameters, and how they were initialised."""

from math import prod
from weakref import ref

from ..events.protocol import MODEL
from ..inspection.model_lookup import class_name, parameters_of
from ..wrapping import transparent_wrapper
from .root_modules import is_statistic

MOST_MODULES = 400
MOST_PARAMETERS = 800
_MOST_WRITES = 100000
_OPTIONS = {
    "p": "p",
    "negative_slope": "_negative_slope",
    "num_features": "_num_features",
    "eps": "_epsilon",
    "momentum": "_momentum",
    "axis": "_axis",
    "dim": "_axis",
    "in_features": "in_features",
    "out_features": "out_features",
    "in_channels": "_in_channels",
    "out_channels": "_out_channels",
    "kernel_size": "_kernel_size",
    "groups": "_groups",
    "num_embeddings": "_num_embeddings",
    "embedding_dim": "_embedding_dim",
    "padding_idx": "_padding_idx",
}
"""Name of an option in the protocol -> attribute of a layer. `momentum` keeps PaddlePaddle's meaning: 0.9 is 0.1 in
PyTorch, so it is told as PyTorch has it."""


class ModelTable:
    """The layers and parameters of one model, numbered. Running statistics of batch norms are no parameters here.

    Attributes:
        modules: id of a layer -> its number.
        parameters: id of a parameter -> its number.
        names: Number of a parameter -> its name.
        owners: Number of a parameter -> the number of its layer.
        key: Changes when the parameters do.
    """

    def __init__(self, layer):
        self.modules = {}
        self.parameters = {}
        self.names = []
        self.owners = []
        self.listed = []
        self.held = []
        self.kinds = []
        self.shared = {}
        self.left = [0, 0]
        for name, one in layer.named_sublayers(include_self=True):
            number = None
            if len(self.listed) < MOST_MODULES:
                number = self.modules[id(one)] = len(self.listed)
                self.listed.append((name, ref(one)))
            else:
                self.left[0] += 1
            for own, parameter in own_parameters(one):
                self._take("%s.%s" % (name, own) if name else own, parameter, number, type(one).__name__)
        self.key = key_of(layer)

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


def own_parameters(layer):
    """`(name, parameter)` of a layer itself, without running statistics."""
    found = list(layer.__dict__.get("_parameters", {}).items())
    return [(name, p) for name, p in found if p is not None and not is_statistic(layer, name)]


def key_of(layer):
    """What tells whether the parameters of a model are still the same ones."""
    count = total = 0
    dtypes = set()
    for parameter in parameters_of(layer, "_sub_layers"):
        count += 1
        total ^= id(parameter)
        dtypes.add(parameter.dtype)
    return (count, total, frozenset(dtypes))


class Describer:
    """Writes the `model` event.

    Args:
        stats: Looks at tensors.
        emit: `emit(kind, **fields)` writes an event.
        writes: The calls of initialisers.
    """

    def __init__(self, stats, emit, writes):
        self.stats = stats
        self.emit = emit
        self.writes = writes

    def initial(self, table):
        """The initial values of the parameters, as they are now; `None` for each that cannot be read."""
        return [self._initial(held(), kind) for held, kind in zip(table.held, table.kinds)]

    def _initial(self, parameter, kind):
        view = self.stats.view(parameter) if parameter is not None else None
        if view is None or not view.size:
            return None
        look = self.stats.stats(view)
        told = {name: look[name] for name in ("mean", "std", "min", "max", "zero", "bad")}
        last = has_outputs_last(parameter, kind)
        whole = view.shape == tuple(parameter.shape)
        told["rows_equal"] = self.stats.rows_equal(view, last) if whole else False
        told["fan_in"] = fan_in(parameter, last)
        writes = self.writes.of(parameter)
        if writes:
            told["writes"] = writes
        return told

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
            framework="paddle",
            root=root.name,
            model=root.index,
            modules=[self._module(at, name, held(), order, facts) for at, (name, held) in enumerate(table.listed)],
            parameters=[self._parameter(at, table, initial) for at in range(len(table.held))],
            feeds=modules.feeds if modules is not None else [],
            shared=list(table.shared.values())[:100],
            left_out={"modules": table.left[0], "parameters": table.left[1]},
            spectral_eval_first=spectral,
        )

    def _module(self, at, name, one, order, facts):
        own = [p for _, p in own_parameters(one)] if one is not None else []
        seen = facts.get(at, {})
        return {
            "i": at,
            "name": name,
            "type": _kind(one, at),
            "depth": name.count(".") + 1 if name else 0,
            "order": order.get(at),
            "parameters": sum(prod(p.shape) for p in own),
            "trainable": sum(prod(p.shape) for p in own if not p.stop_gradient),
            "options": options(one) if one is not None else {},
            "input": seen.get("input", []),
            "output": seen.get("output", []),
        }

    def _parameter(self, at, table, initial):
        parameter = table.held[at]()
        if parameter is None:
            return {"i": at, "name": table.names[at], "shape": [], "trainable": False, "module": None, "init": None}
        told = {"i": at, "name": table.names[at], "trainable": not parameter.stop_gradient, "module": table.owners[at]}
        told.update(self.stats.kind(parameter))
        told["init"] = initial[at] if initial is not None else None
        return told


def _kind(layer, at):
    if layer is None:  # gone since its model was called
        return ""
    return type(layer).__name__ if at else class_name(layer)


def has_outputs_last(parameter, kind):
    """Whether the outputs of a weight lie along its last axis: in `Linear` they do, in convolutions along the first."""
    return len(parameter.shape) == 2 and "Embedding" not in kind and "Cell" not in kind and "LSTM" not in kind


def fan_in(parameter, last):
    """Inputs of one output of a weight of two or more axes, `None` for others."""
    shape = list(parameter.shape)
    if len(shape) < 2:
        return None
    return shape[0] if last else prod(shape[1:])


def options(layer):
    """The options of a layer that are plain numbers; of a bias whether there is one."""
    told = {}
    for name, attribute in _OPTIONS.items():
        value = layer.__dict__.get(attribute)
        if type(value) in (tuple, list) and all(type(v) is int for v in value):
            told[name] = list(value)
        elif type(value) in (bool, int, float, str):
            told[name] = value
    own = layer.__dict__.get("_parameters", {})
    if "momentum" in told and "_mean" in own:
        told["momentum"] = round(1.0 - told["momentum"], 9)
    if "bias" in own:
        told["bias"] = own["bias"] is not None
    weight = own.get("weight")
    if type(layer).__name__ == "Linear" and weight is not None and len(weight.shape) == 2:
        told["in_features"], told["out_features"] = list(weight.shape)
    return told


class InitialWrites:
    """How often initialisers were called on a tensor.

    Args:
        failed: `failed(where, error)` takes failures of ours.
    """

    def __init__(self, failed):
        self._failed = failed
        self._counts = {}
        self.closed = False

    def of(self, parameter):
        """Name of an initialiser -> calls on this tensor."""
        known = self._counts.get(id(parameter))
        return known[1] if known is not None and known[0]() is parameter else {}

    def install(self, paddle, patches):
        """Watches the call that all initialisers share."""
        kind = paddle.nn.initializer.Initializer
        original, take = kind.__call__, self._take

        def called(initialiser, *args, **kwargs):
            result = original(initialiser, *args, **kwargs)
            if not self.closed:
                take(type(initialiser).__name__, args, kwargs)
            return result

        patches.put(kind, "__call__", transparent_wrapper(called, original))

    def _take(self, name, args, kwargs):
        try:
            tensor = args[0] if args else kwargs.get("param")
            if tensor is None or len(self._counts) > _MOST_WRITES:
                return
            known = self._counts.get(id(tensor))
            if known is None or known[0]() is not tensor:
                known = self._counts[id(tensor)] = (ref(tensor), {})
            name = name.replace("Initializer", "")
            known[1][name] = known[1].get(name, 0) + 1
        except Exception as error:
            self._failed("paddle.init", error)
