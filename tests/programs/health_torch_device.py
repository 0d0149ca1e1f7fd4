"""Trains as if all tensors lay on a device, and counts what the probe reads out of them; prints the counts as JSON.

Every tensor says that it is not in host memory, and scalars travel through a mailbox that delivers late, as one of a
GPU does. A value that is read in any other way would have the host wait for the device. With "capture", some steps run
as if a CUDA graph were being captured, and nothing may be read or computed in them. With "nan", one batch is NaN; with
"log", one loss is the logarithm of zero.
"""

import gc
import json
import sys

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

MODE = sys.argv[1]
CAPTURED = range(3, 6) if MODE == "capture" else ()
STEPS = 200
NAN_AT = 133 if MODE in ("nan", "log") else 0
"""Not a step at which the probe looks closely."""
FIRST = 5
"""Steps at the start in which the call of a loss is inspected in any case, dense or not."""

PASSING_ON = ("backward", "call", "clip", "clipped", "following", "initialise", "iterate", "loss", "step")
"""Wrappers of the probe that call what the program called."""

COMPUTES_NOTHING = ("aten.detach.default", "aten.view.default", "aten._reshape_alias.default")
READS = ("item", "tolist", "__bool__", "__float__", "__int__", "__index__", "cpu", "numpy", "nonzero")

adapter = next(one for one in gc.get_objects() if type(one).__name__ == "Adapter" and hasattr(one, "registry"))
monitor = adapter.monitor
reads, evaluated = [], []
item = torch.Tensor.item
step = 0


def from_probe():
    frame = sys._getframe(2)
    while frame is not None:
        package = str(frame.f_globals.get("__package__"))
        if "_labbook_probe" in package and frame.f_code.co_name not in PASSING_ON:
            return True
        if frame.f_globals.get("__name__") == "__main__":
            return False
        frame = frame.f_back
    return False


def counted(name):
    original = getattr(torch.Tensor, name)

    def read(tensor, *args, **kwargs):
        if from_probe():
            (reads if model.training else evaluated).append((step, name, monitor.dense))
        return original(tensor, *args, **kwargs)

    setattr(torch.Tensor, name, read)


class PendingValues:
    """Ready when two later ones were posted, or when the program has ended."""

    posted = 0

    def __init__(self, tensors):
        self.numbers = [float(item(tensor)) for tensor in tensors]
        PendingValues.posted += 1
        self.number = PendingValues.posted

    def is_ready(self):
        return PendingValues.posted > self.number + 1 or step >= STEPS

    def values(self):
        return self.numbers


class DeviceReader:
    post = staticmethod(PendingValues)
    capturing = staticmethod(bool)


class Watching(TorchDispatchMode):
    """Sees what is computed while a graph is said to be captured."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kinds = {getattr(one, "dtype", None) for one in args}
        if (
            from_probe() and str(func) not in COMPUTES_NOTHING and kinds != {torch.uint8}
        ):  # states of the CPU's generator
            reads.append((step, str(func), monitor.dense))
        return func(*args, **(kwargs or {}))


torch.Tensor.is_cpu = property(lambda tensor: False)
for one in READS:
    counted(one)
box = DeviceReader()
adapter.values._device_reader = lambda device: box
inspector = monitor.inspector
capturing = (adapter, "capturing"), (inspector.without_modes, "_capturing"), (inspector.flight_recorder, "_capturing")
for owner, name in capturing:
    setattr(owner, name, lambda: step in CAPTURED)

recorder = inspector.flight_recorder
recorder._has_cuda, recorder._cuda_state = True, list
torch.cuda.is_initialized = lambda: True
torch.cuda.is_current_stream_capturing = lambda: step in CAPTURED

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 50)
data = torch.utils.data.TensorDataset(torch.randn(640, 6), torch.randint(0, 3, (640,)))
loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
dense = []


def train(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    if MODE == "log":
        loss = loss + torch.log(loss * 0 + (step != NAN_AT))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()


while step < STEPS:
    for x, y in loader:
        step += 1
        if step == NAN_AT:
            x = x * float("nan") if MODE == "nan" else x
        dense.append(monitor.dense)
        if step in CAPTURED:
            with Watching():
                adapter.values.is_observed = lambda: 0
                train(x, y)
        else:
            train(x, y)
    model.eval()
    with torch.no_grad():
        for x, _y in loader:
            model(x)
    model.train()
ordinary = [one for one in reads if one[0] > FIRST and not dense[min(one[0], len(dense)) - 1]]
captured = [one for one in reads if one[0] in CAPTURED]
print(json.dumps([sum(dense), len(reads), ordinary[:20], captured[:20], len(evaluated)]))
