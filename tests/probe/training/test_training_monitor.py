"""What the probe keeps, reads and takes for a failure in healthy programs: nothing, in both frameworks."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import pytest

from labbook.probe.training.evaluation import Evaluation
from labbook.probe.training.loop_counts import LoopCounts

SUMMED = """
import paddle
import paddle.nn.functional as F
from paddle import nn
paddle.seed(1)
x, y = paddle.randn([64, 8]), paddle.randint(0, 3, [64])
model = nn.Linear(8, 3)
optimizer = paddle.optimizer.SGD(0.05, parameters=model.parameters())
for epoch in range(3):
    model.train()
    for step in range(4):
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.clear_grad()
    model.eval()
    with paddle.no_grad():
        for half in range(2):
            out, labels = model(x[half * 32 : half * 32 + 32]), y[half * 32 : half * 32 + 32]
            F.cross_entropy(out, labels, reduction="sum")
            F.mse_loss(out, F.one_hot(labels, 3), reduction="sum")
            nn.functional.kl_div(F.log_softmax(out), F.one_hot(labels, 3), "sum")
"""


@pytest.mark.paddle
@pytest.mark.forked("paddle")
def test_summed_validation_losses_of_paddle_are_recorded_as_means(probed):
    done = probed(sys.executable, probed.write("summed.py", SUMMED), OMP_NUM_THREADS="1")
    assert done.of("probe_error") == []
    phases = done.of("evaluation")
    assert len(phases) == 3
    for phase in phases:
        assert math.log(3) / 2 < phase["loss"]["cross_entropy"] < 2 * math.log(3)
        assert all(value < 3 for value in phase["loss"].values())


SCALED = """
import sys
from types import SimpleNamespace
import paddle
from paddle import nn

class OnGpu:
    def is_gpu_place(self):
        return True

scaled = sys.argv[1] == "scaled"
# On a CPU the constructor switches the scaler off; its arithmetic works there all the same.
module = sys.modules["paddle.amp.grad_scaler"]
real, module._dygraph_tracer = module._dygraph_tracer, lambda: type("T", (), {"_expected_place": OnGpu()})()
model = nn.Linear(2, 1)
optimizer = paddle.optimizer.SGD(1e-3, parameters=model.parameters())
scaler = paddle.amp.GradScaler(enable=scaled, init_loss_scaling=2.0**20, decr_every_n_nan_or_inf=9)
module._dygraph_tracer = real
sys.modules["paddle.amp.auto_cast"].amp_global_state().amp_dtype = "float16"
for step in range(8):
    loss = model(paddle.ones([4, 2])).sum() * (1e33 if step % 4 == 2 else 1.0) * (1 if scaled else 1e6)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.clear_grad()
print(scaler.is_enable())
"""


@pytest.mark.paddle
@pytest.mark.forked("paddle")
@pytest.mark.parametrize(("kind", "flights"), [("scaled", 0), ("plain", 1)])
@pytest.mark.long
def test_an_overflow_that_a_scaler_of_paddle_skips_is_no_failure(probed, kind, flights):
    done = probed(sys.executable, probed.write("scaled.py", SCALED), kind, OMP_NUM_THREADS="1")
    assert done.of("probe_error") == []
    assert done.out.split()[-1] == str(kind == "scaled")
    assert len(done.of("flight")) == flights


TAUGHT = """
import sys
from types import SimpleNamespace
import paddle
import paddle.nn.functional as F
from paddle import nn
paddle.seed(1)
x, y = paddle.randn([64, 8]), paddle.randint(0, 3, [64])
teacher, student = nn.Sequential(nn.Linear(8, 3), nn.Dropout(0.2)), nn.Sequential(nn.Linear(8, 3), nn.Dropout(0.2))
optimizer = paddle.optimizer.SGD(0.05, parameters=teacher.parameters())
F.cross_entropy(teacher(x), y).backward()
optimizer.step()
teacher.eval()
optimizer = paddle.optimizer.SGD(0.05, parameters=student.parameters())
getattr(student, sys.argv[1])()
for step in range(12):
    out = student(x)
    F.mse_loss(out, teacher(x).detach()).backward()
    optimizer.step()
    optimizer.clear_grad()
"""


@pytest.mark.paddle
@pytest.mark.forked("paddle")
@pytest.mark.parametrize(("mode", "wrong"), [("train", 0), ("eval", 12)])
def test_a_teacher_in_evaluation_mode_is_not_what_is_trained(probed, mode, wrong):
    done = probed(sys.executable, probed.write("taught.py", TAUGHT), mode, OMP_NUM_THREADS="1")
    assert done.of("probe_error") == []
    assert done.of("loop")[-1]["backward_in_eval"]["count"] == wrong


ELSEWHERE = """
import threading
import paddle
from paddle import nn
original, reads = paddle.Tensor._grad_ivar, []
other = nn.Linear(4, 2)
held = set(map(id, other.parameters()))

def watched(tensor):
    if id(tensor) in held and threading.current_thread() is threading.main_thread():
        reads.append(1)
    return original(tensor)

paddle.Tensor._grad_ivar = watched

def train(model, steps):
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    for step in range(steps):
        model(paddle.ones([3, 4])).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    return optimizer

own, kept = nn.Linear(4, 2), []
train(own, 2)
thread = threading.Thread(target=lambda: kept.append(train(other, 5)))
thread.start()
thread.join()
train(own, 30)
print(len(reads))
"""


@pytest.mark.paddle
@pytest.mark.forked("paddle")
def test_gradients_of_models_of_other_threads_are_not_read_in_paddle(probed):
    """A backward call replaces them without the interpreter's lock."""
    probed.settings["level"] = "deep"
    done = probed(sys.executable, probed.write("elsewhere.py", ELSEWHERE), OMP_NUM_THREADS="1")
    assert done.of("probe_error") == []
    assert done.out.split()[-1] == "0"
    assert done.of("loop")[-1]["never_grad_n"] == 0


KEPT = """
import gc
from weakref import ref
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
model.unused = nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
inputs = []
for step in range(24):
    x = torch.ones(3, 4, requires_grad=True)
    inputs.append(ref(x))
    nn.Sequential.__call__(model, x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
del x
gone = [ref(p) for p in model.parameters()]
del model, optimizer
gc.collect()
print(sum(one() is not None for one in inputs), sum(one() is not None for one in gone))
"""


@pytest.mark.torch
@pytest.mark.forked("torch")
@pytest.mark.parametrize("level", ["normal", "deep"])
def test_inputs_and_models_are_freed_as_without_the_probe(probed, level):
    probed.settings["level"] = level
    done = probed(sys.executable, probed.write("kept.py", KEPT), OMP_NUM_THREADS="1")
    assert done.of("probe_error") == []
    assert done.out.split()[-2:] == ["0", "0"]


KEPT_PADDLE = """
import gc
from weakref import ref
import paddle
from paddle import nn
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
inputs = []
for step in range(24):
    x = paddle.ones([3, 4])
    x.stop_gradient = False
    inputs.append(ref(x))
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
gone = [ref(p) for p in model.parameters()]
del x, loss, model, optimizer
gc.collect()
print(sum(one() is not None for one in inputs), sum(one() is not None for one in gone))
"""


@pytest.mark.paddle
@pytest.mark.forked("paddle")
@pytest.mark.parametrize("level", ["normal", "deep"])
@pytest.mark.long
def test_inputs_and_models_of_paddle_are_freed_as_without_the_probe(probed, level):
    probed.settings["level"] = level
    done = probed(sys.executable, probed.write("kept.py", KEPT_PADDLE), OMP_NUM_THREADS="1")
    assert done.of("probe_error") == []
    assert done.out.split()[-2:] == ["0", "0"]


HOUSE = """
def train():
    import torch
    from torch import nn

    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(4, 2), nn.Linear(4, 2)
            self.device_of = nn.Parameter(torch.empty(0))  # nothing can train it

        def forward(self, x):
            return self.used(x.to(self.device_of.device))

    model = Part()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(40):
        model(torch.ones(3, 4)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
train()
"""


@pytest.mark.torch
@pytest.mark.forked("torch")
def test_facts_of_a_deleted_torch_model_are_preserved(probed):
    done = probed(sys.executable, probed.write("inside.py", HOUSE), OMP_NUM_THREADS="1")
    assert done.of("probe_error") == []
    loop = done.of("loop")[-1]
    assert loop["steps"] == 40
    assert loop["never_grad"] == loop["never_called"] == ["unused.weight", "unused.bias"]
    assert loop["trainable_n"] == 4


REFUSED = """
import paddle
import paddle.nn.functional as F
from paddle import nn
model = nn.Linear(4, 3)
for loss, labels in ((F.cross_entropy, [0, 1, 2, 7]), (F.nll_loss, [0, 3, 2, 1])):
    try:
        loss(model(paddle.ones([4, 4])), label=paddle.to_tensor(labels))
    except (IndexError, ValueError) as error:
        print("refused")
F.cross_entropy(model(paddle.ones([4, 4])), paddle.to_tensor([0, 1, 2, 0])).backward()
"""


@pytest.mark.paddle
@pytest.mark.forked("paddle")
def test_labels_that_a_loss_of_paddle_rejects_are_recorded(probed):
    done = probed(sys.executable, probed.write("refused.py", REFUSED), OMP_NUM_THREADS="1")
    assert done.of("probe_error") == []
    assert done.out.split() == ["refused", "refused"]
    seen = {loss["fn"]: loss for loss in done.of("loss_call") if loss["outside"]}
    assert set(seen) == {"cross_entropy", "nll_loss"}
    assert all((loss["classes"], loss["outside"], loss["target"]["max"] >= 3) == (3, 1, True) for loss in seen.values())


def test_a_model_in_training_mode_without_such_layers_is_no_wrong_validation():
    ended = []
    phase = Evaluation(lambda kind, **fields: ended.append((fields["training"], fields["stochastic"])), "torch")
    encoder, head, norm = ("E", False, False, True), ("H", True, False, False), ("N", True, False, True)
    teacher = (*norm, True)
    for step, models in enumerate(
        [(encoder, head), (head, encoder), (head, norm), (encoder, norm), (encoder, teacher), (teacher,)]
    ):
        for _ in range(3):
            for model in models:
                phase.forward(10 * step, *model)
        phase.end(10 * step)
    assert ended == [(False, True), (True, False), (True, True), (True, True), (False, True), (True, True)]


@pytest.mark.parametrize(
    ("models", "grad"), [("SSS", False), ("SST", False), ("TSS", False), ("TTT", True), ("TSG", True)]
)
def test_a_teacher_of_the_next_step_is_no_validation_with_gradients(models, grad):
    ended = []
    phase = Evaluation(lambda kind, **fields: ended.append(fields["grad"]), "torch")
    kinds = {"S": ("Student", False, False, False), "T": ("Teacher", False, True, False, True)}
    for model in models * 2:
        phase.forward(10, *kinds.get(model, ("Student", False, True, False)))
    phase.end(10)
    assert ended == [grad]


@pytest.mark.parametrize(("passes", "grad"), [("SSG", False), ("GGG", True), ("G", True), ("SG", False)])
def test_a_frozen_part_in_evaluation_mode_is_trained_through(passes, grad):
    ended = []
    phase = Evaluation(lambda kind, **fields: ended.append(fields["grad"]), "torch")
    for one in passes:  # the first forward of the next step comes before the part that is in training mode
        phase.forward(10, "Body", False, one == "G", True)
    phase.end(10)
    assert ended == [grad]


@pytest.mark.parametrize(("moves", "changed"), [(False, False), (True, True)])
def test_a_teacher_is_compared_where_no_look_was_before_the_end(moves, changed):
    root, counts, calls = SimpleNamespace(index=3, name="Net"), LoopCounts("torch"), []
    for step in range(90, 190):
        calls.append(step)
        counts.without_gradient(root, step, lambda _: [calls[-1] if moves else 0.5])
    teacher = counts.teachers[3].look()
    assert teacher["steps"] == 100 and teacher["fixed"] >= 90 and teacher["changed"] is changed
