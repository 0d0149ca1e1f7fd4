"""Judges the gradients that stand in an optimizer's parameters: left over from before, missing, or all zero.

Knows no framework.
"""

CHECKED_ALWAYS = 50
"""Steps after which cleared gradients are no longer checked at each one."""

CHECKED_EVERY = 8


class Standing:
    """The standing gradients of one process.

    Args:
        training: Its optimizers.
        eyes: What looks at tensors; see `Health`.
    """

    def __init__(self, training, eyes):
        self._training = training
        self._eyes = eyes

    def before_backward(self, loop, every):
        """Looks for gradients that stand in an optimizer's parameters, until they were seen cleared once a step.

        Args:
            loop: Takes what was found.
            every: Whether all parameters are looked at, else a few of them.
        """
        for meter in list(self._training.meters.values()):
            one = loop.of.get(meter.index)
            if one is None or one.waiting == 0.0:
                continue
            # Judged over all backward calls since its last step, or not at all.
            if one.steps > CHECKED_ALWAYS and one.steps % CHECKED_EVERY:
                continue
            optimizer = meter.owner()
            if optimizer is not None:
                norm = self._eyes.standing(optimizer, meter, every)
                if norm is not None:
                    loop.standing(meter.index, norm)

    def before_step(self, loop, optimizer, meter, norm):
        """Notes whether an optimizer is about to step without a gradient, or with nothing but zeros.

        Args:
            loop: Takes what was found.
            optimizer: It.
            meter: Its meter.
            norm: As in `Health.step_begins`.
        """
        one = loop.optimizer(meter.index)
        if not one.steps:
            self._eyes.first_step(optimizer)
        missing = norm is None and not self._eyes.has_gradient(optimizer)
        if self._training.local.backwards:
            one.empty.takes(missing)
            if type(norm) is float:
                one.zero.takes(norm == 0.0)
