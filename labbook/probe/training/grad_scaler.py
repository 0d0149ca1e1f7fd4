"""Gradient scalers: unscaled losses and skipped steps; independent of the framework."""

from weakref import ref

from ..wrapping import leave_out_one_frame, transparent_wrapper


class ScaledStep:
    """One step of a gradient scaler.

    Args:
        scaled: Whether the gradients still carry the factor.
    """

    __slots__ = ("factor", "scaled", "stepped")

    def __init__(self, factor, scaled):
        self.factor = factor
        self.scaled = scaled
        self.stepped = False

    def complete(self, step, clipped, unscaled, divisor, found):
        """Set the scaling of `step`, and whether it is skipped.

        Args:
            step: A `device_values.Step`.
            clipped: Whether its norm comes from clipping before the scaler's step.
            unscaled: Number of its losses that are known without the factor.
            divisor: Factor of the gradients during the optimizer step, or `None`.
            found: Whether gradients are non-finite, so that nothing changes, or `None` if the step itself detects it.
        """
        self.stepped = True
        if clipped:
            divisor = self.factor if self.scaled else None
        step.record_scaling(self.factor, divisor, found, not unscaled)


def note_raw_step(local, is_scaled, scaler):
    """Count a step that another one than the gradient scaler made after it has scaled the loss.

    Args:
        local: The pending values of the thread.
        is_scaled: `is_scaled(local)` returns whether gradients still carry the factor.
        scaler: Counts of gradient scalers, of the loop.
    """
    raw, local.raw = local.raw, False
    if raw and local.scaling is None and is_scaled(local):
        scaler["raw"] += 1


def wrap_scale(adapter, original):
    """Wrap the method that scales a loss; the loss is stored until `backward`."""
    is_compiling, failed, local = adapter.is_compiling, adapter.probe.failed, adapter.training.local
    tensor = adapter.module.Tensor

    def scale(scaler, outputs, *args, **kwargs):
        result = original(scaler, outputs, *args, **kwargs)
        if not is_compiling():
            try:
                if result is not outputs:
                    local.scales = local.raw = True
                    local.scaler = ref(scaler)
                    if issubclass(type(outputs), tensor) and outputs.numel() == 1:
                        local.scaled = (ref(result), outputs.detach())
            except Exception as error:
                failed(adapter.name + ".scale", error)
        return result

    return transparent_wrapper(scale, original)


def wrap_scaler_step(adapter, original, scaling_of):
    """Wrap the method that steps an optimizer; its effect on the numbers of the step is recorded.

    Args:
        scaling_of: `scaling_of(scaler, optimizer)` returns the `ScaledStep` of this step, `None` if the scaler is
            disabled.
    """
    is_compiling, failed, training = adapter.is_compiling, adapter.probe.failed, adapter.training
    local = training.local

    def step(scaler, optimizer, *args, **kwargs):
        if is_compiling():
            return original(scaler, optimizer, *args, **kwargs)
        local.raw = False
        try:
            local.scaling = scaling_of(scaler, optimizer)
            if local.scaling is not None and adapter.monitor is not None:
                adapter.monitor.loop.scaler["stepped"] += 1
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
