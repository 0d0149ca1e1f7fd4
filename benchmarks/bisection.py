"""How often `labbook bisect` finds the one guilty difference of two runs, and with how many runs.

    python -m benchmarks.bisection [first] [last]

Records 20 pairs of runs in a project of its own. Good and bad run differ in 5 to 15 innocent options, environment
variables and hunks of code, and in one guilty one; some innocent hunks only run together (a function and its call).
Fourteen programs are plain Python, six train with PyTorch. Prints the guilty difference, what was found, the number of
runs, and at the end how many of the pairs were found with at most eight runs.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from labbook.errors import LabbookError
from labbook.rerun.bisect_runs import bisect_runs
from labbook.rerun.rerun_run import program_on_stderr, read_run
from labbook.store.newest_runs import newest_run_ids
from labbook.store.notebook import Notebook
from labbook.store.notebook_finder import create_notebook

_MOST_RUNS = 8

_PLAIN = """\
import argparse, math, os, random
parser = argparse.ArgumentParser()
for name, value in dict(lr=0.1, momentum=0.5, epochs=20, width=4, clip=5.0, decay=0.0).items():
    parser.add_argument(f"--{name}", type=type(value), default=value)
for number in range(12):
    parser.add_argument(f"--note{number}", default="")
args = parser.parse_args()
generator = random.Random(7)
# place 0
points = [generator.uniform(-1, 1) for _ in range(32)]
targets = [3 * x + 0.5 for x in points]
# place 1
weight, bias = 0.0, 0.0
speed_w, speed_b = 0.0, 0.0
# place 2
scale = float(os.environ.get("SCALE", "1"))
share = len(points) / args.width
# place 3
for epoch in range(args.epochs):
    # place 4
    errors = [weight * x + bias - y for x, y in zip(points, targets)]
    # place 5
    grad_w = scale * sum(e * x for e, x in zip(errors, points)) / len(points)
    grad_b = scale * sum(errors) / len(points)
    # place 6
    grad_w = max(-args.clip, min(args.clip, grad_w)) + args.decay * weight
    speed_w = args.momentum * speed_w - args.lr * grad_w
    speed_b = args.momentum * speed_b - args.lr * grad_b
    # place 7
    weight += speed_w
    bias += speed_b
    # place 8
    loss = sum(e * e for e in errors) / len(errors)
    print(f"epoch {epoch + 1} loss {loss:.6f}")
    # place 9
# place 10
first = points[args.width - 1]
# place 11
"""

_TORCH = """\
import argparse, os, torch
from torch import nn
parser = argparse.ArgumentParser()
for name, value in dict(lr=0.1, momentum=0.5, epochs=8, width=16, clip=5.0, decay=0.0).items():
    parser.add_argument(f"--{name}", type=type(value), default=value)
for number in range(12):
    parser.add_argument(f"--note{number}", default="")
args = parser.parse_args()
torch.manual_seed(0)
# place 0
inputs = torch.randn(128, 4)
targets = inputs @ torch.tensor([[1.0], [2.0], [-1.0], [0.5]])
# place 1
model = nn.Sequential(nn.Linear(4, args.width), nn.Tanh(), nn.Linear(args.width, 1))
# place 2
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum, weight_decay=args.decay)
# place 3
for epoch in range(args.epochs):
    # place 4
    for batch in range(4):
        part = slice(32 * batch, 32 * batch + 32)
        # place 5
        loss = nn.functional.mse_loss(model(inputs[part]), targets[part])
        # place 6
        optimizer.zero_grad()
        loss.backward()
        # place 7
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        # place 8
    print(f"epoch {epoch + 1} loss {loss.item():.6f}")
    # place 9
# place 10
# place 11
"""


class Guilty(NamedTuple):
    """The difference that changes the result: an option, a variable, or a text of the program and its replacement."""

    name: str
    value: str = ""
    old: str = ""
    new: str = ""


_PLAIN_GUILTY = (
    Guilty("lr", "80.0"),
    Guilty("momentum", "1.5"),
    Guilty("width", "0"),
    Guilty("decay", "9.0"),
    Guilty("clip", "0.001"),
    Guilty("SCALE", "-1"),
    Guilty("code", old="args.momentum * speed_w - args.lr", new="args.momentum * speed_w + args.lr"),
    Guilty("code", old="weight += speed_w", new="weight = speed_w"),
    Guilty("code", old="3 * x + 0.5", new="x * x * 30"),
    Guilty("code", old="points[args.width - 1]", new="points[args.width * 10]"),
    Guilty("code", old="bias += speed_b", new="bias += math.nan"),
    Guilty("code", old="sum(errors) / len(points)", new="sum(errors) * len(points)"),
    Guilty("width", "64"),
    Guilty("code", old="weight, bias = 0.0, 0.0", new="weight, bias = None, 0.0"),
)
_TORCH_GUILTY = (
    Guilty("lr", "1000.0"),
    Guilty("decay", "5.0"),
    Guilty("code", old="        optimizer.zero_grad()\n", new="        pass\n"),
    Guilty("code", old="nn.Linear(args.width, 1)", new="nn.Linear(args.width + 1, 1)"),
    Guilty("code", old="        loss.backward()\n", new="        (-loss).backward()\n"),
    Guilty("code", old="nn.Tanh()", new="nn.Threshold(9.0, 0.0)"),
)


def main() -> None:
    """Records the pairs, bisects each, and prints what was found."""
    words = [int(word) for word in sys.argv[1:]]
    pairs = [*((_PLAIN, one) for one in _PLAIN_GUILTY), *((_TORCH, one) for one in _TORCH_GUILTY)]
    first, last = (*words, 1, len(pairs))[:2] if len(words) == 2 else (1, len(pairs))
    found, runs, began = 0, [], time.monotonic()
    for number in range(first, last + 1):
        with tempfile.TemporaryDirectory() as folder:
            right, used, text = _pair(Path(folder), *pairs[number - 1], random.Random(number))
        found += right and used <= _MOST_RUNS
        runs.append(used)
        print(f"{number:2}  {'found' if right else 'MISSED'}  {used} runs  {text}", flush=True)
    took = time.monotonic() - began
    print(f"found {found}/{len(runs)} with at most {_MOST_RUNS} runs; {min(runs)} to {max(runs)} runs; {took:.0f} s")


def _pair(folder: Path, program: str, guilty: Guilty, chance: random.Random) -> tuple[bool, int, str]:
    """Records and bisects a pair; returns whether the guilty difference was found, the runs, and a text."""
    os.environ.pop("SCALE", None)
    notebook, _ = create_notebook(folder)
    (folder / "train.py").write_text(program)
    _git(folder, "add", "train.py")
    good = _record(notebook, ())
    options, variables, bad_program, count = _innocent(program, chance)
    if guilty.old:
        bad_program = bad_program.replace(guilty.old, guilty.new)
    elif guilty.name.isupper():
        variables[guilty.name] = guilty.value
    else:
        options = [*options, f"--{guilty.name}", guilty.value]
    (folder / "train.py").write_text(bad_program)
    before = dict(os.environ)
    os.environ.update(variables)
    bad = _record(notebook, options)
    for name in variables:
        os.environ.pop(name)
        if name in before:
            os.environ[name] = before[name]
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()), program_on_stderr():
            found = bisect_runs(
                notebook,
                read_run(notebook, good),
                read_run(notebook, bad),
                most=20,
                max_steps=None,
                print_line=lambda line: None,
                notify=lambda note: None,
            )
    except LabbookError as error:
        return False, 0, f"{guilty.name}: {error}"
    names = [one.name if one.kind != "code" else f"{one.name}: {one.now}" for one in found.guilty]
    wanted = (guilty.new.strip() in names[0]) if guilty.old else names[:1] == [guilty.name]
    text = f"{guilty.name} {guilty.value or guilty.new.strip()} among {count} innocent: {'; '.join(names)}"
    return len(names) == 1 and wanted and found.proven, found.runs, text


def _innocent(program: str, chance: random.Random) -> tuple[list[str], dict[str, str], str, int]:
    """Returns options, variables and a program with 5 to 15 differences that do not change the result."""
    wanted, count = chance.randint(5, 15), 0
    options: list[str] = []
    variables: dict[str, str] = {}
    places = chance.sample(range(12), 12)
    if chance.random() < 0.5:
        # A function and its call only run together.
        first, second = sorted((places.pop(), places.pop()))
        program = _insert(program, first, "def describe(value): return f'value {value}'")
        program = _insert(program, second, "describe(1)")
        count += 2
    while count < wanted:
        kind = chance.choice(("option", "variable", "code", "code")) if places else "option"
        if kind == "code":
            program = _insert(program, places.pop(), f"unused_{count} = {count}")
        elif kind == "variable" and len(variables) < 3:
            variables[("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_LAUNCH_BLOCKING")[len(variables)]] = "1"
        elif len(options) < 24:
            options += [f"--note{len(options) // 2}", f"text{count}"]
        else:
            continue
        count += 1
    return options, variables, program, count


def _insert(program: str, place: int, line: str) -> str:
    start = program.index(f"# place {place}\n")
    indent = program[program.rindex("\n", 0, start) + 1 : start]
    return program[:start] + f"{line}\n{indent}" + program[start:]


def _record(notebook: Notebook, options: list[str] | tuple[()]) -> str:
    command = [sys.executable, "-m", "labbook", "record", "--", sys.executable, "train.py", *options]
    subprocess.run(command, cwd=notebook.paths.root, capture_output=True)
    return next(iter(newest_run_ids(notebook.paths)))


def _git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


if __name__ == "__main__":
    main()
