"""What modules are given: memory with its axes in another order, ids of lookup tables, steps of recurrent layers."""

import sys

import pytest

PROGRAM = """
import FRAMEWORK as f
nn = f.nn
Conv = getattr(nn, "Conv1d", None) or nn.Conv1D
turn = (lambda x: x.reshape([8, 6, 40])) if WRONG else (lambda x: x.transpose(*AXES))


class Net(getattr(nn, "Module", None) or nn.Layer):
    def __init__(self):
        super().__init__()
        self.channel, self.conv, self.head = nn.Embedding(20, 6), Conv(6, 4, 3), nn.Linear(38, 1)
        self.rnn = nn.GRU(6, 5, batch_first=True) if "torch" in f.__name__ else nn.GRU(6, 5)
        self.last = nn.Linear(5, 1)

    def forward(self, x, ids):
        steps = self.rnn(x)[0]
        read = steps[:, 0] if WRONG else steps[:, -1]
        return self.head(self.conv(turn(x))).mean() + self.channel(ids).mean() + self.last(read).mean()


net = Net()
opt = f.optim.SGD(net.parameters(), lr=0.1) if "torch" in f.__name__ else f.optimizer.SGD(0.1, net.parameters())
for step in range(30):
    net(f.randn([8, 40, 6]), f.arange(8) // 8 + 3 * WRONG).backward()
    opt.step()
"""


@pytest.mark.parametrize("wrong", [1, 0])
@pytest.mark.parametrize("framework", ["torch", pytest.param("paddle", marks=pytest.mark.long)])
def test_axes_that_are_reshaped_and_ids_of_a_lookup_table(probed, framework, wrong):
    program = PROGRAM.replace("FRAMEWORK", framework).replace("WRONG", str(wrong))
    probed.write("train.py", program.replace("*AXES", "1, 2" if framework == "torch" else "[0, 2, 1]"))
    outcome = probed(sys.executable, "train.py", OMP_NUM_THREADS="1")
    rows = {row["name"]: row for row in outcome.of("model")[0]["modules"]}
    assert rows["conv"].get("view_of") == ([8, 40, 6] if wrong else None)
    assert rows["rnn"]["steps_read"] == ([0] if wrong else [39]) and rows["rnn"]["options"]["batch_first"] is True
    looks = [row["ids"] for event in outcome.of("tensors") for row in event["modules"] if "ids" in row]
    assert len(looks) > 3 and all(look == [3 * wrong, 3 * wrong, 8] for look in looks)


CELL = """
import FRAMEWORK as f
nn = f.nn


class Net(getattr(nn, "Module", None) or nn.Layer):
    def __init__(self):
        super().__init__()
        self.cell, self.h = nn.KIND(3, 4), None

    def forward(self, x):
        state = None if self.h is None or not CARRIED else tuple(one.detach() for one in self.h)
        for t in range(5):
            ended = self.cell(x[:, t], state if state is None or len(state) > 1 else state[0])
            ended = ended[-1] if "torch" not in f.__name__ else ended
            state = ended if isinstance(ended, tuple) else (ended,)
        self.h = state
        return state[0].mean()


net = Net()
opt = f.optim.SGD(net.parameters(), lr=0.1) if "torch" in f.__name__ else f.optimizer.SGD(0.1, net.parameters())
for step in range(8):
    net(f.randn([8, 5, 3])).backward()
    opt.step()
"""


@pytest.mark.parametrize("carried", [True, False])
@pytest.mark.parametrize("kind", ["GRUCell", "LSTMCell"])
@pytest.mark.parametrize("framework", ["torch", pytest.param("paddle", marks=pytest.mark.long)])
def test_states_of_cells_that_are_carried_to_the_next_batch(probed, framework, kind, carried):
    program = CELL.replace("FRAMEWORK", framework).replace("KIND", kind).replace("CARRIED", str(carried))
    probed.write("train.py", program)
    outcome = probed(sys.executable, "train.py", OMP_NUM_THREADS="1")
    looks = [row["carried"] for event in outcome.of("tensors") for row in event["modules"] if "carried" in row]
    assert looks[:4] == [False, carried, carried, carried]
