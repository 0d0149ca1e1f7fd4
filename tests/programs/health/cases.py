"""What each program of this folder shows: the faults, their corrected twins, and healthy programs that look odd.

Data for `benchmarks/health.py` and tests. A fault: file, program, what was planted, other names of it, what follows.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent

NUMBERS = "loss_nonfinite nonfinite_gradient nonfinite_activation nonfinite_parameter nan_hidden_by_logger"
FLAT = "loss_not_decreasing loss_at_chance below_trivial_baseline label_noise_or_shuffled activation_collapse"
WILD = "update_too_large exploding_gradient loss_diverging loss_spike dead_relu saturated_activation"
STILL = f"step_changed_nothing gradient_all_zero vanishing_gradient step_with_no_gradient {FLAT}"
SCALE = f"init_scale_bad init_loss_off input_not_normalised {WILD} {FLAT}"
UNUSED, SCALED, ORDER = f"param_never_gets_grad {STILL}", f"{SCALE} {STILL}", "order_identical_each_epoch"


@dataclass(frozen=True)
class Case:
    """One program as it is run; a twin is the corrected half of a pair.

    Args:
        expected: Ids that were planted, all to be named; `instead`, `allowed`: names of the same fault, consequences.
    """

    id: str
    framework: str
    arguments: tuple[str, ...]
    expected: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    twin: bool = False

    @property
    def healthy(self) -> bool:
        return not self.expected

    @property
    def command(self) -> list[str]:
        return [sys.executable, *self.arguments]


FAULTS = f"""
numeric_torch logarithm_of_zero | loss_nonfinite | nonfinite_activation | {NUMBERS} {WILD} {FLAT}
numeric_torch polynomial_runs_away | loss_nonfinite loss_diverging | update_too_large | {NUMBERS} {SCALE}
numeric_torch pixels_divided_by_their_spread | nonfinite_input | | {NUMBERS} constant_feature {STILL} {WILD}
numeric_torch empty_sentence | nonfinite_activation | | {NUMBERS} {STILL}
numeric_torch pairs_that_are_equal | nonfinite_gradient | | {NUMBERS} {STILL}
numeric_torch rows_never_seen | nonfinite_parameter | | param_never_gets_grad
numeric_torch mean_without_nan | nan_hidden_by_logger | | nonfinite_input {NUMBERS} {STILL}
numeric_torch signs_as_targets | loss_negative | | {WILD} label_out_of_head
numeric_torch turned_sign | loss_negative | | {WILD} {FLAT}
numeric_torch masked_tokens | loss_exactly_zero | | {STILL}
numeric_torch prices_in_half_precision | amp_scale_collapse | | nonfinite_gradient input_not_normalised {STILL} {WILD}
numeric_torch decorated_forward | autocast_ineffective | |
gradients_torch forgets_clearing | grad_not_cleared | | {WILD} {FLAT}
gradients_torch clears_one_of_two | grad_not_cleared | | {WILD} {FLAT}
gradients_torch clears_once_an_epoch | grad_not_cleared | | {WILD} {FLAT}
gradients_torch judge_keeps_gradients | grad_not_cleared | | {WILD} {FLAT}
gradients_torch clears_before_the_step | step_with_no_gradient | | {STILL}
gradients_torch wrong_tower | param_never_gets_grad | |
gradients_torch hard_routing | param_never_gets_grad | detached_graph |
gradients_torch new_head_after_the_optimizer | grad_param_not_in_optimizer optimizer_params_stale | | grad_not_cleared
gradients_torch optimizer_of_the_original | optimizer_params_stale grad_param_not_in_optimizer | | grad_not_cleared {STILL}
gradients_torch only_the_encoder | grad_param_not_in_optimizer | | grad_not_cleared
gradients_torch weights_in_bfloat16 | step_changed_nothing | | {FLAT}
gradients_torch warm_up_by_whole_numbers | step_changed_nothing | lr_schedule_wrong learning_rate_seen | {FLAT}
layers_torch rate_of_another_optimizer | update_too_large | | {WILD} {FLAT}
layers_torch steps_as_large_as_weights | update_too_large | | {WILD} {FLAT}
layers_torch ten_sigmoids | vanishing_gradient | | {FLAT} saturated_activation
layers_torch long_memory | exploding_gradient | | {WILD} {FLAT} init_scale_bad {NUMBERS}
layers_torch positive_output | gradient_all_zero | dead_relu | {STILL} init_scale_bad
layers_torch squashed_logits | gradient_all_zero | saturated_activation input_not_normalised | {SCALED}
layers_torch cold_start | dead_relu | | {STILL} init_scale_bad
layers_torch pixels_up_to_255 | input_not_normalised dead_relu | | {SCALED}
layers_torch raw_wine | saturated_activation | input_not_normalised | {SCALED}
layers_torch wide_initial_weights | init_scale_bad | saturated_activation | {SCALE}
layers_torch tiny_initial_weights | activation_collapse | init_scale_bad vanishing_gradient | {SCALED}
layers_torch loud_head | init_loss_off | init_scale_bad | {SCALE}
layers_torch sum_of_the_batch | init_loss_off | | {WILD}
layers_torch all_weights_alike | init_symmetric | | init_scale_bad {STILL}
layers_torch nested_initialisation | repeated_initialisation | | init_scale_bad
layers_torch list_of_layers | unregistered_parameters | | grad_param_not_in_optimizer {FLAT}
layers_torch validated_before_training | spectral_norm_uninitialised | |
layers_torch state_of_nothing | param_never_gets_grad | data_independent_model activation_collapse | {STILL}
convergence_torch shuffles_one_side | loss_not_decreasing | | {FLAT} overfitting
convergence_torch much_too_slow | loss_not_decreasing | update_too_small | {FLAT} step_changed_nothing
convergence_torch labels_of_another_file | loss_at_chance | | {FLAT} conflicting_labels
convergence_torch rate_just_too_high | loss_diverging | | {WILD} {FLAT}
convergence_torch one_bad_record | loss_spike | | exploding_gradient input_not_normalised
convergence_torch schedule_never_used | lr_schedule_wrong | |
convergence_torch schedule_before_the_optimizer | lr_schedule_wrong | |
convergence_torch epochs_counted_in_batches | lr_schedule_wrong | | step_changed_nothing
convergence_torch learns_by_heart | overfitting | |
convergence_torch running_averages_too_slow | train_val_collapse_in_eval | batchnorm_frozen_or_tiny_batch | overfitting
convergence_torch classes_in_another_order | below_trivial_baseline | label_noise_or_shuffled |
convergence_torch noise_learned | label_noise_or_shuffled | below_trivial_baseline | overfitting
loops_torch never_reaches_the_step | backward_but_no_step | | grad_not_cleared {STILL}
loops_torch names_the_method | step_without_backward | forward_but_no_backward | {UNUSED}
loops_torch returns_before_learning | forward_but_no_backward | | {UNUSED}
loops_torch stays_in_evaluation | backward_in_eval_mode | |
loops_torch validates_while_training | eval_in_train_mode | |
loops_torch validates_with_gradients | grad_enabled_in_validation | |
loops_torch function_without_its_mode | dropout_active_in_eval | |
loops_torch norm_of_pairs | batchnorm_frozen_or_tiny_batch | | train_val_collapse_in_eval {WILD}
loops_torch loss_made_anew | detached_graph | step_with_no_gradient | {UNUSED}
loops_torch through_numpy | detached_graph | param_never_gets_grad | param_never_gets_grad
loops_torch through_data | detached_graph | param_never_gets_grad | param_never_gets_grad
loops_torch best_weights_by_reference | best_checkpoint_alias | | overfitting
loops_torch weights_of_a_wrapped_model | partial_state_load | |
outputs_torch probabilities_as_logits | softmax_before_cross_entropy | | {FLAT}
outputs_torch probabilities_in_forward | softmax_before_cross_entropy | | vanishing_gradient {FLAT}
outputs_torch raw_scores_for_nll | missing_output_activation | | loss_negative init_loss_off {WILD}
outputs_torch softmax_over_the_batch | softmax_wrong_axis | | init_loss_off {FLAT}
outputs_torch one_unit_and_softmax | softmax_wrong_axis | | {STILL} dead_relu
outputs_torch column_against_row | loss_broadcast | | {FLAT}
outputs_torch column_against_row_by_hand | loss_broadcast | | {FLAT}
outputs_torch skips_bad_batches | label_out_of_head | | forward_but_no_backward
outputs_torch target_of_one_record | batch_leading_dim_mismatch | loss_broadcast | loss_broadcast {FLAT}
records_torch sorted_by_class | batches_sorted_by_label | | {ORDER} {WILD} label_constant class_imbalance
records_torch first_batch_forever | same_batch_every_step | | {ORDER}
records_torch same_order_each_epoch | {ORDER} | |
records_torch seeded_in_the_step | seed_reset_in_loop | |
records_torch raw_measurements | input_not_normalised | | {SCALED}
records_torch bytes_of_pictures | input_not_normalised | | {SCALED}
records_torch columns_lost_on_the_way | constant_feature | |
records_torch only_one_class | label_constant | | class_imbalance activation_collapse
records_torch rare_class | class_imbalance | |
records_torch workers_draw_the_same | worker_duplicate_randomness | iterable_dataset_duplicated | {ORDER}
records_torch stream_not_shared | iterable_dataset_duplicated | worker_duplicate_randomness | {ORDER}
records_torch validates_on_the_training_set | train_val_overlap | | {ORDER}
records_torch class_without_training | new_labels_in_val | | below_trivial_baseline overfitting
records_torch annotators_disagree | conflicting_labels | | {WILD}
records_torch words_that_do_not_count | activation_collapse | data_independent_model gradient_all_zero | {STILL}
running_torch decodes_while_training | dataloader_bottleneck | |
running_torch saves_all_the_time | step_time_outlier | |
running_torch accuracy_of_everything_so_far | step_time_drift | |
running_torch every_length_compiled | recompilation_storm | |
running_torch running_sum_of_losses | memory_graph_retained | | step_time_drift
running_torch keeps_predictions | memory_graph_retained | | forward_but_no_backward grad_enabled_in_validation
running_torch workers_keep_everything | host_memory_growth_workers | | dataloader_bottleneck
running_torch asks_for_determinism | nondeterminism_requested_not_met | |
running_torch asks_for_a_device | device_fallback | |
running_torch looks_for_unused_parameters | find_unused_parameters_needless | |
ranks_torch calls_what_is_inside | replica_divergence | |
ranks_torch everybody_reads_everything | rank_data_overlap | |
ranks_torch forgets_the_epoch | {ORDER} | sampler_epoch_not_set | sampler_epoch_not_set
ranks_torch one_has_more | rank_step_count_mismatch | |
ranks_torch one_is_slow | straggler | dataloader_bottleneck | dataloader_bottleneck
ranks_torch averages_in_its_own_order | collective_order_mismatch | replica_divergence | replica_divergence
wiring_torch judge_trained_by_nobody | grad_param_not_in_optimizer | | step_with_no_gradient
wiring_torch average_left_behind | averaged_copy_never_updated | | {FLAT}
wiring_torch weights_of_the_library_never_averaged | averaged_copy_never_updated | | {FLAT}
wiring_torch clips_what_is_scaled | clip_before_unscale | | {FLAT}
wiring_torch one_term_is_a_number | loss_term_without_gradient | |
wiring_torch penalty_without_gradient | loss_term_without_gradient | | overfitting
wiring_torch workers_add_the_same_noise | worker_duplicate_randomness | |
wiring_torch never_shuffled | training_not_shuffled | | {ORDER}
wiring_torch slices_in_one_order | training_not_shuffled | | {ORDER}
strangers_torch one_torn_picture | nonfinite_input | | {NUMBERS} {STILL} {WILD}
strangers_torch only_the_last_layer | grad_param_not_in_optimizer | |
strangers_torch split_after_training | train_val_overlap | |
strangers_torch hardly_any_ill_ones | class_imbalance | | new_labels_in_val overfitting {FLAT}
strangers_torch one_forward_without_eval | eval_in_train_mode | |
strangers_torch first_step_wipes_out | update_too_large | | {WILD} {FLAT}
strangers_torch divergence_with_the_wrong_sign | loss_diverging | loss_negative | {NUMBERS} {WILD}
numeric_paddle relative_error | loss_nonfinite | | {NUMBERS} {WILD} {STILL}
numeric_paddle holes_in_the_table | nonfinite_input | | {NUMBERS} {WILD} {STILL}
numeric_paddle mean_of_no_words | nonfinite_activation | | {NUMBERS} {STILL}
numeric_paddle spread_of_a_constant | nonfinite_gradient | | {NUMBERS} {STILL}
numeric_paddle moments_without_epsilon | nonfinite_parameter | | {NUMBERS}
numeric_paddle meter_without_nan | nan_hidden_by_logger | | nonfinite_input {NUMBERS} {STILL}
numeric_paddle grey_values_as_chances | loss_negative | | {WILD} activation_collapse label_out_of_head
numeric_paddle labels_all_ignored | loss_exactly_zero | | {STILL}
numeric_paddle exponent_of_raw_numbers | loss_nonfinite | | input_not_normalised {NUMBERS} {WILD} {STILL}
gradients_paddle never_clears | grad_not_cleared | | {WILD} {FLAT}
gradients_paddle clears_when_it_logs | grad_not_cleared | | {WILD} {FLAT}
gradients_paddle clears_too_early | step_with_no_gradient | gradient_all_zero | {STILL}
gradients_paddle forgets_places | param_never_gets_grad | |
gradients_paddle body_under_no_grad | detached_graph | param_never_gets_grad | input_not_normalised
gradients_paddle replaced_head | grad_param_not_in_optimizer optimizer_params_stale | | grad_not_cleared
gradients_paddle trains_a_copy | optimizer_params_stale grad_param_not_in_optimizer | | grad_not_cleared {STILL}
gradients_paddle judge_forgotten | grad_param_not_in_optimizer | | grad_not_cleared {STILL}
gradients_paddle only_the_head | grad_param_not_in_optimizer | |
gradients_paddle rate_divided_to_nothing | step_changed_nothing | lr_schedule_wrong learning_rate_seen | {FLAT}
gradients_paddle backward_of_a_number | detached_graph | step_with_no_gradient | {UNUSED}
gradients_paddle detached_before_backward | detached_graph | step_with_no_gradient | {UNUSED}
gradients_paddle all_under_no_grad | detached_graph | step_with_no_gradient | {UNUSED}
gradients_paddle everything_frozen | step_with_no_gradient | detached_graph frozen_share | {UNUSED}
layers_paddle jumps_about | update_too_large | | {WILD} {FLAT}
layers_paddle eight_tanhs_too_small | vanishing_gradient | init_scale_bad | init_scale_bad {FLAT}
layers_paddle memory_that_grows | exploding_gradient | | {WILD} {FLAT} init_scale_bad {NUMBERS}
layers_paddle nothing_gets_through | gradient_all_zero | | {STILL} loss_term_without_gradient
layers_paddle rate_kills_the_units | dead_relu | | {STILL} {WILD}
layers_paddle raw_into_sigmoids | saturated_activation | input_not_normalised | {SCALED}
layers_paddle mean_over_the_batch | activation_collapse | data_independent_model | {STILL}
layers_paddle loud_last_layer | init_loss_off | init_scale_bad | {SCALE}
layers_paddle sum_as_loss | init_loss_off | | {WILD}
layers_paddle all_ones | init_symmetric | | init_scale_bad {STILL}
layers_paddle weights_of_size_one | init_scale_bad | saturated_activation | {SCALE}
layers_paddle initialised_by_every_parent | repeated_initialisation | |
layers_paddle dictionary_of_layers | unregistered_parameters | | grad_param_not_in_optimizer {FLAT} init_loss_off
layers_paddle judged_before_trained | spectral_norm_uninitialised | |
convergence_paddle targets_of_the_neighbour | loss_not_decreasing | loss_at_chance | {FLAT}
convergence_paddle labels_drawn_by_chance | loss_at_chance | | {FLAT}
convergence_paddle negative_rate | loss_diverging | learning_rate_seen | {WILD} {FLAT} learning_rate_seen
convergence_paddle typing_error_in_a_target | loss_spike | | exploding_gradient input_not_normalised
convergence_paddle schedule_forgotten | lr_schedule_wrong | |
convergence_paddle schedule_moved_first | lr_schedule_wrong | |
convergence_paddle cosine_of_batches | lr_schedule_wrong | | step_changed_nothing
convergence_paddle fifty_patients | overfitting | |
convergence_paddle momentum_the_other_way | train_val_collapse_in_eval | batchnorm_frozen_or_tiny_batch | {SCALE}
convergence_paddle answers_turned_round | below_trivial_baseline | label_noise_or_shuffled |
convergence_paddle memorises_noise | label_noise_or_shuffled | below_trivial_baseline |
loops_paddle only_backward | backward_but_no_step | | {STILL}
loops_paddle backward_left_out | step_without_backward | forward_but_no_backward | {UNUSED}
loops_paddle waits_for_the_warm_up | forward_but_no_backward | | {UNUSED}
loops_paddle never_back_to_training | backward_in_eval_mode | |
loops_paddle never_away_from_training | eval_in_train_mode | |
loops_paddle validates_with_a_graph | grad_enabled_in_validation | |
loops_paddle drops_in_evaluation | dropout_active_in_eval | |
loops_paddle norm_of_pairs | batchnorm_frozen_or_tiny_batch | | train_val_collapse_in_eval {WILD}
loops_paddle numpy_in_the_middle | detached_graph | param_never_gets_grad | param_never_gets_grad
loops_paddle best_of_all_epochs | best_checkpoint_alias | | overfitting
loops_paddle checkpoint_of_other_names | partial_state_load | |
outputs_paddle softmax_at_the_end | softmax_before_cross_entropy | | {FLAT}
outputs_paddle scores_into_nll | missing_output_activation | | loss_negative init_loss_off {WILD}
outputs_paddle softmax_along_the_records | softmax_wrong_axis | | init_loss_off {FLAT}
outputs_paddle softmax_of_one | softmax_wrong_axis | | {STILL} dead_relu init_loss_off
outputs_paddle square_of_a_square | loss_broadcast | | {FLAT}
outputs_paddle column_against_row_by_hand | loss_broadcast | | {FLAT}
outputs_paddle wide_against_flat | loss_broadcast | | {FLAT}
outputs_paddle skips_what_fails | label_out_of_head | | forward_but_no_backward
outputs_paddle one_target_a_batch | batch_leading_dim_mismatch | loss_broadcast | loss_broadcast {FLAT}
outputs_paddle index_past_the_end | out_of_bounds_read | | {NUMBERS}
outputs_paddle labels_as_numbers | label_dtype_truncated | |
records_paddle folders_one_after_another | batches_sorted_by_label | | {ORDER} {WILD} label_constant class_imbalance
records_paddle next_of_a_new_iterator | same_batch_every_step | | {ORDER}
records_paddle shuffled_once | training_not_shuffled | |
records_paddle seeds_each_step | seed_reset_in_loop | |
records_paddle millimetres_and_kilometres | input_not_normalised | | {SCALED}
records_paddle values_up_to_255 | input_not_normalised | | {SCALED}
records_paddle sensor_not_connected | constant_feature | |
records_paddle everything_is_class_two | label_constant | | class_imbalance activation_collapse
records_paddle few_ill_ones | class_imbalance | |
records_paddle workers_simulate_the_same | worker_duplicate_randomness | iterable_dataset_duplicated | {ORDER}
records_paddle every_worker_reads_all | iterable_dataset_duplicated | worker_duplicate_randomness | {ORDER}
records_paddle same_files_for_validation | train_val_overlap | | {ORDER}
records_paddle unknown_class_in_validation | new_labels_in_val | | below_trivial_baseline overfitting
records_paddle mask_without_words | activation_collapse | data_independent_model gradient_all_zero | {STILL}
mistakes_torch one_layer_left_frozen | frozen_at_random | |
mistakes_torch answer_among_the_columns | target_in_inputs | | train_loss_to_zero
mistakes_torch total_that_holds_the_answer | target_in_inputs | |
mistakes_torch copies_before_the_split | train_val_overlap | |
mistakes_torch relu_on_the_scores | loss_activation_mismatch | | {FLAT} dead_relu
mistakes_torch summed_in_the_second_phase | init_loss_off | | {WILD}
mistakes_torch dice_without_a_seed | seeds_set | |
mistakes_torch penalty_larger_than_the_loss | regularisation_dominates | | {WILD} {STILL}
mistakes_torch decay_stronger_than_the_gradient | regularisation_dominates | | {WILD} {STILL}
mistakes_torch state_of_other_sequences | state_carried_between_sequences | |
mistakes_torch reads_what_it_predicts | attention_sees_target | | train_loss_to_zero
mistakes_torch predicts_what_it_reads | target_in_inputs | | train_loss_to_zero
mistakes_torch output_without_negative_values | loss_activation_mismatch | | {FLAT} dead_relu
mistakes_torch divergence_of_probabilities | missing_output_activation | | {FLAT} loss_negative
mistakes_torch second_optimizer_forgotten | backward_but_no_step | | grad_not_cleared
mistakes_torch clips_before_the_gradient | clip_without_gradient | |
mistakes_torch padding_as_a_word | padding_in_loss | |
targets_torch clears_for_each_part | accumulation_discarded | |
targets_torch steps_around_the_scaler | scaled_gradients_stepped | | {WILD} {FLAT}
targets_torch one_view_twice | contrastive_pairs_wrong | | {FLAT} train_loss_to_zero
targets_torch every_sample_its_own_negative | contrastive_pairs_wrong | | {FLAT} init_loss_off
targets_torch times_the_temperature | contrastive_temperature | | {FLAT}
targets_torch target_with_a_gradient | target_not_detached | |
targets_torch target_network_of_the_first_day | target_network_never_updated | |
targets_torch schedule_of_an_old_optimizer | lr_schedule_wrong | |
targets_torch likelihood_without_its_sign | loss_negative | | {WILD}
targets_torch sums_with_their_graphs | memory_graph_retained | |
targets_torch teacher_with_dropout | teacher_in_train_mode | |
targets_torch one_block_four_times | layers_share_weights | |
targets_torch policy_without_its_sign | reward_falling | |
targets_torch generator_that_helps_its_critic | adversaries_not_opposed | | {WILD}
targets_paddle teacher_with_dropout | teacher_in_train_mode | |
targets_paddle one_block_four_times | layers_share_weights | |
targets_paddle schedule_of_no_optimizer | lr_schedule_wrong | |
targets_paddle clears_for_each_part | accumulation_discarded | |
targets_paddle one_view_twice | contrastive_pairs_wrong | | {FLAT} train_loss_to_zero
silent_torch clean_picture_beside_the_noisy | target_in_inputs | |
silent_torch code_that_says_nothing | posterior_collapse | | loss_plateau
silent_torch old_policy_of_now | policy_ratio_constant | |
silent_torch mask_upside_down | attention_mask_inverted | | {STILL}
silent_torch softmax_of_a_softmax | double_activation | | {FLAT}
silent_torch generator_of_the_data_set | worker_duplicate_randomness | |
silent_torch penalty_that_wins | regularisation_dominates | | {FLAT} init_loss_off
silent_torch one_layer_for_both | posterior_collapse | | loss_plateau
silent_torch attention_to_padding | attention_over_padding | |
silent_torch answers_along_the_rows | accuracy_contradicts_loss | |
silent_torch a_thousand_to_one | loss_term_dominates | | init_loss_off
silent_torch samples_read_one_after_another | batch_axis_taken_as_time | | {FLAT}
silent_torch all_nodes_are_trained | train_val_overlap | |
silent_torch normalised_in_the_loop_too | input_double_normalised | | {SCALE}
silent_paddle target_with_a_gradient | target_not_detached | |
silent_paddle clean_picture_beside_the_noisy | target_in_inputs | | {ORDER}
silent_paddle mask_upside_down | attention_mask_inverted | | {STILL}
silent_paddle attention_over_the_batch | softmax_wrong_axis | |
silent_paddle colours_side_by_side | image_layout_suspect | |
silent_paddle tags_of_padding | padding_in_loss | | padding_ratio_high
silent_paddle old_policy_of_now | policy_ratio_constant | |
silent_paddle ratio_upside_down | policy_ratio_inverted | | reward_falling
silent_paddle drops_in_two_batches | dropout_active_in_eval | |
static_paddle column_against_row | loss_broadcast | |
static_paddle probabilities_as_scores | softmax_before_cross_entropy | | {FLAT}
static_paddle steps_as_large_as_weights | update_too_large | | {WILD} {FLAT}
static_paddle initialized_in_each_epoch | parameters_initialised_again | | {FLAT}
static_paddle judged_by_a_late_copy | evaluation_updates_parameters | |
static_paddle steps_that_change_nothing | update_too_small | step_changed_nothing | {FLAT}
running_paddle waits_for_the_disk | dataloader_bottleneck | |
running_paddle saves_too_often | step_time_outlier | |
running_paddle table_of_all_answers | step_time_drift | |
running_paddle history_of_losses | memory_graph_retained | | forward_but_no_backward step_time_drift
running_paddle total_with_its_graph | memory_graph_retained | | step_time_drift
running_paddle workers_keep_all | host_memory_growth_workers | | dataloader_bottleneck
running_paddle wants_a_gpu | device_fallback | |
mistakes_paddle one_layer_left_frozen | frozen_at_random | |
mistakes_paddle answer_among_the_columns | target_in_inputs | | train_loss_to_zero
mistakes_paddle total_that_holds_the_answer | target_in_inputs | |
mistakes_paddle copies_before_the_split | train_val_overlap | |
mistakes_paddle relu_on_the_scores | loss_activation_mismatch | | {FLAT} dead_relu
mistakes_paddle summed_in_the_second_phase | init_loss_off | | {WILD}
mistakes_paddle dice_without_a_seed | seeds_set | |
mistakes_paddle penalty_larger_than_the_loss | regularisation_dominates | | {WILD} {STILL}
mistakes_paddle decay_stronger_than_the_gradient | regularisation_dominates | | {WILD} {STILL}
mistakes_paddle second_optimizer_forgotten | backward_but_no_step | | grad_not_cleared
ranks_paddle inner_network_called | replica_divergence | |
ranks_paddle no_share_of_the_data | rank_data_overlap | | {ORDER}
ranks_paddle never_shuffled | {ORDER} | sampler_epoch_not_set | sampler_epoch_not_set
ranks_paddle slow_second_reader | straggler | dataloader_bottleneck | dataloader_bottleneck
"""

ODD = {
    "odd_torch": """batches_of_two regression_with_one_output a_third_of_the_labels_wrong slow_and_steady
        large_sparse_table frozen_backbone accumulates_and_clips adversaries whole_set_with_lbfgs policy_gradient
        triplets variational_autoencoder pixels_by_sigmoid endless_stream small_batches_normalised quantiles""",
    "odd2_torch": """three_tasks wasserstein gradient_penalty seven_to_one easy_ones_first cosine_with_restarts
        tied_weights_and_warm_up seventy_percent_dropped functional_gradients average_teacher low_rank_adaptation
        saved_and_resumed two_phases low_precision""",
    "odd3_torch": """trunk_kept_frozen adapters_on_a_pretrained_net from_short_to_long up_and_down_again sharpness_aware
        teacher_by_moving_average two_views walks_to_the_goal noise_taken_away sparse_codes five_quantiles_by_hand
        divergence_warmed_up""",
    "odd4_torch": """blocks_computed_twice weights_of_tasks_learnt four_folds small_from_large second_order_on_all
        process_of_gauss one_at_a_time steep_warm_up seen_once smoothed_and_mixed physics_in_the_loss parts_of_factors
        scaled_on_the_cpu reads_forecasts policy_against_a_reference""",
    "odd5_torch": """forward_by_name slot_of_padding values_by_bootstrap values_of_a_fixed_set drawn_from_seeds
        few_are_labelled full_graph""",
    "odd6_torch": """gradients_of_two_tasks gradients_sample_by_sample queue_of_negatives pictures_and_texts
        preferences_against_a_reference""",
    "strangers_torch": "labelled_nodes one_epoch_in_a_function five_folds search_for_a_rate same_records_for_two_tasks",
    "silent_torch": "one_step_a_rollout",
    "numeric_paddle": "mixed_precision_on_the_processor",
    "odd_paddle": """batches_of_three a_quarter_of_the_labels_wrong slow_descent sparse_rows frozen_body accumulates
        adversaries bandit contrasts picture_of_a_picture clipped_critic masked_words slope_penalty slow_teacher
        stream_of_two_workers two_tasks_two_phases""",
    "odd2_paddle": """high_level low_precision_weights soft_labels_in_four_parts hinge_adversaries labels_of_its_own
        teacher_of_before judged_by_features looks_ahead average_of_weights low_rank_adapters recomputed_blocks
        unaligned_sequences four_folds no_layer_at_all""",
    "odd3_paddle": "forward_by_name slot_of_padding",
}

DEVICES = {"asks_for_a_device": ("cuda", "cpu"), "wants_a_gpu": ("gpu", "cpu")}
LAUNCHED = {"calls_what_is_inside", "forgets_the_epoch"}
LAUNCHER = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def _pair(line: str) -> list[Case]:
    where, expected, instead, allowed = (part.split() for part in line.split("|"))
    file, program, framework = *where, where[0].rpartition("_")[2]
    start = (*(LAUNCHER if program in LAUNCHED else ()), str(FOLDER / f"{file}.py"), program)
    broken, fixed = (("--device", device) for device in DEVICES[program]) if program in DEVICES else ((), ())
    return [
        Case(f"{file}:{program}", framework, (*start, *broken), tuple(expected), tuple(instead), tuple(allowed)),
        Case(f"{file}:{program}:fixed", framework, (*start, "fixed", *fixed), twin=True),
    ]


CASES: tuple[Case, ...] = (
    *(case for line in FAULTS.strip().splitlines() for case in _pair(line)),
    *(Case(f"{a}:{b}", a.rpartition("_")[2], (str(FOLDER / f"{a}.py"), b)) for a, all_ in ODD.items() for b in all_.split()),
)
"""All cases: each fault, its twin, and the healthy ones."""

FAST = """
gradients_torch:forgets_clearing outputs_torch:probabilities_as_logits strangers_torch:one_torn_picture
strangers_torch:one_forward_without_eval loops_torch:returns_before_learning gradients_paddle:clears_too_early
outputs_paddle:square_of_a_square odd_torch:adversaries strangers_torch:one_epoch_in_a_function odd_paddle:sparse_rows odd5_torch:values_of_a_fixed_set
""".split()
"""A few that stand for the others, for the tests."""
