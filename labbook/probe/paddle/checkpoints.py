"""Watches what PaddlePaddle programs load and schedule: states, learning rate schedulers, seeds in the loop."""

from math import prod

from ..inspection import checkpoints
from ..inspection.checkpoints import scheduler_steps
from .framework_state import is_gpu_in_use


class Checkpoints(checkpoints.Checkpoints):
    """The states, schedulers and seeds of one process that uses PaddlePaddle.

    Attributes:
        optimizers: Gives the optimizers that exist; set by the inspector.
    """

    FRAMEWORK = "paddle"
    optimizers = tuple

    def install(self, patches):
        """Puts the wrappers in place."""
        paddle = self.module
        layer, optimizer = paddle.nn.Layer, paddle.optimizer.Optimizer
        load = self._wrap_load(layer.set_state_dict, "model")
        for name in ("set_state_dict", "set_dict", "load_dict"):
            patches.replace(layer, name, load)
        load = self._wrap_load(optimizer.set_state_dict, "optimizer")
        for name in ("set_state_dict", "load_state_dict"):
            if name in optimizer.__dict__:
                patches.replace(optimizer, name, load)
        rates = paddle.optimizer.lr
        for scheduler in (rates.LRScheduler, rates.ReduceOnPlateau):  # the latter does not call the former
            patches.replace(scheduler, "__init__", self._wrap_scheduler(scheduler.__init__))
        seed = self._wrap_seed(paddle.seed, _always_false)
        patches.replace(paddle, "seed", seed, in_static=True)

    def _own_state(self, target, args, kwargs):
        by_path = args[1] if len(args) > 1 else kwargs.get("use_structured_name", True)
        return {name if by_path else tensor.name: tensor for name, tensor in states_of(target).items()}

    def _optimizer_keys(self, target, state):
        found = [name for name in state if name not in ("LR_Scheduler", "master_weights")]
        return len(getattr(target, "_parameter_list", None) or ()), len(found)

    def _shapes_agree(self, own, other):
        shape = getattr(other, "shape", None)
        return shape is None or callable(shape) or list(shape) == list(own.shape)

    def _elements(self, tensor):
        return prod(tensor.shape)

    def _address(self, tensor):
        return tensor.data_ptr() if tensor._is_initialized() and tensor.is_dense() else 0

    def _optimizer_of(self, scheduler):
        for optimizer in self.optimizers():
            if getattr(optimizer, "_learning_rate", None) is scheduler:
                return optimizer
        return None

    def idle_schedulers(self, owners):
        """Schedulers that were stepped by the program itself and that no optimizer uses."""
        found = [(held(), begun) for held, begun in self._schedulers]
        known = [scheduler for scheduler, _ in found if scheduler is not None]
        used = [getattr(optimizer, "_learning_rate", None) for optimizer in (*owners, *self.optimizers())]
        used += [value for one in known for value in vars(one).values()]  # a warm-up steps the one inside it
        return [
            {"type": type(scheduler).__name__, "steps": scheduler_steps(scheduler, begun), "loose": True}
            for scheduler, begun in found
            if scheduler is not None and not any(scheduler is one for one in used)
        ]

    def _uses_gpu(self):
        return is_gpu_in_use(self.module)

    def _initial_seed(self):
        return self.module.base.core.default_cpu_generator().initial_seed()

    def _random_state(self):
        # The text of the state without the address of the engine; 20 microseconds.
        words = str(self.module.base.core.default_cpu_generator().get_state()).split(" ")
        return hash(tuple(words[:3] + words[4:]))


def _always_false():
    return False


def states_of(layer):
    """Name -> tensor of what a layer loads, without calling its `state_dict`, which may be the program's own."""
    own = {}
    for prefix, one in layer.named_sublayers(include_self=True):
        hidden = getattr(one, "_non_persistable_buffer_names_set", ())
        for name, tensor in list(one._parameters.items()) + list(one._buffers.items()):
            if tensor is not None and name not in hidden:
                own["%s.%s" % (prefix, name) if prefix else name] = tensor
    return own
