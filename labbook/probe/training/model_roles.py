"""Distinguishes the trained model from others in the loop: teachers, averaged and target networks.

Independent of the framework.
"""

RECENT = 20
"""A model counts as trained for this many steps after its last forward with gradients: some models are only trained
every few steps. Source: chosen by us."""

FEWER = 4
"""A model called with this many times fewer samples than a training batch acts: it is a copy of the policy that plays.
A teacher gets the training batch. Source: chosen by us."""


class ModelRoles:
    """Roles of the models of one process.

    Attributes:
        steps: Number of a model -> step of its last forward with gradients.
        whole: Whether the last forward without gradients was in evaluation mode and of no far smaller batch than the
            model is trained on: it validates; what acts sees one sample or few.
    """

    def __init__(self):
        self.steps = {}
        self.whole = False
        self._samples = 0
        self._backwards = 0
        self._last, self._trained = {}, {}

    def on_forward(self, monitor, root, args, kwargs, grad, samples):
        """Process a forward of a model.

        Args:
            samples: Number of samples, 0 if unknown.

        Returns:
            Whether it is a forward without gradients of an untrained model.

        Cost: under a microsecond.
        """
        if grad:
            self.steps[root.index] = monitor.step
            self._samples = samples or self._samples
            self._compare(monitor.loop, root.index, samples or monitor.inspector.samples_of(args, kwargs))
            monitor.loop.looked += 1
            monitor.loop.chained += monitor.inspector.is_computed(args)
            return False
        count = samples or monitor.inspector.samples_of(args, kwargs)
        self.whole = not root.training() and 0 < self._last.get(root.index, 0) < count * FEWER
        last = monitor.last_root
        if last is None or root is last or monitor.step - self.steps.get(root.index, -RECENT) <= RECENT:
            return False
        other = not 0 < count * FEWER <= self._samples
        if other:
            monitor.loop.calls_other(monitor.step)
        return other

    def _compare(self, loop, index, samples):
        """Count a forward with gradients of far fewer samples than this model was last trained on."""
        if loop.backwards != self._backwards:
            self._backwards = loop.backwards
            self._trained.update(self._last)
            loop.compared += 1
        self._last[index] = samples
        loop.small += 0 < samples * FEWER <= self._trained.get(index, 0)
