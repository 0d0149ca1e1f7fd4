"""Targets of sequences of tokens: the input itself, or the next token."""

from __future__ import annotations

import random

import pytest

from labbook.probe.inspection.model_inputs import tokens_ahead

pytestmark = pytest.mark.pure

IDS = [[random.Random(row * 31 + at).randrange(50) for at in range(9)] for row in range(6)]


def flat(rows):
    return [token for row in rows for token in row]


LATER = [row[1:] for row in IDS]
COLUMNS = [list(column) for column in zip(*IDS, strict=True)]


@pytest.mark.parametrize(
    ("ids", "target", "ahead"),
    [
        (IDS, IDS, 0),
        ([row[:-1] for row in IDS], LATER, 1),
        (IDS, LATER, 1),
        (IDS, [[*row[1:], 7] for row in IDS], 1),
        (COLUMNS[:-1], COLUMNS[1:], 1),
        (IDS, [[-100, *row[1:]] for row in IDS], 0),
        (IDS, [[token + 1 for token in row] for row in IDS], None),
        (IDS, [[3] * 9] * 6, None),
        ([[3] * 9] * 6, [[3] * 9] * 6, None),
        (IDS, [[-100] * 9] * 6, None),
    ],
    ids=[
        "the same", "next", "next, one shorter", "next, padded", "time first", "a part ignored", "another", "constant",
        "both constant", "all ignored",
    ],
)  # fmt: skip
def test_by_how_many_tokens_a_target_is_ahead(ids, target, ahead):
    assert tokens_ahead(flat(ids), (len(ids), len(ids[0])), flat(target)) == ahead
