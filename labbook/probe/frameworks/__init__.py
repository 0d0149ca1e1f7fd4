"""The adapters of training frameworks, random number sources and metric loggers, by the module they wait for."""

WATCHED = {
    "torch": "torch",
    "paddle": "paddle",
    "random": "seeds",
    "numpy.random": "seeds",
    "torch.utils.tensorboard.writer": ".loggers",
    "tensorboardX.writer": ".loggers",
    "visualdl.writer.writer": ".loggers",
    "wandb.sdk.wandb_run": ".loggers",
    "mlflow.tracking.client": ".loggers",
}
"""Imported module -> module of this package (or, with a leading dot, of the probe) whose `attach(module, probe)` is
called after the import."""
