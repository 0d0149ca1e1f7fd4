"""Runs the last forward of a PyTorch model again, to find the first module and operation that gave NaN or infinity.

What the forward changes is put back bitwise: random states, buffers (it works on copies of them), plain attributes of
modules, gradients (it works on aliases of the parameters). The program's own hooks do not run.
"""

import re
import sys
from collections import OrderedDict

from ..process.user_files import is_user_file
from ..training.call_site import place, place_of, user_frame
from .module_calls import Observer
from .state_snapshot import StateSnapshot
from .tensor_stats import tensors_in

MOST_NODES = 20000
_FILLS = frozenset(
    [
        "masked_fill",
        "masked_fill_",
        "full",
        "full_like",
        "fill_",
        "where",
        "new_full",
        "triu",
        "tril",
        "tensor",
        "as_tensor",
        "zeros_like",
        "ones_like",
        "empty",
        "empty_like",
        "__setitem__",
        "index_fill",
        "index_fill_",
        "constant_",
        "pad",
        "__get__",
        "detach",
        "clone",
        "to",
        "view",
        "reshape",
        "expand",
        "unsqueeze",
        "squeeze",
        "transpose",
        "permute",
        "contiguous",
        "repeat",
    ]
)
"""Operations that put infinities where the program wants them, as in attention masks, or only pass them on."""

_REFUSED = {
    "FullyShardedDataParallel": "its parameters are sharded over ranks",
    "SyncBatchNorm": "it talks to other ranks",
    "OptimizedModule": "it is compiled",
    "DataParallel": "it runs on several devices at once",
}


class Replay:
    """One search.

    Args:
        torch: The module.
        inspector: The other eyes.
        call: The `RecordedCall` to run again.
    """

    def __init__(self, torch, inspector, call):
        self.torch = torch
        self.inspector = inspector
        self.call = call
        self.module = call.root.module()
        if type(self.module).__name__ == "DistributedDataParallel":
            self.module = self.module.module
        self._outputs = []

    def refused(self):
        """Why running it again would be unsafe, "" when it is not."""
        if self.module is None:
            return "the model is gone"
        for one in self.module.modules():
            kind = type(one).__name__
            if kind.startswith("FSDP") or "DeepSpeed" in kind or "Pipeline" in kind:
                return "%s: its parameters are sharded over ranks" % kind
            if kind in _REFUSED:
                return "%s: %s" % (kind, _REFUSED[kind])
            if isinstance(one, self.torch.jit.ScriptModule):
                return "a part of the model is a TorchScript"
        if self.call.root.hidden:
            return self.call.root.hidden
        if any(not self.inspector.stats.is_plain(p) for p in self.module.parameters()):
            return "its parameters are no plain tensors"
        if not self.inspector.without_modes.is_possible() or self.inspector.adapter.is_compiling():
            return "another tool watches every call"
        if self.torch.cuda.is_initialized() and self.torch.cuda.is_current_stream_capturing():
            return "a CUDA graph is being captured"
        if has_global_hooks():
            return "the program has hooks for all modules"
        return ""

    def forward(self):
        """Runs the forward again without a graph; what first went wrong in it, or `None`."""
        watcher = NonfiniteWatcher(self.torch, self.inspector.stats)
        observer = Observer(watcher.enters, watcher.leaves)
        with StateSnapshot(self.torch, self.module, self.call, self.inspector.calls, observer):
            with self.torch.no_grad(), watcher.mode():
                output = self.module(*self.call.args, **self.call.kwargs)
            self._outputs = [tensor for _, tensor in tensors_in(output, self.inspector.stats)]
            names = {id(one): name for name, one in self.module.named_modules()}
            with self.torch.no_grad():
                bad = any(self.inspector.stats.bad(tensor) for tensor in self._outputs)
            event = watcher.cause() if bad else None
        if event is None:
            return {"finding": "forward", "reason": "which operation is not known"} if bad else None
        told = dict(event["place"], finding="forward", op=event["op"])
        if event["module"] is not None:
            told["module"] = {"name": names.get(id(event["module"]), ""), "type": type(event["module"]).__name__}
        return told

    def differs(self):
        """Whether what is still alive of the first outputs is not what came out now."""
        with self.inspector.without_modes:
            for held, tensor in zip(self.call.outputs, self._outputs):
                before = held()
                if before is None or before.shape != tensor.shape or not self.inspector.stats.is_plain(before):
                    continue
                if self.inspector.stats.bad(before) != self.inspector.stats.bad(tensor):
                    return True
        return False

    def backward(self):
        """Runs forward and backward again; what first went wrong in the backward, or `None`."""
        torch, anomaly = self.torch, self.torch.is_anomaly_enabled()
        found = []
        with StateSnapshot(torch, self.module, self.call, self.inspector.calls, graph=True):
            torch.set_anomaly_enabled(True, False)
            try:
                with torch.enable_grad():
                    output = self.module(*self.call.args, **self.call.kwargs)
                    outputs, gradients, guessed = self._roots(output)
                    if not outputs:
                        return None
                    self._watch_nodes(outputs, found)
                    leaves = list(self.inspector.graphs.reach(outputs).values())
                    torch.autograd.grad(outputs, leaves, gradients, allow_unused=True)
            finally:
                torch.set_anomaly_enabled(anomaly, torch.is_anomaly_check_nan_enabled())
        if not found:
            return None
        told = dict(found[0], finding="backward")
        if guessed:
            told["reason"] = "with ones in place of the gradient of the output, which was too large to keep"
        return told

    def _roots(self, output):
        """`(outputs, gradients, whether any gradient is a guess)`."""
        outputs, gradients, guessed = [], [], False
        for at, (_, tensor) in enumerate(tensors_in(output, self.inspector.stats)):
            if not tensor.requires_grad:
                continue
            known = self.call.gradients.get(at)
            if known is None or known.shape != tensor.shape:
                if self.call.gradients:
                    continue
                guessed = True
                known = tensor.detach() * 0 + 1
            outputs.append(tensor)
            gradients.append(known)
        return outputs, gradients, guessed

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


class NonfiniteWatcher:
    """Notes the operations of one forward whose results are not finite.

    Args:
        torch: The module.
        stats: Looks at tensors.
    """

    def __init__(self, torch, stats):
        self.torch = torch
        self.stats = stats
        self._stack = []
        self._events = []

    def enters(self, module, *args):
        """A module begins."""
        self._stack.append(module)

    def leaves(self, module, *args):
        """A module has ended."""
        if self._stack and self._stack[-1] is module:
            self._stack.pop()

    def mode(self):
        """The function mode that watches."""
        watcher = self

        class Watching(self.torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                kwargs = kwargs or {}
                before = watcher.kinds((args, kwargs))
                result = func(*args, **kwargs)
                watcher.takes(func, before, result)
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

    def takes(self, func, before, result):
        """Notes an operation."""
        nan, inf = self.kinds(result)
        name = getattr(func, "__name__", "")
        if (nan and not before[0]) or (inf and not before[0] and not before[1]):
            frame = user_frame()
            self._events.append(
                {
                    "op": name,
                    "nan": nan,
                    "from_inf": before[1],
                    "module": self._stack[-1] if self._stack else None,
                    "place": place_of(frame),
                }
            )

    def cause(self):
        """The operation where it began: the first NaN, or the infinity that it came from; `None` without one."""
        made = [event for event in self._events if event["op"] not in _FILLS]
        first = next((event for event in made if event["nan"]), None)
        if first is None:
            return made[0] if made else (self._events[0] if self._events else None)
        if first["from_inf"]:
            before = made[: made.index(first)]
            return next((event for event in before if not event["nan"]), first)
        return first


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
