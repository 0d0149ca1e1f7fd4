"""What each program of this folder shows: the faults, their corrected twins, and healthy programs that look odd.

For `benchmarks/health.py` and tests. The faults are in `faults_torch.txt` and `faults_paddle.txt`, one a line: file,
program, what was planted, other names of it, what follows.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PYTHON = os.environ.get("LABBOOK_BENCH_PYTHON", sys.executable)

GROUPS = {
    "NUMBERS": "loss_nonfinite nonfinite_gradient nonfinite_activation nonfinite_parameter nan_hidden_by_logger",
    "FLAT": "loss_not_decreasing loss_at_chance below_trivial_baseline label_noise_or_shuffled activation_collapse",
    "WILD": "update_too_large exploding_gradient loss_diverging loss_spike dead_relu saturated_activation",
    "STILL": "step_changed_nothing gradient_all_zero vanishing_gradient step_with_no_gradient {FLAT}",
    "SCALE": "init_scale_bad init_loss_off input_not_normalised {WILD} {FLAT}",
    "UNUSED": "param_never_gets_grad {STILL}",
    "SCALED": "{SCALE} {STILL}",
    "ORDER": "order_identical_each_epoch",
}
"""What `{NAME}` means in the files of faults."""


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
        return [PYTHON, *self.arguments]


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
    "odd7_torch": """container_beside_a_frozen_part encoder_against_a_judge a_head_for_each_step
        crops_by_the_generator_of_the_loader likelihood_of_a_flow attacked_in_validation""",
    "odd6_torch": """gradients_of_two_tasks gradients_sample_by_sample queue_of_negatives pictures_and_texts
        preferences_against_a_reference""",
    "strangers_torch": "labelled_nodes one_epoch_in_a_function five_folds search_for_a_rate same_records_for_two_tasks",
    "silent_torch": "one_step_a_rollout",
    "attention_torch": "mask_behind_the_softmax padding_beside_the_words",
    "numeric_paddle": "mixed_precision_on_the_processor",
    "odd_paddle": """batches_of_three a_quarter_of_the_labels_wrong slow_descent sparse_rows frozen_body accumulates
        adversaries bandit contrasts picture_of_a_picture clipped_critic masked_words slope_penalty slow_teacher
        stream_of_two_workers two_tasks_two_phases""",
    "odd2_paddle": """high_level low_precision_weights soft_labels_in_four_parts hinge_adversaries labels_of_its_own
        teacher_of_before judged_by_features looks_ahead average_of_weights low_rank_adapters recomputed_blocks
        unaligned_sequences four_folds no_layer_at_all""",
    "odd3_paddle": "forward_by_name slot_of_padding taught_by_a_network_of_before density_that_narrows",
}

DEVICES = {"asks_for_a_device": ("cuda", "cpu"), "wants_a_gpu": ("gpu", "cpu")}
LAUNCHED = {"calls_what_is_inside", "forgets_the_epoch"}
LAUNCHER = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def _faults(framework: str) -> list[str]:
    text = (FOLDER / f"faults_{framework}.txt").read_text(encoding="utf-8")
    while "{" in text:
        text = text.format_map(GROUPS)
    return text.splitlines()


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
    *(case for framework in ("torch", "paddle") for line in _faults(framework) for case in _pair(line)),
    *(
        Case(f"{a}:{b}", a.rpartition("_")[2], (str(FOLDER / f"{a}.py"), b))
        for a, all_ in ODD.items()
        for b in all_.split()
    ),
)
"""All cases: each fault, its twin, and the healthy ones."""

FAST = """
gradients_torch:forgets_clearing outputs_torch:probabilities_as_logits strangers_torch:one_torn_picture
strangers_torch:one_forward_without_eval loops_torch:returns_before_learning gradients_paddle:clears_too_early
outputs_paddle:square_of_a_square odd_torch:adversaries strangers_torch:one_epoch_in_a_function odd_paddle:sparse_rows odd5_torch:values_of_a_fixed_set
""".split()
"""A few that stand for the others, for the tests."""
