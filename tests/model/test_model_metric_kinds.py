"""What the name of a metric says: every word of the table, in the spellings that trainers use."""

import pytest
from order_of_tests import in_one_test

from labbook.model.metric_kinds import QUANTITIES, MetricGoal, choose_metric, direction_of, metric_kind

WORDS = [(word, quantity, direction) for quantity, direction, words in QUANTITIES for word in words.split()]


@in_one_test("spelling", ["{}", "val_{}", "val/{}", "valid-{}", "eval {}", "{}@1", "{}_epoch", "a.py/{}"])
@in_one_test(("word", "quantity", "direction"), WORDS)
def test_every_word_of_the_table_is_known_in_every_spelling(word, quantity, direction, spelling):
    kind = metric_kind(spelling.format(word))
    assert (kind.quantity, kind.direction) == (quantity, direction)
    assert kind.split == ("val" if spelling.startswith(("val", "eval")) else "")
    assert metric_kind(spelling.format(word.upper())) == kind or "py" in spelling


@in_one_test(
    ("name", "direction"),
    [
        ("elbo", "max"),
        ("test/neg_elbo", "min"),
        ("neg_mean_squared_error", "max"),
        ("neg_loss", "min"),
        ("neg_acc", "max"),
    ],
)
def test_a_negated_bound_or_error_improves_the_other_way(name, direction):
    assert direction_of(name) == direction


@in_one_test(
    "name",
    [
        "lr",
        "grad_norm",
        "epoch",
        "hp_metric",
        "seed",
        "policy_loss",
        "losses/actor_loss",
        "loss_D",
        "errG",
        "kl_loss",
        "td_loss",
        "entropy",
        "clip_fraction",
        "update_ratio",
        "step_time_s",
        "weight_decay",
    ],
)
def test_settings_and_losses_of_policies_have_no_best(name):
    assert direction_of(name) == ""


@in_one_test(
    ("names", "chosen"),
    [
        (["loss", "val_loss", "val_acc"], "val_acc"),
        (["loss", "test accuracy", "val_loss"], "val_loss"),
        (["loss", "acc"], "acc"),
        (["val_SMAPE", "val_MAE", "val_loss"], "val_MAE"),
        (["val_MASE", "val_loss"], "val_MASE"),
        (["loss", "best_val_acc", "val_loss"], "val_loss"),
        (["val/F1", "val_loss", "val/AUC", "Best_AUC"], "val/AUC"),
        (["val_acc", "val_loss", "best_val_loss"], "val_acc"),
        (["charts/SPS", "charts/episodic_return", "losses/policy_loss"], "charts/episodic_return"),
        (["loss", "Last_reward"], "Last_reward"),
        (["loss", "Best_Test_Accuracy"], "Best_Test_Accuracy"),
        (["loss", "best_loss", "acc"], "acc"),
        (["Last_reward", "reward", "loss"], "reward"),
        (["best_episode_score", "loss", "score"], "score"),
        (["训练损失", "验证准确率", "验证损失"], "验证准确率"),
        (["metrics/mAP50(B)", "metrics/mAP50-95(B)", "val/box_loss", "train/box_loss"], "metrics/mAP50-95(B)"),
        (["train_mAP", "val_loss"], "val_loss"),
        (["samples_per_second", "lr"], ""),
        ({"loss": False, "train_loss": True}, "train_loss"),
        ([], ""),
    ],
)
def test_validation_before_training_by_known_names(names, chosen):
    assert choose_metric(names) == chosen


def test_what_people_chose_comes_first_however_it_is_written():
    assert choose_metric(["loss", "val/acc", "val_loss"], MetricGoal("val_acc")) == "val/acc"
    assert choose_metric(["loss", "gap"], MetricGoal("gap")) == "gap"
    assert choose_metric(["loss", "val_loss"], MetricGoal("gap")) == "val_loss"


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["train_auc", "hit@10"], "hit@10"),
        (["train_acc", "acc"], "acc"),
        (["train_loss", "train_acc", "loss"], "train_acc"),
        (["train_acc", "acc", "test_acc"], "test_acc"),
    ],
)
def test_a_metric_without_a_split_comes_before_one_of_training(names, chosen):
    assert choose_metric(names) == chosen
