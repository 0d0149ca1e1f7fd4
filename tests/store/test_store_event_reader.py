"""Events come out of a journal with the types that the schema promises; what does not fit costs only its field."""

import typing

from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.model.events import KINDS
from labbook.store.event_reader import read_event

INF = float("inf")


@in_one_test(
    ("kind", "field", "written", "read"),
    [
        ("loss_call", "value_first", 2, 2.0),
        ("loss_call", "value_first", "nan", None),
        ("loss_call", "value_first", True, None),
        ("loss_call", "value_first", 10**400, None),
        ("loss_call", "calls", -3, 0),
        ("loss_call", "calls", 3.0, 3),
        ("loss_call", "calls", "3", None),
        ("loss_call", "soft", 1, None),
        ("loss_call", "fn", "f" * 3000, "f" * 2000),
        ("exception", "message", "m" * 3000, "m" * 3000),
        ("flight", "value", "-inf", "-inf"),
        ("step", "loss", "-inf", -INF),
        ("step", "loss", [1, "inf"], (1.0, INF)),
        ("step", "lr", [0.1, None], (0.1, None)),
        ("step", "lr", [0.1, "fast"], None),
        ("step", "agg", {"loss": [None, None, None, 0, 4]}, {"loss": (None, None, None, 0, 4)}),
        ("step", "agg", {"loss": [1, 2], "dt": 3}, {}),
        ("model", "feeds", [[0, 1], [1], "x", [1, 2]], [(0, 1), (1, 2)]),
        ("prints", "histogram", {"0": 3, "1": 0, "2": "x"}, {"0": 3}),
        ("prints", "rows", [["a"], ["b", 3], []], [("a",), ("b", 3)]),
        ("graph", "cut", None, None),
        ("memory", "device", {"allocated": 5, "reserved": None, "new": 1}, {"allocated": 5.0}),
        ("arguments", "values", {"limit": "inf", "deep": [{"a": None}]}, {"limit": "inf", "deep": [{"a": None}]}),
        ("exception", "group", [{"type": "E", "group": [{"type": "F"}]}], [{"type": "E", "group": [{"type": "F"}]}]),
        ("watched", "first", None, None),
        ("tensors", "no_such_field", 1, None),
    ],
)
def test_a_field(kind, field, written, read):
    event = read_event({"k": kind, "t": 1, field: written, "framework": "torch"})
    assert event["k"] == kind and event["framework"] == "torch"
    assert event.get(field) == read and type(event.get(field)) is type(read)


def test_an_unknown_kind_is_its_envelope():
    assert read_event({"k": "of_tomorrow", "t": "late", "n": 3, "x": 1}) == {"k": "of_tomorrow", "n": 3}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["nan", "inf", "", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["shape", "loss", "i", "min"]), inner),
    max_leaves=6,
)
NONSENSE = st.sampled_from(sorted(KINDS)).flatmap(
    lambda kind: st.dictionaries(st.sampled_from(sorted(KINDS[kind].__annotations__)), JSON, max_size=6).map(
        lambda event: {**event, "k": kind}
    )
)


def fits(value, hint):
    """Whether a value is of a type, at any depth."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if typing.is_typeddict(hint):
        hints = typing.get_type_hints(hint)
        return all(key in hints and fits(part, hints[key]) for key, part in value.items())
    if origin is list:
        return type(value) is list and all(fits(part, inner[0]) for part in value)
    if origin is dict:
        return type(value) is dict and all(fits(part, inner[1]) for part in value.values())
    if origin is tuple and inner[-1] is Ellipsis:
        return type(value) is tuple and all(fits(part, inner[0]) for part in value)
    if origin is tuple:
        return type(value) is tuple and len(value) == len(inner) and all(map(fits, value, inner))
    if inner:
        return any(fits(value, each) for each in inner)
    return hint is typing.Any or type(value) is hint


@given(NONSENSE)
def test_what_is_read_has_its_types(event):
    assert fits(read_event(event), KINDS[event["k"]])
