"""Lines behind the last epoch that say again what one of the epochs gave."""

import pytest

from labbook.capture.metrics_text import metrics_from_console


@pytest.mark.parametrize("end", ["Final (epoch 3): val_f1=0.70", "epoch 2 was the best: val_f1 0.6"])
def test_a_line_at_the_end_that_repeats_an_epoch_is_no_further_value(end):
    lines = [f"epoch {epoch}: val_f1=0.{epoch + 4}0" for epoch in (1, 2, 3)]
    (found,) = metrics_from_console("\n".join([*lines, end]))
    assert (found.steps, found.values) == ((1, 2, 3), (0.5, 0.6, 0.7))
