"""What watching the health of a training costs: the same loop with and without the probe, in two processes in turns.

    python -m benchmarks.health_cost [--quick] [--levels light,normal,deep] [--framework torch] [--device cuda]
        [mlp cnn transformer]

Each loop runs in a process of its own, once bare and once under the probe, as `labbook record` starts it. The two are
asked in turn for a block of steps, the order swapped each time, so that noise hits both alike. Printed are the ratio of
the whole run (first steps, which are looked at densely, included), the median ratio of neighbouring blocks, and the
difference in peak memory: of the process, or with `--device cuda` of its tensors. `others` shows the same for
tools that log everything, where they are installed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GOALS = {"light": 1.03, "normal": 1.03, "deep": 1.5}
GOAL_SMALLEST = 1.2
BLOCKS = {"mlp": (200, 30), "cnn": (10, 16), "transformer": (8, 16)}
"""Steps in a block, and blocks."""
BLOCKS_GPU = {"mlp": (200, 30), "cnn": (40, 16), "transformer": (20, 16)}


def parts_torch(name, wide):
    """Model, batch and target of a loop; `wide` for a GPU, where small ones only measure the start of kernels."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    if name == "mlp":
        model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        return model, torch.randn(64, 32), torch.randint(0, 10, (64,))
    if name == "cnn":
        width, batch = (128, 256) if wide else (32, 32)
        layers = [nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
        return model, torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
    width, depth, shape = (768, 8, (32, 256)) if wide else (128, 4, (16, 64))
    layer = nn.TransformerEncoderLayer(width, width // 32, 2 * width, batch_first=True, dropout=0.1)
    encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(500, width), encoder, nn.Linear(width, 10))
    return model, torch.randint(0, 500, shape), torch.randint(0, 10, shape)


def loop_torch(name, tool, device):
    """A function that runs `n` steps and returns when they are done."""
    import torch

    model, batch, target = (part.to(device) for part in parts_torch(name, wide=device != "cpu"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    before, after = watch_with(tool, model)

    def steps(count):
        for _ in range(count):
            optimizer.zero_grad()
            before()
            output = model(batch)
            loss = torch.nn.functional.cross_entropy(output.reshape(-1, 10), target.reshape(-1))
            loss.backward()
            optimizer.step()
            after(loss)
        if device != "cpu":
            torch.cuda.synchronize()

    return steps


def loop_paddle(name, tool, device):
    """The same in PaddlePaddle."""
    import paddle
    from paddle import nn

    paddle.set_device("gpu" if device == "cuda" else device)
    paddle.seed(0)
    if name == "mlp":
        model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        batch, target = paddle.randn([64, 32]), paddle.randint(0, 10, [64])
    elif name == "cnn":
        layers = [nn.Conv2D(3, 32, 3, padding=1), nn.BatchNorm2D(32), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Conv2D(32, 32, 3, padding=1), nn.BatchNorm2D(32), nn.ReLU()]
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(32, 10))
        batch, target = paddle.randn([32, 3, 32, 32]), paddle.randint(0, 10, [32])
    else:
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.1)
        model = nn.Sequential(nn.Embedding(500, 128), nn.TransformerEncoder(layer, 4), nn.Linear(128, 10))
        batch, target = paddle.randint(0, 500, [16, 64]), paddle.randint(0, 10, [16, 64])
    optimizer = paddle.optimizer.AdamW(1e-4, parameters=model.parameters())

    def steps(count):
        for _ in range(count):
            loss = nn.functional.cross_entropy(model(batch).reshape([-1, 10]), target.reshape([-1]))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        if device != "cpu":
            paddle.device.synchronize()

    return steps


def watch_with(tool, model):
    """What another tool does before the forward and after the step of a loop."""
    if tool == "wandb":
        import wandb

        run = wandb.init(mode="offline", dir=tempfile.mkdtemp(), settings=wandb.Settings(silent=True))
        run.watch(model, log="all", log_freq=1)
        return lambda: None, lambda loss: run.log({"loss": float(loss)})
    if tool == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(tempfile.mkdtemp())

        def after(loss):
            for name, parameter in model.named_parameters():
                writer.add_histogram(name, parameter)
                writer.add_histogram(name + ".grad", parameter.grad)

        return lambda: None, after
    if tool == "anomaly":
        import torch

        torch.autograd.anomaly_mode.set_detect_anomaly(True)
    return lambda: None, lambda loss: None


def child(framework, name, device, tool):
    """Answers each number on its input with the seconds that so many steps took, and the peak memory.

    Seconds of the processor, which a busy machine disturbs less; the loops run in one thread. On a GPU, of the clock.
    """
    clock = time.process_time if device == "cpu" else time.perf_counter
    steps = (loop_torch if framework == "torch" else loop_paddle)(name, tool, device)
    for line in sys.stdin:
        began = clock()
        steps(int(line))
        print(json.dumps([clock() - began, peak_bytes(framework, device)]), flush=True)


def peak_bytes(framework, device):
    """The most memory so far: of the process, or of the tensors on the GPU."""
    if device == "cpu":
        peak = [row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith("VmHWM")]
        return int(peak[0].split()[1]) * 1024
    cuda = sys.modules["torch"].cuda if framework == "torch" else sys.modules["paddle"].device.cuda
    return cuda.max_memory_allocated()


class Process:
    """A child with or without the probe."""

    def __init__(self, framework, name, device, level=None, tool=""):
        environ = {key: value for key, value in os.environ.items() if not key.startswith("LABBOOK")}
        environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        if level:
            folder = tempfile.mkdtemp()
            Path(folder, "events").mkdir()
            settings = {
                "dir": folder,
                "run": "benchmark",
                "level": level,
                "root": str(ROOT / "labbook"),
                "budget": 0.01,
            }
            environ.update(PYTHONPATH=str(ROOT / "labbook/probe/inject"), LABBOOK_PROBE=json.dumps(settings))
            self.folder = folder
        command = [sys.executable, __file__, "--child", framework, name, device, tool]
        self._process = subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def block(self, count):
        """`(seconds, peak memory so far)` of a block of steps."""
        print(count, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def end(self):
        """Lets the child end in an orderly way."""
        self._process.stdin.close()
        self._process.wait(60)


def compare(framework, name, device, level, tool="", quick=False):
    """`(ratio of whole runs, median ratio of blocks, seconds a step, difference of peak memory, memory without)`."""
    count, blocks = (BLOCKS if device == "cpu" else BLOCKS_GPU)[name]
    if quick:
        blocks = max(6, blocks // 3)
    pair = {False: Process(framework, name, device), True: Process(framework, name, device, level, tool)}
    times = {False: [], True: []}
    peaks = {}
    for at in range(blocks):
        for watched in (False, True) if at % 2 else (True, False):
            seconds, peaks[watched] = pair[watched].block(count)
            times[watched].append(seconds)
    for process in pair.values():
        process.end()
    ratios = [a / b for a, b in zip(times[True], times[False], strict=True)]
    whole = sum(times[True]) / sum(times[False])
    return (
        whole,
        statistics.median(ratios),
        statistics.median(times[False]) / count,
        peaks[True] - peaks[False],
        peaks[False],
    )


def main(arguments=()):
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loops", nargs="*", help="mlp, cnn, transformer; all when none is named")
    parser.add_argument("--framework", default="torch", choices=["torch", "paddle"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--levels", default="light,normal,deep")
    parser.add_argument("--others", action="store_true", help="wandb.watch, TensorBoard histograms, anomaly mode")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    for name in options.loops or list(BLOCKS):
        for level in options.levels.split(","):
            found = compare(options.framework, name, options.device, level, quick=options.quick)
            show(
                options.framework,
                name,
                level,
                found,
                GOAL_SMALLEST if name == "mlp" and level != "deep" else GOALS[level],
            )
        for tool in ("wandb", "tensorboard", "anomaly") if options.others and options.framework == "torch" else ():
            found = compare(options.framework, name, options.device, None, tool, options.quick)
            show(options.framework, name, tool, found, None)


def show(framework, name, level, found, goal):
    """Prints one line."""
    whole, ratio, step_s, more, without = found
    wanted = f"(goal {goal})" if goal else ""
    print(
        f"{framework:7}{name:12}{level:12} whole run {whole:6.3f} x, later blocks {ratio:6.3f} x "
        f"of {1000 * step_s:8.3f} ms, memory {more / 1e6:+6.1f} MB of {without / 1e6:.0f} MB  {wanted}",
        flush=True,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:6])
    else:
        main(sys.argv[1:])
