"""Writes the files of `tests/imports/files/` by the real tools; each tool in a virtual environment of its own.

    python -m venv /tmp/tool && /tmp/tool/bin/pip install mlflow
    /tmp/tool/bin/python tests/imports/write_files.py mlflow tests/imports/files

Names of tools: tensorboard (needs torch), tensorboard_x, visualdl, mlflow, mlflow_sqlite, wandb, wandb_resumed,
swanlab, trackio. Every tool logs the same run: 30 steps of a loss that falls, a validation accuracy every tenth step, a
series with one NaN and one infinity, parameters, tags, a text and an image where the tool has them; and a second run
that failed, where the tool records how a run ended. `loss(step)` and `accuracy(step)` are what the tests expect.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sys
import tempfile
from pathlib import Path

STEPS = 30
PARAMS = {"lr": 0.1, "batch_size": 32, "optimizer": "sgd", "nesterov": True, "seed": 7}


def loss(step: int) -> float:
    """The loss of one step."""
    return round(2.3 * math.exp(-step / 12) + 0.05 * (step % 3), 6)


def accuracy(step: int) -> float:
    """The accuracy of one step, in 0 to 1."""
    return round(1 - math.exp(-(step + 1) / 15), 6)


def odd(step: int) -> float:
    """A series with a NaN at step 10 and an infinity at step 20."""
    return {10: math.nan, 20: math.inf}.get(step, float(step))


def image():
    """Returns an image of 8 x 8 pixels in RGB. Shape: (8, 8, 3), uint8."""
    import numpy as np

    ramp = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    return np.stack([ramp, ramp.T, 255 - ramp], axis=-1)


def tensorboard(folder: Path) -> None:
    """torch.utils.tensorboard: scalars, text, an image, `add_scalars` and `add_hparams`."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder / "lr0.1_sgd")) as writer:
        for step in range(STEPS):
            writer.add_scalar("train/loss", loss(step), step)
            writer.add_scalar("odd", odd(step), step)
            if step % 10 == 9:
                writer.add_scalar("val/acc", accuracy(step), step)
                writer.add_scalars("speed", {"data": step / 10, "model": step / 5}, step)
        writer.add_text("note", "a run of **tests**", 0)
        writer.add_image("batch", image(), 5, dataformats="HWC")
        writer.add_histogram("weights", image().reshape(-1), 5)
        writer.add_hparams(PARAMS, {"hparam/accuracy": accuracy(29)}, run_name="hparams")
    with SummaryWriter(str(folder / "学习率0.2")) as writer:
        for step in range(3):
            writer.add_scalar("train/loss", loss(step), step)


def visualdl(folder: Path) -> None:
    """VisualDL: scalars, text, an image and hyperparameters."""
    from visualdl import LogWriter

    with LogWriter(logdir=str(folder / "lr0.1_sgd")) as writer:
        writer.add_hparams({k: v if k != "nesterov" else "True" for k, v in PARAMS.items()}, ["val/acc"])
        for step in range(STEPS):
            writer.add_scalar("train/loss", loss(step), step)
            writer.add_scalar("odd", odd(step), step)
            if step % 10 == 9:
                writer.add_scalar("val/acc", accuracy(step), step)
        writer.add_text("note", "a run of **tests**", 0)
        writer.add_image("batch", image(), 5)
        writer.add_histogram("weights", image().reshape(-1), 5)


def mlflow(folder: Path, *, uri: str = "") -> None:
    """MLflow: parameters, metrics, tags, a text and an image as artifacts, a run that failed, a nested run."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow

    mlflow.set_tracking_uri(uri or (folder / "mlruns").as_uri())
    if uri:
        mlflow.create_experiment("digits", artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment("digits")
    with mlflow.start_run(run_name="lr0.1_sgd", description="a run of **tests**"):
        mlflow.log_params(PARAMS)
        mlflow.set_tag("kind", "baseline")
        for step in range(STEPS):
            mlflow.log_metric("train_loss", loss(step), step=step)
            mlflow.log_metric("odd", odd(step), step=step)
            if step % 10 == 9:
                mlflow.log_metric("val/acc", accuracy(step), step=step)
        mlflow.log_text("a run of **tests**", "note.txt")
        mlflow.log_image(image(), "batch.png")
        with mlflow.start_run(run_name="child", nested=True):
            mlflow.log_metric("train_loss", 1.0, step=0)
    with contextlib.suppress(RuntimeError), mlflow.start_run(run_name="lr0.1_sgd"):
        mlflow.log_metric("train_loss", math.nan, step=0)
        raise RuntimeError("CUDA out of memory")


def mlflow_sqlite(folder: Path) -> None:
    """MLflow with its SQLite store."""
    mlflow(folder, uri=f"sqlite:///{folder / 'mlflow.db'}")


def wandb(folder: Path) -> None:
    """W&B offline: configuration, history, summary, tags, notes, an image and a table; a run that failed."""
    import wandb

    os.environ["WANDB_SILENT"] = "true"
    settings = wandb.Settings(_disable_stats=True, save_code=False, disable_git=True, x_disable_meta=False)
    for name, code in (("lr0.1_sgd", 0), ("failed", 3)):
        run = wandb.init(
            project="digits",
            name=name,
            mode="offline",
            dir=str(folder),
            config={**PARAMS, "model": {"width": 8}},
            tags=["baseline"],
            notes="a run of **tests**",
            settings=settings,
        )
        for step in range(STEPS if not code else 2):
            row = {"train/loss": loss(step), "odd": odd(step)}
            if step % 10 == 9:
                row["val"] = {"acc": accuracy(step)}
            if step == 5:
                row["batch"] = wandb.Image(image())
            run.log(row)
        run.summary["best_acc"] = accuracy(29)
        run.finish(exit_code=code)


def wandb_resumed(folder: Path) -> None:
    """W&B offline: a run that was resumed at step 2, with two images at once; then one that began again at step 0."""
    import time

    import wandb

    os.environ["WANDB_SILENT"] = "true"
    settings = wandb.Settings(x_disable_stats=True, save_code=False, disable_git=True)
    for begin, code in ((0, 1), (2, 0), (0, 0)):
        run = wandb.init(
            project="digits",
            name="resumed",
            id="abc",
            resume="allow",
            mode="offline",
            dir=str(folder),
            settings=settings,
        )
        for step in range(begin, begin + 3):
            run.log({"loss": float(10 * code + step)}, step=step)
        if begin:
            run.log({"batch": [wandb.Image(image()), wandb.Image(image()[::-1])]}, step=5)
        run.finish(exit_code=code)
        time.sleep(1.1)


def tensorboard_x(folder: Path) -> None:
    """tensorboardX: `add_scalars` writes `speed/gpu/data` below the run."""
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(folder / "lr_0.1")) as writer:
        writer.add_scalar("lr", 0.1, 0)
        writer.add_scalars("speed/gpu", {"data": 1.0, "model": 2.0}, 0)


def swanlab(folder: Path) -> None:
    """SwanLab in its local mode: scalars, a text, an image, configuration, tags."""
    import swanlab

    run = swanlab.init(
        project="digits",
        experiment_name="lr0.1_sgd",
        mode="local",
        logdir=str(folder),
        config=PARAMS,
        description="a run of **tests**",
        tags=["baseline"],
    )
    for step in range(STEPS):
        run.log({"train/loss": loss(step), "odd": odd(step)}, step=step)
        if step % 10 == 9:
            run.log({"val/acc": accuracy(step)}, step=step)
    run.log({"note": swanlab.Text("a run of **tests**"), "batch": swanlab.Image(image())}, step=30)
    swanlab.finish()


def trackio(folder: Path) -> None:
    """Trackio: configuration, metrics, a text and an image."""
    os.environ["TRACKIO_DIR"] = str(folder)
    import trackio

    trackio.init(project="digits", name="lr0.1_sgd", config={**PARAMS, "model": {"width": 8}}, embed=False)
    for step in range(STEPS):
        row = {"train/loss": loss(step), "odd": odd(step)}
        if step % 10 == 9:
            row["val/acc"] = accuracy(step)
        trackio.log(row)
    trackio.log({"note": trackio.Markdown("a run of **tests**"), "batch": trackio.Image(image())})
    trackio.finish()


if __name__ == "__main__":
    tool, target = sys.argv[1], Path(sys.argv[2]).resolve() / sys.argv[1]
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    os.chdir(tempfile.mkdtemp())
    globals()[tool](target)
