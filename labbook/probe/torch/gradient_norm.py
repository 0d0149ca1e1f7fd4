"""Gradients of PyTorch optimizers, and the hooks on gradient clipping and gradient scalers."""

import sys

from ..training.clipping import norm_order, wrap_clip
from ..training.grad_scaler import ScaledStep, wrap_scale, wrap_scaler_step


def gradients(optimizer):
    """All gradients that an optimizer is about to use."""
    return [g for group in optimizer.param_groups for p in group["params"] if (g := p.grad) is not None]


def hook_clipping(adapter):
    """Keeps the norm that clipping computes anyway; measures it first where clipping uses another one."""
    utils = adapter.module.nn.utils
    module = sys.modules["torch.nn.utils.clip_grad"]
    by_norm = wrap_clip(adapter, module.clip_grad_norm_, norm_order, is_still_scaled)
    by_value = wrap_clip(adapter, module.clip_grad_value_, lambda a, k: None, is_still_scaled)
    utils.clip_grad_norm_ = module.clip_grad_norm_ = by_norm
    utils.clip_grad_value_ = module.clip_grad_value_ = by_value


def is_still_scaled(local):
    """Whether the last scaler that scaled a loss has unscaled the gradients of no optimizer since its last update."""
    scaler = local.scaler() if local.scaler is not None else None
    if scaler is None or not scaler.is_enabled():
        return False
    factor = scaler._scale
    if factor is not None and factor.is_cpu and factor.item() == 1.0:
        return False
    return all(state["stage"].name == "READY" for state in list(scaler._per_optimizer_states.values()))


def hook_scaler(adapter):
    """Watches gradient scalers: losses without their factor, and the steps that they skip."""
    kinds = []
    for home in (getattr(adapter.module, "amp", None), adapter.module.cuda.amp):
        kind = getattr(home, "GradScaler", None)
        if kind is not None and not any(issubclass(kind, known) for known in kinds):
            kinds.append(kind)
    for kind in kinds:
        kind.scale = wrap_scale(adapter, kind.scale)
        kind.step = wrap_scaler_step(adapter, kind.step, _scaling)


def _scaling(scaler, optimizer):
    if not scaler.is_enabled():
        return None
    state = scaler._per_optimizer_states.get(id(optimizer))
    return ScaledStep(scaler._scale, state is None or state["stage"].name == "READY")
