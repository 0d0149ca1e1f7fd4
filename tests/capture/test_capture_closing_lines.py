"""Lines behind the last epoch that say again what one of the epochs gave, and names that end with "score"."""

import pytest

from labbook.capture.metrics_text import metrics_from_console


@pytest.mark.parametrize("end", ["Final (epoch 3): val_f1=0.70", "epoch 2 was the best: val_f1 0.6"])
def test_a_line_at_the_end_that_repeats_an_epoch_is_no_further_value(end):
    lines = [f"epoch {epoch}: val_f1=0.{epoch + 4}0" for epoch in (1, 2, 3)]
    (found,) = metrics_from_console("\n".join([*lines, end]))
    assert (found.steps, found.values) == ((1, 2, 3), (0.5, 0.6, 0.7))


def test_lines_that_repeat_the_value_of_an_epoch_are_no_further_values():
    lines = [f"epoch {n}: val_acc=0.{value}\n -> saved, val_acc 0.{value}" for n, value in enumerate((51, 62, 73))]
    text = "\n".join([*lines, "done, highest so far, val_acc 0.73"])
    (found,) = metrics_from_console(text)
    assert (found.steps, found.values) == ((0, 1, 2), (0.51, 0.62, 0.73))
    (other,) = metrics_from_console(text.replace("saved, val_acc 0.62", "test: val_acc 0.60"))
    assert len(other.values) == 7
    best = [
        f"iter: {n}0, loss: 0.5{n}\n验证 mIoU: 0.{n}\n目前最优: 迭代 {max(n, 5)}0, mIoU 0.{max(n, 5)}"
        for n in (5, 4, 6)
    ]
    found = next(series for series in metrics_from_console("\n".join(best)) if "mIoU" in series.name)
    assert found.values == (0.5, 0.4, 0.6)


@pytest.mark.parametrize(
    ("name", "end", "count"),
    [("accuracy", "Done, accuracy: 72.50%", 3), ("reward", "Done, reward: 72.5", 4), ("accuracy", "accuracy: 0.75", 4)],
)
def test_percents_behind_fractions_are_no_further_value(name, end, count):
    lines = [f"epoch {epoch}: {name}=0.{epoch + 4}0" for epoch in (1, 2, 3)]
    (found,) = metrics_from_console("\n".join([*lines, end]))
    assert len(found.values) == count


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("INFO: Validation Dice score: 0.{}12", "Validation_Dice"),
        ("Epoch {} | F1 score: 0.{}", "F1"),
        ("epoch {0}: val loss 0.{0}1 dice score 0.{0}2", "val/dice"),
        ("test score: 0.{}1", "test_score"),
        ("Episode {0} game score: {0}1.5", "game_score"),
    ],
)
def test_a_score_is_of_the_quantity_before_it(text, name):
    found = metrics_from_console("\n".join(text.format(n, n) for n in (1, 2, 3)))
    assert name in [series.name for series in found]


def test_a_table_with_arrays_of_one_value_has_its_values_and_not_those_of_the_summary_behind_it():
    rows = [(0, "2.45e-01", "2.09e-01"), (100, "1.45e-01", "1.09e-01"), (300, "3.10e-02", "3.68e-02")]
    table = "\n".join(f"{step:<9} [{train}]    [{test}]    [1.00e+00]\n{step} [1.97e+00]" for step, train, test in rows)
    head = "Step      Train loss    Test loss     Test metric"
    text = f"{head}\n{table}\n\nBest model at step 300:\n  test loss: 3.68e-02\n"
    found = {series.name: (series.steps, series.values) for series in metrics_from_console(text)}
    assert found == {
        "Train_loss": ((0, 100, 300), (0.245, 0.145, 0.031)),
        "Test_loss": ((0, 100, 300), (0.209, 0.109, 0.0368)),
    }


def test_brackets_in_a_title_are_part_of_its_name():
    text = "epoch  loss[a]  val_acc\n1      0.50     0.60\n2      0.40     0.70\n"
    assert [series.name for series in metrics_from_console(text)] == ["loss[a]", "val_acc"]
