"""Inspects the models, batches, steps and graphs of a training for `TrainingMonitor`: the part without a framework."""

from weakref import WeakSet

from ..events.measurement_kinds import TENSORS
from ..training.batch_fingerprints import Batch
from ..training.process_memory import memory_of_devices
from .nested import first_tensor
from .parameter_stats import WeightProgress

MOST_MARKS = 512
MOST_OPTIMIZERS = 16
_COMPARED = ("shape", "integer", "min", "max", "mean", "std", "channels", "parts", "tokens")
MOST_READ = 8
"""Gradients of an optimizer of which some values are read after a call of `backward`."""


class TensorInspector:
    """Inspects the tensors of one process; `TrainingMonitor` calls it around forwards, backward calls and steps.

    A framework makes the parts `stats`, `without_modes`, `roots`, `modules`, `functions`, `parameters`, `writes`,
    `describer`, `graphs`, `losses`, `fingerprints`, `batches`, `loaders`, `loading` and `flight_recorder`. It
    implements `after_forward(root, output)` after a dense forward, `before_evaluation(root)` before one that is no
    training forward, `weights(parameters, most)`: at most so many values of each,
    `leaves(tensors)`: the parameters that their graph reaches, `mark_graph(tensors)`: a weak
    reference that lives as long as that graph, `totals(loop)`, which fills in names and facts, `note_gradients()` and
    `_cuda()`, `has_graph(tensor)` and `is_ready(tensor)`: whether it can be read without waiting, and may extend the
    other methods.

    Attributes:
        TABLE, PROGRESS: The framework's `ModelTable` and `WeightProgress`.
        has_gradient: `has_gradient(optimizer)`: whether any of its parameters has a gradient.
        written: `gradient_version(optimizer)`: a mark that changes when one of its gradients is written.
        optimizers: All optimizers that were made and still exist.
        toggled: Names of parameters that were frozen or set free during training.
        final_state: Saves the state when the process ends, or `None`.
    """

    TABLE = None
    PROGRESS = WeightProgress
    has_gradient = written = None

    def __init__(self, adapter):
        self.framework = adapter.module
        self.adapter = adapter
        self.emit = adapter.probe.event
        self.failed = adapter.probe.failed
        self._monitor = None
        self.final_state = None

    @property
    def monitor(self):
        """The `TrainingMonitor` that calls this inspector."""
        return self._monitor

    @monitor.setter
    def monitor(self, monitor):
        self._monitor = monitor
        for part in (self.roots, self.losses, self.loaders, self.loading):
            part.monitor = monitor
        monitor.memory.workers = self.loaders.workers

    def forget(self):
        """Begins anew, in a forked child."""
        self.optimizers = WeakSet()
        self._held = set()
        self._tables = {}
        self._flags = {}
        self.toggled = []
        self._spectral = []
        self._root = self._given = None
        self._stepped, self._looks = [], {}
        self.progress = self.PROGRESS(self)
        self.batches.forget()
        self.loaders.forget()
        self.loading.forget()
        self.losses.forget()
        self.graphs.forget()
        self.flight_recorder.forget()

    # models

    def optimizer_made(self, optimizer):
        """Processes a new optimizer, whose parameters may be those of a model that was not known."""
        held = self.adapter.facts.parameters(optimizer)
        self.optimizers.add(optimizer)
        self._held.update(map(id, held))
        self._monitor.loop.optimizers_made += 1
        self.roots.discover(held)

    def optimized_ids(self):
        """Ids of the parameters that optimizers hold or have held."""
        self._held.update(map(id, self.trained_parameters()))
        return set(self._held)

    def trained_parameters(self):
        """The parameters that optimizers hold."""
        return [p for one in list(self.optimizers) for p in self.adapter.facts.parameters(one)]

    def table(self, root):
        """The modules and parameters of a model, numbered; `None` when it is gone."""
        known = self._tables.get(root.index)
        if known is not None:
            return known
        module = root.module()
        if module is None:
            return None
        known = self._tables[root.index] = self.TABLE(module)
        return known

    def followed_models(self):
        """The models whose last forward was in the thread that is followed.

        Gradients of others are never read: their thread may be in a backward call, which replaces them meanwhile.
        """
        thread = self._monitor.thread
        return [root for root in self.roots.living_models() if root.thread == thread or thread is None]

    def before_forward(self, root, args, kwargs, batch):
        """Prepares the look at a dense forward that is about to run."""
        table = self.table(root)
        module = root.module()
        if module is None or table is None:
            return
        if table.is_described and table.key_of(module) != table.key:
            del self._tables[root.index]
            root.cached = None
            table = self.table(root)
        if not table.is_described and root.called < 2:
            if table.initial is None:
                table.initial = self.describer.initial(table)
            self._describe_new_model(module)
        self._keep_looks(root)
        if not self._monitor.loop.steps:
            self.progress.inspect(root, 0)
        self._root, self._given = root, (args, kwargs)
        self.batches.inspect(root, args, kwargs, batch)
        reason = self._hidden_reason(root)
        if reason:
            self.adapter.training.unobserved("what modules return", reason)
            return
        self.modules.begin(root, table.modules, not table.is_described)
        self.functions.begin(root)
        self._begin_forward()

    def _keep_looks(self, root=None):
        """Keeps what was seen in the last model that was called, which is not this one, and looks anew."""
        last = self.modules._root
        if last is not None and last is not root:
            self.modules.settle()
            self._looks[last.index] = list(self.modules.found.values())
        self.modules.clear()

    def _describe_new_model(self, module):
        """Looks at a model whose `model` event is not written yet."""

    def _begin_forward(self):
        """Prepares what only one framework has, where the inside of the model can be looked at."""

    def _hidden_reason(self, root):
        """Why the inside of a model cannot be looked at now, "" when it can."""
        return root.hidden

    def _describe(self, root):
        """Writes the `model` event of a model whose first forward has ended; whether it was written now."""
        table = self.table(root)
        if table is None or table.is_described:
            return False
        table.is_described = root.shown = True
        table.link(self._tables)
        modules = self.modules if root.called and not self._hidden_reason(root) else None
        others = [other for other in self.roots.living_models() if other is not root]
        holders = [other for other in others if id(root.module()) in self.table(other).modules]
        related = {
            "parts": [other.index for other in others if id(other.module()) in table.modules],
            "part_of": [other.index for other in holders],
            "holder": max(holders, key=lambda one: len(self.table(one).modules)).name if holders else "",
        }
        self.describer.write_event(root, table, table.initial, modules, self._spectral, related)
        # A first evaluation may freeze the parameters for as long as it runs.
        self._watch_flags(root, table)
        table.initial = None
        return True

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
        shape = tensor.shape if tensor is not None else ()
        return shape[0] if len(shape) else 0

    def is_computed(self, args):
        """Whether all inputs of a model but scalars were computed with gradients, as by an earlier call of it.

        A recurrent policy, which has observations as well, is none.
        """
        kind = self.framework.Tensor
        given = [one for one in args if type(one) is kind and one.ndim]
        return bool(given) and all(not one.is_leaf for one in given)

    def evaluates(self, root, args, kwargs):
        """Looks at a forward that is no training forward, and at its first input where the phase is new."""
        self.look_at_inputs(args, kwargs)
        module = root.module()
        if module is not None:
            self.progress.evaluate(module, root.name, self._monitor.step)
        self.before_evaluation(root)

    def look_at_inputs(self, args, kwargs):
        """Looks at the first input of a forward of an evaluation phase, where it is due."""
        evaluation = self._monitor.evaluation
        if evaluation.wants_inputs() and self.without_modes.is_possible():
            tensor = first_tensor((args, kwargs), self.stats)
            if tensor is not None:
                with self.without_modes:
                    look = self.batches.leaf("", tensor, "other", None)
                evaluation.inputs.append({name: look[name] for name in _COMPARED if look.get(name) is not None})

    # steps

    def first_step(self, optimizer):
        """Processes the first step of an optimizer."""
        self.loading.first_step(optimizer)
        if self.final_state is not None:
            self.final_state.follow(optimizer)

    def before_step(self, optimizer, recorder, closure):
        """Looks before a dense step."""
        held = self.adapter.facts.parameters(optimizer)
        owners = self.roots.owners_of(held)
        self._stepped = [*dict.fromkeys(owners.values())]
        tables = {root.index: self.table(root) for root in self._stepped}
        numbers = {
            key: (root.index, tables[root.index].parameters.get(key))
            for key, root in owners.items()
            if tables[root.index] is not None
        }
        self.parameters.inspect_gradients(optimizer, numbers, closure)
        self.note_gradients()

    def after_step(self, optimizer, recorder, norm):
        """Inspects parameters after a dense step, and writes the events."""
        fields, unchanged = self.parameters.inspect_parameters()
        one = self._monitor.loop.optimizer(recorder.index)
        if unchanged is not None and norm != 0.0:
            one.unchanged.add(unchanged)
        looked_at = {}
        for p in fields:
            number, p["i"] = p["i"] or (None, None)
            if p["i"] is not None:
                looked_at.setdefault(number, []).append(p)
        for root in self._stepped:
            if root.index in looked_at and not root.called and recorder.step:
                self._describe(root)  # its class has a `__call__` of its own, as those of GPyTorch: no forward is seen
        ratios = sorted(p["ratio"] for p in fields if p.get("ratio") is not None)
        self._monitor.ratio = ratios[len(ratios) // 2] if ratios else None
        last = self.modules._root
        self._keep_looks()
        self.batches.write_event(recorder.step + 1, self.losses)
        if any(p.get("bad") for p in fields) and not self.flight_recorder.done:
            self.flight_recorder.failed("parameter", float("nan"), None)
        functions, param_print = self.functions.take(), self.parameters.print_of_all()
        # A step of parameters that no model owns comes with what was seen in the last one.
        for root in self._stepped or [None]:
            seen_in = root or last
            self.emit(
                TENSORS,
                framework=self.adapter.name,
                step=recorder.step + 1,
                opt=recorder.index,
                model=root.index if root is not None else None,
                param_print=param_print,
                params=looked_at.get(root.index, []) if root is not None else [],
                modules=self._looks.get(seen_in.index, []) if seen_in is not None else [],
                functions=functions,
            )
            functions = []
        self.parameters.clear()

    def end_of_step(self, steps):
        """Processes the end of a dense step."""
        self.modules.clear()
        self._looks = {}
        self.losses.sites.write_changed()
        self.losses.target = None
        for root in self.roots.living_models():
            table = self.table(root)
            if table is not None:
                self._watch_flags(root, table)
            self.progress.inspect(root, steps)
            root.cached = None

    def _watch_flags(self, root, table):
        """Notes parameters that were frozen or set free."""
        for at, held in enumerate(table.held):
            parameter = held()
            if parameter is None:
                continue
            trainable = self.describer.is_trainable(parameter)
            known = self._flags.get((root.index, at))
            if known is not None and known != trainable and table.names[at] not in self.toggled:
                self.toggled.append(table.names[at])
            self._flags[root.index, at] = trainable

    def followed_optimizers(self):
        """The optimizers whose gradients the thread that is followed may read: those that it steps, or will step.

        None where there are more than `MOST_OPTIMIZERS`, as with one for each layer.
        """
        loop, training = self._monitor.loop, self.adapter.training
        found, now, followed = [], training.local.recorder, set(self.followed_models())
        for optimizer in list(self.optimizers) if len(self.optimizers) <= MOST_OPTIMIZERS else ():
            recorder = training.recorders.get(id(optimizer))
            if recorder is None or not (recorder.index in loop.of or recorder is now):
                held = self.adapter.facts.parameters(optimizer)
                root = self.roots.owner_of(held[0]) if held else None
                # Without a known thread: trained by other methods than `forward`, or without a model.
                if not held or (root is not None and root.thread is not None and root not in followed):
                    continue
            found.append(optimizer)
        return found

    def is_given_to_compiler(self):
        """Whether functions that the calling thread calls now would be compiled; never without a compiler."""
        return False

    def is_cleared(self, optimizer):
        """Whether none of an optimizer's gradients is other than 0, by a few values of each.

        False where reading them would wait for a device.
        """
        return all(self.parameters.is_zero(one) for one in self.parameters.gradients_of(optimizer))

    def gradient_marks(self, optimizer):
        """What changes when any gradient of an optimizer is written, of at most `MOST_MARKS` of its parameters."""
        held = self.adapter.facts.parameters(optimizer)
        return [self.parameters.mark(p) for p in held[:: 1 + len(held) // MOST_MARKS]]

    def gradient_values(self, optimizer):
        """Some values of the gradients of an optimizer; `None` where reading them would wait for a device."""
        gradients = list(self.parameters.gradients_of(optimizer))
        values = []
        for gradient in gradients[:: 1 + len(gradients) // MOST_READ]:
            some = self.parameters.sample_values(gradient)
            if some is None:
                return None
            values += some
        return values

    def parameter_print(self, root):
        """A few values of a model's parameters; `None` where reading them would wait for a device, or it is gone."""
        table, values = self.table(root) if root.module() is not None else None, []
        held = table.held if table is not None else []
        for parameter in [one() for one in held[:: 1 + len(held) // MOST_READ]]:
            some = self.parameters.sample_values(parameter) if parameter is not None else None
            if some is None:
                return None
            values += some
        return values or None

    # graphs

    def graph(self, number, tensors):
        """Looks at the graph of a backward call."""
        self.graphs.inspect(number, tensors)

    def graph_ended(self, number):
        """Processes the end of a backward call."""
        self.graphs.on_backward_end(number)

    def stale_gradient_norm(self, optimizer, recorder, every):
        """Norm of the gradients that are in an optimizer's parameters."""
        return self.parameters.stale_norm(optimizer, recorder.scratch, every)

    # the whole

    def device_memory(self):
        """Memory of the devices, without waiting for them; `None` where there is none."""
        if not self.adapter.facts.is_gpu_in_use(self.framework):
            return None
        return memory_of_devices(self._cuda())

    def release(self):
        """Forgets what was kept for a step."""
        self.flight_recorder.release()

    def finish(self):
        """Writes what only memory holds."""
        self.losses.sites.write_changed()
        self.graphs.finish()
