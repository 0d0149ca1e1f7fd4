"""Inspects the models, batches, steps and graphs of PyTorch for `TrainingMonitor`."""

from time import thread_time
from weakref import ref

from ..inspection import inspector
from .autograd_graph import AutogradGraph
from .cached_positions import CachedPositions
from .checkpoints import Checkpoints
from .collectives import Collectives
from .compiler import has_compiled, is_compiling_next
from .dataloader import BatchFingerprints, DataLoaders
from .evaluated_models import EvaluatedModels
from .flight_recorder import FlightRecorder
from .framework_state import parameters
from .functional_calls import FunctionalCalls
from .loss_wrappers import LossFunctions
from .model_copies import ModelCopies
from .model_inputs import ModelInputs
from .model_table import Describer, InitialWrites, ModelTable
from .module_calls import ModuleCalls
from .module_outputs import ModuleOutputs
from .parameter_stats import ParameterStats, gradient_version, has_gradient
from .root_modules import RootModules
from .run_totals import JUDGED, fill_in
from .spectral_norms import find_untrained_norms
from .tensor_stats import TensorStats, WithoutModes


class TensorInspector(inspector.TensorInspector):
    """Inspects the tensors of one process that uses PyTorch."""

    TABLE = ModelTable
    has_gradient = staticmethod(has_gradient)
    gradient_version = staticmethod(gradient_version)

    def __init__(self, adapter):
        super().__init__(adapter)
        torch, failed = adapter.module, self.failed
        self.stats = TensorStats(torch)
        self.without_modes = WithoutModes(torch)
        self.calls = ModuleCalls()
        clock = adapter.training.clock
        self.roots = RootModules(torch, adapter.find_model, adapter.is_compiling, failed, clock, self.calls)
        self.roots.end_look = self.end_look
        self.modules = ModuleOutputs(torch, self.stats, self.without_modes, failed, thread_time, self.calls)
        self.functions = FunctionalCalls(torch, self)
        self.parameters = ParameterStats(torch, self.stats, self.without_modes, adapter.values)
        self.writes = InitialWrites(failed)
        self.describer = Describer(torch, self.stats, self.without_modes, self.emit, self.writes)
        self.graphs = AutogradGraph(torch, self)
        self.losses = LossFunctions(torch, self.stats, self.without_modes, self.emit, failed)
        self.fingerprints = BatchFingerprints(self.stats, self.without_modes)
        self.batches = ModelInputs(torch, self.stats, self.without_modes, self.emit)
        self.loaders = DataLoaders(self.fingerprints, self.emit, failed)
        self.loading = Checkpoints(torch, self.emit, failed)
        self.loading.without_modes = adapter.values.without_modes
        self.flight_recorder = FlightRecorder(torch, self)
        self.collectives = Collectives(torch, self)
        self.copies = ModelCopies(torch, self)
        self.evaluated = EvaluatedModels(torch, self)
        self.positions = CachedPositions(self)
        self.loading.model_loads = self.on_load_state
        self.forget()
        adapter.probe.after_fork(self.forget)

    def forget(self):
        """Begins anew, in a forked child."""
        super().forget()
        self.had_gradient, self.seen_with_gradients = set(), set()
        self.called = set()
        self._evaluated = False
        self.collectives.forget()
        self.copies.forget()
        self.evaluated.forget()
        self.positions.forget()

    # models

    def optimizer_made(self, optimizer):
        """Processes a new optimizer, whose parameters may be those of a model that was not known."""
        self.evaluated.end()
        super().optimizer_made(optimizer)

    def on_load_state(self, module, state):
        """Processes the loading of a state into a model."""
        self.copies.on_load_state(module, state)
        self.evaluated.add(module)

    def graph(self, number, tensors):
        """Looks at the graph of a backward call."""
        self.evaluated.end()
        super().graph(number, tensors)

    def observe_forwards(self, reached):
        """Observes `model.forward(x)` of models that train without being called, given the ids of reached parameters.

        Their parameters have not been changed yet: they are the initial ones.
        """
        if has_compiled() or self.is_given_to_compiler():
            return
        for root in self.roots.observe_forwards(reached):
            table = self.table(root)
            if table is not None and table.initial is None:
                table.initial = self.describer.initial(table)

    def _describe_new_model(self, module):
        if not self._spectral and self.without_modes.is_possible():
            with self.without_modes:
                self._spectral += find_untrained_norms(self.framework, module)

    def is_given_to_compiler(self):
        """Whether functions that this thread calls now would be compiled, as in a compiled step after a graph break."""
        return is_compiling_next(self.framework)

    def _hidden_reason(self, root):
        if root.hidden:
            return root.hidden
        if has_compiled() or self.is_given_to_compiler():
            return "a part of the program is compiled"
        if self.adapter.capturing():
            return "a CUDA graph is being captured"
        return self.without_modes.refusal_reason()

    def after_forward(self, root, output):
        """Processes what the look at a forward has found."""
        self._monitor.cost += self.modules.take_seconds() + self.functions.take_seconds()
        self.functions.looks_at_output(root, output)
        self.functions.end()
        if root is not self._root:
            return
        module = root.module()
        if self.modules._root is root and module is not None and not self._hidden_reason(root):
            self.modules.inspect_root(module, self._given, output)
        self._given = None
        self.modules.end()
        self.modules.settle()
        self.called.update((root.index, number) for number in self.modules.found)
        if self._describe(root):
            self.writes.closed = self._monitor.loop.steps > 0

    def end_look(self):
        """Observes modules and functions no more: the forward has ended, or has raised."""
        self.modules.end()
        self.functions.end()
        self.positions.end()

    def evaluates(self, root, args, kwargs):
        """Looks at a forward that is no training forward, at its first input and at the positions of its tokens."""
        super().evaluates(root, args, kwargs)
        self.positions.begins(root, args, kwargs)

    def before_evaluation(self, root):
        """Looks at a model that is evaluated: once, for spectral norms that were never trained."""
        if self._evaluated or root.called or root.training():
            return
        self._evaluated = True
        module = root.module()
        for name, one in list(module.named_modules()):
            if any(type(hook).__name__ == "SpectralNorm" for hook in one._forward_pre_hooks.values()):
                self._spectral.append(name)

    # steps

    def note_gradients(self):
        """Remembers which parameters have a gradient now, of models and optimizers that the followed thread trains.

        Those of other threads may be in a backward call, which replaces gradients while they are read.
        """
        loop, recorders = self._monitor.loop, self.adapter.training.recorders
        held = []
        for recorder in list(recorders.values()):
            if recorder.index in loop.of and (one := recorder.owner()) is not None:
                mine = parameters(one)
                if any(p.grad is not None for p in mine):
                    self.seen_with_gradients.add(recorder.index)
                held += mine
        for root in self.followed_models():
            table = self.table(root)
            held += [p for p in (weak() for weak in (table.held if table is not None else ())) if p is not None]
        self.had_gradient.update(id(p) for p in held if p.grad is not None)

    def end_of_step(self, steps):
        """Processes the end of a dense step."""
        super().end_of_step(steps)
        self.collectives.step()
        self.graphs.terms.begin()
        if self.without_modes.is_possible():
            self.loading.boundary(self.flight_recorder.last_state)
        if steps == 1:
            self.writes.closed = True
            if not any(
                root.called for root in self.roots.living_models()
            ):  # a wrapper made after the optimizer may be called
                for optimizer in list(self.optimizers):
                    self.roots.discover(parameters(optimizer))
            self.roots.find_submodels()
        for root in self.roots.living_models():
            root.cached = None
            if not root.called:
                root.hidden = ""
        if self._monitor.loop.backwards >= JUDGED:
            self.totals(self._monitor.loop)  # at exit the models may be gone

    # graphs

    def has_graph(self, tensor):
        """Whether a tensor was computed with gradients."""
        return tensor.grad_fn is not None

    def is_ready(self, tensor):
        """Whether a tensor can be read without waiting for its device."""
        if tensor.is_cpu:
            return True
        return tensor.is_cuda and self.framework.cuda.current_stream(tensor.device).query()

    def leaves(self, tensors):
        """The parameters that the graph of these tensors reaches."""
        return list(self.graphs.reach(tensors).values())

    def mark_graph(self, tensors):
        """Marks the graph of a backward call: a weak reference that lives as long as the graph, or most of it, does.

        Below the loss, an operation near the parameters is marked: it lives on where outputs are collected, too.
        """
        node = next((t.grad_fn for t in tensors if t.grad_fn is not None), None)
        if node is None or not hasattr(node, "metadata"):
            return None
        mark = Mark()
        node.metadata["labbook"] = mark
        for _ in range(MOST_DEEP):
            below = (following for following, _ in node.next_functions if following is not None)
            inner = next((one for one in below if not hasattr(one, "variable") and hasattr(one, "metadata")), None)
            if inner is None:
                break
            node = inner
        node.metadata["labbook"] = mark
        return ref(mark)

    def watch_for_detach(self, missing, frame):
        """Has the next forward watched for the place where a graph is cut."""
        held = self.optimized_ids()
        called = set(self.modules.order)
        for _, parameter, owner, root in missing:
            if id(parameter) in held and owner in called and not self._hidden_reason(root):
                self.functions.arm(root, missing, frame)
                return

    # the whole

    def weights(self, parameters, most):
        """Some values of each of these parameters in one list, `None` where one cannot be read."""
        if not all(self.stats.is_plain(one) and one.is_floating_point() and one.numel() for one in parameters):
            return None
        return [value for one in parameters for value in self.stats.flat(one, most).tolist()]

    def totals(self, loop):
        """Fills in names and facts of the loop."""
        with self.without_modes:
            fill_in(self, loop)

    def _cuda(self):
        return self.framework.cuda


MOST_DEEP = 64
"""Operations that are followed down from a loss to the one that is marked."""


class Mark:
    """Lives as long as the graph that it was put into."""

    __slots__ = ("__weakref__",)
