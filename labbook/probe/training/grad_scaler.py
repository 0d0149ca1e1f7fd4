"""Gradient scalers: losses without their factor, and steps that are skipped; knows no framework."""

from weakref import ref

from ..wrapping import leave_out_one_frame, transparent_wrapper


class ScaledStep:
    """One step of a gradient scaler.

    Args:
        factor: The factor it multiplies losses by.
        scaled: Whether the gradients still carry it.
    """

    __slots__ = ("factor", "scaled", "stepped")

    def __init__(self, factor, scaled):
        self.factor = factor
        self.scaled = scaled
        self.stepped = False

    def complete(self, step, clipped, unscaled, divisor, found):
        """Tells `step` how its numbers are scaled, and whether it changes anything.

        Args:
            step: A `pending.Step`.
            clipped: Whether its norm comes from clipping, which took place before the scaler's step.
            unscaled: How many of its losses are known without the factor.
            divisor: What the gradients carry while the optimizer steps, or `None`.
            found: Whether gradients are not finite, so that nothing changes, or `None` when the step tells by itself.
        """
        self.stepped = True
        if clipped:
            divisor = self.factor if self.scaled else None
        step.under(self.factor, divisor, found, not unscaled)


def watched_scale(adapter, original):
    """`original`, the method that multiplies a loss, with the loss remembered until `backward`."""
    is_compiling, failed, local = adapter.is_compiling, adapter.probe.failed, adapter.training.local
    tensor = adapter.module.Tensor

    def scale(scaler, outputs, *args, **kwargs):
        result = original(scaler, outputs, *args, **kwargs)
        if not is_compiling():
            try:
                if result is not outputs:
                    local.scales = True
                    local.scaler = ref(scaler)
                    if issubclass(type(outputs), tensor) and outputs.numel() == 1:
                        local.scaled = (ref(result), outputs.detach())
            except Exception as error:
                failed(adapter.name + ".scale", error)
        return result

    return transparent_wrapper(scale, original)


def watched_step(adapter, original, scaling_of):
    """`original`, the method that steps an optimizer, with what it does to the numbers of the step told.

    Args:
        adapter: The adapter of the framework.
        original: Called as the program calls it.
        scaling_of: `scaling_of(scaler, optimizer)` gives the `ScaledStep` of this step, `None` when the scaler is
            switched off.
    """
    is_compiling, failed, training = adapter.is_compiling, adapter.probe.failed, adapter.training
    local = training.local

    def step(scaler, optimizer, *args, **kwargs):
        if is_compiling():
            return original(scaler, optimizer, *args, **kwargs)
        try:
            local.scaling = scaling_of(scaler, optimizer)
        except Exception as error:
            failed(adapter.name + ".scaler", error)
        try:
            result = original(scaler, optimizer, *args, **kwargs)
        except BaseException as error:
            leave_out_one_frame(error)
            raise
        finally:
            scaling, local.scaling = local.scaling, None
        try:
            if scaling is not None and not scaling.stepped:
                recorder = training.recorder(optimizer)
                if recorder is not None:
                    recorder.skip()
                    local.take(recorder)
        except Exception as error:
            failed(adapter.name + ".scaler", error)
        return result

    return transparent_wrapper(step, original)
