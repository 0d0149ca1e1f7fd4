"""Single high losses: a spike of one batch, or a jump that the update before it made."""

import math
import random

import pytest


def test_an_outlier_names_its_batch(ask, make_series):
    random_ = random.Random(9)
    values = [2 * math.exp(-i / 100) * math.exp(random_.gauss(0, 0.05)) for i in range(200)]
    values[150] = 90.0
    signals = {"batches": ({"step": 151, "phase": "train", "print": "00ff"},)}
    found = ask("loss_spike", make_series("loss", values), signals=signals)
    assert found.verdict == "warn" and found.where["step"] == 151 and found.evidence == ("batch 00ff",)
    values[150] = 1.2
    assert ask("loss_spike", make_series("loss", values), signals=signals) is None
    task = [2 * math.exp(-(i % 100) / 10) * math.exp(random_.gauss(0, 0.1)) for i in range(200)]
    task[100:103] = 25.0, 17.0, 5.0
    assert ask("loss_spike", make_series("loss", task)) is None  # the next task of several


SHORT_LAST = {
    "models": ({"model": 0, "modules": [{"i": 0, "name": "n", "type": "BatchNorm1d"}], "parameters": []},),
    "loaders": ({"index": 0, "length": 643, "batch_size": 32},),
    "prints": ({"phase": "train", "loader": 0, "prints": ["a"], "batches": 21},),
}


@pytest.mark.parametrize(
    ("rise", "norms", "signals", "step", "words"),
    [
        ([90.0, 0.5, 2.0, 1.0], {}, {}, 148, "90"),  # an outlier whose update needs steps to be made good
        ([20.0, 18.0, 15.0, 9.0, 6.0, 3.0], {147: 40.0}, {}, 147, "the update of step 147"),
        ([20.0, 18.0, 15.0, 9.0, 6.0, 3.0], {}, {}, None, ""),  # nothing says what it was
        ([20.0, 18.0], {}, {}, 0, "20"),  # a spike of two steps, of which no batch is blamed
        ([20.0, 18.0, 15.0, 9.0, 6.0, 3.0], {}, SHORT_LAST, 147, "the update of step 147"),
        ([20.0], {}, SHORT_LAST, 147, "the update of step 147"),
    ],
)
def test_a_jump_is_blamed_on_the_update_before_it(ask, make_series, rise, norms, signals, step, words):
    random_ = random.Random(9)
    values = [2 * math.exp(-i / 100) * math.exp(random_.gauss(0, 0.05)) for i in range(210)]
    values[147 : 147 + len(rise)] = rise  # step 148, the first of an epoch of 21 batches
    lengths = make_series("grad_norm", [norms.get(n, 0.4) for n in range(1, 211)])
    found = ask("loss_spike", make_series("loss", values), lengths, signals=signals)
    assert (found and found.where.get("step", 0)) == step and words in str(found and found.observed)
    assert step != 147 or found.evidence
