"""The table of metrics of an entry: first, best and last values."""

import dataclasses

from labbook.model.series import Series
from labbook.report.entry.entry_page import entry_markdown


def test_the_best_value_has_the_digits_of_the_first_and_the_last(runs, notebook):
    run = runs["finished"]()
    losses = Series.of_values("eval_loss", "text", (1, 2, 3), (3.6955, 3.6958, 3.6962), axis="epoch")
    page = entry_markdown(dataclasses.replace(run, series=(*run.series, losses)), notebook)
    assert "| eval_loss | 3.6955 | 3.6955 (" in page
