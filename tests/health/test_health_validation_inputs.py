"""Inputs of validation that are prepared in another way than those of training, and those that only look so."""

import random

import pytest

from labbook.probe.inspection.sequence_offsets import describe_tokens

pytestmark = pytest.mark.pure
COLOURS = ((0.48, 0.25), (0.45, 0.24), (0.30, 0.22))
TIMES = ((1.8, 0.4), (0.6, 0.5), (0.1, 0.6), (-0.1, 0.7))


def rows_near(rows, seed, noise=0.005):
    drawn = random.Random(seed)
    return [[mean + noise * drawn.gauss(0, 1), std + noise * drawn.gauss(0, 1)] for mean, std in rows]


def texts(seed, unknown=0.0, end=0, known=None):
    """The tokens of 16 sentences of up to 20 words, some of which are the unknown one, 1."""
    drawn = random.Random(seed)
    rows = [
        [1 if drawn.random() < unknown else drawn.randrange(3, 60) for _ in range(drawn.randint(8, 18))]
        for _ in range(16)
    ]
    return describe_tokens([row + [end] * (20 - len(row)) for row in rows], known)


def signals(name, training, validation, **fields):
    def leaf(value):
        return {"path": "0", "role": "input", "shape": [16, 20], "integer": name == "tokens", name: value, **fields}

    batches = tuple(
        {"phase": "train", "step": at, "samples": 16, "leaves": [leaf(one)]} for at, one in enumerate(training)
    )
    return {"batches": batches, "evaluations": ({"batches": 4, "looks": [leaf(one) for one in validation]},)}


def many(make, *args, first=0, **fields):
    return [make(*args, seed, **fields) for seed in range(first, first + 4)]


def turned(rows):
    return tuple(reversed(rows))


@pytest.mark.parametrize(
    ("name", "training", "validation", "observed"),
    [
        (
            "channels",
            many(rows_near, COLOURS),
            many(rows_near, turned(COLOURS), first=9),
            "opposite order (RGB and BGR)",
        ),
        ("parts", many(rows_near, TIMES), many(rows_near, turned(TIMES), first=9), "steps of the sequences"),
        ("tokens", many(texts), many(texts, unknown=0.6, first=9, known=0), "token 1 is"),
        ("tokens", many(texts), many(texts, unknown=1.0, first=9, known=0), "token 1 is 100 %"),
        ("tokens", many(texts), many(texts, end=2, first=9, known=0), "padded with token 2, training with token 0"),
    ],
)
def test_other_order_and_tokens_are_named(ask, name, training, validation, observed):
    found = ask("validation_inputs_differ", signals=signals(name, training, validation))
    assert found.verdict == "warn" and observed in str(found.observed)


DARK = tuple((1 - mean, std) for mean, std in COLOURS)
SORTED = [rows_near(rows, at) for at, rows in enumerate((COLOURS, turned(COLOURS), COLOURS, COLOURS))]


@pytest.mark.parametrize(
    ("name", "training", "validation"),
    [
        ("channels", many(rows_near, COLOURS), many(rows_near, COLOURS, first=9)),
        ("channels", many(rows_near, COLOURS, noise=0.1), many(rows_near, turned(COLOURS), first=9)),
        ("channels", many(rows_near, COLOURS), many(rows_near, DARK, first=9)),
        ("channels", many(rows_near, COLOURS), SORTED),
        ("parts", many(rows_near, TIMES), many(rows_near, tuple((m + 2, s) for m, s in TIMES), first=9)),
        ("tokens", many(texts), many(texts, first=9)),
        ("tokens", many(texts, unknown=0.1), many(texts, unknown=0.3, first=9)),
        ("tokens", many(texts), [*many(texts, unknown=0.9, first=9)[:3], texts(20)]),
        ("tokens", many(texts), [texts(9, unknown=1.0)]),
        ("tokens", [describe_tokens([[at % 2] * 20] * 16) for at in range(4)], many(texts, first=9)),
    ],
)
def test_what_varies_by_itself_is_no_finding(ask, name, training, validation):
    assert ask("validation_inputs_differ", signals=signals(name, training, validation)) is None


def test_padding_is_left_out_of_the_shares_of_tokens():
    rows = [[5, 6, 7, 8] + [0] * 12, [9, 9, 4] + [0] * 13, [3] * 2 + [7, 8] + [0] * 12]
    for sides in (rows, [row[::-1] for row in rows]):
        found = describe_tokens(sides)
        assert found["pad"] == 0 and found["count"] == 11 and 0 not in [token for token, _ in found["top"]]
    assert describe_tokens([[1] * 16] * 4)["pad"] is None
    assert describe_tokens([[1] * 8 + [0] * 8] * 4, known=0)["top"] == [[1, 1.0]]


def values(mean, std, rows=50, tail=3):
    """A look at (rows, 1) numbers."""
    return {"shape": (rows, 1), "mean": mean, "std": std, "min": mean - tail * std, "max": mean + tail * std}


def regression(training, target, output):
    return {"fn": "mse_loss", "training": training, "observed": 5, "items": 50, "target": target, "input": output}


@pytest.mark.parametrize(
    ("trained", "target", "output", "verdict"),
    [
        (values(0.0, 1.0), values(250.0, 80.0), values(0.1, 0.9), "warn"),
        (values(0.0, 1.0), values(40.0, 2.0), values(0.1, 0.9), "warn"),
        (values(0.5, 0.15), values(128.0, 40.0), values(0.4, 0.1), "warn"),
        (values(250.0, 80.0), values(0.0, 1.0), values(240.0, 3.0), "warn"),
        (values(0.0, 1.0), values(250.0, 80.0), values(245.0, 70.0), None),  # outputs in the unit of the data
        (values(0.0, 1.0), values(2.2, 0.4), values(1.9, 0.4), None),  # a trend
        (values(0.0, 1.0), values(0.1, 15.0, tail=12), values(0.1, 0.9), None),  # a heavy tail
        (values(5.0, 20.0), values(0.5, 0.3), values(0.9, 0.4), None),  # a quiet time, foreseen
        (values(0.0, 1.0, rows=8), values(250.0, 80.0) | {"shape": (50, 3)}, values(0.1, 0.9), None),  # another head
    ],
)
def test_targets_of_validation_in_another_unit(ask, trained, target, output, verdict):
    losses = regression(True, trained, trained), regression(False, target, output)
    found = ask("validation_targets_differ", signals={"losses": losses})
    assert (found and found.verdict) == verdict
    beside = (*losses, regression(True, target, target))  # two heads, of which this is the other one
    assert ask("validation_targets_differ", signals={"losses": beside}) is None
