"""Trains on a GPU; prints, as one line of JSON, what it did there: a digest, memory, and where the host waited.

    cuda_torch.py KIND [DEVICE]

Kinds: plain, bf16 (autocast), fp16 (with a GradScaler), compile, graph (the step is captured once and replayed),
workers (pinned batches of a DataLoader), nan (from one step on), quiet (the host may not wait for the device), memory
(more is asked for than there is) and index (a class outside the classes).
"""

import hashlib
import json
import os
import sys
import traceback
import warnings

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import nn

KIND = sys.argv[1]
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cuda"
STEPS = 120
NAN_AT = 70
on_gpu = DEVICE == "cuda"
torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(1024, 3, 8, 8), torch.randint(0, 5, (1024,)))
workers = {"num_workers": 2, "pin_memory": on_gpu} if KIND == "workers" else {}
loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True, drop_last=True, **workers)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(1024, 5)
).to(DEVICE)
called = torch.compile(model) if KIND == "compile" else model
optimizer = torch.optim.AdamW(model.parameters(), 1e-3, **({"capturable": True} if KIND == "graph" else {}))
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
scaler = torch.amp.GradScaler(DEVICE, enabled=KIND == "fp16")
cast = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(KIND)
losses, waits = [], []


def batches():
    while True:
        for inputs, targets in loader:
            yield inputs.to(DEVICE, non_blocking=True), targets.to(DEVICE, non_blocking=True)


def forward(inputs, targets):
    with torch.autocast(DEVICE, dtype=cast, enabled=cast is not None):
        return nn.functional.cross_entropy(called(inputs), targets)


def step(inputs, targets):
    optimizer.zero_grad()
    loss = forward(inputs, targets)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    if KIND != "quiet":
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


def captured():
    """The step as a graph, and the tensors that it reads and writes."""
    inputs, targets = (one.clone() for one in next(source))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(inputs, targets)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = forward(inputs, targets)
        loss.backward()
        optimizer.step()
    return graph, inputs, targets, loss


def noted(message, category, filename, lineno, file=None, line=None):
    """Keeps which step and whose code had the host wait."""
    if "called a synchronizing" in str(message):
        frames = traceback.extract_stack()[:-1]
        ours = [f"{frame.filename}:{frame.lineno}" for frame in frames if "labbook/probe" in frame.filename]
        waits.append([len(losses), ours[-1] if ours else frames[-1].filename])


if KIND == "memory":
    kept = [torch.zeros(1 << 34, dtype=torch.uint8, device=DEVICE) for _ in range(64)]
if KIND == "index":
    data.tensors[1][5] = 7
source = batches()
if KIND == "graph":
    graph, fixed_inputs, fixed_targets, fixed_loss = captured()
if KIND == "quiet" and on_gpu:
    warnings.showwarning = noted
    warnings.simplefilter("always")
    step(*next(source))
    torch.cuda.set_sync_debug_mode("warn")
for number in range(STEPS):
    inputs, targets = next(source)
    if KIND == "nan" and number == NAN_AT:
        inputs = inputs / 0 * 0
    if KIND == "graph":
        fixed_inputs.copy_(inputs)
        fixed_targets.copy_(targets)
        graph.replay()
        losses.append(fixed_loss.detach().clone())
    else:
        losses.append(step(inputs, targets))
    scheduler.step()
    if KIND not in ("quiet", "graph") and number % 40 == 39:
        print(f"step {number} loss {losses[-1].item():.4f}")
if KIND == "quiet" and on_gpu:
    torch.cuda.set_sync_debug_mode("default")
digest = hashlib.sha256()
for tensor in [*losses, *model.state_dict().values(), *(p.grad for p in model.parameters())]:
    digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
digest.update(torch.get_rng_state().numpy().tobytes())
peak = 0
if on_gpu:
    digest.update(torch.cuda.get_rng_state().cpu().numpy().tobytes())
    peak = torch.cuda.max_memory_allocated()
print(json.dumps({"digest": digest.hexdigest(), "peak_bytes": peak, "waits": waits, "steps": len(losses)}))
