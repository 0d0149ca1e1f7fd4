"""Which finding explains which: data. An effect is told as a consequence of its cause, not as a fault of its own."""

from __future__ import annotations

from collections.abc import Mapping

_FLAT = (
    "loss_not_decreasing",
    "loss_at_chance",
    "loss_plateau",
    "below_trivial_baseline",
    "label_noise_or_shuffled",
    "train_val_collapse_in_eval",
)
_NOT_FINITE = (
    "loss_nonfinite",
    "nonfinite_gradient",
    "nonfinite_activation",
    "nonfinite_parameter",
    "amp_scale_collapse",
    "fp16_range_pressure",
)
_BLOWN_UP = (
    "loss_diverging",
    "exploding_gradient",
    "loss_spike",
    "loss_oscillating",
    "dead_relu",
    "saturated_activation",
    "activation_collapse",
    "gradient_all_zero",
    "vanishing_gradient",
    "clip_always_active",
    "step_changed_nothing",
)
_NO_GRADIENT = (
    "step_changed_nothing",
    "gradient_all_zero",
    "vanishing_gradient",
    "update_too_small",
    "activation_collapse",
)

EXPLAINS: Mapping[str, tuple[str, ...]] = {
    "clip_before_unscale": (*_FLAT, "update_too_small", "step_changed_nothing", "clip_always_active"),
    "averaged_copy_never_updated": (
        "label_noise_or_shuffled",
        "below_trivial_baseline",
        "overfitting",
        "train_val_collapse_in_eval",
    ),
    "nonfinite_input": (*_NOT_FINITE, *_BLOWN_UP, *_FLAT),
    "amp_scale_collapse": _FLAT,
    "loss_exactly_zero": (*_NOT_FINITE, *_FLAT, "train_loss_to_zero", "gradient_all_zero", "step_with_no_gradient"),
    "out_of_bounds_read": (*_NOT_FINITE, *_BLOWN_UP, *_FLAT),
    "label_out_of_head": (*_NOT_FINITE, *_FLAT, "loss_diverging"),
    "optimizer_params_stale": (
        "grad_param_not_in_optimizer",
        "param_never_gets_grad",
        "step_with_no_gradient",
        *_NO_GRADIENT,
        *_FLAT,
    ),
    "unregistered_parameters": ("grad_param_not_in_optimizer", "vanishing_gradient", *_FLAT),
    "detached_graph": ("param_never_gets_grad", "step_with_no_gradient", *_NO_GRADIENT, *_FLAT),
    "param_never_gets_grad": ("step_with_no_gradient", *_NO_GRADIENT, *_FLAT),
    "backward_but_no_step": (*_FLAT, "update_too_small"),
    "step_without_backward": (*_NO_GRADIENT, *_FLAT, "step_with_no_gradient"),
    "forward_but_no_backward": (*_NO_GRADIENT, *_FLAT, "step_with_no_gradient", "step_without_backward"),
    "step_with_no_gradient": (*_NO_GRADIENT, *_FLAT, "param_never_gets_grad"),
    "grad_param_not_in_optimizer": ("step_with_no_gradient", *_NO_GRADIENT, *_FLAT),
    "learning_rate_seen": ("step_changed_nothing", "update_too_small", *_FLAT),
    "lr_schedule_wrong": ("step_changed_nothing", "update_too_small", "loss_oscillating", *_FLAT),
    "loss_negative": ("label_out_of_head", *_BLOWN_UP, *_NOT_FINITE, *_FLAT, "update_too_large"),
    "grad_not_cleared": ("update_too_large", *_BLOWN_UP, *_NOT_FINITE, *_FLAT),
    "init_symmetric": ("step_with_no_gradient", *_NO_GRADIENT, *_FLAT, "init_scale_bad"),
    "input_not_normalised": (
        "step_with_no_gradient",
        "init_loss_off",
        "update_too_large",
        *_BLOWN_UP,
        *_NOT_FINITE,
        *_FLAT,
    ),
    "init_scale_bad": (
        "step_with_no_gradient",
        "init_loss_off",
        "update_too_large",
        "update_too_small",
        *_BLOWN_UP,
        *_NOT_FINITE,
        *_FLAT,
    ),
    "softmax_wrong_axis": (
        "step_with_no_gradient",
        *_NO_GRADIENT,
        *_FLAT,
        "softmax_before_cross_entropy",
        "missing_output_activation",
    ),
    "softmax_before_cross_entropy": (*_FLAT, "vanishing_gradient", "update_too_small", "double_activation"),
    "missing_output_activation": (*_FLAT, "loss_diverging", "loss_negative", "exploding_gradient", "init_loss_off"),
    "loss_broadcast": (*_FLAT, "activation_collapse", "loss_diverging"),
    "label_constant": (
        "label_noise_or_shuffled",
        "below_trivial_baseline",
        "overfitting",
        "train_loss_to_zero",
        "activation_collapse",
        "class_imbalance",
        "gradient_all_zero",
    ),
    "conflicting_labels": _FLAT,
    "batches_sorted_by_label": ("input_drift_in_run", "update_too_large", *_BLOWN_UP, *_FLAT),
    "same_batch_every_step": (
        "train_loss_to_zero",
        "overfitting",
        "seed_reset_in_loop",
        "order_identical_each_epoch",
    ),
    "seed_reset_in_loop": ("order_identical_each_epoch", "same_batch_every_step", "worker_duplicate_randomness"),
    "iterable_dataset_duplicated": ("overfitting",),
    "update_too_large": ("step_with_no_gradient", *_BLOWN_UP, *_NOT_FINITE, *_FLAT),
    "exploding_gradient": (*_NOT_FINITE, "loss_diverging", "loss_spike", "clip_always_active"),
    "dead_relu": (
        "step_with_no_gradient",
        "gradient_all_zero",
        "activation_collapse",
        "vanishing_gradient",
        "step_changed_nothing",
        *_FLAT,
    ),
    "saturated_activation": (
        "step_with_no_gradient",
        "vanishing_gradient",
        "update_too_small",
        "activation_collapse",
        *_FLAT,
    ),
    "vanishing_gradient": ("step_with_no_gradient", "update_too_small", *_FLAT),
    "activation_collapse": _FLAT,
    "gradient_all_zero": ("step_changed_nothing", "step_with_no_gradient", *_FLAT),
    "step_changed_nothing": _FLAT,
    "nonfinite_activation": ("loss_nonfinite", "nonfinite_gradient", "nonfinite_parameter"),
    "loss_diverging": (*_NOT_FINITE, "loss_not_decreasing", "loss_spike", "loss_oscillating", "overfitting"),
    "loss_nonfinite": (
        "nonfinite_gradient",
        "nonfinite_parameter",
        "nonfinite_activation",
        "step_changed_nothing",
        *_FLAT,
    ),
    "nonfinite_gradient": ("loss_nonfinite", "nonfinite_parameter", "nonfinite_activation", *_FLAT),
    "init_loss_off": ("update_too_large", *_BLOWN_UP, *_NOT_FINITE, *_FLAT),
    "loss_at_chance": ("loss_not_decreasing", "loss_plateau", "below_trivial_baseline", "activation_collapse"),
    "backward_in_eval_mode": ("overfitting", "train_val_collapse_in_eval", "batchnorm_frozen_or_tiny_batch"),
    "eval_in_train_mode": ("overfitting", "label_noise_or_shuffled"),
    "train_val_overlap": ("val_better_than_train",),
    "train_val_collapse_in_eval": ("label_noise_or_shuffled", "overfitting", "below_trivial_baseline"),
    "label_noise_or_shuffled": ("overfitting", "below_trivial_baseline"),
    "partial_state_load": ("init_loss_off",),
    "repeated_initialisation": ("init_loss_off", "init_scale_bad"),
    "clip_always_active": ("update_too_small", *_FLAT),
    "update_too_small": _FLAT,
}
"""Id of a cause -> ids that it explains. The most direct causes stand first: where two explain each other, the first
wins."""


def explanations(found: Mapping[str, int | None]) -> dict[str, str]:
    """Effect -> its cause, for findings that are there.

    Args:
        found: Id of each finding -> the step at which it was first seen, `None` when that is not known. A cause that
            came after its effect is none.
    """
    explained: dict[str, str] = {}
    for cause, effects in EXPLAINS.items():
        if cause not in found:
            continue
        for effect in effects:
            later = _comes_later(found[cause], found.get(effect))
            if effect in found and effect not in explained and not later and not _explains(explained, effect, cause):
                explained[effect] = cause
    return {effect: _root(explained, cause) for effect, cause in explained.items()}


def _comes_later(cause: int | None, effect: int | None) -> bool:
    return cause is not None and effect is not None and cause > effect


def _explains(explained: Mapping[str, str], cause: str, effect: str) -> bool:
    """Whether `cause` already explains `effect`, over any number of others."""
    while effect in explained:
        effect = explained[effect]
        if effect == cause:
            return True
    return False


def _root(explained: Mapping[str, str], cause: str) -> str:
    while cause in explained:
        cause = explained[cause]
    return cause
