"""Runs to write entries from, and the switch that writes the expected pages again.

`pytest tests/report --rewrite` replaces the golden files in `tests/data/entries` by what is rendered now; read the
difference before committing it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
from pathlib import Path

import pytest

from labbook.diagnosis.catalogue.check_pages import check_pages
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.health.checklist import checklist
from labbook.model.run import (
    Arguments,
    CaughtException,
    Change,
    ConfigFile,
    Console,
    FileUse,
    Frame,
    Framework,
    ProbeReport,
    Process,
    Run,
)
from labbook.model.series import Series
from labbook.model.verdict import judge_run
from labbook.report.entry.title import run_title
from labbook.report.series_choice import primary_series
from labbook.store.config import Config
from labbook.store.notebook import Notebook
from labbook.store.paths import NotebookPaths

ENTRIES = Path(__file__).parents[1] / "data" / "entries"
PAGES = check_pages(load_catalogue().symptoms, "torch")
STARTED = 1795275012.0  # 2026-11-21 15:30:12 UTC


def pytest_addoption(parser):
    parser.addoption("--rewrite", action="store_true", help="write the golden files again")


@pytest.fixture
def rewrite(request):
    return request.config.getoption("--rewrite", default=False)


def series(name, values, source="probe", steps=None, rank=None):
    values = tuple(values)
    steps = tuple(steps or range(1, len(values) + 1))
    bad = sum(not math.isfinite(v) for v in values)
    return Series(name, source, steps, values, values, values, len(values), bad, rank)


def judged(run):
    run = dataclasses.replace(run, primary=primary_series(run), checks=tuple(checklist(run, PAGES)))
    verdict = judge_run(run)
    run = dataclasses.replace(run, verdict=verdict.name, verdict_reason=verdict.reason)
    return dataclasses.replace(run, title=run_title(run))


TORCH = Framework(
    name="torch",
    version="2.13.0",
    build={"cuda": None, "cudnn": None, "threads": 2},
    devices=({"kind": "cpu", "name": "Xeon", "memory_bytes": 0},),
    state={
        "seeds": {"torch": 42},
        "deterministic": {
            "use_deterministic_algorithms": False,
            "cudnn.benchmark": False,
            "float32_matmul_precision": "highest",
        },
        "mode": "dynamic",
        "device": "cpu",
        "parameters": 12345,
        "trainable": 12345,
        "model": "SmallCNN",
    },
    optimizers=(
        {
            "index": 0,
            "type": "SGD",
            "options": {"lr": 0.1, "momentum": 0.9, "nesterov": False, "foreach": None},
            "groups": [{"lr": 0.1, "tensors": 6, "elements": 12345}],
            "closure": False,
        },
    ),
)

CAPTURED = json.loads((ENTRIES / "captured.json").read_text(encoding="utf-8"))


def finished_run():
    dice = random.Random(7)
    steps = 240
    loss = [2.31 * math.exp(-i / 60) + 0.08 + dice.gauss(0, 0.01) for i in range(steps)]
    return judged(
        Run(
            id="20261121-153012-k3f9",
            status="finished",
            argv=("python", "train.py", "--lr", "0.1"),
            cwd="/home/[USER]/digits",
            started=STARTED,
            ended=STARTED + 84.2,
            exit_code=0,
            experiment="exp003_digits-cnn_dynamic",
            script="train.py",
            author="Wei",
            host="gpu-07",
            mode="dynamic",
            frameworks=(TORCH,),
            arguments=(
                Arguments("argparse", "args", {"lr": 0.1, "epochs": 3, "data": "digits", "model": {"width": 16}}),
            ),
            configs=(ConfigFile("config.yaml", "yaml", "lr: 0.1\nepochs: 3\n"),),
            series=(
                series("loss", loss),
                series("grad_norm", [abs(1.5 + dice.gauss(0, 0.3)) for _ in range(steps)]),
                series("lr", [0.1] * steps),
                series("step_time_s", [0.3] + [0.02 + dice.random() * 0.002 for _ in range(steps - 1)]),
                series("val/accuracy", [0.71, 0.93, 0.97], "tensorboard", [80, 160, 240]),
                dataclasses.replace(series("train_acc", [0.6, 0.9, 0.96], "text"), axis="epoch"),
            ),
            warnings=(
                {
                    "category": "UserWarning",
                    "message": "nothing to worry about",
                    "file": "/home/[USER]/digits/train.py",
                    "line": 9,
                },
            ),
            files=(
                FileUse("data/digits.csv", "read", 123456, "sha256:" + "ab" * 32),
                FileUse("checkpoints/", "written", 3 << 20, "manifest:" + "cd" * 32, members=12),
            ),
            processes=(
                Process(
                    4242,
                    4200,
                    ("python", "train.py", "--lr", "0.1"),
                    "main",
                    "~/digits/.venv/bin/python",
                    "3.11.7",
                    steps=steps,
                    elapsed_s=83.9,
                ),
            ),
            probe=ProbeReport("ok", 0.006),
            console=Console(
                "\n".join(f"epoch {e} step {s} loss {loss[s]:.4f}" for e in range(3) for s in range(0, 240, 3)), 240
            ),
            captured=CAPTURED,
            tags=("torch",),
            previous="20261121-150101-a1b2",
            changes=(
                Change("argument", "--lr", "1.0", "0.1"),
                Change("code", "model.py", "", "", "+3 -1 lines"),
                Change("metric", "loss", "0.21", "0.0811"),
            ),
        )
    )


def crashed_run():
    frames = (
        Frame("/home/[USER]/digits/train.py", 40, "<module>", "main()", True),
        Frame("/home/[USER]/digits/train.py", 31, "main", "loss = loss_of(model(images), labels)", True),
        Frame(
            "/opt/python/lib/python3.11/site-packages/torch/nn/modules/module.py",
            1751,
            "_call_impl",
            "return forward_call(*args)",
        ),
        Frame("/home/[USER]/digits/model.py", 18, "forward", "return self.head(x.flatten(1))", True),
        Frame(
            "/opt/python/lib/python3.11/site-packages/torch/nn/modules/linear.py",
            125,
            "forward",
            "return F.linear(input, self.weight, self.bias)",
        ),
    )
    run = finished_run()
    exception = CaughtException(
        "main",
        "RuntimeError",
        "builtins",
        "mat1 and mat2 shapes cannot be multiplied (32x256 and 128x10)",
        frames,
        pid=4242,
        step=11,
        t=STARTED + 3,
        ended_process=True,
    )
    return judged(
        dataclasses.replace(
            run,
            status="failed",
            exit_code=1,
            ended=STARTED + 3.4,
            title="",
            exceptions=(exception,),
            changes=(),
            previous="",
            series=tuple(
                dataclasses.replace(
                    s, steps=s.steps[:11], values=s.values[:11], low=s.low[:11], high=s.high[:11], count=11
                )
                for s in run.series[:4]
            ),
            processes=(dataclasses.replace(run.processes[0], steps=11, elapsed_s=3.1),),
            files=run.files[:1],
            console=Console(
                "step 0 loss 2.31\nstep 10 loss 2.01\nTraceback (most recent call last):\nRuntimeError: mat1 and mat2",
                4,
            ),
        )
    )


def interrupted_run():
    run = finished_run()
    frames = (Frame("/home/[USER]/digits/train.py", 29, "main", "optimizer.step()", True),)
    stop = CaughtException("main", "KeyboardInterrupt", "builtins", "", frames, t=STARTED + 12, ended_process=True)
    return judged(
        dataclasses.replace(
            run,
            status="interrupted",
            exit_code=130,
            signal="SIGINT",
            ended=STARTED + 12.3,
            exceptions=(stop,),
            title="",
        )
    )


def two_rank_run():
    run = finished_run()
    dice = random.Random(3)

    def of(rank):
        return (
            series("loss", [2.3 * math.exp(-i / 20) + dice.random() * 0.1 for i in range(60)], rank=rank),
            series("grad_norm", [1 + dice.random() for _ in range(60)], rank=rank),
            series("lr", [0.05] * 60, rank=rank),
        )

    framework = dataclasses.replace(
        TORCH, state={**TORCH.state, "distributed": {"backend": "gloo", "world_size": 2, "rank": 0}}
    )
    ranks = tuple(
        Process(
            5000 + r, 4900, ("python", "train.py"), "child", "python", "3.11.7", rank=r, steps=60, elapsed_s=20.0 + r
        )
        for r in (0, 1)
    )
    launcher = Process(
        4900, 4800, ("torchrun", "--nproc-per-node", "2", "train.py"), "main", "python", "3.11.7", elapsed_s=25.0
    )
    return judged(
        dataclasses.replace(
            run,
            argv=("torchrun", "--nproc-per-node", "2", "train.py"),
            series=of(0) + of(1),
            processes=(launcher, *ranks),
            title="",
            frameworks=(framework,),
            changes=(),
            previous="",
            captured={**CAPTURED, "command": {}},
            probe=ProbeReport("partial", 0.011, (("gradient norm before clipping", "FSDP shards are not gathered"),)),
        )
    )


def script_run():
    run = finished_run()
    return judged(
        dataclasses.replace(
            run,
            argv=("bash", "run.sh"),
            script="run.sh",
            title="",
            changes=(),
            previous="",
            frameworks=(TORCH,),
            arguments=(),
            series=(
                series("loss", [2.3, 1.1, 0.6, 0.5]),
                series("lr", [0.1] * 4),
                series("tune.py/loss", [0.6, 0.4, 0.3]),
                series("tune.py/lr", [0.01] * 3),
            ),
            processes=(
                Process(11, 10, ("python", "train.py"), "child", "python", "3.11.7", steps=4, elapsed_s=3.0),
                Process(
                    12, 10, ("python", "tune.py", "--from", "a.pt"), "child", "python", "3.11.7", steps=3, elapsed_s=2.0
                ),
            ),
            console=Console("pretraining\nloss 0.5\ntuning\nloss 0.3", 4),
            captured={**CAPTURED, "command": {}},
            warnings=(),
        )
    )


def running_run():
    return judged(
        Run(
            id="20261121-153012-k3f9",
            status="running",
            argv=("python", "train.py", "--lr", "0.1"),
            cwd="/home/[USER]/digits",
            started=STARTED,
            experiment="exp003_digits-cnn_dynamic",
            script="train.py",
            author="Wei",
            host="gpu-07",
            captured={k: CAPTURED[k] for k in ("command", "code", "hardware")},
        )
    )


def probeless_run():
    return judged(
        Run(
            id="20261121-153012-k3f9",
            status="failed",
            argv=("bash", "run.sh"),
            cwd="/home/[USER]/digits",
            started=STARTED,
            ended=STARTED + 2,
            exit_code=2,
            experiment="exp004_run_dynamic",
            script="run.sh",
            author="Wei",
            host="gpu-07",
            console=Console("preparing\nls: cannot access 'data': No such file or directory\n", 2),
            captured={k: CAPTURED[k] for k in ("command", "hardware")}
            | {"code": {"unavailable": "not in a git repository"}},
        )
    )


RUNS = {
    "finished": finished_run,
    "crashed": crashed_run,
    "interrupted": interrupted_run,
    "two_ranks": two_rank_run,
    "script": script_run,
    "running": running_run,
    "probeless": probeless_run,
}


@pytest.fixture(params=sorted(RUNS))
def any_run(request):
    return RUNS[request.param]()


@pytest.fixture
def runs():
    return RUNS


@pytest.fixture
def notebook(tmp_path):
    return Notebook(NotebookPaths(tmp_path / "book"), Config(language="en"))


@pytest.fixture
def notebook_zh(tmp_path):
    return Notebook(NotebookPaths(tmp_path / "book"), Config(language="zh"))


@pytest.fixture
def golden():
    return ENTRIES
