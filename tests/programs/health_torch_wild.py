"""A program for each name in `sys.argv[1]`: trains in ways that a watcher may stumble over, and prints the outcome."""

import hashlib
import os
import sys
import threading

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
X, Y = torch.randn(64, 6), torch.randint(0, 3, (64,))


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))


def digest(model):
    taken = hashlib.sha256()
    for value in model.state_dict().values():
        taken.update(value.detach().contiguous().numpy().tobytes())
    return taken.hexdigest()[:16]


def train(model, steps=12, rate=0.1, loss_of=lambda model: F.cross_entropy(model(X), Y)):
    optimizer = torch.optim.SGD(model.parameters(), rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    return model


def forked():
    before = digest(train(net()))
    child = os.fork()
    if not child:
        print("child", digest(train(net(), 20)), flush=True)
        os._exit(3)
    _, status = os.waitpid(child, 0)
    print(before, os.waitstatus_to_exitcode(status), digest(train(net(), 5)))


def executed():
    print(digest(train(net())), flush=True)
    os.execv(sys.executable, [sys.executable, sys.argv[0], "exits"])


def exits():
    print(digest(train(net())))
    sys.exit(7)


def swallows():
    model, failures = net(), 0
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(12):
        try:
            optimizer.zero_grad()
            F.cross_entropy(model(X[:, : 5 + step % 2]), Y).backward()
            optimizer.step()
        except BaseException as error:  # noqa: PERF203 - what is tried here is the loop that goes on
            failures += len(str(error)) > 0
    print(digest(model), failures)


def patched():
    """Replaces what the probe itself uses, after it was attached."""
    model = train(net(), 3)

    def refuse(*args, **kwargs):
        raise RuntimeError("not here")

    for name in ("aminmax", "var_mean", "count_nonzero", "stack", "isfinite", "_foreach_norm"):
        setattr(torch, name, refuse)
    torch.linalg.vector_norm = refuse
    print(digest(train(model, 6)))


def unhooked():
    """Clears all hooks and deletes parts while it trains."""
    model = net()
    train(model, 3)
    for module in model.modules():
        module._forward_hooks.clear()
        module._forward_pre_hooks.clear()
    train(model, 3)
    del model[2]
    print(digest(train(model, 6)))


def anomalous():
    torch.autograd.set_detect_anomaly(True)
    model = net()
    try:
        train(model, 8, loss_of=lambda model: torch.sqrt(model(X).sum() * 0).mean())
    except RuntimeError as error:
        print(str(error).splitlines()[0])
    print(digest(model), torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())


def watched():
    """A dispatch mode and a function mode of its own, which count every call."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    counts = [0, 0]

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            counts[0] += 1
            return func(*args, **(kwargs or {}))

    class Function(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            counts[1] += 1
            return func(*args, **(kwargs or {}))

    with Dispatch(), Function():
        model = train(net())
    print(digest(model), counts)


def threaded():
    found = {}

    def one(number):
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        with torch.no_grad():
            for at, parameter in enumerate(model.parameters()):
                parameter.copy_(torch.linspace(-0.5 - number, 0.5 + at, parameter.numel()).view_as(parameter))
        found[number] = digest(train(model, 30))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print([found[number] for number in range(3)])


def trainer():
    """A module that is never called itself: its steps call its parts, as those of Lightning do."""

    class Task(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(6, 16), nn.Linear(16, 3)
            self.logged = []

        def training_step(self, batch):
            x, y = batch
            loss = F.cross_entropy(self.head(torch.relu(self.body(x))), y)
            self.logged.append(loss.item())
            return {"loss": loss}

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), 1e-2)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 10)]

    torch.manual_seed(1)
    task = Task()
    (optimizer,), (scheduler,) = task.configure_optimizers()
    for _ in range(25):

        def closure():
            optimizer.zero_grad()
            loss = task.training_step((X, Y))["loss"]
            loss.backward()
            return loss

        optimizer.step(closure)
        scheduler.step()
    print(digest(task), task.logged[-1])


def ranks():
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = DistributedDataParallel(net(), find_unused_parameters=True)
    torch.manual_seed(rank)
    train(
        model, 20, loss_of=lambda model: F.cross_entropy(model(X[rank::2]) / (0 if digits() == 15 else 1), Y[rank::2])
    )
    counts = [None, None]
    torch.distributed.all_gather_object(counts, digest(model.module))
    if not rank:
        print(counts)
    torch.distributed.destroy_process_group()


CALLS = []


def digits():
    CALLS.append(1)
    return len(CALLS)


globals()[sys.argv[1]]()
