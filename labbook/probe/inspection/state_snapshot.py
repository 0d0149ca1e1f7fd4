"""Puts everything back that running a forward once more would change: what both frameworks share of it."""

import random
import sys
from _thread import get_ident
from collections import OrderedDict, deque
from contextlib import ExitStack

_CONTAINERS = (list, dict, set, deque, OrderedDict)
_MOST_ITEMS = 10000
_BOOKKEEPING = ("_parameters", "_buffers", "_modules")
_BOOKKEEPING_ENDINGS = ("_hooks", "_hooks_with_kwargs", "_always_called")


class StateSnapshot:
    """A context in which a model may run once more, with the arguments and the random state of a call.

    A framework implements `_modules`, `_random_states`, `_swap`, which gives the modules copies or aliases of their
    tensors, and `_enter_call`, which restores random states and mixed precision of the call.

    Args:
        framework: The module `torch` or `paddle`.
        module: The model.
        call: The `RecordedCall`.

    Attributes:
        args: The arguments to run the model with.
    """

    HOOKS = ()
    """Names of the dictionaries with hooks of a module."""

    def __init__(self, framework, module, call):
        self.framework = framework
        self.module = module
        self.call = call
        self.args, self.kwargs = call.args, call.kwargs

    def __enter__(self):
        self._stack = ExitStack()
        self._stack.__enter__()
        try:
            self._stack.enter_context(self._random_states())
            self._stack.enter_context(Silence())
            self._states = [(one, dict(one.__dict__), containers_of(one.__dict__)) for one in self._modules()]
            self._stack.callback(self._restore)
            self._swap()
            self._enter_call()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error):
        self._stack.close()

    def _leave_out_hooks(self, module, state):
        """Keeps the framework's own hooks, like weight normalisation; those of the program do not run again."""
        for name in self.HOOKS:
            if state.get(name) is not None:
                own = [(key, hook) for key, hook in state[name].items() if self._is_own(hook)]
                module.__dict__[name] = OrderedDict(own)

    def _is_own(self, hook):
        owner = getattr(hook, "__module__", None) or type(hook).__module__
        return str(owner).startswith(self.framework.__name__ + ".")

    def _restore(self):
        for one, state, containers in self._states:
            one.__dict__.clear()
            one.__dict__.update(state)
            for container, copy in containers:
                _refill(container, copy)


def containers_of(state):
    """`(container, copy)` of the lists, dictionaries and sets among a module's attributes, bookkeeping excepted."""
    return [
        (value, type(value)(value))
        for name, value in state.items()
        if type(value) in _CONTAINERS and len(value) <= _MOST_ITEMS and not _is_bookkeeping(name)
    ]


def _is_bookkeeping(name):
    return name in _BOOKKEEPING or name.endswith(_BOOKKEEPING_ENDINGS)


def _refill(container, copy):
    container.clear()
    if isinstance(container, (list, deque)):
        container.extend(copy)
    else:
        container.update(copy)


class RandomStates:
    """Puts the random states of Python, NumPy and a framework back.

    A framework implements `_save` and `_restore` for its own generators.
    """

    def __enter__(self):
        self._save()
        self._python = random.getstate()
        self._numpy = getattr(sys.modules.get("numpy"), "random", None)
        self._state = self._numpy.get_state() if self._numpy is not None else None

    def __exit__(self, *error):
        self._restore()
        random.setstate(self._python)
        if self._state is not None:
            self._numpy.set_state(self._state)


class Silence:
    """Drops what this thread prints: the program has printed it once already. Other threads print on."""

    def __enter__(self):
        self._streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = (_MutedStream(stream, get_ident()) for stream in self._streams)

    def __exit__(self, *error):
        sys.stdout, sys.stderr = self._streams


class _MutedStream:
    def __init__(self, stream, thread):
        self._stream = stream
        self._thread = thread

    def write(self, text):
        return len(text) if get_ident() == self._thread else self._stream.write(text)

    def __getattr__(self, name):
        return getattr(self._stream, name)
