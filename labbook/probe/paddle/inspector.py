"""What looks at the tensors of PaddlePaddle for `TrainingMonitor`: models, batches, steps and graphs, put together."""

from _thread import get_ident
from math import prod
from weakref import ref

from ..inspection import inspector
from ..inspection.model_inputs import MOST_LEAVES
from ..inspection.nested import tensors_in
from .autograd_graph import AutogradGraph, owners, reached_leaves
from .checkpoints import Checkpoints
from .dataloader import BatchFingerprints, DataLoaders
from .detach_finder import DetachFinder
from .flight_recorder import FlightRecorder
from .functional_calls import FunctionalCalls
from .loss_wrappers import LossFunctions
from .metric_resets import MetricObjects
from .model_copies import WeightProgress
from .model_inputs import ModelInputs
from .model_table import Describer, InitialWrites, ModelTable
from .module_outputs import ModuleOutputs
from .parameter_stats import ParameterStats, gradient_version, has_gradient
from .patches import Patches
from .root_modules import RootModules
from .run_totals import fill_in
from .static_operators import functions_of, is_value
from .tensor_stats import TensorStats


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


class TensorInspector(inspector.TensorInspector):
    """Inspects the tensors of one process that uses PaddlePaddle."""

    TABLE = ModelTable
    PROGRESS = WeightProgress
    has_gradient = staticmethod(has_gradient)
    gradient_version = staticmethod(gradient_version)

    def __init__(self, adapter):
        super().__init__(adapter)
        paddle, failed = adapter.module, self.failed
        self.stats = TensorStats(paddle)
        self.grad = paddle.grad
        self.without_modes = WithoutModes(paddle.in_dynamic_mode)
        self.patches = Patches(paddle)
        self.roots = RootModules(adapter)
        self.modules = ModuleOutputs(paddle, self.stats, failed)
        self.functions = FunctionalCalls(paddle, self)
        self.parameters = ParameterStats(self.stats, adapter.values)
        self.writes = InitialWrites(failed)
        self.describer = Describer(self.stats, self.emit, self.writes)
        self.cuts = DetachFinder(paddle, failed)
        self.graphs = AutogradGraph(paddle, self, self.cuts)
        self.losses = LossFunctions(paddle, self.stats, self.without_modes, self.emit, failed)
        self.fingerprints = BatchFingerprints(self.stats, self.without_modes)
        self.batches = ModelInputs(self.stats, self.without_modes, self.emit)
        self.loaders = DataLoaders(self.fingerprints, self.emit, failed)
        self.metrics = MetricObjects(self)
        self.loading = Checkpoints(paddle, self.emit, failed)
        self.loading.optimizers = lambda: list(self.optimizers)
        self.flight_recorder = FlightRecorder(paddle, self)
        self.roots.abandoned = self.abandoned
        self.forget()
        adapter.probe.after_fork(self.forget)

    def install(self):
        """Puts all wrappers in place; where one cannot be, the others are."""
        paddle, patches, guard = self.framework, self.patches, self.adapter.probe.guard
        guard("paddle.health layers")(self.roots.install)(patches)
        guard("paddle.health losses")(self.losses.install)(patches)
        guard("paddle.health loaders")(self.loaders.install)(paddle, patches)
        guard("paddle.health metrics")(self.metrics.install)(paddle, patches)
        guard("paddle.health loading")(self.loading.install)(patches)
        guard("paddle.health functions")(self.functions.install)(patches)
        guard("paddle.health initialisers")(self.writes.install)(paddle, patches)
        guard("paddle.health compiler")(patches.install)(guard("paddle.traced")(self._traced))

    def _traced(self, program):
        """Reads the loss of a function that was compiled, where it returns one: of its calls nothing else is seen."""
        outputs = self.framework.utils.flatten(program.outputs)
        losses = [one for one in outputs if is_value(one) and prod(one.shape) == 1]
        blown = functions_of(losses, -1)[1] if self.functions.pairs.blown is None else None
        self.functions.pairs.blown = self.functions.pairs.blown or blown

    def forget(self):
        """Begins anew, in a forked child."""
        super().forget()
        self.gradients = set()
        self.counted = set()
        self._evaluated = set()
        self.patches.forget()
        self.roots.forget()
        self.functions.forget()

    def is_looking(self):
        """Whether this call belongs to a dense step of the followed thread, and no CUDA graph is being captured."""
        monitor = self._monitor
        followed = monitor.dense and monitor.thread == get_ident() and not self.losses._busy
        return followed and not self.adapter.capturing()

    # models

    def tables(self):
        """`(model, its table)` of the followed models that exist."""
        pairs = [(root, self.table(root)) for root in self.followed_models()]
        return [(root, table) for root, table in pairs if table is not None]

    def _begin_forward(self):
        self.roots.look = self.modules
        if self.graphs.watches(self._monitor.loop.backwards + 1):
            self.cuts.begin()

    def after_forward(self, root, output):
        """Processes what the look at a forward has found."""
        self.roots.look = None
        self._monitor.cost += self.modules.take_seconds() + self.functions.take_seconds()
        if root is not self._root:
            return
        self.functions.watch_loss(root, [tensor for _, tensor in tensors_in(output, self.stats, MOST_LEAVES)])
        given, self._given = self._given, None
        layer = root.module()
        if not root.hidden and layer is not None and self.modules._root is root:
            self.modules.inspect_root(layer, given or ((), {}), output)
        if self.cuts.on:
            self.graphs.forward_ended([tensor for _, tensor in tensors_in(output, self.stats, MOST_LEAVES)])
        self.modules.end()
        self._describe(root)

    def abandoned(self):
        """Processes the failure of a forward: nothing of ours stays behind."""
        self.roots.look = None
        self._given = None
        self.functions.end()
        self.modules.end()
        self.cuts.end()

    def weights(self, parameters, most):
        """Some values of each of these parameters in one list, `None` where one cannot be read."""
        views = [self.stats.view(one) for one in parameters]
        if not all(view is not None and view.dtype.kind == "f" and view.size for view in views):
            return None
        return [value for view in views for value in self.stats.flat(view, most).tolist()]

    def before_evaluation(self, root):
        """Looks at a model that is evaluated: once, for spectral norms that never iterated."""
        if root.training() or root.index in self._evaluated:
            return
        self._evaluated.add(root.index)
        layer = root.module()
        for name, one in list(layer.named_sublayers(include_self=True)) if layer is not None else []:
            for hook in one._forward_pre_hooks.values():
                if type(hook).__name__ == "SpectralNorm" and self.stats.is_never_iterated(one, hook):
                    self._spectral.append(name)

    # steps

    def first_step(self, optimizer):
        """Processes the first step of an optimizer, whose class may not call the wrapped constructor."""
        if optimizer not in self.optimizers:
            self.optimizer_made(optimizer)
        super().first_step(optimizer)

    def note_gradients(self):
        """Remembers which parameters have a gradient now."""
        for root, table in self.tables():
            for at, weak in enumerate(table.held):
                parameter = weak()
                if parameter is not None and parameter._grad_ivar() is not None:
                    self.gradients.add((root.index, at))

    def end_of_step(self, steps):
        """Processes the end of a dense step."""
        super().end_of_step(steps)
        self.loading.boundary(None)
        self.writes.closed = True
        fill_in(self, self._monitor.loop, now=True)  # at exit the models may be gone

    # graphs

    def has_graph(self, tensor):
        """Whether a tensor was computed with gradients."""
        return not tensor.stop_gradient and not tensor.is_leaf

    def is_ready(self, tensor):
        """Whether a tensor can be read without waiting for its device."""
        if tensor.place.is_cpu_place():
            return True
        return tensor.place.is_gpu_place() and self.framework.device.cuda.current_stream().query()

    def leaves(self, tensors):
        """The parameters that the graph of these tensors reaches.

        Cost: a sweep over all objects.
        """
        return owners(self.framework, reached_leaves(tensors) or ())

    def graph(self, number, tensors):
        """Looks at the graph of a backward call."""
        self.functions.backward(tensors)
        super().graph(number, tensors)

    def mark_graph(self, tensors):
        """Marks the graph of a backward call: a weak reference that lives as long as the node of the loss does.

        The mark is a hook on the gradient of the loss, which does nothing. A graph that labbook has read never dies.
        """
        if self.graphs.read == self._monitor.loop.backwards:
            return None
        for tensor in tensors:
            if not tensor.stop_gradient and not tensor.is_leaf:
                mark = Mark()
                tensor._register_grad_hook(mark)
                return ref(mark)
        return None

    # the whole

    def totals(self, loop):
        """Fills in names and facts of the loop."""
        fill_in(self, loop)

    def _cuda(self):
        return self.framework.device.cuda

    def release(self):
        """Forgets what was kept for a step."""
        self.functions.end()
        super().release()
        if self.cuts.on and not self.graphs.bare:
            self.cuts.end()


class Mark:
    """Lives as long as the graph that it was put into."""

    __slots__ = ("__weakref__",)

    def __call__(self, gradient):
        """Leaves a gradient as it is."""
        return
