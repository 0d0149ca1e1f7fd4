"""Watches what PyTorch programs load and schedule: state dictionaries, learning rate schedulers, seeds in the loop."""

import sys

from ..inspection import checkpoints
from .framework_state import is_gpu_in_use

_SCHEDULERS = ("LRScheduler", "_LRScheduler", "SequentialLR", "ChainedScheduler", "ReduceLROnPlateau")
"""Classes whose initialiser is called for every scheduler; the others inherit it."""


class Checkpoints(checkpoints.Checkpoints):
    """The states, schedulers and seeds of one process that uses PyTorch."""

    FRAMEWORK = "torch"

    def install(self, is_compiling):
        """Puts the wrappers in place."""
        torch = self.module
        module, optimizer = torch.nn.Module, sys.modules["torch.optim.optimizer"].Optimizer
        module.load_state_dict = self._wrap_load(module.load_state_dict, "model")
        optimizer.load_state_dict = self._wrap_load(optimizer.load_state_dict, "optimizer")
        schedulers = sys.modules["torch.optim.lr_scheduler"]
        for name in _SCHEDULERS:
            kind = getattr(schedulers, name, None)
            if kind is not None and "__init__" in vars(kind):
                kind.__init__ = self._wrap_scheduler(kind.__init__)
        seed = self._wrap_seed(torch.manual_seed, is_compiling)
        torch.manual_seed = sys.modules["torch.random"].manual_seed = seed

    def _own_state(self, target, args, kwargs):
        return state_of(target)

    def _left_keys(self, fields, result):
        """Hooks of a model may rename, add or resize what they load; what did not fit in the end is in the result."""
        missing, unexpected = getattr(result, "missing_keys", None), getattr(result, "unexpected_keys", None)
        if not isinstance(missing, list) or not isinstance(unexpected, list):
            return {}
        left = {"missing": missing[: checkpoints.MOST_NAMES], "mismatched": [], "mismatched_n": 0}
        matched = max(fields["keys"] - len(missing), 0)
        return dict(left, matched=matched, missing_n=len(missing), unexpected_n=len(unexpected))

    def _optimizer_keys(self, target, state):
        found = len(state.get("state", ())) if isinstance(state, dict) else 0
        return sum(len(group["params"]) for group in target.param_groups), found

    def _shapes_agree(self, own, other):
        return own.shape == other.shape if self._is_tensor(own) and self._is_tensor(other) else None

    def _elements(self, tensor):
        return tensor.numel()

    def _address(self, tensor):
        return tensor.data_ptr() if tensor.layout.__repr__() == "torch.strided" and not tensor.is_meta else 0

    def _optimizer_of(self, scheduler):
        optimizer = getattr(scheduler, "optimizer", None)
        wrapped = getattr(optimizer, "optimizer", None)  # as in the optimizers of accelerate and Fabric
        return wrapped if hasattr(wrapped, "param_groups") else optimizer

    def _uses_gpu(self):
        return is_gpu_in_use(self.module)

    def _initial_seed(self):
        return self.module.initial_seed()

    def _random_state(self):
        return self.module.get_rng_state()

    def _equal(self, one, other):
        with self.without_modes():  # those of the program would see the call
            return self.module.equal(one, other)


def state_of(module):
    """Name -> tensor of what a module loads, without calling its `state_dict`, which may be the program's own."""
    own = dict(module.named_parameters(remove_duplicate=False))
    for prefix, one in module.named_modules(remove_duplicate=False):
        for name, buffer in one._buffers.items():
            if buffer is not None and name not in getattr(one, "_non_persistent_buffers_set", ()):
                own["%s.%s" % (prefix, name) if prefix else name] = buffer
    return own
