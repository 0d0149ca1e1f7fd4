"""Metrics of lines that begin with a number in one of several forms."""

import pytest
from order_of_tests import in_one_test

from labbook.capture.metrics_text import metrics_from_console

pytestmark = pytest.mark.pure


@in_one_test(
    ("line", "found"),
    [
        ("{{'epoch': {n}, 'val': 0.5{n}02}}", ["val"]),
        ("[pretrain {n}] ntxent 3.8{n} 1nn-acc 0.96{n}", ["1nn-acc"]),
        ("[probe {n}/9] digit 0.90{n} ink_mse 0.04{n}", ["digit", "ink_mse"]),
        ("Epoch {n} | val_nll 4.6{n} | c-index 0.7{n}", ["c-index", "val_nll"]),
        ("epoch {n}: 5nn_acc=0.8{n} lr 3e-{n} time 1{n}.123", ["5nn_acc", "lr"]),
        ("[rank {n}] digit 0.90{n}", []),
        ("epoch {n} train 1.2{n}4", []),
        ("epoch {n} test 0.2{n}4 s", []),
    ],
)
def test_numbered_lines_of_several_forms(line, found):
    text = "\n".join(line.format(n=n) for n in (3, 6, 9))
    assert sorted(series.name for series in metrics_from_console(text)) == found


def test_a_test_at_the_best_validation_is_a_test():
    seen = {series.name: series.last for series in metrics_from_console("Test at best val: AUC 0.8988, AP 0.8885")}
    assert seen == {"test/AUC": 0.8988, "test/AP": 0.8885}


def test_the_loss_of_a_batch_is_of_training_behind_a_test_result():
    lines = [f"Epoch {n}: test error 1{n}.67% (last batch loss 0.4{n})" for n in (3, 5, 7)]
    assert [series.name for series in metrics_from_console("\n".join(lines))] == ["test_error", "loss"]


def test_a_diverged_value_printed_in_full_and_an_identifier():
    (series,) = metrics_from_console("train_loss 22815280440773336.0\n")
    assert (series.name, series.last) == ("train_loss", 22815280440773336.0)
    assert metrics_from_console("loss 20261126153042999\n") == []


def test_a_number_without_a_word_may_be_that_of_a_step():
    (series,) = metrics_from_console("\n".join(f"({n} {n}%) val_acc 0.{n}" for n in (3, 6, 9)))
    assert (series.axis, series.steps) == ("line", (3, 6, 9))


def test_epochs_that_begin_anew_are_those_of_other_trainings():
    for folds, starts in (((1, 2), (0, 3)), ((1,), ())):
        text = "\n".join(f"fold {fold} epoch {n} auc 0.9{n}" for fold in folds for n in (1, 2, 3))
        assert metrics_from_console(text)[0].starts == starts
    for of, step in (("", None), ("/30", 60)):  # without the length of an epoch the steps are none of the run
        joined = metrics_from_console("".join(f"step [{n}{of}] mse {1 / n:.3f}\n" for n in (10, 20, 30) * 2))
        assert [series.last_step for series in joined] == [step]


def test_a_term_that_a_line_names_twice_is_also_that_of_the_data_named_before():
    lines = [f"Epoch {n} | train rec 0.3{n}0 kl 0.2{n}0 | test rec 0.4{n}0 kl 0.1{n}0" for n in (1, 2)]
    found = {series.name: series.values for series in metrics_from_console("\n".join(lines))}
    assert (found["kl"], found["test/kl"]) == ((0.21, 0.22), (0.11, 0.12))
    plain = metrics_from_console("\n".join(f"Epoch {n} | rec 0.3{n}0 kl 0.2{n}0 kl 0.1{n}0" for n in (1, 2)))
    assert "kl" in [series.name for series in plain] and len(plain) == 2
