"""Records numbers that the program logs: TensorBoard, VisualDL, W&B, MLflow, Lightning, transformers, `labbook.log`.

The original is called first and its result returned; its arguments are read afterwards, when a logger has already
fetched values from a device.
"""

from ..events.protocol import SCALARS
from ..wrapping import wrap_function

ONE_BY_ONE = 5000
"""Number of values of one name that are all written; of later ones every 2nd, after twice as many every 4th, and so on,
and the last one at the end. Source: chosen by us; a name stays under 2 MB."""

MAX_NAMES = 500
_MAX_NAME = 200


def attach(module, probe):
    """Watch the logging functions of one module, right after its import."""
    for name, methods in _WATCHED[module.__name__].items():
        for method, reader in methods.items():
            owner = getattr(module, name, None)
            if owner is not None and hasattr(owner, method):
                setattr(owner, method, _wrap_logger(getattr(owner, method), reader, probe))


def record(probe, source, step, values):
    """Write numbers that were logged at one step, except names beyond `MAX_NAMES` and non-numeric values.

    Args:
        source: The logging library: "tensorboard", "visualdl", "wandb", "mlflow", "lightning", "transformers",
            "optuna", "paddle", "ray" or "labbook".
        step: An integer, or `None`.
        values: Name -> value; scalars of NumPy, PyTorch and PaddlePaddle count as numbers.
    """
    fields, given = {}, {}
    for name, value in values.items():
        value = number(value)
        if value is None:
            continue
        name = str(name)[:_MAX_NAME]
        given[name] = value
        if _is_recorded(probe, source, name, step, value):
            fields[name] = value
    if fields:
        probe.event(SCALARS, source=source, step=_as_int(step), values=fields)
    if given and probe.requests is not None:
        probe.requests.on_logged(_as_int(step), given)


class _Names:
    """Counts how often each name was logged in this process, and stores the last omitted values."""

    def __init__(self, probe):
        self.counts = {}
        self.left_out = {}
        probe.at_exit(lambda: self.finish(probe))
        probe.after_fork(self.forget)

    def forget(self):
        """Reset in a forked child."""
        self.counts.clear()
        self.left_out.clear()

    def finish(self, probe):
        """Write the last value of each name whose last value was omitted."""
        for (source, name), (step, value) in sorted(self.left_out.items()):
            probe.event(SCALARS, source=source, step=_as_int(step), values={name: value})
        self.left_out.clear()


_OF_PROBE = {}


def _is_recorded(probe, source, name, step, value):
    names = _OF_PROBE.get(probe)
    if names is None:
        names = _OF_PROBE[probe] = _Names(probe)
    key = (source, name)
    count = names.counts.get(key, 0) + 1
    if count == 1 and len(names.counts) >= MAX_NAMES:
        probe.unobserved("some numbers logged to `%s`" % source, "more than %d names were used" % MAX_NAMES)
        return False
    names.counts[key] = count
    every = 1 << (count // ONE_BY_ONE).bit_length()
    if count <= ONE_BY_ONE or count % every == 0 or (value - value != 0.0 and count < 4 * ONE_BY_ONE):
        names.left_out.pop(key, None)
        return True
    names.left_out[key] = (step, value)
    return False


def number(value):
    """Convert a number, or a scalar array or tensor, to a float or integer; `None` for other values."""
    kind = type(value)
    if kind is float or kind is int:
        return value
    if kind is bool:
        return int(value)
    item = getattr(value, "item", None)
    if item is None or isinstance(value, type):
        return None
    size = value.numel() if hasattr(value, "numel") else getattr(value, "size", 0)
    if not isinstance(size, int):
        size = int(size)
    if size != 1:
        return None
    value = item()
    return value if isinstance(value, (int, float)) else None


def _as_int(step):
    step = number(step)
    return int(step) if step is not None and step - step == 0 else None


def _wrap_logger(original, reader, probe):
    def after(_, args, kwargs):
        record(probe, *reader(*args, **kwargs))

    return wrap_function(original, probe.guard("loggers"), after=after)


def _tensorboard_scalar(writer, tag, scalar_value, global_step=None, *args, **kwargs):
    return "tensorboard", global_step, {tag: scalar_value}


def _tensorboard_scalars(writer, main_tag, tag_scalar_dict, global_step=None, *args, **kwargs):
    return "tensorboard", global_step, {"%s/%s" % (main_tag, tag): value for tag, value in tag_scalar_dict.items()}


def _visualdl_scalar(writer, tag, value, step, *args, **kwargs):
    return "visualdl", step, {tag: value}


def _visualdl_scalars(writer, main_tag, tag_scalar_dict, step, *args, **kwargs):
    return "visualdl", step, {"%s/%s" % (main_tag, tag): value for tag, value in tag_scalar_dict.items()}


def _wandb_log(run, data, step=None, *args, **kwargs):
    if step is None:
        step = getattr(run, "_local_step", getattr(run, "_step", None))
        # A committing call has already incremented the counter.
        step = step - 1 if step and kwargs.get("commit", args[0] if args else None) is not False else step
    return "wandb", step, dict(_flat(data, ""))


def _flat(values, prefix):
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, "%s%s." % (prefix, name))
        else:
            yield "%s%s" % (prefix, name), value


def _mlflow_metric(client, run_id, key, value, timestamp=None, step=None, *args, **kwargs):
    return "mlflow", step, {key: value}


def _mlflow_batch(client, run_id, metrics=(), *args, **kwargs):
    metrics = list(metrics)
    return "mlflow", metrics[0].step if metrics else None, {metric.key: metric.value for metric in metrics}


def _optuna_report(trial, value, step, *args, **kwargs):
    return "optuna", step, {"intermediate_value": value}


def _lightning_csv(writer, metrics_dict, step=None, *args, **kwargs):
    return "lightning", step, metrics_dict


def _lightning_logged(connector, metrics, step=None, *args, **kwargs):
    """What a module logs reaches this method, whether or not there is a logger."""
    trainer = connector.trainer
    if any(type(logger).__name__ in _WATCHED_LOGGERS for logger in trainer.loggers):
        return "lightning", None, {}
    step = metrics.get("step", trainer.fit_loop.epoch_loop._batches_that_stepped) if step is None else step
    return "lightning", step, {name: value for name, value in metrics.items() if name != "step"}


def _transformers_logged(trainer, logs, *args, **kwargs):
    if any(type(callback).__name__ in _WATCHED_CALLBACKS for callback in trainer.callback_handler.callbacks):
        return "transformers", None, {}
    metrics = {name: value for name, value in logs.items() if not name.endswith(_BOOKKEEPING)}
    return "transformers", trainer.state.global_step, metrics


def _tune_report(session, metrics, *args, **kwargs):
    return "ray", None, metrics


def _paddle_batch(callbacks, mode, step=None, logs=None):
    """Adds the loss of a batch to those of its evaluation; the logs of `Model` have only that of the last batch."""
    loss, size = (logs or {}).get("loss"), (logs or {}).get("batch_size")
    if mode == "eval" and type(loss) is list and len(loss) == 1 and size:
        total, samples = _PADDLE_LOSS.pop(callbacks, (0.0, 0)) if step else (0.0, 0)
        _PADDLE_LOSS[callbacks] = (total + loss[0] * size, samples + size)
    return "paddle", None, {}


_PADDLE_LOSS = {}
"""Callbacks of an evaluation that runs -> sum of the losses over its samples, number of samples."""


def _paddle_evaluated(callbacks, mode, logs=None):
    """The result of `Model.evaluate`, and of each validation of `Model.fit`, whose callbacks know the epochs."""
    if mode != "eval":
        return "paddle", None, {}
    total, samples = _PADDLE_LOSS.pop(callbacks, (0.0, 0))
    means = {"loss": total / samples if samples else None}
    fits = any(callback.params.get("epochs") for callback in callbacks.callbacks[:1])
    return "paddle", None, _named_values({**logs, **means}, "val/" if fits else "eval/")


def _paddle_epoch(callbacks, epoch=None, logs=None):
    return "paddle", None, {name: value for name, value in _named_values(logs, "").items() if name != "loss"}


def _named_values(logs, prefix):
    values = {name: value[0] if type(value) is list and len(value) == 1 else value for name, value in logs.items()}
    return {prefix + name: value for name, value in values.items() if name not in ("step", "steps", "batch_size")}


_TENSORBOARD = {"SummaryWriter": {"add_scalar": _tensorboard_scalar, "add_scalars": _tensorboard_scalars}}
_LIGHTNING_CSV = {"_ExperimentWriter": {"log_metrics": _lightning_csv}}
_LIGHTNING = {"_LoggerConnector": {"log_metrics": _lightning_logged}}
_WATCHED_LOGGERS = ("TensorBoardLogger", "CSVLogger", "WandbLogger", "MLFlowLogger")
"""Loggers of Lightning whose library is watched."""

_WATCHED_CALLBACKS = ("TensorBoardCallback", "WandbCallback", "MLflowCallback")
"""Callbacks of transformers whose library is watched."""

_BOOKKEEPING = (
    "_runtime", "_preparation_time", "_per_second", "total_flos", "tokens_seen", "epoch", "learning_rate", "grad_norm",
)  # fmt: skip
"""Ends of names that transformers adds to what it logs: times, counters, and what is measured at the optimizer."""

_PADDLE = {"on_batch_end": _paddle_batch, "on_end": _paddle_evaluated, "on_epoch_end": _paddle_epoch}

_WATCHED = {
    "lightning.fabric.loggers.csv_logs": _LIGHTNING_CSV,
    "lightning_fabric.loggers.csv_logs": _LIGHTNING_CSV,
    "lightning.pytorch.trainer.connectors.logger_connector.logger_connector": _LIGHTNING,
    "pytorch_lightning.trainer.connectors.logger_connector.logger_connector": _LIGHTNING,
    "transformers.trainer": {"Trainer": {"log": _transformers_logged}},
    "torch.utils.tensorboard.writer": _TENSORBOARD,
    "tensorboardX.writer": _TENSORBOARD,
    "visualdl.writer.writer": {"LogWriter": {"add_scalar": _visualdl_scalar, "add_scalars": _visualdl_scalars}},
    "wandb.sdk.wandb_run": {"Run": {"log": _wandb_log}},
    "paddle.hapi.callbacks": {"CallbackList": _PADDLE},
    "optuna.trial._trial": {"Trial": {"report": _optuna_report}},
    "ray.train._internal.session": {"_TrainSession": {"report": _tune_report}},
    "mlflow.tracking.client": {"MlflowClient": {"log_metric": _mlflow_metric, "log_batch": _mlflow_batch}},
}
"""Module -> class -> method -> `reader(*arguments)`, which returns source, step and values."""
