"""Follows copies of the trained PyTorch model: whether they are asked between steps, and whether they ever change."""

from weakref import WeakSet, ref

from ..training.batch_fingerprints import fingerprint
from .module_calls import Observer

MOST_MADE = 512
"""Modules made by copying that are remembered; a program that makes more builds its model of them."""

MOST = 4
LASTING = 16
"""Backward calls that a copy outlives before its calls are counted: those made to be saved are left alone."""

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
    """

    def __init__(self, module, name, first):
        self.module = ref(module)
        self.name = name
        self.first = first
        self.changed = self.followed = False
        self.since = 0
        self.calls = self.steps = 0
        self.last = None

    def told(self):
        """As the protocol has it."""
        return {
            "type": self.name,
            "calls": self.calls,
            "steps": self.steps,
            "last": self.last,
            "changed": self.changed,
        }


class ModelCopies:
    """The copies of one process.

    Args:
        torch: The module.
        inspector: The other eyes.
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
        self.known = []

    def install(self, is_compiling):
        """Has modules told that are made by copying, which restores their state."""
        kind, copies, failed = self.torch.nn.Module, self, self.inspector.failed
        original = kind.__setstate__

        def __setstate__(module, state):  # noqa: N807 - the name that a traceback shows
            original(module, state)
            if copies._count >= MOST_MADE or is_compiling():
                return
            try:
                copies._count += 1
                copies._made.add(module)
            except Exception as error:
                failed("torch.copies", error)

        kind.__setstate__ = __setstate__

    def look(self):
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
        called = [root.module() for root in self.inspector.followed() if root.called]
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
        kinds = [type(one).__name__ for one in self.inspector.adapter.registry.modules() or () if _holds(one, module)]
        one = ModelCopy(module, (kinds or [type(module).__name__])[0], self._print(module))
        one.since = self.inspector.monitor.loop.backwards
        self.known.append(one)

    def _follow(self, one, module):
        one.followed = True
        grad_on, monitor = self.torch.is_grad_enabled, self.inspector.monitor

        def called(module, args, kwargs):
            if not grad_on() and one.module() is module:
                one.calls += 1
                if one.last != monitor.step:
                    one.last = monitor.step
                    one.steps += 1

        self.inspector.calls.add(module, Observer(called))

    def _print(self, module):
        stats = self.inspector.stats
        parameters = list(module.parameters())
        numbers = []
        for parameter in parameters[:: max(1, len(parameters) // _PRINTED)]:
            if stats.is_plain(parameter) and parameter.numel():
                numbers += stats.flat(stats.real(parameter.detach()), _SAMPLE).tolist()
        return fingerprint(numbers, (len(numbers),))

    def told(self):
        """`copies` of the running totals; `None` where there are none."""
        self.look()
        return [one.told() for one in self.known] or None


def _shapes(module):
    return [tuple(parameter.shape) for parameter in module.parameters()]


def _holds(module, part):
    return "Averaged" in type(module).__name__ and any(one is part for one in module._modules.values())
