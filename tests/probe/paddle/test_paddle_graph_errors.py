"""What an error of a PaddlePaddle graph says in its message, and the line of the program that it comes from."""

from __future__ import annotations

import sys

import pytest

pytestmark = [pytest.mark.paddle, pytest.mark.forked("paddle")]

GRAPH_CRASH = """
import sys, paddle
from paddle import nn
import numpy as np

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 4)
        self.table = self.create_parameter([6, 4])

    def forward(self, x):
        x = self.line(x)
        return x + self.table

def static():
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program()):
        x, y = (paddle.static.data(name, [None, 3], "float32") for name in "xy")
        total = x + y
        ones = lambda rows: np.ones([rows, 3], "float32")
        paddle.static.Executor().run(feed={"x": ones(4), "y": ones(5)}, fetch_list=[total])

def dynamic():
    net = paddle.jit.to_static(Net(), full_graph=sys.argv[1] == "full")
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    for rows in (6, 6, 5):
        net(paddle.ones([rows, 3])).mean().backward()
        optimizer.step()

try:
    static() if sys.argv[1] == "static" else dynamic()
except Exception as error:
    print(error)
    raise
"""


@pytest.mark.parametrize("how", ["full", "guarded", "static"])
def test_a_graph_that_fails_has_its_own_message_and_the_line_that_built_it(probed, how):
    script = probed.write("crash.py", GRAPH_CRASH)
    whole = {"MIN_GRAPH_SIZE": "0"}  # else a small graph runs line by line
    bare = probed.plain(sys.executable, script, how, **whole).stdout
    done = probed(sys.executable, script, how, check=False, **whole)
    (event,) = done.of("exception")
    assert bare.startswith("In ") and done.out == bare and event["message"] == bare[:-1]
    line = {"full": "return x + self.table", "guarded": "def forward(self, x):", "static": "total = x + y"}[how]
    assert [frame["source"] for frame in event["frames"] if frame["user"]][-1] == line


PRODUCTS = """
import sys
import paddle
from paddle import nn

model = nn.Linear(6, 2)
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
for _ in range(4):
    choice = paddle.distribution.Categorical(nn.functional.softmax(model(paddle.randn([8, 6]))))
    weights = paddle.randn([8] if sys.argv[1] == "row" else [8, 1])
    (-choice.log_prob(paddle.randint(0, 2, [8, 1])) * weights).mean().backward()
    optimizer.step()
    optimizer.clear_grad()
"""


@pytest.mark.parametrize("form", ["row", "column"])
def test_logarithms_of_probabilities_times_their_weights(probed, form):
    done = probed(sys.executable, probed.write("products.py", PRODUCTS), form, OMP_NUM_THREADS="1")
    assert not done.of("probe_error")
    blown = {"op": "mul", "shape": [8, 8], "of": [8, 1], "sure": True, "line": "products.py:11"}
    assert done.of("graph")[0]["blown"] == (blown if form == "row" else None)
