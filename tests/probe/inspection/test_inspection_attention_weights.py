"""What the weights of an attention that a program computes itself say about its mask and its scores."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from labbook.probe.inspection.attention_weights import (
    describe_attention,
    ignores_order,
    mixed_axes,
    place_share,
    tokens_ahead_of_mask,
)
from labbook.probe.inspection.model_inputs import ModelInputs

SIZE = 9
CAUSAL = np.triu(np.ones((SIZE, SIZE)), 1) > 0


def softmax(scores, hidden=None, fill=-np.inf):
    scores = scores if hidden is None else np.where(hidden, fill, scores)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)


def scores_of(*leading):
    return np.random.default_rng(3).normal(size=(*leading, SIZE, SIZE))


def described(weights, batches=None, exact=True):
    unknown = SimpleNamespace(is_padding_all=lambda shape, hidden: None, tokens_of_sample=lambda length: None)
    return describe_attention(weights, exact, batches or unknown)


@pytest.mark.parametrize("leading", [(2,), (2, 3)])
@pytest.mark.parametrize(
    ("hidden", "ahead"),
    [
        (CAUSAL, 0),
        (np.triu(np.ones((SIZE, SIZE)), 0) > 0, -1),
        (np.triu(CAUSAL, 2), 1),
        (np.triu(CAUSAL, 3), 2),
        (None, None),
        (CAUSAL & (np.arange(SIZE) > 4), None),
        (np.tril(np.ones((SIZE, SIZE)), -1) > 0, SIZE - 1),
        (np.triu(CAUSAL, 2) | (np.tril(np.ones((SIZE, SIZE)), -3) > 0), 1),
    ],
    ids=[
        "causal",
        "without the token itself",
        "one too many",
        "two too many",
        "none",
        "a prefix that sees itself",
        "turned round",
        "a window",
    ],
)
def test_how_many_later_tokens_a_mask_leaves(leading, hidden, ahead):
    weights = softmax(scores_of(*leading), hidden)
    for smallest in (0.0, 1e-29):
        found = described(np.maximum(weights, smallest))
        assert found["ahead"] == ahead and (found["hidden"] > 0) == (hidden is not None)
    mask = np.zeros((SIZE, SIZE), bool) if hidden is None else hidden
    for form in (mask, np.broadcast_to(mask, (*leading, SIZE, SIZE))):
        assert tokens_ahead_of_mask(form) == ahead
    assert tokens_ahead_of_mask(mask[:, :5]) is None and tokens_ahead_of_mask(mask[0]) is None


def test_weights_are_even_where_queries_or_keys_are_constant():
    scores = scores_of(2, 3)
    assert described(softmax(scores * 0))["even"]
    assert described(softmax(scores[..., :1] + scores * 0, CAUSAL))["even"]
    assert not described(softmax(scores, CAUSAL))["even"]
    assert not described(softmax(scores * 1e-3))["even"]
    assert not described(softmax(scores * np.arange(3)[:, None, None]))["even"]
    assert not described(softmax(scores * 0), exact=False)["even"]
    assert not described(softmax(scores * 1e4))["even"], "one key has all the weight"


def test_a_long_sequence_is_judged_by_its_beginning():
    later = np.triu(np.ones((300, 300)), 2) > 0
    found = described(softmax(np.random.default_rng(3).normal(size=(2, 3, 300, 300)), later))
    assert found["ahead"] == 1 and not found["even"] and 0.4 < found["hidden"] < 0.5
    assert tokens_ahead_of_mask(later) == 1


@pytest.mark.parametrize("shape", [(8, 10), (8, 4, 3), (2, 8, 1, 40), (2, 3, 4, 8, 8)])
def test_other_softmaxes_have_nothing(shape):
    assert described(np.ones(shape)) == {}


@pytest.mark.parametrize("is_inverted", [True, False])
@pytest.mark.parametrize(("fill", "lengths"), [(-np.inf, [4, 6, 3]), (-1e9, [4, 6, SIZE])])
def test_a_mask_that_leaves_the_padding(is_inverted, fill, lengths):
    ids = np.where(np.arange(SIZE) < np.array(lengths)[:, None], np.arange(2, 2 + SIZE), 0)
    batches = SimpleNamespace(_tokens_of=lambda shape: ids.ravel().tolist() if shape == ids.shape else None)
    batches.tokens_of_sample = lambda length: None
    batches.is_padding_all = lambda shape, hidden: ModelInputs.is_padding_all(batches, shape, hidden)
    hidden = (ids != 0) if is_inverted else (ids == 0)
    weights = softmax(scores_of(3, 2), hidden[:, None, None], fill)
    assert described(weights, batches)["padding_only"] is is_inverted


@pytest.mark.parametrize(
    ("given", "form", "mixed"),
    [
        ((8, 20, 64), (8, 4, 20, 16), True),
        ((8, 20, 64), (32, 20, 16), True),
        ((8, 4, 20, 16), (8, 20, 64), True),
        ((8, 20, 64), (8, 20, 4, 16), False),
        ((20, 8, 64), (20, 32, 16), False),
        ((8, 20, 4, 16), (8, 20, 64), False),
        ((8, 64, 20), (8, 4, 16, 20), False),
        ((8, 20, 64), (8, 1, 20, 64), False),
        ((8, 20, 64), (160, 64), False),
        ((8, 4, 64), (8, 4, 4, 16), False),
    ],
)
def test_heads_that_are_split_off_or_joined_without_a_transpose(given, form, mixed):
    assert mixed_axes(given, form) == mixed


TOKENS = [None, 4, 5, 4, 6, 5, 4, 4, 5]


@pytest.mark.parametrize(
    ("moved", "tokens", "unordered"),
    [(0.0, TOKENS, True), (0.1, TOKENS, False), (0.0, range(SIZE), None), (0.0, None, None)],
    ids=["no positions", "positions", "all tokens differ", "no tokens"],
)
def test_weights_of_equal_tokens(moved, tokens, unordered):
    of_token = scores_of()[:, [token or 0 for token in TOKENS]]
    weights = softmax(of_token + moved * scores_of(), np.arange(SIZE) == 0)
    assert ignores_order(weights.tolist(), tokens) is unordered


@pytest.mark.parametrize(("moved", "low", "high"), [(0.0, 0.0, 0.0), (0.02, 0.005, 0.05), (1.0, 0.4, 1.5)])
def test_how_far_positions_move_the_keys(moved, low, high):
    of_token = scores_of()[:, [token or 0 for token in TOKENS]]
    assert low <= place_share((of_token + moved * scores_of()).tolist(), TOKENS) <= high
    assert place_share(of_token.tolist(), None) is None
