"""The padding index of an embedding that is a real token, and those that only look so."""

import random

import pytest

from labbook.probe.inspection.sequence_offsets import describe_tokens

pytestmark = pytest.mark.pure


def characters(kind, seed):
    """16 rows of 20 of 10 characters, of which 0 is a letter like the others, padding, or what lies between words."""
    drawn = random.Random(seed)
    rows = [
        [drawn.randrange(kind != "letter", 10) if kind != "letter" else drawn.randrange(10) for _ in range(20)]
        for _ in range(16)
    ]
    for at, row in enumerate(rows):
        if kind == "padded" or (kind == "rarely padded" and at < 3):
            row[drawn.randint(8, 18) :] = []
        elif kind == "parts":
            row[4:10] = row[15:] = []
        row += [0] * (20 - len(row))
        if kind == "parts":
            row[4:4], row[20:] = [0] * 6, []
        elif kind == "rare":
            row[drawn.randrange(1, 19)] = 0 if at < 2 else row[0]
    return describe_tokens(rows)


@pytest.mark.parametrize(
    ("kind", "padding", "ahead", "verdict"),
    [
        ("letter", 0, 1, "warn"),
        ("letter", 0, None, "note"),  # a vector of 0 may be meant
        ("letter", None, 1, None),
        ("letter", 12, 1, None),
        ("padded", 0, 1, None),
        ("rarely padded", 0, 1, None),
        ("parts", 0, None, None),
        ("rare", 0, 1, None),  # an unknown word
    ],
)
def test_a_padding_index_that_is_a_real_token(ask, kind, padding, ahead, verdict):
    module = {"i": 1, "name": "e", "type": "Embedding", "order": 0}
    module["options"] = {"num_embeddings": 10 if padding != 12 else 13, "padding_idx": padding}
    leaves = [
        {
            "path": "0",
            "role": "input",
            "integer": True,
            "shape": (16, 20),
            "ahead": ahead,
            "min": 0,
            "max": 9,
            "tokens": characters(kind, n),
        }
        for n in range(4)
    ]
    batches = tuple({"phase": "train", "step": n, "samples": 16, "leaves": [one]} for n, one in enumerate(leaves))
    signals = {"models": ({"model": 0, "modules": [module]},), "batches": batches}
    found = ask("padding_idx_of_token", signals=signals)
    assert (found and found.verdict) == verdict
    target = {"shape": [16, 20], "min": 0, "max": 9, "zero": 0.1}
    predicted = {"fn": "cross_entropy", "training": True, "calls": 50, "classes": 10, "target": target}
    beside = ask("padding_in_loss", signals={**signals, "losses": (predicted,)})
    assert beside is None or (kind, padding) != ("letter", 0), "the token is no padding"
