"""Targets that are sums of the channels of an input, and masks that leave only padding; pure: arrays of numpy."""

from __future__ import annotations

import numpy as np
import pytest

from labbook.probe.inspection.model_inputs import ModelInputs, is_mixture

RNG = np.random.default_rng(0)
CLEAN, NOISE = RNG.normal(size=(2, 4, 1, 144))
SHARE = np.array([0.9, 0.6, 0.3, 0.05]).reshape(4, 1, 1)
NOISY = SHARE * CLEAN + (1 - SHARE**2) ** 0.5 * NOISE
COLOURS = RNG.normal(size=(4, 3, 144))
GREY = np.tensordot(COLOURS, [0.3, 0.6, 0.1], (1, 0))[:, None]


@pytest.mark.parametrize(
    ("inputs", "target", "found"),
    [
        ([np.concatenate([NOISY, CLEAN], 1)], NOISE, True),
        ([NOISY, CLEAN], NOISE, True),
        ([np.concatenate([NOISY, CLEAN], 1).astype("float32").astype("float64")], NOISE, True),
        ([NOISY], NOISE, False),
        ([np.concatenate([NOISY, RNG.normal(size=CLEAN.shape)], 1)], NOISE, False),
        ([np.concatenate([NOISY, CLEAN], 1)], CLEAN, False),
        ([COLOURS], GREY, False),
        ([COLOURS * RNG.random((4, 3, 1))], GREY, True),
        ([COLOURS[..., :12]], GREY[..., :12], False),
        ([np.zeros((4, 2, 144))], NOISE, False),
        ([np.concatenate([NOISY, CLEAN], 1)], np.zeros_like(NOISE), False),
    ],
    ids=[
        "noise of a clean picture beside it", "as two inputs", "in single precision", "noise alone", "another picture",
        "an autoencoder", "grey from colours", "grey from colours changed at random", "few positions", "zeros",
        "no target",
    ],
)  # fmt: skip
def test_a_target_is_a_sum_of_channels(inputs, target, found):
    assert is_mixture(inputs, target) is found


IDS = [5, 7, 9, 0, 0, 4, 3, 0, 0, 0]


@pytest.mark.parametrize(
    ("hidden", "shape", "found"),
    [
        ([token != 0 for token in IDS], (2, 5), True),
        ([token == 0 for token in IDS], (2, 5), False),
        ([at % 5 > 0 for at in range(10)], (2, 5), False),
        ([True] * 10, (2, 5), False),
        ([token != 0 for token in IDS], (5, 2), None),
    ],
    ids=["inverted", "right", "the first position only", "all", "of another shape"],
)
def test_a_mask_leaves_only_padding(hidden, shape, found):
    inputs = ModelInputs(None, None, None)
    inputs._sequences = [(IDS, (2, 5), {})]
    assert inputs.is_padding_all(shape, hidden) is found
