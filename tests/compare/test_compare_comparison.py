"""The numbers of several runs side by side."""

from labbook.compare.comparison import metric_table
from labbook.model.run import Process, Run
from labbook.model.series import Series


def test_the_best_of_losses_of_batches_is_called_a_median():
    """It may be above the last value, which is that of one batch; a printed validation loss has a best value."""
    runs = []
    for level in (1.0, 2.0):
        values = [level + 1 / step + 0.1 * (-1) ** step for step in range(1, 101)]
        loss = Series.of_values("loss", "probe", range(1, 101), values, axis="step")
        held_out = Series.of_values("val_loss", "text", (1, 2, 3), (level + 1, level, level + 0.5), axis="epoch")
        process = Process(1, 0, ("python",), "main", steps=100)
        runs.append(Run("i", "finished", (), "", 0.0, series=(loss, held_out), processes=(process,)))
    rows = {(row.name, row.what): row.values for row in metric_table(runs)}
    assert rows.keys() == {("loss", "last"), ("loss", "level"), ("val_loss", "last"), ("val_loss", "best")}
    assert rows["val_loss", "best"] == (1.0, 2.0)
