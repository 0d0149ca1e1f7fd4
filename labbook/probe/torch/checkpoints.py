"""Watches what PyTorch programs load and schedule: state dictionaries, learning rate schedulers, seeds in the loop."""

import sys
from weakref import ref

from ..events.protocol import LOADED
from ..training.call_site import line_of, user_frame
from ..wrapping import as_import_machinery, leave_out_one_frame, transparent_wrapper

MOST_LOADS = 20
_NAMES = 20
_MOST_SCHEDULERS = 32
_OPTIONS = [
    "T_max",
    "eta_min",
    "step_size",
    "gamma",
    "milestones",
    "total_steps",
    "total_iters",
    "T_0",
    "T_mult",
    "factor",
    "patience",
    "start_factor",
    "end_factor",
    "power",
    "base_lrs",
    "max_lrs",
    "mode",
]


_SCHEDULERS = ("LRScheduler", "_LRScheduler", "SequentialLR", "ChainedScheduler", "ReduceLROnPlateau")
"""Classes whose initialiser is called for every scheduler; the others inherit it."""


class Checkpoints:
    """The states, schedulers and seeds of one process.

    Args:
        torch: The module.
        emit: `emit(kind, **fields)` writes an event.
        failed: `failed(where, error)` takes failures of ours.

    Attributes:
        monitor: Tells the step; set by the eyes.
    """

    def __init__(self, torch, emit, failed):
        self.torch = torch
        self.monitor = None
        self._emit = emit
        self._failed = failed
        self._depth = 0
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self._loads = 0
        self._schedulers = []
        self._before = {}
        self._state = None
        self._boundary = None
        self._seeds = 0

    def install(self, is_compiling):
        """Puts the wrappers in place."""
        torch = self.torch
        module, optimizer = torch.nn.Module, sys.modules["torch.optim.optimizer"].Optimizer
        module.load_state_dict = self._watched_load(module.load_state_dict, "model")
        optimizer.load_state_dict = self._watched_load(optimizer.load_state_dict, "optimizer")
        schedulers = sys.modules["torch.optim.lr_scheduler"]
        for name in _SCHEDULERS:
            kind = getattr(schedulers, name, None)
            if kind is not None and "__init__" in vars(kind):
                kind.__init__ = self._watched_scheduler(kind.__init__)
        seed = self._watched_seed(torch.manual_seed, is_compiling)
        torch.manual_seed = sys.modules["torch.random"].manual_seed = seed

    def _watched_load(self, original, what):
        before, after = self._load_begins, self._load_ended

        def load_state_dict(target, *args, **kwargs):
            told = before(what, target, args, kwargs)
            try:
                result = original(target, *args, **kwargs)
            except BaseException as error:  # the program's own error, passed on
                after(None)
                leave(error)
                raise
            after(told)
            return result

        leave = leave_out_one_frame
        return transparent_wrapper(as_import_machinery(load_state_dict), original)

    def _load_begins(self, what, target, args, kwargs):
        self._depth += 1
        if self._depth > 1 or self._loads >= MOST_LOADS:
            return None
        try:
            state = args[0] if args else kwargs.get("state_dict")
            told = {"framework": "torch", "what": what, "type": type(target).__name__, "step": self.monitor.step - 1}
            told["line"] = line_of(user_frame())
            if what == "model":
                told.update(self._compare(state_of(target), state))
            else:
                held = sum(len(group["params"]) for group in target.param_groups)
                found = len(state.get("state", ())) if isinstance(state, dict) else 0
                told.update(keys=held, matched=found, elements=None, alias=False)
            return told
        except Exception as error:
            self._failed("torch.load", error)
            return None

    def _compare(self, own, state):
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        both = [name for name in own if name in state]
        tensor = self.torch.Tensor
        pairs = [(n, own[n], state[n]) for n in both if isinstance(own[n], tensor) and isinstance(state[n], tensor)]
        mismatched = [name for name, a, b in pairs if a.shape != b.shape]
        fits = [(a, b) for name, a, b in pairs if a.shape == b.shape]
        total = sum(t.numel() for t in own.values() if isinstance(t, tensor))
        shared = [(a, b) for a, b in fits if a.numel() and _address(a) and _address(a) == _address(b)]
        return {
            "keys": len(own),
            "matched": len(both) - len(mismatched),
            "missing": missing[:_NAMES],
            "unexpected": unexpected[:_NAMES],
            "mismatched": mismatched[:_NAMES],
            "missing_n": len(missing),
            "unexpected_n": len(unexpected),
            "mismatched_n": len(mismatched),
            "elements": sum(a.numel() for a, _ in fits) / total if total else None,
            "alias": bool(shared) and len(shared) >= len([1 for a, _ in fits if a.numel()]) / 2,
        }

    def _load_ended(self, told):
        self._depth -= 1
        if told is not None:
            self._loads += 1
            self._emit(LOADED, **told)

    def _watched_scheduler(self, original):
        made = self._made

        def initialise(scheduler, *args, **kwargs):
            original(scheduler, *args, **kwargs)
            made(scheduler)

        return transparent_wrapper(as_import_machinery(initialise), original)

    def _made(self, scheduler):
        try:
            if len(self._schedulers) < _MOST_SCHEDULERS and all(
                known() is not scheduler for known, _ in self._schedulers
            ):
                self._schedulers.append((ref(scheduler), getattr(scheduler, "last_epoch", 0)))
        except Exception as error:
            self._failed("torch.scheduler", error)

    def first_step(self, optimizer):
        """Notes how often schedulers have stepped before the first step of their optimizer."""
        for at, (held, begun) in enumerate(self._schedulers):
            scheduler = held()
            if scheduler is not None and self._optimizer_of(scheduler) is optimizer:
                self._before[at] = _steps(scheduler, begun)

    def schedulers(self, index_of, steps_of):
        """Index of an optimizer -> what is told of its scheduler, the outermost one made for it.

        Args:
            index_of: `index_of(optimizer)` gives its number, `None` when it has not stepped.
            steps_of: `steps_of(index)` gives its steps.
        """
        told = {}
        for at, (held, begun) in enumerate(self._schedulers):
            scheduler = held()
            if scheduler is None:
                continue
            optimizer = self._optimizer_of(scheduler)
            index = index_of(optimizer) if optimizer is not None else None
            if index is None:
                continue
            told[index] = {
                "type": type(scheduler).__name__,
                "options": _options(scheduler),
                "steps": _steps(scheduler, begun),
                "before_optimizer": self._before.get(at, 0),
                "optimizer_steps": steps_of(index),
            }
        return told

    @staticmethod
    def _optimizer_of(scheduler):
        return getattr(scheduler, "optimizer", None)

    def _watched_seed(self, original, is_compiling):
        seeded = self._seeded

        def manual_seed(*args, **kwargs):
            if not is_compiling():
                seeded()
            return original(*args, **kwargs)

        return transparent_wrapper(as_import_machinery(manual_seed), original)

    def _seeded(self):
        try:
            rng = self.monitor.loop.rng
            if self.monitor.loop.steps:
                rng["seeded"] += 1
                rng["line"] = line_of(user_frame())
        except Exception as error:
            self._failed("torch.seed", error)

    def boundary(self, inside):
        """Compares the state of the random generator with that at the step boundary before.

        Args:
            inside: Its state when the forward of this step began, or `None`.
        """
        state = self.torch.get_rng_state()
        rng, before = self.monitor.loop.rng, self._boundary
        self._boundary = state
        if before is None:
            return
        rng["checked"] += 1
        # Nothing was drawn since, or the program went back: only then was the state another one in between.
        moved = (inside is not None and not self.torch.equal(inside, state)) or rng["seeded"] > self._seeds
        if moved and self.torch.equal(before, state):
            rng["same"] += 1
        self._seeds = rng["seeded"]


def state_of(module):
    """Name -> tensor of what a module loads, without calling its `state_dict`, which may be the program's own."""
    own = dict(module.named_parameters(remove_duplicate=False))
    for prefix, one in module.named_modules(remove_duplicate=False):
        for name, buffer in one._buffers.items():
            if buffer is not None and name not in getattr(one, "_non_persistent_buffers_set", ()):
                own["%s.%s" % (prefix, name) if prefix else name] = buffer
    return own


def _steps(scheduler, begun):
    """Steps that the program has taken: its count of epochs, without the first one, which it takes when made."""
    epoch = getattr(scheduler, "last_epoch", None)
    if type(epoch) in (int, float) and type(begun) in (int, float):
        return max(int(epoch - begun), 0)
    count = getattr(scheduler, "_step_count", 1)
    return max(count - 1, 0)


def _options(scheduler):
    told = {}
    for name in _OPTIONS:
        value = scheduler.__dict__.get(name)
        if type(value) in (int, float, str):
            told[name] = value
        elif type(value) in (list, tuple) and len(value) <= 16 and all(type(v) in (int, float) for v in value):
            told[name] = list(value)
        elif type(value).__name__ == "Counter":
            told[name] = sorted(value)[:16]
    return told


def _address(tensor):
    return tensor.data_ptr() if tensor.layout.__repr__() == "torch.strided" and not tensor.is_meta else 0
