"""Puts everything back that running a forward of a PaddlePaddle model once more would change."""

import random
import sys
from collections import OrderedDict
from contextlib import ExitStack

from .torch_restore import _contents as contents
from .torch_restore import _Quiet as Quiet
from .torch_restore import _refill as refill

_HOOKS = ("_forward_pre_hooks", "_forward_post_hooks")


class Restored:
    """A context in which a model may run once more, with the arguments and the random state of a call.

    Inside it the model works on copies of its buffers and of parameters that are not trained: the running statistics of
    batch norms are such parameters in PaddlePaddle. The program's own hooks do not run.

    Args:
        paddle: The module.
        layer: The model.
        call: The `Call`.
    """

    def __init__(self, paddle, layer, call):
        self.paddle = paddle
        self.layer = layer
        self.call = call

    def __enter__(self):
        self._stack = ExitStack()
        self._stack.__enter__()
        try:
            self._stack.enter_context(RandomStates(self.paddle))
            self._stack.enter_context(Quiet())
            layers = self.layer.sublayers(include_self=True)
            self._states = [(one, dict(one.__dict__), contents(one.__dict__)) for one in layers]
            self._stack.callback(self._put_back)
            self._swap()
            self.paddle.base.core.default_cpu_generator().set_state(self.call.state)
            if self.call.device_states is not None:
                self.paddle.set_cuda_rng_state(self.call.device_states)
            self._cast()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error):
        self._stack.close()

    def _cast(self):
        if self.call.cast is None:
            return
        level, dtype = (str(value) for value in self.call.cast)
        level = level.rpartition(".")[2]
        if level in ("O1", "O2"):
            self._stack.enter_context(self.paddle.amp.auto_cast(True, level=level, dtype=dtype))

    def _swap(self):
        copies = {}
        for one, state, _ in self._states:
            for name in _HOOKS:
                if state.get(name):
                    kept = [(key, hook) for key, hook in state[name].items() if _is_of_paddle(hook)]
                    one.__dict__[name] = OrderedDict(kept)
            for name, frozen_only in (("_parameters", True), ("_buffers", False)):
                held = state.get(name)
                if held is not None:
                    pairs = [(key, _copy(value, copies, frozen_only)) for key, value in held.items()]
                    one.__dict__[name] = type(held)(pairs)

    def _put_back(self):
        for one, state, kept in self._states:
            one.__dict__.clear()
            one.__dict__.update(state)
            for container, copy in kept:
                refill(container, copy)


def _is_of_paddle(hook):
    """Whether a hook belongs to PaddlePaddle, like weight normalisation; those of the program are not run again."""
    owner = getattr(hook, "__module__", None) or type(hook).__module__
    return str(owner).startswith("paddle.")


def _copy(tensor, copies, frozen_only):
    if tensor is None or (frozen_only and not tensor.stop_gradient) or not tensor._is_initialized():
        return tensor
    if id(tensor) not in copies:
        copies[id(tensor)] = tensor.detach().clone()
    return copies[id(tensor)]


class RandomStates:
    """Puts the random states of PaddlePaddle, Python and NumPy back."""

    def __init__(self, paddle):
        self.paddle = paddle

    def __enter__(self):
        self._generator = self.paddle.base.core.default_cpu_generator()
        self._cpu = self._generator.get_state()
        awake = self.paddle.device.is_compiled_with_cuda() and self.paddle.device.get_device().startswith("gpu")
        self._cuda = self.paddle.get_cuda_rng_state() if awake else None
        self._python = random.getstate()
        self._numpy = sys.modules["numpy"].random
        self._state = self._numpy.get_state()

    def __exit__(self, *error):
        self._generator.set_state(self._cpu)
        if self._cuda is not None:
            self.paddle.set_cuda_rng_state(self._cuda)
        random.setstate(self._python)
        self._numpy.set_state(self._state)
