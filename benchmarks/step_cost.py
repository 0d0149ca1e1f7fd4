"""What the probe costs a training step: with and without it, in turns, in one process, so that noise hits both alike.

    python -m benchmarks.step_cost [--quick] [torch] [paddle]

Prints the median over pairs of neighbouring blocks of steps of (time with) / (time without). "all steps" measures
loss, learning rate and gradient norm at every step; "in budget" lets the probe widen its interval as in a recorded run.
Beside them `wandb.watch(log="all")` offline and TensorBoard histograms on the same loop, where these are installed.
"""

import argparse
import importlib.util
import statistics
import sys
import tempfile
import time
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GATES = {"transformer": 1.02, "mlp": 1.15}


def load_probe(folder, budget):
    """The real probe, writing into `folder`, without the hooks for files and processes."""
    if "_labbook_probe" not in sys.modules:
        package = types.ModuleType("_labbook_probe")
        package.__path__ = [str(ROOT / "labbook" / "probe")]
        sys.modules["_labbook_probe"] = package
    from _labbook_probe.start import Probe

    Path(folder, "events").mkdir(parents=True, exist_ok=True)
    probe = Probe({"dir": folder, "run": "benchmark", "level": "off", "budget": budget})
    probe.begin()
    return probe


class Switch:
    """Takes the hooks of an adapter out and puts them back, without a trace of them in between."""

    def __init__(self, places, collections=()):
        self._places = [(owner, name, getattr(owner, name)) for owner, name in places]
        self._collections = [(held, dict(held)) for held in collections]

    def watched(self):
        """To be called after attaching: remembers what was put in."""
        self._hooks = [(owner, name, getattr(owner, name)) for owner, name, _ in self._places]
        self._filled = [(held, dict(held)) for held, _ in self._collections]

    def on(self):
        for owner, name, hook in self._hooks:
            setattr(owner, name, hook)
        for held, content in self._filled:
            held.update(content)

    def off(self):
        for owner, name, original in self._places:
            setattr(owner, name, original)
        for held, content in self._collections:
            held.clear()
            held.update(content)


def attach(framework, budget):
    """Attaches the probe to a framework; gives its switch and its adapter's training."""
    folder = tempfile.mkdtemp()
    probe = load_probe(folder, budget)
    if framework == "torch":
        import torch
        from _labbook_probe.torch.adapter import attach as hook
        from torch.optim import optimizer as module

        places = [(torch.autograd, "backward"), (torch.nn.utils, "clip_grad_norm_")]
        switch = Switch(places, [module._global_optimizer_pre_hooks, module._global_optimizer_post_hooks])
        hook(torch, probe)
    else:
        import paddle
        from _labbook_probe.paddle.adapter import attach as hook

        switch = Switch([(paddle.Tensor, "backward"), (paddle.optimizer.Optimizer, "_apply_optimize")])
        hook(paddle, probe)
    switch.watched()
    switch.probe = probe
    return switch


def torch_loops():
    """Name -> `step()` of a small transformer and of a small network."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)

    def loop(model, optimizer, batch, target, loss_of):
        def step():
            optimizer.zero_grad()
            loss = loss_of(model(batch), target)
            loss.backward()
            optimizer.step()

        step.model = model
        return step

    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.1)
    transformer = nn.Sequential(nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), nn.Linear(128, 64))
    mlp = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return {
        "transformer": loop(
            transformer,
            torch.optim.AdamW(transformer.parameters(), lr=1e-4),
            torch.randn(4, 64, 128),
            torch.randn(4, 64, 64),
            nn.functional.mse_loss,
        ),
        "mlp": loop(
            mlp,
            torch.optim.AdamW(mlp.parameters(), lr=1e-4),
            torch.randn(64, 64),
            torch.randint(0, 10, (64,)),
            nn.functional.cross_entropy,
        ),
    }


def paddle_loops():
    """The same in PaddlePaddle."""
    import paddle
    from paddle import nn

    paddle.seed(0)

    def loop(model, optimizer, batch, target, loss_of):
        def step():
            loss = loss_of(model(batch), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()

        step.model = model
        return step

    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.1)
    transformer = nn.Sequential(nn.TransformerEncoder(layer, 6), nn.Linear(128, 64))
    mlp = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return {
        "transformer": loop(
            transformer,
            paddle.optimizer.AdamW(1e-4, parameters=transformer.parameters()),
            paddle.randn([4, 64, 128]),
            paddle.randn([4, 64, 64]),
            nn.functional.mse_loss,
        ),
        "mlp": loop(
            mlp,
            paddle.optimizer.AdamW(1e-4, parameters=mlp.parameters()),
            paddle.randn([64, 64]),
            paddle.randint(0, 10, [64]),
            nn.functional.cross_entropy,
        ),
    }


def timed(step, count):
    began = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - began) / count


def ratio(step, switch, block, pairs):
    """`(ratio, milliseconds without)`: median over pairs of blocks, the order swapped from pair to pair."""
    ratios, bare = [], []
    for pair in range(pairs):
        seconds = {}
        for watched in (True, False) if pair % 2 else (False, True):
            (switch.on if watched else switch.off)()
            seconds[watched] = timed(step, block)
        ratios.append(seconds[True] / seconds[False])
        bare.append(seconds[False])
    switch.off()
    return statistics.median(ratios), 1000 * statistics.median(bare)


def wandb_ratio(loop, block, pairs):
    """The ratio of `wandb.watch(log="all")` offline, in blocks after one another: its hooks cannot be taken out."""
    import wandb

    bare = [timed(loop, block) for _ in range(pairs)]
    run = wandb.init(mode="offline", dir=tempfile.mkdtemp(), settings=wandb.Settings(silent=True))
    run.watch(loop.model, log="all", log_freq=1)

    def step():
        loop()
        run.log({"step": 1})

    watched = [timed(step, block) for _ in range(pairs)]
    run.unwatch(loop.model)
    run.finish()
    return statistics.median(watched) / statistics.median(bare)


def tensorboard_ratio(loop, block, pairs):
    """The ratio of a histogram of every parameter and gradient at each step."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(tempfile.mkdtemp())

    def step():
        loop()
        for name, parameter in loop.model.named_parameters():
            writer.add_histogram(name, parameter)
            writer.add_histogram(name + ".grad", parameter.grad)

    ratios = [timed(step, block) / timed(loop, block) for _ in range(pairs)]
    writer.close()
    return statistics.median(ratios)


def report(framework, quick):
    loops = torch_loops() if framework == "torch" else paddle_loops()
    plans = {"transformer": (4, 8 if quick else 40), "mlp": (100, 10 if quick else 40)}
    for name, step in loops.items():
        timed(step, 3 if name == "transformer" else 200)
        block, pairs = plans[name]
        for what, budget in (("all steps", 1.0), ("in budget", 0.01)):
            switch = attach(framework, budget)
            switch.on()
            # The first thousand steps are written one by one: what a longer run pays comes after them.
            timed(step, 1300 if name == "mlp" else 4)
            found, bare = ratio(step, switch, block, pairs)
            gate = GATES[name]
            print(
                f"{framework:7} {name:12} probe, {what:10} {found:6.3f} x of {bare:7.3f} ms   (goal {gate})", flush=True
            )
        others = {"wandb": ("wandb.watch(all)", wandb_ratio), "tensorboard": ("TB histograms", tensorboard_ratio)}
        for package, (label, measure) in others.items() if framework == "torch" else ():
            if importlib.util.find_spec(package):
                found = measure(step, max(2, block // 20), 3 if quick else 6)
                print(f"{framework:7} {name:12} {label:17} {found:6.3f} x", flush=True)


def main(arguments=()):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help="torch or paddle; both when none is named")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    for framework in options.frameworks or ("torch", "paddle"):
        if importlib.util.find_spec(framework):
            report(framework, options.quick)


if __name__ == "__main__":
    main(sys.argv[1:])
