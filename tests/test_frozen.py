"""Our fast frozen dataclasses behave as those of the standard library."""

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace

import pytest

from labbook.frozen import dataclass as quick


class Fields:
    x: int
    y: str = "a"
    z: tuple[int, ...] = field(default=(), compare=False)
    w: list[int] = field(default_factory=list, repr=False, compare=False)


def made(decorate):
    """A class of the same name and fields, made by one of the two."""
    body = {name: Fields.__dict__[name] for name in ("__annotations__", "y", "z", "w", "__module__")}
    return decorate(frozen=True)(type("Ours", (), body | {"__bool__": lambda self: self.x > 0}))


Ours, Theirs = made(quick), made(dataclass)


def test_the_same_answers_as_the_standard_library():
    a, b = Ours, Theirs
    assert bool(a(0)) is bool(b(0)) is False
    assert repr(a(1, "b")) == repr(b(1, "b"))
    assert (a(1) == a(1, z=(3,))) is (b(1) == b(1, z=(3,))) is True
    assert (a(1) == a(2)) is (b(1) == b(2)) is False
    assert a(1) != (1, "a")
    assert hash(a(1, "b")) == hash(b(1, "b"))
    assert asdict(a(1)) == asdict(b(1))
    assert [f.name for f in fields(a)] == [f.name for f in fields(b)]
    assert replace(a(1), x=5) == a(5)
    with pytest.raises(TypeError):
        a()


def test_nothing_can_be_assigned_or_deleted():
    one = Ours(1)
    for name in ("x", "y", "new"):
        with pytest.raises(FrozenInstanceError):
            setattr(one, name, 2)
    with pytest.raises(FrozenInstanceError):
        del one.x
    assert one == Ours(1)


def test_it_is_copied_and_pickled():
    one = Ours(1, "b", (2,), [3])
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other == one
        assert other.w == [3]
