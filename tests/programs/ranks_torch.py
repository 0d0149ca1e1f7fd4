"""A data-parallel training with gloo in which one rank misbehaves, by the name of the fault in the first argument.

The ranks average gradients themselves, as in every hand-written loop. The faults are in `FAULTS`; rank 1 has it.
"""

import os
import sys
import time

FAULT = sys.argv[1] if len(sys.argv) > 1 else "none"
ODD = 1
AT = 8

rank = int(os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("SLURM_PROCID") or 0)
world = int(
    os.environ.get("WORLD_SIZE") or os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("SLURM_STEP_NUM_TASKS") or 1
)
odd = rank == ODD

if FAULT == "before_init" and odd:
    settings = {"lr": 0.1}
    print(settings["batch_size"])  # LINE before_init

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.manual_seed(0)
torch.set_num_threads(1)
store = os.environ.get("RANKS_STORE")
if store:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
else:
    dist.init_process_group("gloo")


class Rows(torch.utils.data.Dataset):
    """Sixty-four batches of random numbers."""

    def __len__(self):
        return 16 * (AT if FAULT == "out_of_data" and odd else 40)

    def __getitem__(self, index):
        if FAULT == "loader" and odd and index >= 16 * AT:
            while True:
                time.sleep(0.2)  # LINE loader
        return torch.randn(8), torch.tensor(index % 2)


model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = torch.utils.data.DataLoader(Rows(), batch_size=16)


def average_gradients(step):
    for number, parameter in enumerate(model.parameters()):
        if FAULT == "skips" and odd and step == AT:
            continue  # this rank waits in the next collective, LINE skips
        if FAULT == "mismatch" and odd and step == AT and number == 1:
            dist.broadcast(parameter.grad, 0)  # LINE mismatch
            continue
        if FAULT == "shapes" and odd and step == AT and number == 2:
            dist.all_reduce(torch.cat([parameter.grad.flatten(), torch.zeros(7)]))  # LINE shapes
            continue
        dist.all_reduce(parameter.grad)  # LINE all_reduce
        parameter.grad /= world


def wait_for_flag():
    while True:
        time.sleep(0.1)  # LINE endless


for step, (x, y) in enumerate(loader, 1):
    if FAULT == "endless" and odd and step == AT:
        wait_for_flag()
    if FAULT == "killed" and odd and step == AT:
        os.kill(os.getpid(), 9)
    if FAULT == "raises" and odd and step == AT:
        raise ValueError("label 7 is out of range")  # LINE raises
    if FAULT == "slow" and odd:
        time.sleep(0.06)
    optimizer.zero_grad()
    logits = model(x)
    if FAULT == "nan" and odd and step == AT:
        logits = logits * float("nan")
    loss = torch.nn.functional.cross_entropy(logits, y)
    loss.backward()
    average_gradients(step)
    optimizer.step()

if FAULT != "out_of_data":
    dist.barrier()
    dist.destroy_process_group()
elif odd:
    print("no more data on this rank")
    if not store:
        time.sleep(600)
print(f"rank {rank} is done")
