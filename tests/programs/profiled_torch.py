"""Trains a small model; prints a digest of the weights and, with `--profile`, the operators of steps 10 to 13."""

import hashlib
import json
import sys

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
profiler = None
counts = {}
for step in range(1, 31):
    inputs, labels = torch.randn(16, 8), torch.randint(0, 4, (16,))
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 9 and "--profile" in sys.argv:
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        profiler.start()
    if step == 13 and profiler is not None:
        profiler.stop()
        counts = {event.key: event.count for event in profiler.key_averages()}
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
digest = hashlib.sha256(weights + torch.random.get_rng_state().numpy().tobytes()).hexdigest()
print(json.dumps({"digest": digest, "operators": counts}))
