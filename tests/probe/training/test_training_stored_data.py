"""Whether reading a batch changes what its data set has stored: in place, in a copy, or only in the first epoch."""

from types import SimpleNamespace

import pytest

np = pytest.importorskip("numpy")

from labbook.probe.training.stored_data import LOOKS, compare, is_due, marks_of  # noqa: E402

SHARED = np.ones((40, 6), "float32")


class Data:
    def __init__(self, how):
        self.how = how
        self.samples = np.ones((40, 6), "float32")
        self.table = [np.ones((40, 6), "float32")]
        self.seen = np.zeros(40)

    def __getitem__(self, at):
        self.seen[at] += 1
        if self.how == "copy":
            return self.samples[at] + 1
        one = {"own": self.samples, "list": self.table[0], "global": SHARED}[self.how][at]
        one += 1
        return one


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("how", "name"), [("own", "self.samples"), ("list", "self.table"), ("global", "SHARED"), ("copy", "")]
)
def test_samples_that_are_changed_in_place(how, name, workers):
    data = Data(how)
    known = {"epoch": 0, "batch": 0}
    iterator = SimpleNamespace(_dataset=SimpleNamespace(dataset=data), _num_workers=workers)
    assert not is_due(known)
    known["epoch"] = 1
    for _ in range(LOOKS):
        assert is_due(known)
        before = marks_of(iterator)
        assert bool(before) is not bool(workers)
        for at in range(8):
            data[at]
        compare(known, iterator, before)
    assert not is_due(known)
    found = name if not workers else ""
    assert known["stored"] == {"looks": LOOKS, "changed": LOOKS if found else 0, "name": found}


def test_a_data_set_is_not_asked_and_tensors_without_an_array_are_left_out():
    torch = pytest.importorskip("torch")
    asked = []

    class Lazy:
        def __init__(self):
            self.half = torch.ones(40, 6, dtype=torch.bfloat16)
            self.turned = torch.ones(40, 6, dtype=torch.complex64).conj().imag
            self.whole = torch.ones(40, 6)

        def __getattr__(self, name):
            asked.append(name)
            raise AttributeError(name)

    assert list(marks_of(SimpleNamespace(_dataset=Lazy(), _num_workers=0))) == ["self.whole"]
    assert asked == []
