"""Follows copies of the trained PyTorch model: whether they are asked between steps, and whether they ever change."""

from weakref import WeakSet, ref

from ..inspection.root_modules import stochastic_modules
from ..training.batch_fingerprints import fingerprint
from ..training.evaluation import APART
from .module_calls import Observer

MOST_MADE = 512
"""Modules made by copying that are remembered; a program that makes more builds its model of them."""

MOST = 4
LASTING = 16
"""Backward calls that a copy outlives before its calls are counted: those made to be saved are left alone."""

COMPARED = 64
"""Steps in which the inputs of a copy are compared with those of the trained models."""

_SAMPLE = 64
_PRINTED = 8


class ModelCopy:
    """A copy of a trained model.

    Attributes:
        calls: Forwards without gradients.
        steps: Steps before which it was called so.
        last: The last of these steps.
        first: Fingerprint of its parameters when it was found.
        changed: Whether the fingerprint was ever another one.
        followed: Whether its calls are counted.
        since: Backward calls when it was found.
        untrained: Whether it was made before the first call of `backward`, and not of weights from a file.
        compared: Steps in which its inputs were compared with those of training forwards.
        equal: Those in which one of them was the same.
        norm: Running mean of its first batch norm when it was found, `None` without one.
        stale_norms: Calls in evaluation mode with that mean, while a trained model has another one.
        validates: Whether its calls of this step are a validation phase: a teacher is called in every step or few.
    """

    def __init__(self, module, name, first):
        self.module = ref(module)
        self.name = name
        self.first = first
        self.changed = self.followed = False
        self.since = 0
        self.untrained = False
        self.compared = self.equal = 0
        self.calls = self.steps = 0
        self.norm, self.stale_norms = None, 0
        self.last = None
        self.validates = False

    def copy_fields(self):
        """As the protocol has it."""
        return {
            "type": self.name,
            "calls": self.calls,
            "steps": self.steps,
            "last": self.last,
            "changed": self.changed,
            "untrained": self.untrained,
            "compared": self.compared,
            "equal": self.equal,
            "stale_norms": self.stale_norms,
        }


class ModelCopies:
    """The copies of one process.

    Args:
        inspector: The `TensorInspector` of the process.
    """

    def __init__(self, torch, inspector):
        self.torch = torch
        self.inspector = inspector
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self._made = WeakSet()
        self._count = 0
        self._looked = 0
        self._from_file = False
        self._early = WeakSet()
        self._inputs = (None, set(), {})
        self._watched = WeakSet()
        self.known = []

    def install(self, is_compiling):
        """Reports modules that are made by copying, which restores their state."""
        kind, copies, failed = self.torch.nn.Module, self, self.inspector.failed
        original = kind.__setstate__

        def __setstate__(module, state):  # noqa: N807 - the name that a traceback shows
            original(module, state)
            if copies._count >= MOST_MADE or is_compiling():
                return
            try:
                copies._take_made(module)
            except Exception as error:
                failed("torch.copies", error)

        kind.__setstate__ = __setstate__

    def _take_made(self, module):
        self._count += 1
        self._made.add(module)
        if not self.inspector.monitor.loop.backwards and not self._from_file:
            self._early.add(module)

    def on_load_state(self, module, state):
        """Processes the loading of a state into a model: it is a copy where the state is that of a living model.

        Only before the first call of `backward`; other states come from files, and what they go into is trained.
        """
        if self.inspector.monitor.loop.backwards or self._count >= MOST_MADE:
            return
        addresses = {value.data_ptr() for value in state.values() if self._is_plain(value)}
        modules = self.inspector.adapter.registry.modules() or ()
        alive = {id(part) for part in module.modules()}
        held = (p for one in modules if id(one) not in alive for p in one._parameters.values() if p is not None)
        if any(self._is_plain(p) and p.data_ptr() in addresses for p in held):
            self._take_made(module)
        else:
            self._from_file = True

    def _is_plain(self, value):
        return isinstance(value, self.torch.Tensor) and self.inspector.stats.is_plain(value) and value.numel() > 0

    def inspect(self):
        """Finds new copies of trained models, and sees which have changed."""
        for one in self.known:
            module = one.module()
            if module is None:
                continue
            one.changed = one.changed or self._print(module) != one.first
            if not one.followed and self.inspector.monitor.loop.backwards - one.since >= LASTING:
                self._follow(one, module)
        if self._count == self._looked or self._count >= MOST_MADE:
            return
        called = [root.module() for root in self.inspector.followed_models() if root.called]
        trained = [module for module in called if module is not None]
        if not trained:
            return
        self._looked = self._count
        shapes = [_shapes(module) for module in trained]
        inside = {id(part) for module in trained for part in module.modules()}
        made = [module for module in list(self._made) if id(module) not in inside]
        within = {id(part) for module in made for part in module.modules() if part is not module}
        for module in [one for one in made if id(one) not in within]:
            # What is copied as a whole may be called by its parts.
            for one in (module, *module.children()):
                if one is module or _shapes(module) not in shapes:
                    self._consider(one, shapes)

    def _consider(self, module, shapes):
        if len(self.known) < MOST and not any(one.module() is module for one in self.known):
            own = _shapes(module)
            if own and own in shapes:
                self._take(module)

    def _take(self, module):
        kinds = [
            type(one).__name__ for one in self.inspector.adapter.registry.modules() or () if _has_part(one, module)
        ]
        one = ModelCopy(module, (kinds or [type(module).__name__])[0], self._print(module))
        one.since = self.inspector.monitor.loop.backwards
        one.untrained = module in self._early and not self._from_file
        one.norm = self._first_running_mean(module)
        self.known.append(one)

    def _follow(self, one, module):
        one.followed = True
        grad_on, monitor = self.torch.is_grad_enabled, self.inspector.monitor
        fixed = next((parameter for parameter in module.parameters() if parameter.grad is None), None)
        normalisation = self.torch.nn.modules.batchnorm._BatchNorm
        stochastic, since = bool(stochastic_modules(module.modules(), normalisation)), monitor.step

        def on_forward(module, args, kwargs):
            if one.module() is module and (
                not grad_on() or (one.untrained and fixed is not None and fixed.grad is None)
            ):
                one.calls += 1
                if one.norm and one.calls <= COMPARED and not module.training:
                    one.stale_norms += self._has_stale_norm(one, module)
                if one.last != monitor.step:
                    one.validates = monitor.step - (one.last or since) >= APART
                    one.last = monitor.step
                    one.steps += 1
                    self.inspector.progress.evaluate(module, one.name, monitor.step)
                if one.untrained and one.compared < COMPARED and not monitor.skipping:
                    self._input(one, args, kwargs)
                known = one.validates and any(root.module() is module for root in self.inspector.roots.living_models())
                if one.validates and monitor.inside is None and not known and not (stochastic and module.training):
                    batch, monitor.fresh = monitor.fresh, None
                    monitor.evaluation.forward(
                        monitor.step, one.name, False, False, stochastic, other=True, batch=batch, of_copy=True
                    )
                    self.inspector.look_at_inputs(args, kwargs)

        def on_output(module, args, output):
            if one.validates and monitor.inside is None and monitor.evaluation.of_copy:
                monitor.evaluation.outputs(output)

        self.inspector.calls.add(module, Observer(on_forward, on_output))
        if one.untrained:
            self._watch_trained()

    def _watch_trained(self):
        """Has the inputs of the trained models compared with those of their copies."""
        grad_on, monitor = self.torch.is_grad_enabled, self.inspector.monitor

        def on_forward(module, args, kwargs):
            waiting = any(one.untrained and one.compared < COMPARED for one in self.known)
            if grad_on() and waiting and not monitor.skipping:
                self._input(None, args, kwargs)

        for root in self.inspector.followed_models():
            module = root.module()
            copies = any(one.module() is module for one in self.known)
            if module is not None and root.called and not copies and module not in self._watched:
                self._watched.add(module)
                self.inspector.calls.add(module, Observer(on_forward))

    def _input(self, copy, args, kwargs):
        """Processes an input of a copy, or of a trained model (`None`); the last step ends with the next input."""
        step, trained, copied = self._inputs
        now = self.inspector.monitor.step
        if step != now:
            for one, given in copied.items():
                one.compared += 1
                one.equal += bool(given & trained)
            trained, copied = set(), {}
            self._inputs = (now, trained, copied)
        tensor = next((v for v in (*args, *kwargs.values()) if self._is_plain(v)), None)
        if tensor is not None:
            given = trained if copy is None else copied.setdefault(copy, set())
            given.add(self._identity(tensor))

    def _identity(self, tensor):
        """What two tensors of the same values have in common; on a device, where reading waits, only the same one."""
        stats, without_modes = self.inspector.stats, self.inspector.without_modes
        if not tensor.is_cpu or not without_modes.is_possible():
            return (tensor.data_ptr(), tensor._version, tuple(tensor.shape))
        with without_modes:
            numbers = stats.flat(stats.real_part(tensor.detach()), _SAMPLE).tolist()
        return fingerprint(numbers, tuple(tensor.shape))

    def _has_stale_norm(self, one, module):
        """Whether a copy has the running mean with which it was found, though those of trained models moved on."""
        others = (root.module() for root in self.inspector.followed_models() if root.called)
        means = [self._first_running_mean(other) for other in others if other is not None and other is not module]
        means = [mean for mean in means if mean and len(mean) == len(one.norm)]
        return bool(means) and one.norm not in means and self._first_running_mean(module) == one.norm

    def _first_running_mean(self, module):
        """Some values of the running mean of a model's first batch norm, `None` where none can be read at once."""
        for name, buffer in module.named_buffers():
            if name.rpartition(".")[2] == "running_mean":
                readable = self._is_plain(buffer) and buffer.is_cpu and self.inspector.without_modes.is_possible()
                return self.inspector.stats.flat(buffer, _SAMPLE).tolist() if readable else None
        return None

    def _print(self, module):
        stats = self.inspector.stats
        parameters = list(module.parameters())
        numbers = []
        for parameter in parameters[:: max(1, len(parameters) // _PRINTED)]:
            if stats.is_plain(parameter) and parameter.numel():
                numbers += stats.flat(stats.real_part(parameter.detach()), _SAMPLE).tolist()
        return fingerprint(numbers, (len(numbers),))

    def totals(self):
        """`copies` of the running totals; `None` where there are none."""
        self.inspect()
        return [one.copy_fields() for one in self.known] or None


def _shapes(module):
    return [tuple(parameter.shape) for parameter in module.parameters()]


def _has_part(module, part):
    return "Averaged" in type(module).__name__ and any(one is part for one in module._modules.values())
