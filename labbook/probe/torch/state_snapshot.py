"""Puts everything back that running a forward of a PyTorch model once more would change."""

from ..inspection import state_snapshot


class StateSnapshot(state_snapshot.StateSnapshot):
    """See the base class.

    Inside it the model works on copies of its buffers and on aliases of its parameters, so that neither their values,
    versions, gradients nor hooks are touched.

    Args:
        module: The model.
        call: The `RecordedCall`.
        calls: The `ModuleCalls` of the process.
        observer: Observes the modules in place of the others.
        graph: Whether the aliases need gradients.
    """

    HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")

    def __init__(self, torch, module, call, calls, observer=None, graph=False):
        super().__init__(torch, module, call)
        self.calls = calls
        self.observer = observer
        self.graph = graph

    def _modules(self):
        return list(self.module.modules())

    def _random_states(self):
        return _RandomStates(self.framework)

    def _swap(self):
        aliases, copies = {}, {}
        for one, state, _ in self._states:
            self._leave_out_hooks(one, state)
            one.__dict__["_parameters"] = type(state["_parameters"])(
                (name, self._alias(p, aliases)) for name, p in state["_parameters"].items()
            )
            one.__dict__["_buffers"] = type(state["_buffers"])(
                (name, _copy(b, copies)) for name, b in state["_buffers"].items()
            )

    def _enter_call(self):
        torch, call = self.framework, self.call
        self._stack.enter_context(self.calls.replace_observers(self._modules(), self.observer))
        if call.state is not None:
            torch.set_rng_state(call.state)
        for index, state in enumerate(call.device_states or ()):
            torch.cuda.set_rng_state(state, index)
        for device, dtype, cache in call.casts or ():
            self._stack.enter_context(torch.autocast(device, dtype=dtype, cache_enabled=cache))

    def _alias(self, parameter, aliases):
        if parameter is None:
            return None
        known = aliases.get(id(parameter))
        if known is None:
            needs_grad = parameter.requires_grad and self.graph
            alias = self.framework.nn.Parameter(parameter.detach(), requires_grad=needs_grad)
            known = aliases[id(parameter)] = alias
        return known


def _copy(buffer, copies):
    if buffer is None:
        return None
    if id(buffer) not in copies:
        copies[id(buffer)] = buffer.detach().clone()
    return copies[id(buffer)]


class _RandomStates(state_snapshot.RandomStates):
    def __init__(self, torch):
        self.torch = torch

    def _save(self):
        self._cpu = self.torch.get_rng_state()
        cuda = self.torch.cuda
        self._cuda = [cuda.get_rng_state(i) for i in range(cuda.device_count())] if cuda.is_initialized() else []

    def _restore(self):
        self.torch.set_rng_state(self._cpu)
        for index, state in enumerate(self._cuda):
            self.torch.cuda.set_rng_state(state, index)
