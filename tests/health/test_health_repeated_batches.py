"""A loader that returns one batch again and again within an epoch."""

import pytest

LOADER = {"index": 0, "batch_size": 32, "length": 640, "batches": 20}


@pytest.mark.parametrize(
    ("samples", "facts", "verdict"),
    [
        pytest.param("ststst", {}, "fail", id="a sampler that draws the same samples"),
        pytest.param("abcdefghi", {}, "ok", id="images with the same corners, of which prints are made"),
        pytest.param("s", {}, "ok", id="samples that are all alike"),
        pytest.param("stst", {"batches": 1, "length": 32}, "ok", id="a data set of one batch"),
    ],
)
def test_one_batch_in_the_whole_epoch(ask, samples, facts, verdict):
    rows = [[one, 0] for one in samples]
    epoch = {"loader": 0, "phase": "train", "epoch": 0, "batches": 20, "prints": ["a"] * 20, "rows": rows}
    found = ask("same_batch_every_step", signals={"prints": (epoch,), "loaders": ({**LOADER, **facts},)})
    assert found.verdict == verdict
