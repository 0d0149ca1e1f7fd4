"""Describes a PaddlePaddle model in tables: its layers, its parameters, and how they were initialised."""

from math import prod

from ..inspection import model_table
from ..inspection.model_lookup import parameters_of
from ..inspection.model_table import key_of_parameters
from ..wrapping import transparent_wrapper
from .root_modules import is_statistic

_OPTIONS = {
    "p": "p", "negative_slope": "_negative_slope", "num_features": "_num_features", "eps": "_epsilon",
    "momentum": "_momentum", "axis": "_axis", "dim": "_axis", "in_features": "in_features",
    "out_features": "out_features", "in_channels": "_in_channels", "out_channels": "_out_channels",
    "kernel_size": "_kernel_size", "groups": "_groups", "num_embeddings": "_num_embeddings",
    "embedding_dim": "_embedding_dim", "padding_idx": "_padding_idx",
    "hidden_size": "hidden_size", "num_layers": "num_layers",
}  # fmt: skip
"""Name of an option in the protocol -> attribute of a layer. `momentum` keeps PaddlePaddle's meaning: 0.9 is 0.1 in
PyTorch, so it is recorded as in PyTorch."""


class ModelTable(model_table.ModelTable):
    """The layers and parameters of one model, numbered. Running statistics of batch norms are no parameters here."""

    def named_modules(self, module):
        """`(name, layer)` of a model and all layers below it."""
        return module.named_sublayers(include_self=True)

    def own_parameters(self, module):
        """`(name, parameter)` of a layer itself, without running statistics."""
        return own_parameters(module)

    def key_of(self, module):
        """What shows whether the parameters of a model are still the same ones."""
        return key_of(module)


def own_parameters(layer):
    """`(name, parameter)` of a layer itself, without running statistics."""
    found = list(layer.__dict__.get("_parameters", {}).items())
    return [(name, p) for name, p in found if p is not None and not is_statistic(layer, name)]


def key_of(layer):
    """What shows whether the parameters of a model are still the same ones."""
    return key_of_parameters(parameters_of(layer, "_sub_layers"))


class Describer(model_table.Describer):
    """Writes the `model` event of PaddlePaddle models."""

    FRAMEWORK = "paddle"
    FLAG = "stop_gradient"

    def initial(self, table):
        """The initial values of the parameters, as they are now; `None` for each that cannot be read."""
        return [self._initial(held(), kind) for held, kind in zip(table.held, table.kinds)]

    def _initial(self, parameter, kind):
        view = self.stats.view(parameter) if parameter is not None else None
        if view is None or not view.size:
            return None
        look = self.stats.stats(view)
        last = has_outputs_last(parameter, kind)
        whole = view.shape == tuple(parameter.shape)
        rows_equal = self.stats.rows_equal(view, last) if whole else False
        return self._initial_fields(parameter, look, rows_equal, fan_in(parameter, last))

    def _own_parameters(self, module):
        return [p for _, p in own_parameters(module)]

    def _count(self, parameter):
        return prod(parameter.shape)

    def is_trainable(self, parameter):
        """Whether a parameter is not frozen."""
        return not parameter.stop_gradient

    def _options(self, module):
        return options(module)


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
    fields = {}
    for name, attribute in _OPTIONS.items():
        value = layer.__dict__.get(attribute)
        if type(value) in (tuple, list) and all(type(v) is int for v in value):
            fields[name] = list(value)
        elif type(value) in (bool, int, float, str):
            fields[name] = value
    if type(layer.__dict__.get("time_major")) is bool:
        fields.update(batch_first=not layer.time_major, bidirectional=getattr(layer, "num_directions", 1) > 1)
    own = layer.__dict__.get("_parameters", {})
    if "momentum" in fields and "_mean" in own:
        fields["momentum"] = round(1.0 - fields["momentum"], 9)
    if "bias" in own:
        fields["bias"] = own["bias"] is not None
    weight = own.get("weight")
    if type(layer).__name__ == "Linear" and weight is not None and len(weight.shape) == 2:
        fields["in_features"], fields["out_features"] = list(weight.shape)
    return fields


class InitialWrites(model_table.InitialWrites):
    """How often initialisers of PaddlePaddle were called on a tensor."""

    FRAMEWORK = "paddle"
    ARGUMENT = "param"

    def install(self, paddle, patches):
        """Watches the call that all initialisers share."""
        kind = paddle.nn.initializer.Initializer
        original, take = kind.__call__, self._take

        def call_initialiser(initialiser, *args, **kwargs):
            result = original(initialiser, *args, **kwargs)
            if not self.closed:
                take(type(initialiser).__name__.replace("Initializer", ""), args, kwargs)
            return result

        patches.replace(kind, "__call__", transparent_wrapper(call_initialiser, original))
