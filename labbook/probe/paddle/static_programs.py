"""Follows trainings in static graphs: each run of a program into which an optimizer was built is one of its steps.

`minimize` gives the optimizer and its loss. The loss of a step is known where the program fetches it. At few runs what
was fed is looked at, and the parameters before and after, in the scope of the executor. What the program computes is
read once, from its operators. Gradients and the outputs of layers never leave the executor.
"""

from math import prod

from ..events.measurement_kinds import BATCH, GRAPH, LOSS_CALL, MODEL, TENSORS
from ..inspection.parameter_stats import MOST_PARAMETERS
from ..training.batch_fingerprints import histogram, histogram_fields
from ..training.sampling_schedule import Schedule
from .program_misuse import ProgramMisuse
from .static_operators import (
    LAYERS,
    functions_of,
    is_value,
    parameter_names,
    trains_layers,
    updates_parameters,
    uses_of,
)

NO_STEPS = "static graphs ran in Executor.run, but none of them has an optimizer added by minimize()"
COPY_RAN = "Executor.run only ran a copy of the program made before minimize(): the optimizer is in another program"
HIDDEN = "Executor.run computes them and returns none; to fetch them would compile the graph again and slow its steps"

NUMBERED = 1000
"""Number of the first program, apart from those of models that are called."""

_MOST_PROGRAMS = 8
_ELEMENTS = 1 << 22
"""Elements of all parameters that are copied at a look; of larger programs the first ones."""

_LABELS = 1 << 16
_MARKED = 16


class StaticPrograms:
    """The programs of one process that train."""

    def __init__(self, adapter):
        self._adapter = adapter
        self._default = adapter.module.static.default_main_program
        self.forget()
        adapter.probe.at_exit(self.finish)

    def forget(self):
        """Begins anew, in a forked child."""
        self._trained, self._startups, self._others = {}, {}, {}
        self.misuse = ProgramMisuse()

    def finish(self):
        """Reports what is known at the end: misuse of programs, evaluations, looks that the budget left out."""
        if self._adapter.monitor is not None:
            self._adapter.monitor.loop.facts.update(self.misuse.fields())
        for training in self._trained.values():
            if self._adapter.monitor is not None and training.has_stepped:
                self._adapter.monitor.evaluation.end(training.step + 1)
            what, reason = training.schedule.left_out() if training.schedule is not None else ("", "")
            if reason:
                self._adapter.probe.unobserved(what, reason)

    def on_minimize(self, optimizer, loss, startup):
        """Processes an optimizer that was built into the current program.

        Args:
            loss: The value of the program that the optimizer minimizes.
            startup: The program that initializes its parameters, `None` for the default one.
        """
        program = self._default()
        known = self._trained.get(id(program))
        if known is None and len(self._trained) < _MOST_PROGRAMS:
            number = NUMBERED + len(self._trained)
            known = self._trained[id(program)] = StaticTraining(self._adapter, number, program)
        if known is not None:
            known.on_minimize(optimizer, loss)
            startup = startup or self._adapter.module.static.default_startup_program()
            self._startups[id(startup)] = (startup, known)

    def seeds(self):
        """The seeds of the programs that train, and of those that initialize their parameters."""
        programs = [one.program for one in self._trained.values()] + [one for one, _ in self._startups.values()]
        return [seed for one in programs if (seed := getattr(one, "random_seed", 0))]

    def training_of(self, args, kwargs):
        """The training that a run of the executor is a step of, `None` for any other run."""
        if not self._trained:
            return None
        program = args[1] if len(args) > 1 else kwargs.get("program")
        program = getattr(program, "_program", program)  # of a CompiledProgram
        program = self._default() if program is None else program
        training = self._trained.get(id(program))
        if training is not None:
            self.misuse.on_run(training.has_stepped)
        elif id(program) in self._startups:
            if self._startups[id(program)][1].has_stepped:
                self.misuse.restarted()
        elif any(one.has_stepped for one in self._trained.values()):
            self._ran_beside(program)
        elif any(parameter_names(program) & one.parameter_names() for one in self._trained.values()):
            self._adapter.training.steps_hidden = COPY_RAN
        if self._adapter.monitor is not None:
            self._adapter.monitor.loop.facts.update(self.misuse.fields())
        return training

    def _ran_beside(self, program):
        """Processes a run of a program that no optimizer was built into: an evaluation, or a copy made after that."""
        known = self._others.get(id(program))
        if known is None and len(self._others) < _MOST_PROGRAMS:
            names = parameter_names(program)
            trained = next((one for one in self._trained.values() if names & one.parameter_names()), None)
            facts = (program, trained, updates_parameters(program), trains_layers(program))
            known = self._others[id(program)] = facts
        if known is None or known[1] is None:
            return
        _, training, updates, trains = known
        if updates:
            self.misuse.ran_copy()
        elif self._adapter.monitor is not None:
            self._adapter.monitor.evaluation.forward(training.step + 1, "Program", trains, False, trains)


class StaticTraining:
    """The training of one program.

    Several optimizers in one program step in one run. Looks are those of the first.

    Args:
        number: Of the program, among the models of the process.

    Attributes:
        step: How often it was run.
        program: As given.
    """

    def __init__(self, adapter, number, program):
        self.step = 0
        self._optimizers = []
        self._number = number
        self._adapter, self._training, self.program = adapter, adapter.training, program
        monitor = adapter.monitor
        self._stats = monitor.inspector.stats if monitor is not None else None
        self.schedule = Schedule(monitor.schedule.level, self._training.clock()) if monitor is not None else None
        self._emit = adapter.probe.event
        self._scope_of = adapter.module.static.global_scope
        self._parameters = None
        self._functions = []
        self._before = self._began = None
        self._cost = 0.0

    def on_minimize(self, optimizer, loss):
        """Processes an optimizer that was built into the program, and the loss that it minimizes."""
        if all(optimizer is not one for one, _ in self._optimizers):
            self._optimizers.append((optimizer, loss))

    @property
    def has_stepped(self):
        """Whether it was run."""
        return self.step > 0

    def parameter_names(self):
        """Names of its parameters."""
        return parameter_names(self.program)

    def begins(self, args, kwargs):
        """Looks before a run: at what is fed, and at the parameters, where it is due."""
        if self._stats is None:
            return
        recorder, began = self._training.recorder(self._optimizers[0][0]), self._training.clock()
        if recorder is None or not self.schedule.is_due(recorder.step + 1, began) or self._adapter.probe.is_profiling:
            return
        scope = (args[6] if len(args) > 6 else kwargs.get("scope")) or self._scope_of()
        feed = args[2] if len(args) > 2 else kwargs.get("feed")
        feed = [(name, one) for name, one in feed.items() if is_array(one)] if isinstance(feed, dict) else []
        if self._parameters is None:
            self._training.unobserved("gradient norm, gradients and module outputs of static graphs", HIDDEN)
            self._describe(scope, feed[0][1].shape[0] if feed and feed[0][1].ndim else -1)
        self._before = [self._read(scope, name) for name in self._parameters]
        self._began = scope
        self._inspect_feed(recorder.step + 1, feed)
        self._cost = self._training.clock() - began

    def on_step_end(self, args, kwargs, result):
        """Numbers the step of each optimizer, and looks at what has become of the parameters."""
        training, adapter = self._training, self._adapter
        if adapter.monitor is not None:
            adapter.monitor.evaluation.end(self.step + 1)
        self.step += 1
        fetched = args[3] if len(args) > 3 else kwargs.get("fetch_list")
        first = value = None
        for optimizer, loss in self._optimizers:
            recorder = training.recorder(optimizer)
            if recorder is None:
                return
            one = _fetched(loss, fetched, result)
            first, value = (recorder, one) if first is None else (first, value)
            if adapter.monitor is not None:
                adapter.monitor.loop.step(recorder.index, 0)
            training.step(recorder, [] if one is None else [one], adapter.rates(optimizer), None, 1, None, None)
        feed = args[2] if len(args) > 2 else kwargs.get("feed")
        adapter.static_programs.misuse.on_run_end(value is not None, mark_of(feed))
        now = training.clock()
        if self._before is not None:
            began = now
            self._inspect_parameters(first)
            now = training.clock()
            self.schedule.looked(first.step, now, self._cost + now - began)
        if adapter.monitor is not None and adapter.monitor.memory.is_due(now, self.step):
            adapter.monitor.memory.write_event(now, self.step, None)
        for function in self._functions:
            function.calls += 1
            function.values(value)

    # parameters

    def _read(self, scope, name):
        """A copy of a strided sample of a parameter, `None` where it is not in host memory."""
        found = scope.find_var(name)
        tensor = found.get_tensor() if found is not None else None
        if tensor is None or not tensor._is_initialized() or not tensor._place().is_cpu_place():
            return None
        return self._stats.copy_dense(tensor)

    def _describe(self, scope, samples):
        """Writes what the program is made of: its parameters as they begin, and what its operators show.

        Args:
            scope: That holds the parameters.
            samples: Length of an axis whose length the program leaves open.
        """
        self._parameters, rows, elements, layers = [], [], 0, {}
        self._functions, blown, operations = functions_of([loss for _, loss in self._optimizers], samples)
        order = uses_of(self.program)
        listed = self.program.global_block().all_parameters()[:MOST_PARAMETERS]
        for parameter in sorted(listed, key=lambda one: order.get(one.name, ("", float("inf")))[1]):
            name, shape = parameter.name, list(parameter.shape)
            values = self._read(scope, name)
            if parameter.stop_gradient or values is None or elements + values.size > _ELEMENTS:
                continue
            elements += values.size
            look = self._stats.stats(values)
            init = {key: look[key] for key in ("mean", "std", "min", "max", "zero", "bad")}
            used_by, place = order.get(name, ("", None))
            kind = LAYERS.get(used_by, "")
            last = len(shape) == 2 and kind == "Linear"
            init.update(
                rows_equal=len(shape) > 1 and self._stats.rows_equal(values, last),
                fan_in=(shape[0] if last else prod(shape[1:])) if len(shape) > 1 else None,
            )
            fields = {"i": len(rows), "name": name, "trainable": True, "module": None, "shape": shape, "device": "cpu"}
            rows.append(dict(fields, dtype=str(values.dtype), init=init))
            # A layer names its parameters `fc_0.w_0`; what has a name of its own is listed by itself.
            layers.setdefault(name.rpartition(".")[0] or name, []).append((place, kind, values.size, rows[-1]))
            self._parameters.append(name)
        modules = _module_rows(layers)
        self._emit(
            MODEL, framework="paddle", root="Program", model=self._number, modules=modules, parameters=rows, feeds=[],
            shared=[], repeated=[], left_out={"modules": 0, "parameters": 0}, spectral_eval_first=[],
        )  # fmt: skip
        if operations:
            fields = {"foreign": [], "cut": None, "constant": [], "penalised": 0, "operations": None}
            self._emit(
                GRAPH, framework="paddle", backward=1, step=1, reachable=len(rows), unreachable=[], unreachable_n=0,
                held=len(rows), blown=blown, **fields,
            )  # fmt: skip

    def _inspect_parameters(self, recorder):
        scope, before, rows = self._began, self._before, []
        self._before = self._began = None
        unchanged = []
        for at, (name, was) in enumerate(zip(self._parameters, before)):
            now = self._read(scope, name)
            if was is None or now is None or was.shape != now.shape:
                continue
            ratio, same = self._stats.change(was.reshape(-1), now.reshape(-1))
            unchanged.append(same)
            norm = self._stats.norm_of(now)
            rows.append({"i": at, "w": norm, "g": None, "ratio": ratio, "bad": self._stats.bad(now)})
        rates = self._adapter.rates(self._optimizers[0][0])
        if unchanged and rates and rates[0] > 0 and self._adapter.monitor is not None:
            self._adapter.monitor.loop.optimizer(recorder.index).unchanged.add(all(unchanged))
        self._emit(
            TENSORS, framework="paddle", step=recorder.step, opt=recorder.index, model=self._number, param_print=None,
            params=rows, modules=[], functions=[],
        )  # fmt: skip
        for function in self._functions:
            self._emit(LOSS_CALL, **function.fields())

    # what is fed

    def _inspect_feed(self, step, feed):
        leaves, labels, firsts = [], None, set()
        targets = {function.target for function in self._functions}
        for name, value in feed[:16]:
            is_target = name in targets
            leaf = {"path": "target" if is_target else name, "role": "label" if is_target else "input"}
            leaf.update(shape=list(value.shape), dtype=str(value.dtype), device="cpu", constant=None)
            leaf.update(self._stats.stats(value), integer=value.dtype.kind != "f")
            if is_target and value.dtype.kind in "iu" and value.size <= _LABELS:
                labels = histogram(value.reshape(-1).tolist())
            for function in self._functions:
                if function.target == name:
                    function.on_feed(leaf, value)
            if value.ndim:
                firsts.add(value.shape[0])
            leaves.append(leaf)
        if not leaves:
            return
        inputs = [leaf for leaf in leaves if leaf["role"] == "input"] or leaves
        self._emit(
            BATCH, framework="paddle", step=step, phase="train", loader=None, print=None, leaves=leaves,
            samples=inputs[0]["shape"][0] if inputs[0]["shape"] else None,
            labels={"histogram": histogram_fields(labels)} if labels else None, dims_equal=len(firsts) < 2,
        )  # fmt: skip


def _module_rows(layers):
    """Rows of the layers, in the order in which they are used; numbers them in the rows of their parameters.

    Args:
        layers: Name -> `(place, type, elements, row)` of each parameter; the type is that of the one used first.
    """
    rows = [{"i": 0, "name": "", "type": "Program", "depth": 0, "order": 0, "parameters": 0, "trainable": 0}]
    for name, held in layers.items():
        place, kind = held[0][:2]
        size = sum(elements for _, _, elements, _ in held)
        for *_, row in held:
            row["module"] = len(rows)
        rows.append({"i": len(rows), "name": name, "type": kind, "depth": 1, "order": place, "parameters": size})
        rows[-1]["trainable"] = size
    return [dict(row, options={}, input=[], output=[]) for row in rows]


def mark_of(feed):
    """What tells apart what is fed: a hash of a few values of the first array, `None` without one."""
    arrays = [one for one in feed.values() if is_array(one)] if isinstance(feed, dict) else []
    if not arrays:
        return None
    one = next((one for one in arrays if one.dtype.kind == "f"), arrays[0])
    return hash((one.shape, one.flat[:: 1 + one.size // _MARKED].tobytes()))


def is_array(thing):
    """Whether it is an array of numbers that is not empty."""
    return type(thing).__module__ == "numpy" and thing.size > 0 and thing.dtype.kind in "fiub"


def _fetched(loss, fetched, result):
    """The value of a loss, where the program fetches it as a number on the host."""
    if not isinstance(fetched, (list, tuple)) or not isinstance(result, (list, tuple)):
        return None
    for one, value in zip(fetched, result):
        if _is_loss(loss, one) and getattr(value, "size", 0) == 1 and type(value).__module__ == "numpy":
            return float(value.reshape(-1)[0])
    return None


def _is_loss(loss, one):
    if one is loss:
        return True
    if isinstance(one, str):
        return not is_value(loss) and one == getattr(loss, "name", None)
    return is_value(one) and is_value(loss) and bool(one.is_same(loss))
