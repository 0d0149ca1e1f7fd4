"""Puts everything back that running a forward of a PyTorch model once more would change."""

import random
import sys
from _thread import get_ident
from collections import OrderedDict, deque
from contextlib import ExitStack

_CONTAINERS = (list, dict, set, deque, OrderedDict)
_MOST_ITEMS = 10000
_HOOKS = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


class StateSnapshot:
    """A context in which a model may run once more, with the arguments and the random state of a call.

    Inside it the model works on copies of its buffers and on aliases of its parameters, so that neither their values,
    versions, gradients nor hooks are touched.

    Args:
        torch: The module.
        module: The model.
        call: The `RecordedCall`.
        calls: The `ModuleCalls` of the process.
        observer: Observes the modules in place of the others.
        graph: Whether the aliases need gradients.
    """

    def __init__(self, torch, module, call, calls, observer=None, graph=False):
        self.torch = torch
        self.module = module
        self.call = call
        self.calls = calls
        self.observer = observer
        self.graph = graph

    def __enter__(self):
        self._stack = ExitStack()
        self._stack.__enter__()
        try:
            self._stack.enter_context(_RandomStates(self.torch))
            self._stack.enter_context(_Quiet())
            self._states = [(one, dict(one.__dict__), _contents(one.__dict__)) for one in self.module.modules()]
            self._stack.callback(self._put_back)
            self._swap()
            self._stack.enter_context(self.calls.replaced(list(self.module.modules()), self.observer))
            if self.call.state is not None:
                self.torch.set_rng_state(self.call.state)
            for index, state in enumerate(self.call.cuda or ()):
                self.torch.cuda.set_rng_state(state, index)
            for device, dtype, cache in self.call.casts:
                self._stack.enter_context(self.torch.autocast(device, dtype=dtype, cache_enabled=cache))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error):
        self._stack.close()

    def _swap(self):
        torch, aliases, copies = self.torch, {}, {}
        for one, state, _ in self._states:
            for name in _HOOKS:
                if name in state:
                    kept = [(key, hook) for key, hook in state[name].items() if _is_of_torch(hook)]
                    one.__dict__[name] = OrderedDict(kept)
            one.__dict__["_parameters"] = type(state["_parameters"])(
                (name, self._alias(p, aliases)) for name, p in state["_parameters"].items()
            )
            one.__dict__["_buffers"] = type(state["_buffers"])(
                (name, _copy(b, copies, torch)) for name, b in state["_buffers"].items()
            )

    def _alias(self, parameter, aliases):
        if parameter is None:
            return None
        known = aliases.get(id(parameter))
        if known is None:
            alias = self.torch.nn.Parameter(parameter.detach(), requires_grad=parameter.requires_grad and self.graph)
            known = aliases[id(parameter)] = alias
        return known

    def _put_back(self):
        for one, state, contents in self._states:
            one.__dict__.clear()
            one.__dict__.update(state)
            for container, copy in contents:
                _refill(container, copy)


def _is_of_torch(hook):
    """Whether a hook belongs to PyTorch, like weight normalisation; those of the program are not run again."""
    owner = getattr(hook, "__module__", None) or type(hook).__module__
    return str(owner).startswith("torch.")


def _copy(buffer, copies, torch):
    if buffer is None:
        return None
    if id(buffer) not in copies:
        copies[id(buffer)] = buffer.detach().clone()
    return copies[id(buffer)]


def _contents(state):
    """Lists, dictionaries and sets among the attributes of a module that is not PyTorch's own bookkeeping."""
    found = []
    for name, value in state.items():
        if type(value) in _CONTAINERS and len(value) <= _MOST_ITEMS and not _is_bookkeeping(name):
            found.append((value, type(value)(value)))
    return found


def _is_bookkeeping(name):
    return name in ("_parameters", "_buffers", "_modules") or name.endswith(
        ("_hooks", "_hooks_with_kwargs", "_always_called")
    )


def _refill(container, copy):
    container.clear()
    if isinstance(container, (list, deque)):
        container.extend(copy)
    else:
        container.update(copy)


class _RandomStates:
    """Puts the random states of PyTorch, Python and NumPy back."""

    def __init__(self, torch):
        self.torch = torch

    def __enter__(self):
        self._cpu = self.torch.get_rng_state()
        cuda = self.torch.cuda
        self._cuda = [cuda.get_rng_state(i) for i in range(cuda.device_count())] if cuda.is_initialized() else []
        self._python = random.getstate()
        self._numpy = getattr(sys.modules.get("numpy"), "random", None)
        self._state = self._numpy.get_state() if self._numpy is not None else None

    def __exit__(self, *error):
        self.torch.set_rng_state(self._cpu)
        for index, state in enumerate(self._cuda):
            self.torch.cuda.set_rng_state(state, index)
        random.setstate(self._python)
        if self._state is not None:
            self._numpy.set_state(self._state)


class _Quiet:
    """What this thread prints is dropped: the program has printed it once already. Other threads print on."""

    def __enter__(self):
        self._streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = (_Dropping(stream, get_ident()) for stream in self._streams)

    def __exit__(self, *error):
        sys.stdout, sys.stderr = self._streams


class _Dropping:
    def __init__(self, stream, thread):
        self._stream = stream
        self._thread = thread

    def write(self, text):
        return len(text) if get_ident() == self._thread else self._stream.write(text)

    def __getattr__(self, name):
        return getattr(self._stream, name)
