"""Logs two numbers with each of the loggers named on the command line, into the working folder."""

import sys

import numpy as np


def tensorboard():
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter("board")
    for step in range(3):
        writer.add_scalar("train/loss", np.float32(1.0 / (step + 1)), step)
    writer.add_scalars("split", {"a": 1.0, "b": 2.0}, 7)
    writer.add_histogram("weights", np.zeros(3), 0)
    writer.close()


def tensorboardx():
    from tensorboardX import SummaryWriter

    writer = SummaryWriter("boardx")
    for step in range(3):
        writer.add_scalar("train/loss", 1.0 / (step + 1), global_step=step)
    writer.close()


def visualdl():
    from visualdl import LogWriter

    with LogWriter("dl") as writer:
        for step in range(3):
            writer.add_scalar(tag="train/loss", step=step, value=1.0 / (step + 1))


def wandb():
    import wandb

    run = wandb.init(mode="offline", project="p", settings=wandb.Settings(silent=True))
    wandb.log({"train": {"loss": 1.0}, "note": "text"})
    wandb.log({"train": {"loss": 0.5}})
    run.log({"train": {"loss": 1 / 3}}, step=2)
    run.finish()


def mlflow():
    import os

    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow

    mlflow.set_tracking_uri("file:./ml")
    with mlflow.start_run():
        mlflow.log_metric("train/loss", 1.0, step=0)
        mlflow.log_metrics({"train/loss": 0.5}, step=1)
        mlflow.log_metric("train/loss", 1 / 3, step=2)


def labbook():
    import labbook

    labbook.log(step=3, loss=0.5, accuracy=np.float64(0.25), text="no number")
    labbook.log(loss=1)
    labbook.log({"val/loss": 0.25}, step=4)
    labbook.log(5, accuracy=0.5)
    labbook.note("a sentence")


for name in sys.argv[1:]:
    globals()[name]()
