"""What the probe has measured is encoded by the interpreter's own encoder, and is the same text as any other."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labbook.probe.events import jsonl

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def mask(string):
    return string.replace("a", "[masked]")


@given(PLAIN)
def test_both_encoders_write_the_same_and_it_is_strict_json(value):
    line = jsonl.Encoder(mask).encode(value)
    assert line == jsonl.encode(value, mask)
    json.loads(line, parse_constant=pytest.fail)


def test_strings_are_masked_once_whichever_encoder_takes_them():
    assert jsonl.Encoder(mask).encode({"a": "a", "b": jsonl.MaskedString("a")}) == '{"[masked]":"[masked]","b":"a"}'


def test_what_the_fast_encoder_does_not_know_is_left_to_the_other():
    assert jsonl.Encoder(mask).encode({"x": float("nan"), "y": {1}}) == '{"x":"nan","y":[1]}'
