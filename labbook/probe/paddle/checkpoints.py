"""Watches what PaddlePaddle programs load and schedule: states, learning rate schedulers, seeds in the loop."""

from math import prod

from ..events.protocol import LOADED
from ..torch.checkpoints import _NAMES, MOST_LOADS
from ..torch.checkpoints import Checkpoints as Watch
from ..training.call_site import line_of, user_frame
from ..wrapping import leave_out_one_frame, transparent_wrapper


class Checkpoints(Watch):
    """The states, schedulers and seeds of one process.

    Args:
        paddle: The module.
        emit: `emit(kind, **fields)` writes an event.
        failed: `failed(where, error)` takes failures of ours.

    Attributes:
        monitor: Tells the step; set by the eyes.
        optimizers: Gives the optimizers that exist; set by the eyes.
    """

    optimizers = tuple

    def install(self, patches):
        """Puts the wrappers in place."""
        paddle = self.torch
        layer, optimizer = paddle.nn.Layer, paddle.optimizer.Optimizer
        load = self._watched_load(layer.set_state_dict, "model")
        for name in ("set_state_dict", "set_dict", "load_dict"):
            patches.put(layer, name, load)
        load = self._watched_load(optimizer.set_state_dict, "optimizer")
        for name in ("set_state_dict", "load_state_dict"):
            if name in optimizer.__dict__:
                patches.put(optimizer, name, load)
        scheduler = paddle.optimizer.lr.LRScheduler
        patches.put(scheduler, "__init__", self._watched_scheduler(scheduler.__init__))
        seed = self._watched_seed(paddle.seed, _never)
        patches.put(paddle, "seed", seed)

    def _watched_load(self, original, what):
        begins, emit, loads = self._begins, self._emit, self._ended

        def set_state_dict(target, *args, **kwargs):
            told = begins(what, target, args, kwargs)
            try:
                result = original(target, *args, **kwargs)
            except BaseException as error:
                loads(None, emit)
                leave_out_one_frame(error)
                raise
            loads(told, emit)
            return result

        return transparent_wrapper(set_state_dict, original)

    def _begins(self, what, target, args, kwargs):
        self._depth += 1
        if self._depth > 1 or self._loads >= MOST_LOADS:
            return None
        try:
            state = args[0] if args else kwargs.get("state_dict")
            told = {"framework": "paddle", "what": what, "type": type(target).__name__, "step": self.monitor.step - 1}
            told["line"] = line_of(user_frame())
            if what == "model":
                named = args[1] if len(args) > 1 else kwargs.get("use_structured_name", True)
                own = {name if named else tensor.name: tensor for name, tensor in states_of(target).items()}
                told.update(self._compare(own, state))
            else:
                found = [name for name in state if name not in ("LR_Scheduler", "master_weights")]
                told.update(keys=len(getattr(target, "_parameter_list", None) or ()), matched=len(found))
                told.update(elements=None, alias=False)
            return told
        except Exception as error:
            self._failed("paddle.load", error)
            return None

    def _ended(self, told, emit):
        self._depth -= 1
        if told is not None:
            self._loads += 1
            emit(LOADED, **told)

    def _compare(self, own, state):
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        both = [name for name in own if name in state]
        shapes = {name: getattr(state[name], "shape", None) for name in both}
        fits = [n for n in both if shapes[n] is None or callable(shapes[n]) or list(shapes[n]) == list(own[n].shape)]
        mismatched = [name for name in both if name not in set(fits)]
        total = sum(prod(t.shape) for t in own.values())
        tensor = self.torch.Tensor
        pairs = [(own[n], state[n]) for n in fits if issubclass(type(state[n]), tensor) and prod(own[n].shape)]
        shared = [one for one, other in pairs if _address(one) and _address(one) == _address(other)]
        return {
            "keys": len(own),
            "matched": len(fits),
            "missing": missing[:_NAMES],
            "unexpected": unexpected[:_NAMES],
            "mismatched": mismatched[:_NAMES],
            "missing_n": len(missing),
            "unexpected_n": len(unexpected),
            "mismatched_n": len(mismatched),
            "elements": sum(prod(own[n].shape) for n in fits) / total if total else None,
            "alias": bool(shared) and len(shared) >= len(pairs) / 2,
        }

    def _optimizer_of(self, scheduler):
        for optimizer in self.optimizers():
            if getattr(optimizer, "_learning_rate", None) is scheduler:
                return optimizer
        return None

    def boundary(self, inside):
        """Compares the state of the random generator of the CPU with that at the step boundary before.

        Args:
            inside: Not used: that something was drawn in between is told by the count of seed calls.
        """
        state = rng_print(self.torch)
        rng, before = self.monitor.loop.rng, self._boundary
        self._boundary = state
        if before is None:
            return
        rng["checked"] += 1
        if before == state and rng["seeded"] > self._seeds:
            rng["same"] += 1
        self._seeds = rng["seeded"]


def _never():
    return False


def rng_print(paddle):
    """What tells states of the CPU generator apart: its text without the address of the engine.

    Cost: 20 microseconds.
    """
    words = str(paddle.base.core.default_cpu_generator().get_state()).split(" ")
    return hash(tuple(words[:3] + words[4:]))


def states_of(layer):
    """Name -> tensor of what a layer loads, without calling its `state_dict`, which may be the program's own."""
    own = {}
    for prefix, one in layer.named_sublayers(include_self=True):
        hidden = getattr(one, "_non_persistable_buffer_names_set", ())
        for name, tensor in list(one._parameters.items()) + list(one._buffers.items()):
            if tensor is not None and name not in hidden:
                own["%s.%s" % (prefix, name) if prefix else name] = tensor
    return own


def _address(tensor):
    return tensor.data_ptr() if tensor._is_initialized() and tensor.is_dense() else 0
