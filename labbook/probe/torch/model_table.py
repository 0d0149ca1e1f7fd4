"""Describes a PyTorch model in tables: its modules, its parameters, and how they were initialised."""

import sys

from ..inspection import model_table
from ..inspection.model_table import key_of_parameters
from ..wrapping import as_import_machinery, leave_out_one_frame, transparent_wrapper
from .framework_state import count_elements

_OPTIONS = [
    "p", "negative_slope", "num_features", "eps", "momentum", "affine", "dim", "axis", "in_features",
    "out_features", "in_channels", "out_channels", "kernel_size", "groups", "bias", "num_embeddings",
    "embedding_dim", "padding_idx", "batch_first", "bidirectional", "hidden_size", "num_layers",
]  # fmt: skip
_INITIALISERS = [
    "uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_", "eye_", "dirac_", "xavier_uniform_",
    "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_",
]  # fmt: skip


class ModelTable(model_table.ModelTable):
    """The modules and parameters of one PyTorch model, numbered."""

    def named_modules(self, module):
        """`(name, module)` of a model and all modules below it."""
        return module.named_modules()

    def own_parameters(self, module):
        """`(name, parameter)` of a module itself."""
        return [(name, p) for name, p in list(module._parameters.items()) if p is not None]

    def key_of(self, module):
        """What shows whether the parameters of a model are still the same ones."""
        return key_of(module)


def key_of(module):
    """What shows whether the parameters of a model are still the same ones."""
    return key_of_parameters(module.parameters())


class Describer(model_table.Describer):
    """Writes the `model` event of PyTorch models."""

    FRAMEWORK = "torch"
    FLAG = "requires_grad"

    def __init__(self, torch, stats, without_modes, emit, writes):
        super().__init__(stats, emit, writes)
        self.torch = torch
        self.without_modes = without_modes

    def initial(self, table):
        """The initial values of the parameters, as they are now; `None` for each that cannot be read."""
        if not self.without_modes.is_possible():
            return [None] * len(table.held)
        with self.without_modes:
            return [self._initial(held()) for held in table.held]

    def _initial(self, parameter):
        if parameter is None or not parameter.numel() or not self.stats.is_plain(parameter):
            return None
        look = self.stats.inspect(parameter)
        return self._initial_fields(parameter, look, self._rows_equal(parameter), fan_in(parameter))

    def _rows_equal(self, parameter):
        if parameter.dim() < 2 or parameter.shape[0] < 2:
            return False
        value = parameter.detach()
        if not self.torch.equal(value[0], value[1]):
            return False
        return bool((value == value[:1]).all().item())

    def _module(self, at, name, one, order, facts):
        if one is None:
            return {"i": at, "name": name, "type": "", "depth": 0, "order": None}
        return super()._module(at, name, one, order, facts)

    def _own_parameters(self, module):
        return [p for p in list(module._parameters.values()) if p is not None]

    def _count(self, parameter):
        return count_elements(parameter)

    def is_trainable(self, parameter):
        """Whether a parameter is not frozen."""
        return parameter.requires_grad

    def _options(self, module):
        return _options(module)


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
    fields = {}
    for name in _OPTIONS:
        value = module.__dict__.get(name)
        if name == "bias" and value is None and "bias" in module._parameters:
            value = module._parameters["bias"] is not None
        if type(value) in (bool, int, float, str) or (type(value) is tuple and all(type(v) is int for v in value)):
            fields[name] = list(value) if type(value) is tuple else value
    return fields


class InitialWrites(model_table.InitialWrites):
    """How often the functions of `torch.nn.init` were called on a tensor."""

    FRAMEWORK = "torch"

    def install(self, torch, is_compiling):
        """Watches `torch.nn.init`."""
        init = sys.modules["torch.nn.init"]
        for name in _INITIALISERS:
            original = getattr(init, name, None)
            if original is not None:
                setattr(init, name, self._wrap(name, original, is_compiling))

    def _wrap(self, name, original, is_compiling):
        take = self._take

        def initialise(*args, **kwargs):
            if is_compiling():
                return original(*args, **kwargs)
            observed = not (self.closed or self._depth)
            self._depth += observed
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise
            finally:
                self._depth -= observed
                if observed:
                    take(name, args, kwargs)

        return transparent_wrapper(as_import_machinery(initialise), original)
