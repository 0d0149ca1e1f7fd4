"""Notes which collective calls a PyTorch program makes itself, on which gradients, and how long they take."""

import sys
from collections import deque
from threading import get_ident

from ..wrapping import as_import_machinery, transparent_wrapper, wrap_function

WATCHED = ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast")
TIMED = (
    *WATCHED, "barrier", "monitored_barrier", "all_gather", "all_gather_object", "all_to_all", "all_to_all_single",
    "broadcast_object_list", "gather", "gather_object", "reduce", "reduce_scatter", "scatter", "scatter_object_list",
    "send", "recv", "batch_isend_irecv",
)  # fmt: skip
"""In these a rank waits for others. Not `isend` and `irecv`: `P2POp` compares them by identity with what a program may
have imported before."""

OF_PAIRS = ("send", "recv", "batch_isend_irecv")
"""Calls of two ranks: the others make none at the same time."""

MOST = 400
"""Calls of a step that are noted."""

MOST_LAST = 64
"""Last calls whose order is known."""

MISSING = object()


class Collectives:
    """The collective calls of one process, over all ranks. What wrappers do inside of PyTorch is not seen here.

    Args:
        inspector: The `TensorInspector` of the process.
    """

    def __init__(self, torch, inspector):
        self.torch = torch
        self.inspector = inspector
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self._calls = []
        self._names = {}
        self._first = None
        self._of_gradients = 0
        self._inside = False
        self._made, self._last = 0, deque(maxlen=MOST_LAST)

    def install(self, is_compiling):
        """Puts the wrappers in place; nothing where PyTorch was built without distributed training."""
        home = sys.modules.get("torch.distributed.distributed_c10d")
        self.inspector.monitor.probe.collective_order = self.order
        if home is None:
            return
        for name in TIMED:
            original = getattr(home, name, None)
            if original is not None:
                self._replace(home, name, self._wrap(name, original, is_compiling))
        # A rank may fail or wait in its first step: which one it is must be known before.
        adapter = self.inspector.adapter
        joined = wrap_function(
            home.init_process_group, adapter.probe.guard("torch.group"), after=lambda *_: adapter.write_state()
        )
        self._replace(home, "init_process_group", joined)

    def _replace(self, home, name, wrapper):
        if getattr(self.torch.distributed, name, None) is getattr(home, name):
            setattr(self.torch.distributed, name, wrapper)
        setattr(home, name, wrapper)

    def _wrap(self, name, original, is_compiling):
        called = self._on_call if name in WATCHED else None
        begins, ended = self._begins, self._on_end

        def collective(*args, **kwargs):
            if is_compiling():
                return original(*args, **kwargs)
            if called is not None:
                called(name, args, kwargs)
            began, result = begins(name, args, kwargs), MISSING
            try:
                result = original(*args, **kwargs)
                return result
            finally:
                ended(began, result)

        return transparent_wrapper(as_import_machinery(collective), original)

    def order(self):
        """Returns the number of calls of all ranks that this one has begun, and the names of the last ones."""
        return {"made": self._made, "last": list(self._last)}

    def _begins(self, name, args, kwargs):
        """Returns the time at which a call begins, 0 where nothing is measured; `None` for one inside another."""
        try:
            monitor = self.inspector.monitor
            if self._inside or monitor.thread not in (None, get_ident()):
                return None
            self._inside = True
            # Groups of some ranks have an order of their own.
            of_all = name not in OF_PAIRS and kwargs.get("group") is None
            if of_all and not any(isinstance(one, self.torch.distributed.ProcessGroup) for one in args):
                self._made += 1
                self._last.append(name)
            return 0.0 if monitor.skipping or monitor.thread is None else monitor.clock()
        except Exception:  # the call of the program goes on whatever happens here
            return None

    def _on_end(self, began, result):
        """Processes the end of a call; one that returns a handle has not waited."""
        if began is None:
            return
        self._inside, monitor = False, self.inspector.monitor
        # Ranks wait in the backward and the optimizer anyway, so that these phases do not count as their own work.
        try:
            if began and monitor.is_in_own_work():
                is_handle = result is not MISSING and (type(result) is list or hasattr(type(result), "wait"))
                monitor.phases.waited(monitor.clock() - began, not is_handle)
        except Exception:  # the result is the program's
            pass

    def _on_call(self, name, args, kwargs):
        monitor = self.inspector.monitor
        if monitor.skipping or not monitor.dense or kwargs.get("group") is not None or len(self._calls) >= MOST:
            return
        try:
            tensor = args[0] if args else kwargs.get("tensor")
            if (
                not self.inspector.stats.is_tensor(tensor)
                or not self.inspector.stats.is_plain(tensor)
                or not monitor.is_followed_thread()
            ):
                return
            if not self._calls:
                self._names = self._gradients()
            self._calls.append([name, self._names.get(tensor.data_ptr()) or tensor.numel()])
        except Exception as error:
            self.inspector.failed("torch.collective", error)

    def _gradients(self):
        """Where each gradient lies -> the name of its parameter."""
        found = {}
        for root in self.inspector.followed_models():
            table = self.inspector.table(root)
            for at, held in enumerate(table.held if table is not None else ()):
                parameter = held()
                if (
                    parameter is not None
                    and parameter.grad is not None
                    and self.inspector.stats.is_plain(parameter.grad)
                ):
                    found[parameter.grad.data_ptr()] = table.names[at]
        return found

    def step(self):
        """Processes the end of a step that was looked at."""
        calls, self._calls, self._names = self._calls, [], {}
        if self._first is None and self.inspector.monitor.dense:
            self._first = calls
        if any(type(what) is str for _, what in calls):
            self._of_gradients += 1

    def totals(self):
        """`collectives` of the running totals; `None` where there were none."""
        if not self._first and not self._of_gradients:
            return None
        return {"first": self._first or [], "of_gradients": self._of_gradients}


def has_several_ranks(torch):
    """Whether this process belongs to a group of several."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
