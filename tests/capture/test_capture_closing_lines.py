"""Lines behind the last epoch that say again what one of the epochs gave, and names that end with "score"."""

import pytest

from labbook.capture.metrics_text import metrics_from_console


@pytest.mark.parametrize("end", ["Final (epoch 3): val_f1=0.70", "epoch 2 was the best: val_f1 0.6"])
def test_a_line_at_the_end_that_repeats_an_epoch_is_no_further_value(end):
    lines = [f"epoch {epoch}: val_f1=0.{epoch + 4}0" for epoch in (1, 2, 3)]
    (found,) = metrics_from_console("\n".join([*lines, end]))
    assert (found.steps, found.values) == ((1, 2, 3), (0.5, 0.6, 0.7))


@pytest.mark.parametrize(
    ("name", "end", "count"),
    [("accuracy", "Done, accuracy: 72.50%", 3), ("reward", "Done, reward: 72.5", 4), ("accuracy", "accuracy: 0.7", 4)],
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
