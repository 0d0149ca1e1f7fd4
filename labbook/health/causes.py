"""Which finding explains which: an effect is listed under its cause, not as a fault of its own.

The links are data of the symptom pages (`causes_of`); this module only has the order in which causes are tried.
"""

from __future__ import annotations

from collections.abc import Mapping

_ORDER_WORDS = (
    "clip_before_unscale averaged_copy_never_updated averaged_weights_misused nonfinite_input amp_scale_collapse "
    "loss_exactly_zero out_of_bounds_read label_out_of_head optimizer_params_stale unregistered_parameters "
    "detached_graph param_never_gets_grad backward_but_no_step step_without_backward forward_but_no_backward "
    "step_with_no_gradient grad_param_not_in_optimizer learning_rate_seen lr_schedule_wrong loss_negative "
    "scaled_gradients_stepped grad_not_cleared accumulation_discarded init_symmetric input_not_normalised "
    "input_double_normalised validation_inputs_differ validation_targets_differ init_scale_bad softmax_wrong_axis "
    "softmax_before_cross_entropy "
    "missing_output_activation loss_broadcast twins_without_stop_gradient attention_not_scaled "
    "attention_mask_multiplied attention_hides_own_token reshaped_not_permuted flipped_without_target "
    "mask_interpolated labels_out_of_order terminal_state_bootstrapped contrastive_pairs_wrong "
    "contrastive_temperature target_not_detached target_network_never_updated label_constant class_weights_inverted "
    "conflicting_labels batches_sorted_by_label same_batch_every_step seed_reset_in_loop iterable_dataset_duplicated "
    "regularisation_dominates update_too_large exploding_gradient norm_output_wrong missing_nonlinearity dead_relu "
    "saturated_activation vanishing_gradient activation_collapse gradient_all_zero step_changed_nothing "
    "nonfinite_activation loss_diverging loss_nonfinite nonfinite_gradient init_loss_off loss_at_chance "
    "backward_in_eval_mode eval_in_train_mode train_val_collapse_in_eval label_noise_or_shuffled partial_state_load "
    "repeated_initialisation clip_always_active update_too_small"
)
ORDER = tuple(_ORDER_WORDS.split())
"""Causes, the most direct first: where two explain the same effect, or each other, the first wins. Causes that are not
listed come last."""


def explanations(found: Mapping[str, int | None], causes_of: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Returns effect -> its cause, for the findings of one run.

    Args:
        found: Id of each finding -> the step at which it was first seen, `None` when that is not known. A cause that
            came after its effect is none.
        causes_of: Id of a symptom -> ids of what follows from it, as the symptom pages say.
    """
    explained: dict[str, str] = {}
    for cause in sorted(found, key=_place):
        for effect in causes_of.get(cause, ()):
            later = _comes_later(found[cause], found.get(effect))
            if effect in found and effect not in explained and not later and not _explains(explained, effect, cause):
                explained[effect] = cause
    return {effect: _root(explained, cause) for effect, cause in explained.items()}


def _place(cause: str) -> tuple[int, str]:
    return (ORDER.index(cause) if cause in ORDER else len(ORDER), cause)


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
