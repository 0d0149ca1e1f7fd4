"""Puts everything back that running a forward of a PaddlePaddle model once more would change."""

from math import prod

from ..inspection import state_snapshot
from ..inspection.model_lookup import parameters_of

MOST_COPIED = 1 << 27
"""Elements of parameters up to which all are copied, half a gigabyte; of larger models those that take no gradient."""


class StateSnapshot(state_snapshot.StateSnapshot):
    """See the base class.

    Inside it the model works on copies of its buffers, of its parameters and of its arguments: the running statistics
    of batch norms are parameters in PaddlePaddle, and a forward may change any of them in place. No names of parameters
    are used up.

    Attributes:
        leaves: The parameters that take gradients, copies and originals: the model may hold some elsewhere.
    """

    HOOKS = ("_forward_pre_hooks", "_forward_post_hooks")

    def _modules(self):
        return self.module.sublayers(include_self=True)

    def _random_states(self):
        return RandomStates(self.framework)

    def _enter_call(self):
        self.framework.base.core.default_cpu_generator().set_state(self.call.state)
        if self.call.device_states is not None:
            self.framework.set_cuda_rng_state(self.call.device_states)
        self._cast()

    def _cast(self):
        if not self.call.casts:
            return
        level, dtype = (str(value) for value in self.call.casts)
        level = level.rpartition(".")[2]
        if level in ("O1", "O2"):
            self._stack.enter_context(self.framework.amp.auto_cast(True, level=level, dtype=dtype))

    def _swap(self):
        self._stack.enter_context(self.framework.utils.unique_name.guard())
        held = [t for one, state, _ in self._states for t in (state.get("_parameters") or {}).values() if t is not None]
        few = sum(prod(tensor.shape) for tensor in held) <= MOST_COPIED
        copies = {}
        for one, state, _ in self._states:
            self._leave_out_hooks(one, state)
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
            self.leaves = [p for p in parameters_of(self.module, "_sub_layers") if not p.stop_gradient]
        self.args, self.kwargs = (
            self._copy_tensors(self.call.args, copies),
            self._copy_tensors(self.call.kwargs, copies),
        )

    def _copy_tensors(self, thing, copies, depth=0):
        """Arguments with copies of the tensors in them; what is no plain container stays as it is."""
        if issubclass(type(thing), self.framework.Tensor):
            return self._copy(thing, copies, True)
        if depth < 5 and type(thing) is dict:
            return {name: self._copy_tensors(item, copies, depth + 1) for name, item in thing.items()}
        if depth < 5 and type(thing) in (list, tuple):
            return type(thing)(self._copy_tensors(item, copies, depth + 1) for item in thing)
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
        kind = self.framework.base.framework.EagerParamBase
        twin = tensor.detach().clone()
        if issubclass(type(tensor), kind):
            twin = kind.from_tensor(twin)
            twin.__dict__.update(tensor.__dict__)
        twin.name = tensor.name
        twin.stop_gradient = tensor.stop_gradient
        return twin


class RandomStates(state_snapshot.RandomStates):
    """Puts the random states of PaddlePaddle, Python and NumPy back."""

    def __init__(self, paddle):
        self.paddle = paddle

    def _save(self):
        self._generator = self.paddle.base.core.default_cpu_generator()
        self._cpu = self._generator.get_state()
        awake = self.paddle.device.is_compiled_with_cuda() and self.paddle.device.get_device().startswith("gpu")
        self._cuda = self.paddle.get_cuda_rng_state() if awake else None

    def _restore(self):
        self._generator.set_state(self._cpu)
        if self._cuda is not None:
            self.paddle.set_cuda_rng_state(self._cuda)
