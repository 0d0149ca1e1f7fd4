"""Runs the last forward of a PyTorch model again, to find the first module and operation that gave NaN or infinity.

The model works on copies of its buffers and on aliases of its parameters meanwhile.
"""

import re
import sys
from collections import OrderedDict

from ..inspection import nonfinite_watcher, replay
from ..inspection.nested import tensors_in
from ..process.user_files import is_user_file
from ..training.call_site import place
from .module_calls import Observer
from .state_snapshot import StateSnapshot

MOST_NODES = 20000

_REFUSED = {
    "FullyShardedDataParallel": "its parameters are sharded over ranks",
    "SyncBatchNorm": "it talks to other ranks",
    "OptimizedModule": "it is compiled",
    "DataParallel": "it runs on several devices at once",
}


class Replay(replay.Replay):
    """One search; see the base class."""

    REFUSED = _REFUSED
    WRAPPER = ("DistributedDataParallel", "module")

    def _modules(self):
        return self.module.modules()

    def _module_refusal(self, module, kind):
        if kind.startswith("FSDP") or "DeepSpeed" in kind or "Pipeline" in kind:
            return "%s: its parameters are sharded over ranks" % kind
        if isinstance(module, self.framework.jit.ScriptModule):
            return "a part of the model is a TorchScript"
        return super()._module_refusal(module, kind)

    def _refusal_reason(self):
        torch, inspector = self.framework, self.inspector
        if any(not inspector.stats.is_plain(p) for p in self.module.parameters()):
            return "its parameters are no plain tensors"
        if not inspector.without_modes.is_possible() or inspector.adapter.is_compiling():
            return "another tool watches every call"
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            return "a CUDA graph is being captured"
        if has_global_hooks():
            return "the program has hooks for all modules"
        return ""

    def _forward(self):
        torch, stats = self.framework, self.inspector.stats
        watcher = NonfiniteWatcher(torch, stats)
        observer = Observer(watcher.enters, watcher.on_module_exit)
        with StateSnapshot(torch, self.module, self.call, self.inspector.calls, observer):
            with torch.no_grad(), watcher.mode():
                output = self.module(*self.call.args, **self.call.kwargs)
            self._outputs = [tensor for _, tensor in tensors_in(output, stats)]
            names = {id(one): name for name, one in self.module.named_modules()}
            with torch.no_grad():
                bad = any(stats.bad(tensor) for tensor in self._outputs)
        return names, bad, watcher.cause()

    def differs(self):
        """See the base class."""
        with self.inspector.without_modes:
            return super().differs()

    def _differ(self, before, now):
        stats = self.inspector.stats
        return before.shape == now.shape and stats.is_plain(before) and stats.bad(before) != stats.bad(now)

    def _takes_gradient(self, tensor):
        return tensor.requires_grad

    def _ones_like(self, tensor):
        return tensor.detach() * 0 + 1

    def backward(self):
        """Runs forward and backward again; what first went wrong in the backward, or `None`."""
        torch = self.framework
        anomaly = torch.is_anomaly_enabled()
        found = []
        with StateSnapshot(torch, self.module, self.call, self.inspector.calls, graph=True):
            torch.set_anomaly_enabled(True, False)
            try:
                with torch.enable_grad():
                    output = self.module(*self.call.args, **self.call.kwargs)
                    outputs, gradients, guessed = self._outputs_with_gradients(output)
                    if not outputs:
                        return None
                    self._watch_nodes(outputs, found)
                    leaves = list(self.inspector.graphs.reach(outputs).values())
                    torch.autograd.grad(outputs, leaves, gradients, allow_unused=True)
            finally:
                torch.set_anomaly_enabled(anomaly, torch.is_anomaly_check_nan_enabled())
        if not found:
            return None
        fields = dict(found[0], finding="backward")
        if guessed:
            fields["reason"] = "with ones in place of the gradient of the output, which was too large to keep"
        return fields

    def _watch_nodes(self, outputs, found):
        """Hooks every node of a graph; the first with finite gradients in and others out is noted in `found`."""
        seen, waiting = set(), [tensor.grad_fn for tensor in outputs if tensor.grad_fn is not None]
        while waiting and len(seen) < MOST_NODES:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if getattr(node, "variable", None) is None:
                node.register_hook(self._node_hook(node, found))
            waiting += [following for following, _ in node.next_functions if following is not None]

    def _node_hook(self, node, found):
        stats = self.inspector.stats

        def look(given, received):
            if found:
                return
            before = any(stats.bad(g) for g in received if g is not None)
            if not before and any(stats.bad(g) for g in given if g is not None):
                found.append(dict(place_in(node.metadata), op=type(node).__name__))

        return look


class NonfiniteWatcher(nonfinite_watcher.NonfiniteWatcher):
    """The operations of one forward whose results are not finite, seen by a function mode."""

    def __init__(self, torch, stats):
        super().__init__(stats)
        self.torch = torch

    def enters(self, module, *args):
        """A module begins."""
        self.modules.append(module)

    def on_module_exit(self, module, *args):
        """A module has ended."""
        if self.modules and self.modules[-1] is module:
            self.modules.pop()

    def mode(self):
        """The function mode that watches."""
        watcher = self

        class Watching(self.torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                kwargs = kwargs or {}
                before = watcher.kinds((args, kwargs))
                result = func(*args, **kwargs)
                watcher.on_operation(getattr(func, "__name__", ""), before, result)
                return result

        return Watching()

    def kinds(self, things):
        """`(NaN among them, infinity among them)`."""
        nan = inf = False
        for _, tensor in tensors_in(things, self.stats):
            if self.stats.bad(tensor):
                one = bool(self.torch.isnan(tensor).any().item())
                nan = nan or one
                inf = inf or not one or bool(self.torch.isinf(tensor).any().item())
        return nan, inf


def has_global_hooks():
    """Whether the program has hooks that run for every module."""
    module = sys.modules["torch.nn.modules.module"]
    names = (
        "_global_forward_pre_hooks",
        "_global_forward_hooks",
        "_global_backward_hooks",
        "_global_backward_pre_hooks",
    )
    return any(type(getattr(module, name, None)) is OrderedDict and getattr(module, name) for name in names)


_ENTRY = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def place_in(metadata):
    """The user's line in the traceback that anomaly mode keeps of a forward operation."""
    for text in reversed(metadata.get("traceback_") or ()):
        entry = _ENTRY.search(text)
        if entry and is_user_file(entry.group(1)):
            return place(entry.group(1), int(entry.group(2)), entry.group(3))
    return {}
