"""Watches what programs load and schedule: states of models and optimizers, schedulers, seeds in the loop.

A framework's `checkpoints.py` puts the wrappers in place and reads states and the random generator.
"""

from weakref import ref

from ..events.measurement_kinds import LOADED
from ..training.call_site import line_of, user_frame
from ..wrapping import as_import_machinery, leave_out_one_frame, transparent_wrapper

MOST_LOADS = 20
MOST_NAMES = 20
_MOST_SCHEDULERS = 32
_OPTIONS = [
    "T_max", "eta_min", "step_size", "gamma", "milestones", "total_steps", "total_iters", "T_0", "T_mult", "factor",
    "patience", "start_factor", "end_factor", "power", "base_lrs", "max_lrs", "mode",
]  # fmt: skip
_PLANNED = ("num_training_steps", "total_steps", "max_steps", "t_total")
"""Names by which the function of a LambdaLR knows the length of the training, as those of transformers."""


class Checkpoints:
    """The states, schedulers and seeds of one process.

    Args:
        module: The module of the framework.
        failed: `failed(where, error)` takes failures of ours.

    Attributes:
        monitor: Knows the step; set by the inspector.
        model_loads: `model_loads(model, state)` is called before a model loads a state.
    """

    FRAMEWORK = ""

    def __init__(self, module, emit, failed):
        self.module = module
        self.monitor = None
        self._emit = emit
        self._failed = failed
        self.model_loads = _ignore_copy
        self._depth = 0
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self._loads = 0
        self._resumed = False
        self._schedulers = []
        self._before = {}
        self._boundary = self._seed = self._after_seed = None
        self._seeds = 0

    def _wrap_load(self, original, what):
        before, after = self._load_begins, self._load_ended

        def load_state_dict(target, *args, **kwargs):
            fields = before(what, target, args, kwargs)
            try:
                result = original(target, *args, **kwargs)
            except BaseException as error:  # the program's own error, passed on
                after(None, None)
                leave(error)
                raise
            after(fields, result)
            return result

        leave = leave_out_one_frame
        return transparent_wrapper(as_import_machinery(load_state_dict), original)

    def _load_begins(self, what, target, args, kwargs):
        self._depth += 1
        if self._depth > 1 or self._loads >= MOST_LOADS:
            return None
        try:
            state = args[0] if args else kwargs.get("state_dict")
            fields = {"framework": self.FRAMEWORK, "what": what, "type": type(target).__name__}
            fields.update(step=self.monitor.step - 1, line=line_of(user_frame()))
            if what == "model":
                self.model_loads(target, state)
                own = self._own_state(target, args, kwargs)
                fields.update(self._compare(own, state), trained=self._is_trained(own))
            else:
                keys, matched = self._optimizer_keys(target, state)
                fields.update(keys=keys, matched=matched, elements=None, alias=False)
            return fields
        except Exception as error:
            self._failed(self.FRAMEWORK + ".load", error)
            return None

    def _compare(self, own, state):
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        both = [(name, own[name], state[name]) for name in own if name in state]
        agree = {name: self._shapes_agree(a, b) for name, a, b in both}
        mismatched = [name for name, _, _ in both if agree[name] is False]
        total = sum(self._elements(tensor) for tensor in own.values() if self._is_tensor(tensor))
        fits = [(self._elements(a), a, b) for name, a, b in both if agree[name]]
        pairs = [(a, b) for elements, a, b in fits if elements and self._is_tensor(b)]
        shared = [1 for a, b in pairs if self._address(a) and self._address(a) == self._address(b)]
        return {
            "keys": len(own),
            "matched": len(both) - len(mismatched),
            "missing": missing[:MOST_NAMES],
            "mismatched": mismatched[:MOST_NAMES],
            "missing_n": len(missing),
            "unexpected_n": len(unexpected),
            "mismatched_n": len(mismatched),
            "elements": sum(elements for elements, _, _ in fits) / total if total else None,
            "alias": bool(shared) and len(shared) >= len(pairs) / 2,
        }

    def _is_trained(self, own):
        """Whether an optimizer has parameters among the tensors of a model, unlike those of a target network."""
        trained = {self._address(parameter) for parameter in self.monitor.inspector.trained_parameters()} - {0}
        return any(self._address(tensor) in trained for tensor in own.values() if self._is_tensor(tensor))

    def _is_tensor(self, thing):
        return isinstance(thing, self.module.Tensor)

    def _own_state(self, target, args, kwargs):
        """Name -> tensor of what a model loads; `args` and `kwargs` are those of the call."""
        raise NotImplementedError

    def _left_keys(self, fields, result):
        """The keys that did not fit, as far as the result of the load names them; `fields` are those before it."""
        return {}

    def _optimizer_keys(self, target, state):
        """How many parameters an optimizer has, and how many entries a state has for it."""
        raise NotImplementedError

    def _shapes_agree(self, own, other):
        """Whether a value fits the own tensor of that name; `None` where it is no tensor and so is not counted."""
        raise NotImplementedError

    def _elements(self, tensor):
        """Number of its elements."""
        raise NotImplementedError

    def _address(self, tensor):
        """Where its values are in memory, 0 where that is not known."""
        raise NotImplementedError

    def _load_ended(self, fields, result):
        self._depth -= 1
        if fields is not None:
            if fields["what"] == "model":
                fields.update(self._left_keys(fields, result))
            self._loads += 1
            self._resumed = self._resumed or fields.get("what") == "optimizer"
            self._emit(LOADED, **fields)

    def _wrap_scheduler(self, original):
        made = self._on_scheduler_created

        def initialise(scheduler, *args, **kwargs):
            try:
                original(scheduler, *args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise
            made(scheduler)

        return transparent_wrapper(as_import_machinery(initialise), original)

    def _on_scheduler_created(self, scheduler):
        try:
            if len(self._schedulers) < _MOST_SCHEDULERS and all(
                known() is not scheduler for known, _ in self._schedulers
            ):
                self._schedulers.append((ref(scheduler), getattr(scheduler, "last_epoch", 0)))
        except Exception as error:
            self._failed(self.FRAMEWORK + ".scheduler", error)

    def first_step(self, optimizer):
        """Notes how often schedulers have stepped before the first step of their optimizer.

        One that goes on from a checkpoint, or was stepped to the epoch of one, begins there.
        """
        for at, (held, begun) in enumerate(self._schedulers):
            scheduler = held()
            if scheduler is None or self._optimizer_of(scheduler) is not optimizer:
                continue
            steps = scheduler_steps(scheduler, begun)
            if steps > 1 or (steps and self._resumed):
                steps, self._schedulers[at] = 0, (held, getattr(scheduler, "last_epoch", 0))
            self._before[at] = steps

    def schedulers(self, index_of, steps_of):
        """Index of an optimizer -> fields of its scheduler, the last one made for it.

        `beside` names earlier ones that it does not hold, as one for the first epochs beside `SWALR`.

        Args:
            index_of: `index_of(optimizer)` gives its number, `None` when it has not stepped.
            steps_of: `steps_of(index)` gives its steps.
        """
        fields, names = {}, {}
        for at, (held, begun) in enumerate(self._schedulers):
            scheduler = held()
            if scheduler is None:
                continue
            optimizer = self._optimizer_of(scheduler)
            index = index_of(optimizer) if optimizer is not None else None
            if index is None:
                continue
            beside = [name for one, name in names.get(index, ()) if not _holds(scheduler, one)]
            names.setdefault(index, []).append((scheduler, type(scheduler).__name__))
            fields[index] = {
                "type": type(scheduler).__name__,
                **({"beside": list(dict.fromkeys(beside))} if beside else {}),
                "options": _options(scheduler),
                "steps": scheduler_steps(scheduler, begun),
                "before_optimizer": self._before.get(at, 0),
                "optimizer_steps": steps_of(index),
            }
        return fields

    def idle_schedulers(self, owners):
        """Schedulers that were stepped and whose optimizer shares no parameter group with one that steps.

        Args:
            owners: The optimizers that step.
        """
        groups = {id(group) for one in owners for group in self._groups_of(one)}
        found = []
        for held, begun in self._schedulers:
            scheduler = held()
            optimizer = self._optimizer_of(scheduler) if scheduler is not None else None
            if optimizer is None or optimizer in owners:
                continue
            if not any(id(group) in groups for group in self._groups_of(optimizer)):
                found.append({"type": type(scheduler).__name__, "steps": scheduler_steps(scheduler, begun)})
        return found

    def _groups_of(self, optimizer):
        """The parameter groups of an optimizer."""
        return getattr(optimizer, "param_groups", None) or ()

    def schedulers_of(self, optimizer):
        """The schedulers made for an optimizer that still exist."""
        made = [held() for held, _ in self._schedulers]
        return [one for one in made if one is not None and self._optimizer_of(one) is optimizer]

    def _optimizer_of(self, scheduler):
        """The optimizer of a scheduler, `None` where it is not known."""
        raise NotImplementedError

    def _wrap_seed(self, original, is_compiling):
        has_drawn, seeded = self._has_drawn, self._seeded

        def manual_seed(*args, **kwargs):
            drawn = not is_compiling() and has_drawn()
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise
            if not is_compiling():
                seeded(drawn)
            return result

        return transparent_wrapper(as_import_machinery(manual_seed), original)

    def _has_drawn(self):
        """Whether the program may have drawn a number since it last set the seed; of a GPU that is not known."""
        try:
            return (
                self._after_seed is None or self._uses_gpu() or not self._equal(self._after_seed, self._random_state())
            )
        except Exception as error:
            self._failed(self.FRAMEWORK + ".seed", error)
            return True

    def _seeded(self, drawn):
        try:
            rng = self.monitor.loop.rng
            self._seed, self._after_seed = self._initial_seed(), self._random_state()
            if self.monitor.loop.steps and drawn:  # the seed of a library whose caller draws nothing changes nothing
                rng["seeded"] += 1
                rng["line"] = line_of(user_frame())
        except Exception as error:
            self._failed(self.FRAMEWORK + ".seed", error)

    def boundary(self, inside):
        """Compares the state of the random generator with that at the step boundary before.

        Args:
            inside: Its state when the forward of this step began, or `None`.
        """
        state = self._random_state()
        rng, before = self.monitor.loop.rng, self._boundary
        self._boundary = state
        if before is None:
            return
        rng["checked"] += 1
        # A data set that seeds, draws and puts the state back leaves no seed of its own.
        seeded = rng["seeded"] > self._seeds and self._initial_seed() == self._seed
        # Nothing was drawn since, or the program went back: only then was the state another one in between.
        moved = (inside is not None and not self._equal(inside, state)) or seeded
        if moved and self._equal(before, state):
            rng["same"] += 1
        self._seeds = rng["seeded"]

    def _uses_gpu(self):
        """Whether the program computes on a GPU, which has a random generator of its own."""
        raise NotImplementedError

    def _initial_seed(self):
        """The seed that the state of the random generator of the CPU began with."""
        raise NotImplementedError

    def _random_state(self):
        """State of the random generator of the CPU, or a fingerprint of it."""
        raise NotImplementedError

    def _equal(self, one, other):
        """Whether two states of the random generator are equal."""
        return one == other


def _ignore_copy(model, state):
    """Where a framework does not follow copies of models."""


def scheduler_steps(scheduler, begun):
    """Steps that the program has taken: its count of epochs, without the first one, which it takes when made."""
    epoch = getattr(scheduler, "last_epoch", None)
    if type(epoch) in (int, float) and type(begun) in (int, float):
        return max(int(epoch - begun), 0)
    count = getattr(scheduler, "_step_count", 1)
    return max(count - 1, 0)


def _holds(scheduler, other):
    """Whether a scheduler has another one, itself or in a list."""
    values = vars(scheduler).values()
    return any(one is other for value in values for one in (value if type(value) in (list, tuple) else (value,)))


def _options(scheduler):
    options = {}
    for name in _OPTIONS:
        value = scheduler.__dict__.get(name)
        if type(value) in (int, float, str):
            options[name] = value
        elif type(value) in (list, tuple) and len(value) <= 16 and all(type(v) in (int, float) for v in value):
            options[name] = list(value)
        elif type(value).__name__ == "Counter":
            options[name] = sorted(value)[:16]
    for function in (*getattr(scheduler, "lr_lambdas", ()), getattr(scheduler, "lr_lambda", None)):
        values = _values_kept_by(function)
        options.update(("total_steps", values[name]) for name in _PLANNED if type(values.get(name)) is int)
    return options


def _values_kept_by(function):
    """Name -> value of what a function takes from the function around it, or was given by `functools.partial`."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    try:
        kept = {name: cell.cell_contents for name, cell in zip(names, getattr(function, "__closure__", None) or ())}
    except ValueError:  # a variable that has no value yet
        kept = {}
    return {**kept, **(getattr(function, "keywords", None) or {})}
