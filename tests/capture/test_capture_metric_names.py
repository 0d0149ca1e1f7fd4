"""What metrics are called: with what qualifies them, with their data, apart from those of a baseline."""

import math

import pytest

from labbook.capture.metrics_text import metrics_from_console


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("naive (last value) MAE: 0.363\nthe seasonal naive MAE: 3.186\nmodel MAE: 0.285 (naive: 0.363)",
         {"naive_MAE": [(1, 0.363)], "seasonal_naive_MAE": [(1, 3.186)], "MAE": [(1, 0.285)]}),
        ("====> Epoch: 1 Average loss: 30.5\n====> Test set loss: 24.5",
         {"loss": [(1, 30.5)], "Test_loss": [(1, 24.5)]}),
        ("epoch 3: Average loss: 30.5  validation set accuracy: 0.5",
         {"loss": [(3, 30.5)], "validation_accuracy": [(3, 0.5)]}),
        ("| epoch | train mse | val mae (MW) |\n|---|---|---|\n| 1 | 0.9 | 12.5 |\n| 2 | 0.8 | 11.5 |",
         {"train_mse": [(1, 0.9), (2, 0.8)], "val_mae": [(1, 12.5), (2, 11.5)]}),
        ("epoch 3 | train recon 30.1 kl 2.0 | held-out -ELBO 38.497",
         {"train_recon": [(3, 30.1)], "val/neg_ELBO": [(3, 38.497)]}),
        ("ep 20  return(20)   31.60  max    64  ploss  0.11\nep 40  return(20)   35.10  max    70  ploss  0.09",
         {"return": [(20, 31.6), (40, 35.1)], "ploss": [(20, 0.11), (40, 0.09)]}),
        ("Test  HR@10 0.3625  NDCG@10 0.2031", {"test/HR@10": [(1, 0.3625)], "test/NDCG@10": [(1, 0.2031)]}),
        ("epoch 3: loss 2.3249 val R@10 0.4725, R@1: 12.5", {"loss": [(3, 2.3249)], "val_R@10": [(3, 0.4725)],
         "val/R@1": [(3, 12.5)]}),
        ('{"epoch": 3, "val_mse": 80.4}\n{"epoch": 4, "val_mse": Infinity}', {"val_mse": [(3, 80.4), (4, math.inf)]}),
        ("Epoch [2/5], Recon Error: 0.5\nEpoch [3/5], Recon Error: 0.4", {"Recon_Error": [(2, 0.5), (3, 0.4)]}),
        ("Baseline: acc 0.25, f1 0.31\nepoch 1 acc 0.5 f1 0.415",
         {"Baseline_acc": [(1, 0.25)], "Baseline_f1": [(1, 0.31)], "acc": [(1, 0.5)], "f1": [(1, 0.415)]}),
        ("before: val loss 1.5458  accuracy 0.2350  macro F1 0.1679\n[1] val loss 1.1  accuracy 0.52  macro F1 0.51",
         {"val_loss": [(1, 1.5458), (2, 1.1)], "val/accuracy": [(1, 0.235), (2, 0.52)],
          "val/macro_F1": [(1, 0.1679), (2, 0.51)]}),
    ],
)  # fmt: skip
def test_names_and_values(text, expected):
    series = metrics_from_console(text)
    assert {one.name: list(zip(one.steps, one.values, strict=True)) for one in series} == expected


@pytest.mark.parametrize(
    ("line", "axis"),
    [
        ("[{n:02d}/20] loss {v}", "fraction"),
        ("step [{n}/20] loss {v}", ""),
        ("batch {n}/20 loss {v}", ""),
        ("Epoch 1 [{n}/20] loss {v}", ""),
        ("Epoch [{n}/20] loss {v}", "epoch"),
    ],
)
def test_numbers_without_a_word_are_of_an_unknown_unit(line, axis):
    (series,) = metrics_from_console("\n".join(line.format(n=n, v=1 / n) for n in (4, 8, 12)))
    assert (series.axis, series.steps) == (axis, (4, 8, 12))


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("== day {n} done: train/bpr 0.{n}015  next_day/hr@50 0.{n}227", ["train/bpr", "next_day/hr@50"]),
        ("Week {n} | val_mae 0.{n}5", ["val_mae"]),
        ("cycle [{n}/4] loss 0.{n}123 dice 0.{n}2", ["loss", "dice"]),
    ],
)
def test_lines_of_days_or_cycles_are_read_as_those_of_epochs(line, names):
    found = metrics_from_console("\n".join(line.format(n=n) for n in (1, 2, 3)))
    assert [(s.name, s.axis, len(s.values)) for s in found] == [(name, "number", 3) for name in names]


def test_a_word_that_is_no_time_counts_nothing():
    text = "\n".join(f"class {n} | val_mae 0.{n}5" for n in (1, 2, 3))
    assert metrics_from_console(text) == metrics_from_console(text.replace("class", "group"))
