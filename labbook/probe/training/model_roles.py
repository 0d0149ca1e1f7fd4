"""Tells the model that is trained from others that are asked beside it: teachers, averaged and target networks.

Knows no framework.
"""

RECENT = 20
"""Steps since its last forward with gradients in which a model still counts as trained: some models are only trained
at every few steps. Source: chosen by us."""

FEWER = 4
"""A model that is asked for so many times fewer samples than are trained on acts, whoever trains it: a copy of the
policy that plays. A teacher sees what is trained on. Source: chosen by us."""


class ModelRoles:
    """What the models of one process are asked for.

    Attributes:
        steps: Number of a model -> the step that was being prepared at its last forward with gradients.
    """

    def __init__(self):
        self.steps = {}
        self._samples = 0

    def takes(self, monitor, root, args, kwargs, grad, samples):
        """Takes a forward of a model.

        Args:
            monitor: Whose forward it is.
            root: The model.
            args: Its arguments.
            kwargs: Its named arguments.
            grad: Whether gradients are enabled.
            samples: Number of samples, 0 where it is not known.

        Returns:
            Whether it is one without gradients, of a model that is not trained.

        Cost: under a microsecond.
        """
        if grad:
            self.steps[root.index] = monitor.step
            self._samples = samples or self._samples
            return False
        last = monitor.last_root
        if last is None or root is last or monitor.step - self.steps.get(root.index, -RECENT) <= RECENT:
            return False
        other = not 0 < (samples or monitor.inspector.samples_of(args, kwargs)) * FEWER <= self._samples
        monitor.loop.of_others += other
        return other
