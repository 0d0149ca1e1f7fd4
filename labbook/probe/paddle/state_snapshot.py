"""Puts everything back that running a forward of a PaddlePaddle model once more would change."""

import random
import sys
from collections import OrderedDict
from contextlib import ExitStack
from math import prod

from ..inspection.model_lookup import parameters_of
from ..torch.state_snapshot import _contents as contents
from ..torch.state_snapshot import _Quiet as Quiet
from ..torch.state_snapshot import _refill as refill

MOST_COPIED = 1 << 27
"""Elements of parameters up to which all are copied, half a gigabyte; of larger models those that take no gradient."""

_HOOKS = ("_forward_pre_hooks", "_forward_post_hooks")


class StateSnapshot:
    """A context in which a model may run once more, with the arguments and the random state of a call.

    Inside it the model works on copies of its buffers, of its parameters and of its arguments: the running statistics
    of batch norms are parameters in PaddlePaddle, and a forward may change any of them in place. The program's own
    hooks do not run, and no names of parameters are used up.

    Args:
        paddle: The module.
        layer: The model.
        call: The `RecordedCall`.

    Attributes:
        args: Copies of the arguments.
        kwargs: Copies of the named ones.
        leaves: The parameters that take gradients, copies and originals: the model may hold some elsewhere.
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
            self._stack.enter_context(self.paddle.utils.unique_name.guard())
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
        held = [t for one, state, _ in self._states for t in (state.get("_parameters") or {}).values() if t is not None]
        few = sum(prod(tensor.shape) for tensor in held) <= MOST_COPIED
        copies = {}
        for one, state, _ in self._states:
            for name in _HOOKS:
                if state.get(name):
                    kept = [(key, hook) for key, hook in state[name].items() if _is_of_paddle(hook)]
                    one.__dict__[name] = OrderedDict(kept)
            for name, every in (("_parameters", few), ("_buffers", True)):
                held = state.get(name)
                if held is not None:
                    pairs = [(key, self._copy(value, copies, every)) for key, value in held.items()]
                    one.__dict__[name] = type(held)(pairs)
        for one, state, _ in self._states:
            for name, value in state.items():
                # Recurrent layers keep their weights in a list, too.
                if type(value) in (list, tuple) and any(id(item) in copies for item in value):
                    one.__dict__[name] = type(value)(copies.get(id(item), (item, item))[1] for item in value)
        trained = [pair for pair in copies.values() if not pair[0].stop_gradient]
        self.leaves = [tensor for pair in trained for tensor in pair] if few else []
        if not few:
            self.leaves = [p for p in parameters_of(self.layer, "_sub_layers") if not p.stop_gradient]
        self.args, self.kwargs = self._copied(self.call.args, copies), self._copied(self.call.kwargs, copies)

    def _copied(self, thing, copies, depth=0):
        """Arguments with copies of the tensors in them; what is no plain container stays as it is."""
        if issubclass(type(thing), self.paddle.Tensor):
            return self._copy(thing, copies, True)
        if depth < 5 and type(thing) is dict:
            return {name: self._copied(item, copies, depth + 1) for name, item in thing.items()}
        if depth < 5 and type(thing) in (list, tuple):
            return type(thing)(self._copied(item, copies, depth + 1) for item in thing)
        return thing

    def _copy(self, tensor, copies, every):
        """A copy of a tensor, the same one each time; the tensor itself where it is trained and not `every` is."""
        if tensor is None or not (every or tensor.stop_gradient) or not tensor._is_initialized():
            return tensor
        if tensor.is_dist() or not tensor.is_dense():
            return tensor
        if id(tensor) not in copies:
            copies[id(tensor)] = (tensor, self._twin(tensor))
        return copies[id(tensor)][1]

    def _twin(self, tensor):
        kind = self.paddle.base.framework.EagerParamBase
        twin = tensor.detach().clone()
        if issubclass(type(tensor), kind):
            twin = kind.from_tensor(twin)
            twin.__dict__.update(tensor.__dict__)
        twin.name = tensor.name
        twin.stop_gradient = tensor.stop_gradient
        return twin

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
