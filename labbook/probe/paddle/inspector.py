"""What looks at the tensors of PaddlePaddle for `TrainingMonitor`: models, batches, steps and graphs, put together."""

from _thread import get_ident
from weakref import WeakSet, ref

from ..events.protocol import BATCH, TENSORS
from ..inspection.nested import first_tensor, tensors_in
from ..training.batch_fingerprints import Batch
from . import framework_state
from .autograd_graph import AutogradGraph
from .checkpoints import Checkpoints
from .dataloader import BatchFingerprints, DataLoaders
from .detach_finder import DetachFinder
from .flight_recorder import FlightRecorder
from .functional_calls import FunctionalCalls
from .loss_wrappers import LossFunctions
from .model_inputs import ModelInputs
from .model_table import Describer, InitialWrites, ModelTable, key_of
from .module_outputs import ModuleOutputs
from .parameter_stats import ParameterStats, has_gradient, written
from .patches import Patches
from .root_modules import RootModules
from .run_totals import fill_in
from .tensor_stats import TensorStats

MOST_LEAVES = 16


class WithoutModes:
    """The context in which tensors are looked at: looks leave no graph anyway."""

    def __init__(self, dynamic):
        self.is_possible = dynamic

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def wrap(self, method):
        """`method` as it is: PaddlePaddle has no modes that watch every call."""
        return method


class TensorInspector:
    """The eyes of one process; see `TrainingMonitor` for what they do.

    Args:
        adapter: The adapter of the framework.
    """

    def __init__(self, adapter):
        paddle, failed = adapter.module, adapter.probe.failed
        self.paddle = paddle
        self.adapter = adapter
        self.emit = adapter.probe.event
        self.failed = failed
        self._monitor = None
        self.stats = TensorStats(paddle)
        self.grad = paddle.grad
        self.without_modes = WithoutModes(paddle.in_dynamic_mode)
        self.patches = Patches(paddle)
        self.roots = RootModules(adapter)
        self.modules = ModuleOutputs(paddle, self.stats, failed)
        self.functions = FunctionalCalls(paddle, self)
        deep = str(adapter.probe.settings.get("level")) == "deep"
        self.parameters = ParameterStats(paddle, self.stats, adapter.values, deep)
        self.writes = InitialWrites(failed)
        self.describer = Describer(self.stats, self.emit, self.writes)
        self.cuts = DetachFinder(paddle, failed)
        self.graphs = AutogradGraph(paddle, self, self.cuts)
        self.losses = LossFunctions(paddle, self.stats, self.without_modes, self.emit, failed)
        self.fingerprints = BatchFingerprints(self.stats, self.without_modes)
        self.loaders = DataLoaders(self.fingerprints, self.emit, failed)
        self.loading = Checkpoints(paddle, self.emit, failed)
        self.loading.optimizers = lambda: list(self.optimizers)
        self.flight_recorder = FlightRecorder(paddle, self)
        self.roots.abandoned = self.abandoned
        self.forget()
        adapter.probe.after_fork(self.forget)

    @property
    def monitor(self):
        """The health that these eyes look for."""
        return self._monitor

    @monitor.setter
    def monitor(self, monitor):
        self._monitor = monitor
        for eye in (self.roots, self.losses, self.loaders, self.loading):
            eye.monitor = monitor
        monitor.memory.workers = self.loaders.workers

    def install(self):
        """Puts all wrappers in place; where one cannot be, the others are."""
        paddle, patches, guard = self.paddle, self.patches, self.adapter.probe.guard
        guard("paddle.health layers")(self.roots.install)(patches)
        guard("paddle.health losses")(self.losses.install)(patches)
        guard("paddle.health loaders")(self.loaders.install)(paddle, patches)
        guard("paddle.health loading")(self.loading.install)(patches)
        guard("paddle.health functions")(self.functions.install)(patches)
        guard("paddle.health initialisers")(self.writes.install)(paddle, patches)
        guard("paddle.health compiler")(patches.install)()

    def forget(self):
        """Begins anew, in a forked child."""
        self.optimizers = WeakSet()
        self._tables = {}
        self._batch = None
        self.batches = ModelInputs(self.stats)
        self.gradients = set()
        self._flags = {}
        self.toggled = []
        self._root = None
        self._given = None
        self._stepped = None
        self.counted = set()
        self._evaluated, self._spectral = set(), []
        self.patches.forget()
        self.roots.forget()
        self.loading.forget()
        self.losses.forget()
        self.graphs.forget()
        self.functions.forget()
        self.flight_recorder.forget()

    def is_looking(self):
        """Whether this call belongs to a dense step of the followed thread."""
        monitor = self._monitor
        return monitor.dense and monitor.thread == get_ident() and not self.losses._busy

    # models

    def optimizer_made(self, optimizer):
        """Takes a new optimizer: models that own its parameters are followed."""
        self.optimizers.add(optimizer)
        self._monitor.loop.optimizers_made += 1
        self.roots.discover(framework_state.parameters(optimizer))

    def held_by_optimizers(self):
        """The parameters that optimizers hold."""
        return [p for one in list(self.optimizers) for p in framework_state.parameters(one)]

    def table(self, root):
        """The layers and parameters of a model, numbered; `None` when it is gone."""
        known = self._tables.get(root.index)
        if known is not None:
            return known
        layer = root.module()
        if layer is None:
            return None
        known = self._tables[root.index] = ModelTable(layer)
        known.initial = None
        known.told = False
        return known

    def tables(self):
        """`(model, its table)` of all models that exist."""
        pairs = [(root, self.table(root)) for root in self.roots.all()]
        return [(root, table) for root, table in pairs if table is not None]

    def followed(self):
        """`(model, its table)` of the models whose last forward was in the thread that is followed.

        Gradients of others are never read: their thread may be in a backward call, which replaces them meanwhile.
        """
        thread = self._monitor.thread
        return [(root, table) for root, table in self.tables() if root.thread == thread or thread is None]

    def before_forward(self, root, args, kwargs, batch):
        """Prepares the look at a forward that is about to run."""
        table = self.table(root)
        layer = root.module()
        if layer is None or table is None:
            return
        if table.told and key_of(layer) != table.key:
            del self._tables[root.index]
            root.told = None
            table = self.table(root)
        if not table.told and table.initial is None and root.called < 2:
            table.initial = self.describer.initial(table)
        self.modules.clear()
        self._root, self._given = root, args or tuple(kwargs.values())
        if self._batch is None:
            self._batch = self.batches.look(root, args, kwargs, batch)
        if root.hidden:
            self.adapter.training.unobserved("what modules return", root.hidden)
            return
        self.modules.begin(root, table.modules, not table.told)
        self.functions.begin(root)
        self.roots.look = self.modules
        if self.graphs.watches(self._monitor.loop.backwards + 1):
            self.cuts.begin()

    def after_forward(self, root, output):
        """Takes what the look at a forward has found."""
        self.roots.look = None
        self._monitor.cost += self.modules.took() + self.functions.took()
        if root is not self._root:
            return
        self.functions.after(root, [tensor for _, tensor in tensors_in(output, self.stats, MOST_LEAVES)])
        given, self._given = self._given, None
        layer = root.module()
        if not root.hidden and layer is not None and self.modules._root is root:
            self.modules.look_root(layer, given or (), output)
        if self.cuts.on:
            self.graphs.forward_ended([tensor for _, tensor in tensors_in(output, self.stats, MOST_LEAVES)])
        self.modules.end()
        table = self.table(root)
        if table is not None and not table.told:
            table.told = root.shown = True
            self.describer.tell(root, table, table.initial, None if root.hidden else self.modules, self._spectral)
            table.initial = None

    def abandoned(self):
        """Takes the failure of a forward: nothing of ours stays behind."""
        self.roots.look = None
        self._given = None
        self.functions.end()
        self.modules.end()
        self.cuts.end()

    def before_evaluation(self, root):
        """Looks at a model that is evaluated: once, for spectral norms that never iterated."""
        if root.training() or root.index in self._evaluated:
            return
        self._evaluated.add(root.index)
        layer = root.module()
        for name, one in list(layer.named_sublayers(include_self=True)) if layer is not None else []:
            for hook in one._forward_pre_hooks.values():
                if type(hook).__name__ == "SpectralNorm" and self.stats.never_iterated(one, hook):
                    self._spectral.append(name)

    # batches

    def batch_of(self, args, kwargs, wants, rows):
        """A `Batch` of what a model was given, `None` where that holds no tensor."""
        batch = Batch(None, 0)
        self.fingerprints.take((args, kwargs) if kwargs else args, batch, wants, rows)
        return batch if batch.samples else None

    def samples_of(self, args, kwargs):
        """Length of the first axis of the first tensor that a model was given, 0 without one."""
        tensor = args[0] if args else None
        if not self.stats.is_tensor(tensor):
            tensor = first_tensor((args, kwargs), self.stats)
        return tensor.shape[0] if tensor is not None and tensor.shape else 0

    # steps

    def first_step(self, optimizer):
        """Takes the first step of an optimizer; the classes of others may not call the constructor that is watched."""
        if optimizer not in self.optimizers:
            self.optimizer_made(optimizer)
        self.loading.first_step(optimizer)

    def before_step(self, optimizer, recorder, closure):
        """Looks before a step."""
        held = framework_state.parameters(optimizer)
        self._stepped = self.roots.of(held[0]) if held else None
        table = self.table(self._stepped) if self._stepped is not None else None
        self.parameters.before(optimizer, table.parameters if table is not None else {}, closure)
        for root, known in self.followed():
            for at, weak in enumerate(known.held):
                parameter = weak()
                if parameter is not None and parameter._grad_ivar() is not None:
                    self.gradients.add((root.index, at))

    def after_step(self, optimizer, recorder, norm):
        """Looks after a step, and tells what was seen."""
        told, unchanged = self.parameters.after()
        one = self._monitor.loop.optimizer(recorder.index)
        if unchanged is not None and norm != 0.0:
            one.unchanged.takes(unchanged)
        root = self._stepped
        ratios = sorted(p["ratio"] for p in told if p.get("ratio") is not None)
        self._monitor.ratio = ratios[len(ratios) // 2] if ratios else None
        modules, functions = list(self.modules.found.values()), self.functions.take()
        if self.modules._root is not None and root is not None and self.modules._root is not root:
            modules = []
        batch, self._batch = self._batch, None
        target, self.losses.target = self.losses.target, None
        if batch is not None:
            self.emit(BATCH, framework="paddle", step=recorder.step + 1, **self.batches.labelled(batch, target))
        if any(p.get("bad") for p in told) and not self.flight_recorder.done:
            self.flight_recorder.failed("parameter", float("nan"), None)
        self.emit(
            TENSORS,
            framework="paddle",
            step=recorder.step + 1,
            opt=recorder.index,
            model=root.index if root is not None else None,
            param_print=self.parameters.print_of_all(),
            params=[p for p in told if p["i"] is not None],
            modules=modules,
            functions=functions,
        )
        self.parameters.clear()

    def end_of_step(self, steps):
        """Takes the end of a dense step."""
        self.modules.clear()
        self.losses.sites.tell_news()
        self.losses.target = None
        self.loading.boundary(None)
        self.writes.closed = True
        for root, table in self.tables():
            root.told = None
            self._watch_flags(root, table)
        fill_in(self, self._monitor.loop, now=True)  # at exit the models may be gone

    def _watch_flags(self, root, table):
        """Notes parameters whose `stop_gradient` has changed."""
        for at, held in enumerate(table.held):
            parameter = held()
            if parameter is None:
                continue
            known = self._flags.get((root.index, at))
            if known is not None and known != parameter.stop_gradient and table.names[at] not in self.toggled:
                self.toggled.append(table.names[at])
            self._flags[root.index, at] = parameter.stop_gradient

    # graphs

    def graph(self, number, tensors):
        """Looks at the graph of a backward call."""
        self.functions.backward(tensors)
        self.graphs.look(number, tensors)

    def graph_ended(self, number):
        """Takes the end of a backward call."""
        self.graphs.ended(number)

    def mark_graph(self, tensors):
        """Marks the graph of a backward call: a weak reference that lives as long as the node of the loss does.

        The mark is a hook on the gradient of the loss, which does nothing.
        """
        for tensor in tensors:
            if not tensor.stop_gradient and not tensor.is_leaf:
                mark = Mark()
                tensor._register_grad_hook(mark)
                return ref(mark)
        return None

    def stale_gradient_norm(self, optimizer, recorder, every):
        """Norm of the gradients that stand in an optimizer's parameters."""
        return self.parameters.stale_norm(optimizer, recorder.scratch, every)

    def has_gradient(self, optimizer):
        """Whether any parameter of an optimizer has a gradient."""
        return has_gradient(optimizer)

    def written(self, optimizer):
        """A mark that changes when a gradient of an optimizer is written."""
        return written(optimizer)

    # the whole

    def totals(self, loop):
        """Fills in names and facts of the loop."""
        fill_in(self, loop)

    def device_memory(self):
        """Memory of the devices, without waiting for them; `None` where there is none."""
        if not framework_state.awake(self.paddle):
            return None
        cuda = self.paddle.device.cuda
        told = {"allocated": 0, "reserved": 0, "peak": 0, "total": 0}
        for index in range(cuda.device_count()):
            told["allocated"] += cuda.memory_allocated(index)
            told["reserved"] += cuda.memory_reserved(index)
            told["peak"] += cuda.max_memory_allocated(index)
            told["total"] += cuda.get_device_properties(index).total_memory
        return told

    def release(self):
        """Forgets what was kept for a step."""
        self.functions.end()
        self.flight_recorder.release()
        if self.cuts.on and not self.graphs.bare:
            self.cuts.end()

    def finish(self):
        """Writes what only memory holds."""
        self.losses.sites.tell_news()
        self.graphs.finish()


class Mark:
    """Lives as long as the graph that it was put into."""

    __slots__ = ("__weakref__",)

    def __call__(self, gradient):
        """Leaves a gradient as it is."""
        return
