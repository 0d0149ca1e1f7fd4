"""Finds the outermost models of a PyTorch program and observes their calls."""

from types import FunctionType

from ..inspection import root_modules
from ..inspection.model_lookup import SpareParameters
from ..inspection.root_modules import MOST_ROOTS, stochastic_modules
from ..process.gc_scan import can_scan
from ..wrapping import is_ours
from .module_calls import Observer

SWEEPS_S = 0.6
"""Seconds that searching all objects for models may take, and a share of the elapsed time later."""

SWEEPS_SHARE = 0.01

MOST_OF_ONE = 4
"""Models that are looked for of one optimizer, such as an encoder and a decoder. Source: chosen by us."""


class RootModules(root_modules.RootModules):
    """All outermost models of this process.

    Args:
        find: `find(parameters)` gives the module that owns them and nothing else that is trained, and the outermost one
            around it; both may be `None`.
        is_compiling: Whether the compiler is at work.
        failed: `failed(where, error)` takes failures of ours.
        clock: Monotonic time.
        calls: The `ModuleCalls` of the process.

    Attributes:
        end_look: Called when a forward that was followed has ended, in whatever way.
        unsearched: Ids of the parameters that the last `register` did not look for: it is not known whose they are.
        spares: Finds the models of parameters that belong to none that was seen to run.
    """

    CHILDREN = "_modules"

    def __init__(self, torch, find, is_compiling, failed, clock, calls):
        super().__init__(torch, failed)
        self.end_look = None
        self.spares = SpareParameters(torch.nn.Module, "_modules")
        self._calls = calls
        self._find = find
        self._is_compiling = is_compiling
        self._clock = clock
        self._swept = 0.0
        self._begun = clock()
        self._parts = set()
        self.unsearched = set()

    def discover(self, parameters):
        """Looks for the model that owns these parameters, unless one that was called does.

        Cost: 40 ms where it takes a sweep; nothing once these have taken their share of the time.
        """
        parameters = [p for p in parameters if self.framework.is_tensor(p)]
        now = self._clock()
        if not parameters or self._swept > SWEEPS_S + SWEEPS_SHARE * (now - self._begun):
            return
        for root in self.living_models():
            if root.called and id(parameters[0]) in self.ids(root) and id(parameters[-1]) in self.ids(root):
                return
        for _ in range(MOST_OF_ONE):
            # The optimizer may hold a part of what runs: then it is the whole that is called.
            found, whole = self._find(parameters)
            self._swept += self._clock() - now
            now = self._clock()
            for module in (whole, found):
                if module is not None:
                    self.add(module)
            held = set(map(id, self.parameters_of(whole))) if whole is not None else ()
            parameters = [p for p in parameters if id(p) not in held]
            if not held or not parameters:
                return

    def register(self, parameters):
        """Follows the models of parameters that no optimizer trains and a backward call reaches.

        Those that a known model keeps in a plain list or dictionary belong to no model: they are not registered.

        The first is always looked for; the others, as `unsearched` has it, unless that has taken its share of the time.

        Returns:
            The models, at most 4.
        """
        found, searched = [], False
        listed = self._listed_parameters() if parameters else ()
        self.unsearched = set()
        for at, parameter in enumerate(parameters):
            if id(parameter) in listed or self.owner_of(parameter) is not None:
                continue
            now = self._clock()
            is_late = searched and self._swept > SWEEPS_S + SWEEPS_SHARE * (now - self._begun)
            if len(found) >= 4 or at >= 4 * MOST_ROOTS or is_late or not can_scan():
                self.unsearched.add(id(parameter))
                continue
            searched = True
            module = self._find([parameter])[1]
            self._swept += self._clock() - now
            root = self.add(module) if module is not None else None
            if root is not None:
                found.append(root)
        return found

    def _listed_parameters(self):
        """Ids of parameters in plain lists and dictionaries of the models' modules."""
        parameters, waiting = set(), []
        for root in self.living_models():
            for one in list(root.module().modules()):
                waiting += [(value, 0) for name, value in one.__dict__.items() if not name.startswith("_")]
        while waiting:
            value, depth = waiting.pop()
            if isinstance(value, self.framework.nn.Module) and depth:
                parameters.update(map(id, self.parameters_of(value)))
            elif isinstance(value, self.framework.Tensor):
                parameters.add(id(value))
            elif depth < 3 and type(value) in (list, tuple, dict):
                held = list(value.values() if type(value) is dict else value)[:256]
                waiting += [(one, depth + 1) for one in held]
        return parameters

    def add(self, module):
        """Follows a model; nothing where that is not possible."""
        known = self._known.get(id(module))
        if known is not None and known.module() is module:
            return known
        for key, root in self._drop_gone():
            self._calls.remove(key, root.observer)
        if len(self._known) >= MOST_ROOTS or isinstance(module, self.framework.jit.ScriptModule):
            return None
        stochastic = stochastic_modules(module.modules(), self.framework.nn.modules.batchnorm._BatchNorm)
        root = self._number(module, stochastic, _hidden_reason(module, self.framework))
        root.observer = self._observer(root)
        self._calls.add(module, root.observer)
        return root

    def observe_forwards(self, reached):
        """Observes direct calls of `forward`, as in `model.forward(x)`, where a model trains without being called.

        Args:
            reached: Ids of the parameters that the graph of the loss reaches.

        Returns:
            The models.
        """
        if any(root.called or root.hidden for root in self.living_models()):
            return []
        idle = [root for root in self.living_models() if not self.ids(root).isdisjoint(reached)]
        idle = [root for root in idle if _has_forward(root.module())]  # no container, whose parts are called
        for kind in {type(root.module()) for root in idle}:
            self._calls.observe_forward(kind)
        return idle

    def _drop_submodels(self, root):
        """Forgets the children of a model that were followed before its `forward` was first called directly."""
        inner = {id(one) for one in root.module().modules()}
        for key, other in list(self._known.items()):
            if other is not root and other in self._parts and not other.called and key in inner:
                del self._known[key]
                self._calls.remove(key, other.observer)

    def find_submodels(self):
        """Follows the children of models that train without being called: something else calls their parts."""
        for root in self.living_models():
            module = root.module()
            if root.called or root.hidden:
                continue
            for child in list(module._modules.values())[:MOST_ROOTS]:
                if child is not None and any(True for _ in child.parameters()):
                    self._parts.add(self.add(child))

    def _observer(self, root):
        monitor, is_compiling, failed = self.monitor, self._is_compiling, self._failed
        training, clock, owner, end_look = monitor.training, monitor.clock, root.owner, self.end_look
        grad_on, fast_path = self.framework.is_grad_enabled, monitor.fast_path

        def begins(module, args, kwargs):
            if owner() is not module or is_compiling():
                return
            if (
                fast_path.steady is not None
                and module.training
                and grad_on()
                and fast_path.accept_forward(root, args, kwargs)
            ):
                root.called += 1
                return
            began = clock()
            try:
                grad = grad_on()
                if grad:
                    if not root.called and self._parts:
                        self._drop_submodels(root)
                    root.called += 1
                else:
                    root.is_evaluated = True
                monitor.forward_begins(root, args, kwargs, grad, module.training)
            except Exception as error:
                failed("torch.forward begins", error)
            training.overhead_s += clock() - began

        def on_exit(module, args, output):
            if monitor.inside is not root or owner() is not module or is_compiling():
                return
            began = clock()
            try:
                monitor.forward_ended(root, output)
                end_look()
            except Exception as error:
                failed("torch.forward ended", error)
            training.overhead_s += clock() - began

        def on_error(module):
            if owner() is not module:
                return
            try:
                if monitor.inside is root:
                    monitor.inside = None
                    monitor.loop.raised += module.training and grad_on()
                end_look()
            except Exception as error:
                failed("torch.forward raised", error)

        return Observer(begins, on_exit, on_error)


def _hidden_reason(module, torch):
    """Why the inside of a model cannot be looked at, "" when it can."""
    for one in module.modules():
        kind = type(one).__name__
        if kind == "OptimizedModule" or getattr(one, "_compiled_call_impl", None) is not None:
            return "the model is compiled"
        forward = getattr(one, "forward", None)
        if hasattr(forward, "_torchdynamo_orig_callable") or (
            hasattr(forward, "_torchdynamo_inline") and not is_ours(forward.__code__)
        ):
            return "the model is compiled"
        if kind in ("FullyShardedDataParallel",) or kind.startswith("FSDP"):
            return "the parameters are sharded over ranks"
        if isinstance(one, torch.jit.ScriptModule):
            return "a part of the model is a TorchScript"
    return ""


def _has_forward(module):
    forward = type(module).forward
    return type(forward) is FunctionType and forward.__code__.co_name != "_forward_unimplemented"
