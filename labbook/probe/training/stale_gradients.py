"""Checks the gradients in an optimizer's parameters: stale from an earlier step, missing, or all zero.

Independent of the framework.
"""

CHECKED_ALWAYS = 50
"""Steps after which cleared gradients are no longer checked at each step."""

CHECKED_EVERY = 8


class StaleGradientCheck:
    """Checks the gradients of one process for stale values.

    Args:
        training: The training with its optimizers.
        inspector: Reads tensors; see `TrainingMonitor`.
    """

    def __init__(self, training, inspector):
        self._training = training
        self._inspector = inspector

    def before_backward(self, loop, every):
        """Check the optimizers' parameters for stale gradients, until they were found cleared.

        Args:
            every: Whether to check all parameters instead of a few.
        """
        for recorder in list(self._training.recorders.values()):
            one = loop.of.get(recorder.index)
            if one is None or one.waiting == 0.0:
                continue
            # Only valid for all backward calls since its last step.
            if one.steps > CHECKED_ALWAYS and one.steps % CHECKED_EVERY:
                continue
            optimizer = recorder.owner()
            if optimizer is not None:
                norm = self._inspector.stale_gradient_norm(optimizer, recorder, every)
                if norm is not None:
                    loop.stale_gradients(recorder.index, norm)

    def before_step(self, loop, optimizer, recorder, norm):
        """Record whether an optimizer is about to step without gradients, or with zeros only.

        Args:
            norm: As in `TrainingMonitor.step_begins`.
        """
        one = loop.optimizer(recorder.index)
        missing = norm is None and not self._inspector.has_gradient(optimizer)
        if self._training.local.backwards:
            one.empty.add(missing)
            if type(norm) is float:
                one.zero.add(norm == 0.0)
