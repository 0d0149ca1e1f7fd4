"""Inspects the models, batches, steps and graphs of PyTorch for `TrainingMonitor`."""

from time import thread_time
from weakref import WeakSet, ref

from ..events.protocol import TENSORS
from ..inspection.nested import first_tensor
from ..training.batch_fingerprints import Batch
from .autograd_graph import AutogradGraph
from .checkpoints import Checkpoints
from .collectives import Collectives
from .compiler import compiled, listening
from .dataloader import BatchFingerprints, DataLoaders
from .flight_recorder import FlightRecorder
from .framework_state import awake
from .functional_calls import FunctionalCalls
from .loss_wrappers import LossFunctions
from .model_copies import ModelCopies
from .model_inputs import ModelInputs
from .model_table import Describer, InitialWrites, ModelTable, key_of
from .module_calls import ModuleCalls
from .module_outputs import ModuleOutputs
from .parameter_stats import ParameterStats, has_gradient, written
from .root_modules import RootModules
from .run_totals import JUDGED, fill_in
from .spectral_norms import evaluated_first
from .tensor_stats import TensorStats, WithoutModes


class TensorInspector:
    """The eyes of one process; see `TrainingMonitor` for what they do.

    Args:
        adapter: The adapter of the framework.
    """

    def __init__(self, adapter):
        torch, failed = adapter.module, adapter.probe.failed
        self.torch = torch
        self.adapter = adapter
        self.emit = adapter.probe.event
        self.failed = failed
        self.stats = TensorStats(torch)
        self.without_modes = WithoutModes(torch)
        self.calls = ModuleCalls()
        clock = adapter.training.clock
        self.roots = RootModules(torch, adapter.find_model, adapter.is_compiling, failed, clock, self.calls)
        self.roots.end_look = self.end_look
        self.modules = ModuleOutputs(torch, self.stats, self.without_modes, failed, thread_time, self.calls)
        self.functions = FunctionalCalls(torch, self)
        deep = str(adapter.probe.settings.get("level")) == "deep"
        self.parameters = ParameterStats(torch, self.stats, self.without_modes, adapter.values, deep)
        self.writes = InitialWrites(failed)
        self.describer = Describer(torch, self.stats, self.without_modes, self.emit, self.writes)
        self.graphs = AutogradGraph(torch, self)
        self.losses = LossFunctions(torch, self.stats, self.without_modes, self.emit, failed)
        self.fingerprints = BatchFingerprints(self.stats, self.without_modes)
        self.batches = ModelInputs(torch, self.stats, self.without_modes, self.emit)
        self.loaders = DataLoaders(self.fingerprints, self.emit, failed)
        self.loading = Checkpoints(torch, self.emit, failed)
        self.flight_recorder = FlightRecorder(torch, self)
        self.collectives = Collectives(torch, self)
        self.copies = ModelCopies(torch, self)
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

    def forget(self):
        """Begins anew, in a forked child."""
        self.optimizers = WeakSet()
        self._held = set()
        self._tables = {}
        self.had_gradient = set()
        self.toggled = []
        self.called = set()
        self._flags = {}
        self._spectral = []
        self._evaluated = False
        self._root = self._stepped = self._given = None
        self.batches.forget()
        self.loading.forget()
        self.losses.forget()
        self.graphs.forget()
        self.flight_recorder.forget()
        self.collectives.forget()
        self.copies.forget()

    # models

    def optimizer_made(self, optimizer):
        """Takes a new optimizer, whose parameters may be those of a model that was not known."""
        self.optimizers.add(optimizer)
        self._hold(optimizer)
        self._monitor.loop.optimizers_made += 1
        self.roots.discover([p for group in optimizer.param_groups for p in group["params"]])

    def held_by_optimizers(self):
        """Ids of the parameters that optimizers hold or have held."""
        for one in list(self.optimizers):
            self._hold(one)
        return set(self._held)

    def _hold(self, optimizer):
        self._held.update(id(p) for group in optimizer.param_groups for p in group["params"])

    def table(self, root):
        """The modules and parameters of a model, numbered; `None` when it is gone."""
        known = self._tables.get(root.index)
        if known is not None:
            return known
        module = root.module()
        if module is None:
            return None
        known = self._tables[root.index] = ModelTable(module)
        return known

    def followed(self):
        """The models whose last forward was in the thread that is followed."""
        thread = self._monitor.thread
        return [root for root in self.roots.all() if root.thread == thread or thread is None]

    def before_forward(self, root, args, kwargs, batch):
        """Prepares the look at a forward that is about to run."""
        table = self.table(root)
        module = root.module()
        if module is None or table is None:
            return
        if table.told and key_of(module) != table.key:
            del self._tables[root.index]
            root.told = None
            table = self.table(root)
        if not table.told and table.initial is None and root.called < 2:
            table.initial = self.describer.initial(table)
        if not table.told and root.called < 2 and not self._spectral and self.without_modes.is_possible():
            with self.without_modes:
                self._spectral += evaluated_first(self.torch, module)
        self.modules.clear()
        self._root = root
        self._given = (args, kwargs)
        self.batches.look(root, args, kwargs, batch)
        reason = self._hidden(root)
        if reason:
            self.adapter.training.unobserved("what modules return", reason)
            return
        self.modules.begin(root, table.modules, not table.told)
        self.functions.begin(root)

    def _hidden(self, root):
        """Why the inside of a model cannot be looked at now, "" when it can."""
        if root.hidden:
            return root.hidden
        if compiled() or listening(self.torch):
            return "a part of the program is compiled"
        if self.adapter.capturing():
            return "a CUDA graph is being captured"
        return "" if self.without_modes.is_possible() else "another tool watches every call"

    def after_forward(self, root, output):
        """Takes what the look at a forward has found."""
        self._monitor.cost += self.modules.took() + self.functions.took()
        self.functions.looks_at_output(root, output)
        self.functions.end()
        if root is not self._root:
            return
        module = root.module()
        if self.modules._root is root and module is not None and not self._hidden(root):
            self.modules.look_root(module, self._given, output)
        self._given = None
        self.modules.end()
        self.modules.settle()
        self.called.update((root.index, number) for number in self.modules.found)
        table = self.table(root)
        if table is not None and not table.told:
            table.told = root.shown = True
            seen = self.modules if not self._hidden(root) else None
            self.describer.tell(root, table, table.initial, seen, self._spectral)
            table.initial = None
            self.writes.closed = self._monitor.loop.steps > 0

    def end_look(self):
        """Observes modules and functions no more: the forward has ended, or has raised."""
        self.modules.end()
        self.functions.end()

    def before_evaluation(self, root):
        """Looks at a model that is evaluated: once, for spectral norms that were never trained."""
        if self._evaluated or root.called or root.training():
            return
        self._evaluated = True
        module = root.module()
        for name, one in list(module.named_modules()):
            if any(type(hook).__name__ == "SpectralNorm" for hook in one._forward_pre_hooks.values()):
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
        return tensor.shape[0] if tensor is not None and tensor.dim() else 0

    # steps

    def first_step(self, optimizer):
        """Takes the first step of an optimizer."""
        self.loading.first_step(optimizer)

    def before_step(self, optimizer, recorder, closure):
        """Looks before a step."""
        root = None
        for group in optimizer.param_groups:
            if group["params"]:
                root = self.roots.of(group["params"][0])
                break
        self._stepped = root
        table = self.table(root) if root is not None else None
        self.parameters.before(optimizer, table.parameters if table is not None else {}, closure)
        self.note_gradients()

    def note_gradients(self):
        """Remembers which parameters have a gradient now, of models and optimizers that the followed thread trains.

        Those of other threads may be in a backward call, which replaces gradients while they are read.
        """
        loop, recorders = self._monitor.loop, self.adapter.training.recorders
        trained = [recorder.owner() for recorder in list(recorders.values()) if recorder.index in loop.of]
        held = [p for one in trained if one is not None for group in one.param_groups for p in group["params"]]
        for root in self.followed():
            table = self.table(root)
            held += [p for p in (weak() for weak in (table.held if table is not None else ())) if p is not None]
        self.had_gradient.update(id(p) for p in held if p.grad is not None)

    def after_step(self, optimizer, recorder, norm):
        """Looks after a step, and tells what was seen."""
        told, unchanged = self.parameters.after()
        one = self._monitor.loop.optimizer(recorder.index)
        if unchanged is not None and norm != 0.0:
            one.unchanged.takes(unchanged)
        root = self._stepped
        ratios = sorted(p["ratio"] for p in told if p.get("ratio") is not None)
        self._monitor.ratio = ratios[len(ratios) // 2] if ratios else None
        self.modules.settle()
        modules, functions = list(self.modules.found.values()), self.functions.take()
        if self.modules._root is not None and root is not None and self.modules._root is not root:
            modules = []
        self.batches.tell(recorder.step + 1, self.losses)
        if any(p.get("bad") for p in told) and not self.flight_recorder.done:
            self.flight_recorder.failed("parameter", float("nan"), None)
        self.emit(
            TENSORS,
            framework="torch",
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
        self.collectives.step()
        self.graphs.terms.begin()
        self.losses.sites.tell_news()
        self.losses.target = None
        if self.without_modes.is_possible():
            self.loading.boundary(self.flight_recorder.last_state)
        self._watch_flags()
        if steps == 1:
            self.writes.closed = True
            if not any(root.called for root in self.roots.all()):  # a wrapper made after the optimizer may be called
                for optimizer in list(self.optimizers):
                    self.roots.discover([p for group in optimizer.param_groups for p in group["params"]])
            self.roots.find_submodels()
        for root in self.roots.all():
            root.told = None
            if not root.called:
                root.hidden = ""
        if self._monitor.loop.backwards >= JUDGED:
            self.totals(self._monitor.loop)  # at exit the models may be gone

    def _watch_flags(self):
        """Notes parameters whose `requires_grad` has changed."""
        for root in self.roots.all():
            table = self.table(root)
            for at, held in enumerate(table.held if table is not None else ()):
                parameter = held()
                if parameter is None:
                    continue
                known = self._flags.get((root.index, at))
                if known is not None and known != parameter.requires_grad and table.names[at] not in self.toggled:
                    self.toggled.append(table.names[at])
                self._flags[root.index, at] = parameter.requires_grad

    # graphs

    def graph(self, number, tensors):
        """Looks at the graph of a backward call."""
        self.graphs.look(number, tensors)

    def graph_ended(self, number):
        """Takes the end of a backward call."""
        self.graphs.ended(number)

    def mark_graph(self, tensors):
        """Marks the graph of a backward call: a weak reference that lives as long as the graph does."""
        node = next((t.grad_fn for t in tensors if t.grad_fn is not None), None)
        if node is None or not hasattr(node, "metadata"):
            return None
        mark = Mark()
        node.metadata["labbook"] = mark
        return ref(mark)

    def watch_for_detach(self, missing, frame):
        """Has the next forward watched for the place where a graph is cut."""
        held = self.held_by_optimizers()
        called = set(self.modules.order)
        for _, parameter, owner, root in missing:
            if id(parameter) in held and owner in called and not self._hidden(root):
                self.functions.arm(root, missing, frame)
                return

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
        with self.without_modes:
            fill_in(self, loop)

    def device_memory(self):
        """Memory of the devices, without waiting for them; `None` where there is none."""
        torch = self.torch
        if not awake(torch):
            return None
        told = {"allocated": 0, "reserved": 0, "peak": 0, "total": 0}
        for index in range(torch.cuda.device_count()):
            told["allocated"] += torch.cuda.memory_allocated(index)
            told["reserved"] += torch.cuda.memory_reserved(index)
            told["peak"] += torch.cuda.max_memory_allocated(index)
            told["total"] += torch.cuda.get_device_properties(index).total_memory
        return told

    def release(self):
        """Forgets what was kept for a step."""
        self.flight_recorder.release()

    def finish(self):
        """Writes what only memory holds."""
        self.losses.sites.tell_news()
        self.graphs.finish()


class Mark:
    """Lives as long as the graph that it was put into."""

    __slots__ = ("__weakref__",)
