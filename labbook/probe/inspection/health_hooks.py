"""Starts watching what health needs beside steps and backward calls: the monitor, and constructors of optimizers."""

from ..imports import import_adapter
from ..training.monitor import TrainingMonitor
from ..wrapping import leave_out_one_frame
from .unfinished_loss import UnfinishedLoss


def start_monitor(adapter, inspector_class):
    """Gives an adapter the monitor of its training.

    Args:
        adapter: The `FrameworkAdapter`.
        inspector_class: Its `TensorInspector`.

    Returns:
        The inspector, or `None` where the program runs with `--debug off`.
    """
    if adapter.probe.settings.get("level") == "off":
        adapter.probe.unobserved("health of the training", "switched off by --debug off")
        if adapter.probe.settings.get("state"):
            adapter.probe.unobserved("state of the training at its end", "switched off by --debug off")
        return None
    inspector = inspector_class(adapter)
    adapter.monitor = adapter.training.monitor = TrainingMonitor(adapter, inspector)
    UnfinishedLoss(inspector)
    if adapter.probe.settings.get("state"):
        with adapter.probe.guard(adapter.name + ".state"):
            # Most runs do without these modules.
            inspector.final_state = import_adapter(adapter.name + ".final_state").FinalState(adapter, inspector)
    asked = adapter.probe.settings.get("asked") or {}
    if asked.get("onnx") and adapter.probe.requests is not None:
        with adapter.probe.guard(adapter.name + ".onnx"):
            export = import_adapter(adapter.name + ".onnx_export").OnnxExport
            adapter.probe.requests.exporter = export(adapter.module, asked["onnx"])
    return inspector


def wrap_constructor(adapter, original, skips, made):
    """`original`, the constructor of an optimizer class, followed by `made(optimizer)` unless `skips()`."""
    failed, training = adapter.probe.failed, adapter.training

    def initialise(optimizer, *args, **kwargs):
        try:
            original(optimizer, *args, **kwargs)
        except BaseException as error:  # the program's own error, passed on
            leave_out_one_frame(error)
            raise
        if skips():
            return
        began = training.clock()
        try:
            made(optimizer)
        except Exception as error:
            failed(adapter.name + ".optimizer made", error)
        training.overhead_s += training.clock() - began

    return initialise
