"""Finds the outermost models of a PyTorch program and observes their calls."""

from weakref import ref

from ..inspection import model_lookup as modules
from .module_calls import Observer

MOST_ROOTS = 16
SWEEPS_S = 0.6
"""Seconds that searching all objects for models may take, and a share of the elapsed time later."""

SWEEPS_SHARE = 0.01


class RootModule:
    """An outermost model.

    Attributes:
        index: Its number in this process.
        name: Its class.
        stochastic: Whether dropout with p > 0 or batch normalisation is inside.
        called: Forwards with gradients so far.
        thread: The thread that its last forward ran in, of those that were taken; `None` before.
        shown: Whether its `model` event was written.
        told: What is remembered of it between dense steps.
        hidden: Why its inside cannot be looked at, "" when it can.
        observer: The `Observer` of its calls.
    """

    def __init__(self, module, index, torch):
        self._module = ref(module)
        self.observer = None
        self.index = index
        self.name = modules.class_name(module)
        self.stochastic = _is_stochastic(module, torch)
        self.called = 0
        self.thread = None
        self.told = None
        self.shown = False
        self.hidden = _why_hidden(module, torch)

    def module(self):
        """The module, `None` when it is gone."""
        return self._module()

    def training(self):
        """Its mode; true when it is gone."""
        module = self._module()
        return True if module is None else module.training


class RootModules:
    """All outermost models of this process.

    Args:
        torch: The module.
        find: `find(parameters, whole=False)` gives the module that owns them and nothing else that is trained, or the
            outermost one around them; or `None`.
        is_compiling: Whether the compiler is at work.
        failed: `failed(where, error)` takes failures of ours.
        clock: Monotonic time.
        calls: The `ModuleCalls` of the process.

    Attributes:
        monitor: Told of their forwards; set by the eyes.
        end_look: Called when a forward that was followed has ended, in whatever way.
        spares: Finds the models of parameters that belong to none that was seen to run.
    """

    def __init__(self, torch, find, is_compiling, failed, clock, calls):
        self.torch = torch
        self.monitor = None
        self.end_look = None
        self.spares = modules.SpareParameters(torch.nn.Module, "_modules")
        self._calls = calls
        self._find = find
        self._is_compiling = is_compiling
        self._failed = failed
        self._known = {}
        self._count = 0
        self._clock = clock
        self._swept = 0.0
        self._begun = clock()

    def all(self):
        """The models that still exist."""
        return [root for root in self._known.values() if root.module() is not None]

    def of(self, parameter):
        """The model that owns a parameter, one that was called if possible; `None` when none does."""
        for root in sorted(self.all(), key=lambda root: not root.called):
            if id(parameter) in self.ids(root):
                return root
        return None

    def ids(self, root):
        """Ids of a model's parameters, refreshed once a dense step."""
        if root.told is None or "ids" not in root.told:
            module = root.module()
            found = modules.parameters_of(module, "_modules") if module is not None else []
            root.told = dict(root.told or {}, ids={id(p) for p in found})
        return root.told["ids"]

    def discover(self, parameters):
        """Looks for the model that owns these parameters, unless one that was called does.

        Cost: 40 ms where it takes a sweep; nothing once these have taken their share of the time.
        """
        parameters = [p for p in parameters if self.torch.is_tensor(p)]
        now = self._clock()
        if not parameters or self._swept > SWEEPS_S + SWEEPS_SHARE * (now - self._begun):
            return
        for root in self.all():
            if root.called and id(parameters[0]) in self.ids(root) and id(parameters[-1]) in self.ids(root):
                return
        found = self._find(parameters)
        # The optimizer may hold a part of what runs: then it is the whole that is called.
        whole = self._find(parameters, whole=True) if found is not None else None
        self._swept += self._clock() - now
        for module in (whole, found):
            if module is not None:
                self.add(module)

    def register(self, parameters):
        """Follows the models of parameters that no optimizer trains and a backward call reaches.

        Those that a known model keeps in a plain list or dictionary belong to no model: they are not registered.

        Returns:
            The models, at most 4.
        """
        found = []
        listed = self._listed() if parameters else ()
        for parameter in parameters[: 4 * MOST_ROOTS]:
            now = self._clock()
            if len(found) >= 4 or self._swept > SWEEPS_S + SWEEPS_SHARE * (now - self._begun):
                break
            if id(parameter) in listed or self.of(parameter) is not None:
                continue
            module = self._find([parameter], whole=True)
            self._swept += self._clock() - now
            root = self.add(module) if module is not None else None
            if root is not None:
                found.append(root)
        return found

    def _listed(self):
        """Ids of parameters in plain lists and dictionaries of the models' modules."""
        parameters, waiting = set(), []
        for root in self.all():
            for one in list(root.module().modules()):
                waiting += [(value, 0) for name, value in one.__dict__.items() if not name.startswith("_")]
        while waiting:
            value, depth = waiting.pop()
            if isinstance(value, self.torch.nn.Module) and depth:
                parameters.update(map(id, modules.parameters_of(value, "_modules")))
            elif isinstance(value, self.torch.Tensor):
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
        for key, root in list(self._known.items()):
            if root.module() is None:
                del self._known[key]
                self._calls.remove(key, root.observer)
        if len(self._known) >= MOST_ROOTS or isinstance(module, self.torch.jit.ScriptModule):
            return None
        root = RootModule(module, self._count, self.torch)
        self._count += 1
        self._known[id(module)] = root
        root.observer = self._observer(root)
        self._calls.add(module, root.observer)
        return root

    def find_submodels(self):
        """Follows the children of models that train without being called: something else calls their parts."""
        for root in self.all():
            module = root.module()
            if root.called or root.hidden:
                continue
            for child in list(module._modules.values())[:MOST_ROOTS]:
                if child is not None and any(True for _ in child.parameters()):
                    self.add(child)

    def _observer(self, root):
        monitor, is_compiling, failed = self.monitor, self._is_compiling, self._failed
        training, clock, owner, end_look = monitor.training, monitor.clock, root._module, self.end_look
        grad_on, fast_path = self.torch.is_grad_enabled, monitor.fast_path

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
                    root.called += 1
                monitor.forward_begins(root, args, kwargs, grad, module.training)
            except Exception as error:
                failed("torch.forward begins", error)
            training.overhead_s += clock() - began

        def ended(module, args, output):
            if monitor.inside is not root or owner() is not module or is_compiling():
                return
            began = clock()
            try:
                monitor.forward_ended(root, output)
                end_look()
            except Exception as error:
                failed("torch.forward ended", error)
            training.overhead_s += clock() - began

        def raised(module):
            if owner() is not module:
                return
            try:
                if monitor.inside is root:
                    monitor.inside = None
                end_look()
            except Exception as error:
                failed("torch.forward raised", error)

        return Observer(begins, ended, raised)


def _is_stochastic(module, torch):
    for one in module.modules():
        name = type(one).__name__
        if "Dropout" in name and getattr(one, "p", 1):
            return True
        if isinstance(one, torch.nn.modules.batchnorm._BatchNorm):
            return True
        if getattr(one, "dropout", 0) and isinstance(getattr(one, "dropout", None), float):
            return True
    return False


def _why_hidden(module, torch):
    """Why the inside of a model cannot be looked at, "" when it can."""
    for one in module.modules():
        kind = type(one).__name__
        if kind == "OptimizedModule" or getattr(one, "_compiled_call_impl", None) is not None:
            return "the model is compiled"
        forward = getattr(one, "forward", None)
        if hasattr(forward, "_torchdynamo_orig_callable") or hasattr(forward, "_torchdynamo_inline"):
            return "the model is compiled"
        if kind in ("FullyShardedDataParallel",) or kind.startswith("FSDP"):
            return "the parameters are sharded over ranks"
        if isinstance(one, torch.jit.ScriptModule):
            return "a part of the model is a TorchScript"
    return ""
