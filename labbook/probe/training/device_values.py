"""The numbers of one optimizer step while some of them are still on a device."""

MAX_LOSSES = 128
"""Maximum losses of one step that are fetched from a device; with longer accumulation, the first ones."""


def merge_fields(extra, more):
    """Merge additional fields of a step from two sources; either may be `None`."""
    if extra is None or more is None:
        return more if extra is None else extra
    return dict(extra, **more)


class Step:
    """The values of one step, some of which are tensors until they are fetched.

    Args:
        norm: Total gradient norm.
        inputs: Sum of the inputs of the models, which is not finite when one of them is not; `None` if unknown.
        extra: Additional fields of the record.

    Attributes:
        bad_inputs: Whether an input was not finite; known after `read`.
    """

    def __init__(self, losses, norm, inputs=None, extra=None):
        self.bad_inputs = False
        self._cells = [norm, None, None, None, inputs]
        self._cells += losses[:MAX_LOSSES]
        self._losses_scaled = False
        self._extra = extra
        self._moving = ()
        self._pending = None

    def record_scaling(self, factor, divisor, found, losses_scaled):
        """Record the gradient scaling of the step.

        Args:
            divisor: Divisor of the norm, or `None`.
            found: Whether non-finite gradients were found, so that a fused step changes nothing, or `None`.
            losses_scaled: Whether the losses still carry the factor.
        """
        self._cells[1:4] = [factor, divisor, found]
        self._losses_scaled = losses_scaled

    def send(self, values):
        """Start to copy values from a device; returns false if that is impossible without waiting."""
        cells, moving = self._cells, []
        for index, cell in enumerate(cells):
            if cell is not None and type(cell) not in (float, bool):
                cells[index] = values.read_if_on_host(cell)
                if cells[index] is None:
                    cells[index] = cell
                    moving.append(index)
        if moving:
            self._pending = values.post([cells[index] for index in moving])
            if self._pending is None:
                return False
            for index in moving:
                cells[index] = None
            self._moving = moving
        return True

    def is_ready(self):
        """Whether all values are numbers, or can be read without waiting."""
        return self._pending is None or self._pending.is_ready()

    def read(self):
        """Return `(losses, norm, extra)`, or `None` if the scaler skipped this step."""
        if self._pending is not None:
            for index, value in zip(self._moving, self._pending.values()):
                self._cells[index] = value
        norm, scale, divisor, found, inputs = self._cells[:5]
        losses = self._cells[5:]
        self.bad_inputs = inputs is not None and inputs - inputs != 0.0
        if found:
            return None
        if norm is not None and divisor:
            norm /= divisor
        extra = self._extra
        if scale:
            extra = dict(extra or (), scale=scale)
            if self._losses_scaled:
                losses = [value / scale for value in losses]
        return losses, norm, extra
