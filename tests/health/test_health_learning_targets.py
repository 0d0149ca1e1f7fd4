"""What a loss pulls the model to: pairs of contrastive losses, targets of temporal differences, target networks."""

import math

import pytest

from labbook.probe.inspection.contrastive_pairs import compare_pairs
from labbook.probe.training.discarded_gradients import is_multiple

pytestmark = pytest.mark.pure
SIZE = 12
COPY = {"type": "Net", "calls": 900, "steps": 900, "untrained": True, "changed": False, "compared": 64, "equal": 0}


def loss(**fields):
    told = {"fn": "cross_entropy", "line": "t.py:7", "training": True, "calls": 50, "observed": 20, "classes": 32}
    return {"losses": ({**told, "input": {"shape": [32, 32], "min": -9.0, "max": 9.0}, **fields},)}


def near(**fields):
    return loss(input={"shape": [32, 32], "min": -0.1, "max": 0.1, **fields})


CASES = [
    ("contrastive_pairs_wrong", loss(self_pairs=20), loss(self_pairs=10), "positive pairs are the anchors"),
    ("contrastive_pairs_wrong", loss(self_negatives=20), loss(), "each anchor is among its own negatives"),
    ("contrastive_temperature", near(), near(max=9.0), "similarities from -0.1 to 0.1"),
    ("contrastive_temperature", near(), near(shape=[64, 32]), "cannot fall below 3.273, chance level 3.466"),
    ("target_not_detached", {"graphs": ({"bootstrapped": "t.py:9"},)}, {"graphs": ({},)}, "the target, reward plus"),
    (
        "target_network_never_updated",
        {"loop": {"steps": 900, "copies": [COPY]}},
        {"loop": {"steps": 900, "copies": [{**COPY, "equal": 3}, {**COPY, "changed": True}, {**COPY, "steps": 90}]}},
        "Net: unchanged in 900 steps",
    ),
    (
        "accumulation_discarded",
        {"loop": {"steps": 99, "accumulation": {"4": 99}, "discarded": {"0": {"checked": 20, "discarded": 20}}}},
        {"loop": {"steps": 99, "accumulation": {"4": 99}, "discarded": {"0": {"checked": 20, "discarded": 10}}}},
        "20 of 20 inspected steps use the gradients of 1 of 4 backward passes",
    ),
]


@pytest.mark.parametrize(("name", "broken", "right", "observed"), CASES)
def test_a_fault_is_named_and_its_counterpart_is_not(ask, name, broken, right, observed):
    found = ask(name, signals=broken)
    assert found.verdict in ("fail", "warn") and observed in str(found.observed)
    assert ask(name, signals=right) is None


def table(first, second, scale=5.0):
    return [[scale * sum(a * b for a, b in zip(one, other, strict=True)) for other in second] for one in first]


def vectors(shift):
    found = [[math.sin(7 * i + 3 * j + shift * (i + j % 2)) for j in range(6)] for i in range(SIZE)]
    return [[value / math.hypot(*one) for value in one] for one in found]


def test_pairs_of_a_sample_with_itself():
    one, other = vectors(0), vectors(0.2)
    diagonal = list(range(SIZE))
    longer = [[value * (1 + at) for value in vector] for at, vector in enumerate(one)]
    both = [*one[: SIZE // 2], *other[: SIZE // 2]]
    partner = [(at + SIZE // 2) % SIZE for at in range(SIZE)]
    masked = [
        [-math.inf if at == column else v for column, v in enumerate(row)] for at, row in enumerate(table(both, both))
    ]
    assert compare_pairs(table(one, one), diagonal)["self_pairs"]
    assert compare_pairs(table(longer, longer), diagonal)["self_pairs"]
    assert compare_pairs(table(one, other), diagonal) == {"self_pairs": False, "self_negatives": False}
    assert compare_pairs(table(both, both), partner) == {"self_pairs": False, "self_negatives": True}
    assert compare_pairs(masked, partner) == {"self_pairs": False, "self_negatives": False}
    assert compare_pairs([[1.0] * SIZE] * SIZE, diagonal) == compare_pairs(table(one, one)[:4], diagonal[:4]) == {}


def test_gradients_that_are_only_scaled():
    assert is_multiple([1.0, -2.0, 0.0], [0.5, -1.0, 0.0])
    assert not is_multiple([1.0, -2.0, 0.0], [-1.0, 2.0, 0.0])
    assert not is_multiple([1.0, -2.0, 0.0], [1.0, -2.0, 0.1])
    assert not is_multiple([1.0], [1.0, 2.0])
