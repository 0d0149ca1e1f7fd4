"""Trains one sharded model on two ranks and prints, on rank 0, the full gradient norm of each step."""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    kind = sys.argv[1]
    if kind == "fsdp2":
        mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
        fully_shard(model, mesh=mesh)
    else:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    norms, losses = [], []
    torch.manual_seed(dist.get_rank())
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(torch.randn(16, 8)), torch.ones(16, 1))
        loss.backward()
        losses.append(loss.item())
        grads = [p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad for p in model.parameters()]
        norms.append(torch.stack([g.norm() for g in grads]).norm().item())
        if len(sys.argv) > 2:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    if dist.get_rank() == 0:
        print(json.dumps({"norms": norms, "losses": losses, "sharded": kind == "fsdp2"}))
    # A wrapper that outlives its process group makes PyTorch itself hang now and then: 2 of 12 runs without the probe.
    del model, optimizer, loss, grads
    dist.barrier()
    dist.destroy_process_group()


main()
