"""The drawn autograd graph: chains are folded, branches meet again, nothing is lost; lines, Mermaid and picture."""

from __future__ import annotations

import random
import re
import sys
from xml.etree import ElementTree

import pytest
from order_of_tests import in_one_test

from labbook.model.run import Run
from labbook.probe.inspection.graph_operations import MOST, operations_of, replace_names
from labbook.report.graph_drawing import boxes_around, fold_graph, graph_lines, graph_mermaid, graph_svg, run_graph_svg
from labbook.store.text.sentences import Sentences
from labbook.store.text.templates import words

RESIDUAL = [
    ["NllLoss", [1], None],
    ["Addmm", [2, 3, 5], None],
    ["", [], "head.bias"],
    ["Add", [6, 8], None],
    ["", [], "head.weight"],
    ["T", [4], None],
    ["Relu", [7], None],
    ["Mul", [8, 9], None],
    ["Embedding", [10], None],
    ["", [], ""],
    ["", [], "embed.weight"],
]
MODEL = """
import sys
FRAMEWORK
class Net(Base):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.unused = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(2, 2)
    def forward(self, x):
        return self.second(nn.functional.relu(self.first(x)))
"""


def test_chains_are_one_box_and_branches_keep_their_number():
    boxes = fold_graph(RESIDUAL)

    lines = graph_lines(boxes, range(len(boxes)), "another tensor")
    assert lines == [
        "[1]  NllLoss → Addmm   (head: bias, weight)",
        "[2]  Add   → [3], [4]",
        "[3]  Relu → Mul   (another tensor)",
        "[4]  Embedding   (embed: weight)",
    ]
    assert [box.below for box in boxes] == [[1], [2, 3], [3], []]
    assert boxes_around(boxes, "EMBED") == [0, 1, 2, 3] and boxes_around(boxes, "nothing") == []


@in_one_test("seed", range(5))
def test_every_operation_is_in_one_box_and_every_picture_can_be_read(seed):
    chance = random.Random(seed)
    count = 150
    rows = [
        [
            f"Op<{at}>",
            sorted({chance.randrange(at + 1, count + 40) for _ in range(chance.choice((1, 1, 1, 2, 3)))}),
            None,
        ]
        for at in range(count)
    ]
    rows += [["", [], f"layer{at}.weight"] for at in range(40)]
    boxes = fold_graph(rows)
    folded = [name for box in boxes for name in box.operations]
    assert len(folded) == len(set(folded))
    reached, waiting = set(), [at for at in range(count) if not any(at in row[1] for row in rows)]
    while waiting:
        at = waiting.pop()
        if at not in reached:
            reached.add(at)
            waiting += rows[at][1]
    # Between an operation and a parameter lie only chains that nothing else takes from.
    missing = {rows[at][0] for at in reached if at < count} - set(folded)
    assert all(len(rows[int(name[3:-1])][1]) == 1 for name in missing)
    assert set(folded) | missing == {rows[at][0] for at in reached if at < count}
    shown = boxes_around(boxes)
    for language in ("en", "zh"):
        picture = graph_svg(boxes, shown, words(language)["autograd"], ["a<b", "c"], "Op<3>")
        assert ElementTree.fromstring(picture).tag.endswith("svg")
    mermaid = graph_mermaid(boxes, shown, "x")
    assert len(re.findall(r"(?m)^  b\d+\[", mermaid)) == len(shown)


@in_one_test("rows", [[], [[]], [["A", [7, -1, "x"], None]], [["A", None, None]], [["A", [0], None]]])
def test_damaged_rows_draw_what_they_can(rows):
    boxes = fold_graph(rows)

    graph_svg(boxes, boxes_around(boxes), words("en")["autograd"], [])


def test_a_large_graph_is_taken_down_from_the_loss_on_without_its_nodes():
    rows, is_cut = operations_of(
        [0], lambda n: n, str, lambda n: [n + 1, 10**6 + n], lambda n: n if n >= 10**6 else None
    )
    assert len(rows) == MOST and is_cut and rows[0] == ["0", [1, 2], None]
    named = replace_names(rows, {10**6: "first"})
    assert named[2] == ["", [], "first"] and all(row[2] in (None, "", "first") for row in named)


@pytest.mark.torch
def test_the_operations_of_torch():
    import torch

    from labbook.probe.torch.autograd_graph import AutogradGraph

    layer = torch.nn.Linear(4, 3)
    loss = torch.nn.functional.cross_entropy(torch.relu(layer(torch.randn(5, 4))), torch.tensor([0, 1, 2, 0, 1]))
    rows, is_cut = AutogradGraph._take_operations(None, [loss])
    boxes = fold_graph(replace_names(rows, {id(layer.weight): "0.weight", id(layer.bias): "0.bias"}))
    assert not is_cut and len(boxes) == 1
    assert boxes[0].operations == ["NllLoss", "LogSoftmax", "Relu", "Addmm"]
    assert sorted(boxes[0].parameters) == ["0.bias", "0.weight"]


def test_the_picture_names_the_cut_and_marks_the_operation_of_the_first_bad_value():
    here = {"file": "/p/train.py", "line": 8}
    health = {
        "autograd": {"operations": RESIDUAL, "unreachable": [], "cut": {**here, "op": "detach"}},
        "flight": {**here, "finding": "forward", "op": "nll_loss", "step": 3},
    }
    run = Run("i", "finished", ("python",), "/", 0.0, health=health)
    svg = run_graph_svg(run, words("en")["autograd"], Sentences("en"))

    assert "cut by `detach` at train.py:8" in svg and "step 3, nll_loss, train.py:8" in svg
    assert svg.count('class="bl"') == 1


@pytest.mark.process
@pytest.mark.parametrize(
    ("framework", "head", "loop"),
    [
        pytest.param(
            "torch",
            "import torch as f; from torch import nn; Base = nn.Module",
            "net = Net(); o = f.optim.SGD(net.parameters(), lr=0.1)\n"
            "for _ in range(3):\n"
            "    loss = nn.functional.cross_entropy(net(f.randn(5, 4)), f.tensor([0, 1, 2, 0, 1]))\n"
            "    o.zero_grad(); loss.backward(); o.step()\n",
            marks=pytest.mark.torch,
        ),
        pytest.param(
            "paddle",
            "import paddle as f; from paddle import nn; Base = nn.Layer",
            "net = Net(); o = f.optimizer.SGD(0.1, parameters=net.parameters())\n"
            "for _ in range(3):\n"
            "    loss = nn.functional.cross_entropy(net(f.randn([5, 4])), f.to_tensor([0, 1, 2, 0, 1]))\n"
            "    loss.backward(); o.step(); o.clear_grad()\n",
            marks=[pytest.mark.paddle, pytest.mark.long],
        ),
    ],
)
def test_a_recorded_run_shows_what_the_graph_misses(book, framework, head, loop):
    (book.folder / "train.py").write_text(MODEL.replace("FRAMEWORK", head) + loop)
    quiet = ["-W", "ignore"] if framework == "paddle" else []  # it says so when no ccache is found
    book.record(sys.executable, *quiet, "train.py", framework=framework)

    shown = book("graph").stdout
    assert "first: " in shown and "second: " in shown and "unused.weight, unused.bias" in shown
    book("graph", "--to", "graph.svg")
    ElementTree.parse(book.folder / "graph.svg")
    assert "/autograd.svg)" in book.entry()
    assert book("graph", "--around", "no such name", check=False).returncode == 1
    missed = book("graph", "--around", "unused", check=False)
    assert missed.returncode == 1 and "does not reach unused.weight, unused.bias" in missed.stderr
    book("graph", "--model", "--to", "model.mmd")
    assert "unused" in (book.folder / "model.mmd").read_text("utf-8")
    assert book("graph", "--to", "graph.png", check=False).returncode == 2
