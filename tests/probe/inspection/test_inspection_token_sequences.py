"""Targets of sequences of tokens: the input itself, or the next token."""

from __future__ import annotations

import random

import pytest

from labbook.probe.inspection.model_inputs import ModelInputs, may_be_tokens
from labbook.probe.inspection.sequence_offsets import describe_tokens, padded_share, series_ahead, tokens_ahead

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
        ([row[:-2] for row in IDS], [row[2:] for row in IDS], 2),
        (IDS, [[*row[2:], -100] for row in IDS], 2),
        (COLUMNS[:-2], COLUMNS[2:], 2),
        (IDS, [[-100, *row[1:]] for row in IDS], 0),
        (IDS, [[token + 1 for token in row] for row in IDS], None),
        (IDS, [[3] * 9] * 6, None),
        ([[3] * 9] * 6, [[3] * 9] * 6, None),
        (IDS, [[-100] * 9] * 6, None),
    ],
    ids=[
        "the same", "next", "next, one shorter", "next, padded", "time first",
        "after the next", "after the next, one shorter", "after the next, time first",
        "a part ignored", "another", "constant",
        "both constant", "all ignored",
    ],
)  # fmt: skip
def test_by_how_many_tokens_a_target_is_ahead(ids, target, ahead):
    assert tokens_ahead(flat(ids), (len(ids), len(ids[0])), flat(target)) == ahead


SERIES = [[[random.Random(row * 31 + at).random(), 0.5 * at] for at in range(9)] for row in range(6)]


@pytest.mark.parametrize(
    ("target", "ahead"),
    [
        ([[step[:1] for step in [*row[1:], [7.0]]] for row in SERIES], 1),
        ([[*row[1:], [7.0, 8.0]] for row in SERIES], 1),
        ([[step[:1] for step in row] for row in SERIES], None),
        ([row[-1][:1] for row in SERIES], None),
    ],
    ids=["next value of a feature", "next values of all", "the same", "one a sample"],
)
def test_by_how_many_steps_a_real_target_is_ahead(target, ahead):
    values = flat(target) if isinstance(target[0][0], float) else flat(flat(target))
    assert series_ahead(flat(flat(SERIES)), (6, 9, 2), values) == ahead


def test_a_mask_that_leaves_the_padding_alone_behind_a_token_for_the_sequence():
    inputs = ModelInputs(None, None, None)
    tokens = [[5 + at if at < 9 - row else 0 for at in range(9)] for row in range(1, 6)]
    inputs._sequences = [(flat(tokens), (5, 9), {})]

    def hidden(inverted, front=()):
        return flat([[*front, *((token != 0) is inverted for token in row)] for row in tokens])

    assert inputs.is_padding_all((5, 9), hidden(True)) and not inputs.is_padding_all((5, 9), hidden(False))
    assert inputs.is_padding_all((5, 10), hidden(True, [False]))
    left = [is_hidden and at % 9 > 0 for at, is_hidden in enumerate(hidden(True))]
    assert inputs.is_padding_all((5, 9), left), "the first position is left so that no sample is hidden as a whole"
    assert not inputs.is_padding_all((5, 10), hidden(False, [False]))
    assert inputs.is_padding_all((5, 10), hidden(True, [True])) is None


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        ([[5, 6, 0, 0]] * 4, 0.5),
        ([[5, 6, 7, 1], [5, 1, 1, 1]] * 4, 0.5),
        ([[0, 0, 5, n] for n in range(6)], 0.0),  # padded in front
        ([[0, 0, 0, 0]] * 4, 1.0),
        ([[5, 0, 0, 0]] * 3, 0.0),  # too few rows
    ],
)
def test_padding_at_the_end_of_the_rows(rows, share):
    assert padded_share([token for row in rows for token in row], (len(rows), 4)) == share


@pytest.mark.parametrize(("word", "pad"), [(9, 0), (0, None)])
def test_a_token_that_is_inside_of_the_rows_too_is_no_padding(word, pad):
    rows = [[3, word, 4, 5, 0, 0], [6, 3, 7, 0, 0, 0], [3, 4, 5, 6, 7, 8]]
    assert describe_tokens(rows)["pad"] == pad


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"dtype": "bool"}, False),
        ({"role": "label"}, False),
        ({"integer": False}, False),
        ({"shape": [8]}, False),
    ],
)
def test_a_mask_is_no_sequence_of_ids(fields, expected):
    ids = {"integer": True, "dtype": "int64", "role": "input", "shape": [8, 5]}
    assert may_be_tokens({**ids, **fields}) == expected
