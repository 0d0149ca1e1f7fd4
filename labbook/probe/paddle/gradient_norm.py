"""Gradients of PaddlePaddle optimizers, and the hooks on gradient clipping and gradient scalers."""

import sys

from ..training.clipping import norm_order, wrap_clip
from ..training.grad_scaler import ScaledStep, wrap_scale, wrap_scaler_step
from . import framework_state


def gradients(optimizer):
    """All gradients that an optimizer has now."""
    return [g for p in framework_state.parameters(optimizer) if (g := p._grad_ivar()) is not None]


def hook_clipping(adapter):
    """Keeps the norm that clipping computes anyway; measures it first where clipping uses another one.

    Clipping inside the optimizer (`grad_clip`) needs nothing: the gradients are seen before it.
    """
    utils = adapter.module.nn.utils
    for name, norm_type in (("clip_grad_norm_", norm_order), ("clip_grad_value_", lambda args, kwargs: None)):
        if hasattr(utils, name):
            watched = wrap_clip(adapter, getattr(utils, name), norm_type)
            home = sys.modules.get("paddle.nn.utils." + name)
            if home is not None and hasattr(home, name):
                setattr(home, name, watched)
            setattr(utils, name, watched)


def is_still_scaled(local):
    """Whether the last scaler that scaled a loss has unscaled the gradients of no optimizer since its last update."""
    scaler = local.scaler() if local.scaler is not None else None
    if scaler is None or not scaler.is_enable():
        return False
    return all(state["state"].name == "INIT" for state in list(scaler._optimizer_states.values()))


def hook_scaler(adapter):
    """Watches gradient scalers: losses without their factor, and the steps that they skip."""
    module = sys.modules["paddle.amp.grad_scaler"]
    module.AmpScaler.scale = wrap_scale(adapter, module.AmpScaler.scale)
    module.AmpScaler.minimize = wrap_scaler_step(adapter, module.AmpScaler.minimize, _scaling)
    module.GradScaler.step = wrap_scaler_step(adapter, module.GradScaler.step, _scaling)


def _scaling(scaler, optimizer):
    if not scaler.is_enable():
        return None
    state = scaler._optimizer_states.get(id(optimizer))
    return ScaledStep(scaler._scale, state is None or state["state"].name == "INIT")
