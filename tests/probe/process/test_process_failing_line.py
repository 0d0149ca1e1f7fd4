"""The tensors of a failing line arrive with the exception, and looking for them runs no line of the program."""

import sys

import pytest

TORCH = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(5, 3))
    def forward(self, x, parts):
        return LINE
net, batch = Net(), {"image": torch.zeros(2, 8), "note": "a"}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net.body[0](batch["image"]).sum(); loss.backward(); optimizer.step()
net(batch["image"], [torch.zeros(2, 3), torch.zeros(4, 5)])
"""

PADDLE = """
import paddle
class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = paddle.nn.Linear(5, 3)
    def forward(self, x):
        return self.body(x)
net = Net()
optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
loss = net(paddle.zeros([2, 5])).sum(); loss.backward(); optimizer.step()
image = paddle.zeros([2, 8], dtype="float64")
net(image.astype("float32"))
"""

TRAPS = """
import torch
class Sly:
    def __init__(self):
        self.kept = torch.zeros(3)
    @property
    def trap(self):
        print("a property ran")
        return torch.zeros(1)
    def __getattr__(self, name):
        print("__getattr__ ran")
        raise AttributeError(name)
    def __getitem__(self, key):
        print("__getitem__ ran")
        return torch.zeros(1)
class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *args, **kwargs):
        print("a subclass ran")
        return super().__torch_function__(*args, **kwargs)
sly, loud, name = Sly(), torch.zeros(2).as_subclass(Loud), "text"
print("begins")
1 / 0, sly.trap, sly.gone, sly["a"], sly[0], sly.kept, loud, name.upper, made(sly.trap)
"""


def seen(probed, source):
    probed.write("fail.py", source)
    done = probed(sys.executable, "fail.py", check=None)
    assert done.code == 1, done.err
    assert not done.of("probe_error")
    (event,) = done.of("exception")
    return done, {one["name"]: (one["shape"], one["dtype"], one["device"]) for one in event["tensors"]}


@pytest.mark.torch
@pytest.mark.forked("torch")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            # The layer that failed comes before its neighbours.
            "self.body(x)",
            {"x": [2, 8], "body.2.weight": [3, 5], "body.2.bias": [3], "body.0.weight": [4, 8], "body.0.bias": [4]},
        ),
        pytest.param("torch.cat(parts, dim=0)", {"parts[0]": [2, 3], "parts[1]": [4, 5]}, marks=pytest.mark.long),
        (
            "torch.mm(  # x of 'parts'\n            self.body[0].weight,\n            batch['image'])",
            {"body[0].weight": [4, 8], "batch['image']": [2, 8]},
        ),
        pytest.param("torch.mm(x, parts[1], out=None)", {"x": [2, 8], "parts[1]": [4, 5]}, marks=pytest.mark.long),
    ],
)
def test_tensors_named_on_a_line_of_torch(probed, line, expected):
    if "\n" in line and sys.version_info < (3, 11):
        pytest.skip("before 3.11 only one line of a statement is known")
    _, tensors = seen(probed, TORCH.replace("LINE", line))
    assert {name: shape for name, (shape, _, _) in tensors.items()} == expected
    assert {one[1:] for one in tensors.values()} == {("float32", "cpu")}


@pytest.mark.torch
@pytest.mark.forked("torch")
def test_the_range_of_ids_is_recorded(probed):
    source = (
        "import torch\nids, x = torch.tensor([[0, 3], [7, -2]]), torch.zeros(3)\ntorch.nn.Embedding(4, 2)(ids), x\n"
    )
    probed.write("fail.py", source)
    (event,) = probed(sys.executable, "fail.py", check=None).of("exception")
    assert {one["name"]: one.get("range") for one in event["tensors"]} == {"ids": [-2, 7], "x": None}


@pytest.mark.paddle
@pytest.mark.forked("paddle")
def test_tensors_named_on_a_line_of_paddle(probed):
    _, tensors = seen(probed, PADDLE)
    assert tensors == {
        "x": ([2, 8], "float32", "cpu"),
        "body.weight": ([5, 3], "float32", "cpu"),
        "body.bias": ([3], "float32", "cpu"),
    }


@pytest.mark.torch
@pytest.mark.forked("torch")
def test_no_line_of_the_program_runs(probed):
    done, tensors = seen(probed, TRAPS)
    assert done.out == "begins\n"
    assert tensors == {"sly.kept": ([3], "float32", "cpu"), "loud": ([2], "float32", "cpu")}


def test_arrays_are_recorded_and_long_lines_are_cut(probed):
    names = ", ".join(f"a{n}" for n in range(20))
    source = f"import numpy\n{names} = [numpy.zeros(n) for n in range(20)]\n1 / 0, {names}\n"
    _, tensors = seen(probed, source)
    assert list(tensors) == [f"a{n}" for n in range(8)]
    assert tensors["a3"] == ([3], "float64", "numpy")


LOOKUP = """
import torch
class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, kind, types, args=(), kwargs=None):
        print("a subclass ran", kind.__name__)
        return super().__torch_function__(kind, types, args, kwargs)
table = torch.nn.Embedding(12, 3)
ids = torch.tensor([[3, 4, 11], [0, 12, -1]])
loud = ids.as_subclass(Loud)
print("begins")
LINE
"""


@pytest.mark.torch
@pytest.mark.forked("torch")
@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        ("table(ids)", "ids", {"rows": 12, "outside": 12, "at": [1, 1], "counts": False}),
        ("table(ids.flip(1))", "", {"rows": 12, "outside": -1, "at": [1, 0], "counts": False}),
        ("ids = torch.arange(14); table(ids)", "ids", {"rows": 12, "outside": 12, "at": [12], "counts": True}),
        ("torch.index_select(table.weight, 0, ids[1])", "ids", {}),
        ("[0][1], loud", "loud", {}),
        ("raise ValueError(ids)", "ids", {}),
    ],
)
def test_the_first_index_that_an_embedding_lacks_is_found(probed, line, name, expected):
    probed.write("fail.py", LOOKUP.replace("LINE", line))
    done = probed(sys.executable, "fail.py", check=None)
    assert not done.of("probe_error") and not done.out.partition("begins\n")[2]
    (event,) = done.of("exception")
    found = next(one for one in event["tensors"] if one["name"] == name)
    assert {
        key: value for key, value in found.items() if key not in ("name", "shape", "dtype", "device", "range")
    } == expected
