"""Parts of a running process, recorded by `labbook.recording()`; the argument names the case."""

import gc
import os
import random
import signal
import sys

import labbook


def surroundings():
    """What a recording must leave as it was."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
    return id(sys.stdout), id(sys.stderr), "write" in vars(sys.stdout), random.getstate(), gc.isenabled(), handlers


def raising():
    """An exception passes unchanged, and another recording works later."""
    before = surroundings()
    thrown = ValueError("too wide")
    try:
        with labbook.recording(tags=["first"]):
            print("inside the block")
            labbook.log(step=1, loss=2.0)
            labbook.log(step=2, loss=1.0)
            raise thrown
    except ValueError as error:
        assert error is thrown
    assert surroundings() == before
    print("between the blocks")
    with labbook.recording(tags=["second"]):
        print("inside another block")
    assert surroundings() == before
    assert not [name for name in sys.modules if name.startswith(("labbook.record", "labbook.store", "git", "yaml"))]


def nested():
    """A function that records itself is called inside a recorded block."""
    with labbook.recording() as outer:
        with labbook.recording() as inner:
            print("both")
        print("still recorded")
    assert outer.entry and not inner.run and not inner.entry


def killed():
    """The process is killed inside the block."""
    with labbook.recording():
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def orphaned():
    """The recorder is killed inside the block; the program goes on."""
    before = surroundings()
    with labbook.recording() as recording:
        print("to the recorder", flush=True)
        recording._recorder.kill()
        recording._recorder.wait()
        print("to nobody")
    assert surroundings() == before


def leaving():
    """The interpreter ends inside a recording."""
    labbook.recording().__enter__()
    print("inside")


def late():
    """PyTorch is imported, and the model made, before the first of two recordings."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(steps):
        for _ in range(steps):
            x = torch.randn(8, 4)
            loss = torch.nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    if sys.argv[2] == "recorded":
        with labbook.recording():
            train(12)
        train(3)
        with labbook.recording():
            train(7)
    else:
        train(22)
    print([parameter.tolist() for parameter in model.parameters()], torch.rand(1).item())


{"raising": raising, "nested": nested, "killed": killed, "orphaned": orphaned, "leaving": leaving, "late": late}[sys.argv[1]]()
