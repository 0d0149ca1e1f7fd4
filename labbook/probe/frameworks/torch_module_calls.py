"""Observes the calls of PyTorch modules through one wrapper around `Module.__call__`; no module is changed.

Hooks in a module's own dictionaries would change the model for its owner: TorchScript compiles them, pickles contain
them, `len(model._forward_hooks)` counts them, and PyTorch adds two frames to each traceback. PyTorch's global hooks
make every call of every module three times as slow.
"""

from contextlib import contextmanager

from ..wrapping import disguised, leave_out_one_frame


class Observer:
    """What is called around the calls of one module; none of the three may raise.

    Attributes:
        begins: `begins(module, args, kwargs)`.
        ended: `ended(module, args, output)`, after a call that returned.
        raised: `raised(module)`, after a call that did not.
    """

    __slots__ = ("begins", "ended", "raised")

    def __init__(self, begins, ended=None, raised=None):
        self.begins = begins
        self.ended = ended or _ignore
        self.raised = raised or _ignore


class ModuleCalls:
    """The calls of all modules of one process."""

    def __init__(self):
        self._observers = {}

    def install(self, torch):
        """Wraps `Module.__call__`.

        Cost: 0.1 microseconds a call of a module without observers.
        """
        kind = torch.nn.Module
        kind.__call__ = self._wrapper(kind.__call__)

    def add(self, module, observer):
        """Observes the calls of a module; an observer compares the module, whose id may come again."""
        key = id(module)
        self._observers[key] = (*self._observers.get(key, ()), observer)

    def remove(self, key, observer):
        """Ends `add`; `key` is the id of the module, which may be gone."""
        left = tuple(one for one in self._observers.get(key, ()) if one is not observer)
        if left:
            self._observers[key] = left
        else:
            self._observers.pop(key, None)

    @contextmanager
    def replaced(self, modules, observer=None):
        """Inside this context only `observer` observes these modules."""
        before = {id(module): self._observers.pop(id(module), None) for module in modules}
        if observer is not None:
            self._observers.update(dict.fromkeys(before, (observer,)))
        try:
            yield
        finally:
            for key, observers in before.items():
                if observers is None:
                    self._observers.pop(key, None)
                else:
                    self._observers[key] = observers

    def _wrapper(self, original):
        observers_of = self._observers.get

        # PyTorch's profiler finds the module of a call by the code of `Module.__call__`, as its local variable `self`.
        def __call__(self, /, *args, **kwargs):  # noqa: N807
            observers = observers_of(id(self))
            try:
                if observers is None:
                    return original(self, *args, **kwargs)
                for observer in observers:
                    observer.begins(self, args, kwargs)
                output = original(self, *args, **kwargs)
            except BaseException as error:
                for observer in observers or ():
                    observer.raised(self)
                leave_out_one_frame(error)
                raise
            for observer in observers:
                observer.ended(self, args, output)
            return output

        wrapper = disguised(__call__, original)
        wrapper._torchdynamo_inline = original  # what the compiler traces in its place
        return wrapper


def _ignore(*args):
    return None
