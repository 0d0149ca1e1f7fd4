"""Attaches the health signals of PyTorch: optimizers as they are made, models, losses, loaders, schedulers, seeds."""

import sys

from ..inspection.health_hooks import start_monitor, wrap_constructor
from ..training.backward import wrap_grad
from ..wrapping import as_import_machinery, transparent_wrapper
from .inspector import TensorInspector
from .metric_resets import MetricObjects

_TOUCHING_TENSORS = (
    "forward_begins",
    "forward_ended",
    "backward_begins",
    "backward_ended",
    "step_begins",
    "step_ended",
)


def hook_monitor(adapter):
    """Watches everything that health needs beside steps and backward calls, which the adapter passes on."""
    inspector = start_monitor(adapter, TensorInspector)
    if inspector is None:
        return
    for name in _TOUCHING_TENSORS:
        setattr(adapter.monitor, name, inspector.without_modes.wrap(getattr(adapter.monitor, name)))
    compiling, probe = adapter.is_compiling, adapter.probe
    if probe.settings.get("state"):
        with probe.guard("torch.state"):
            from .final_state import FinalState  # not at the top, because most runs do without it

            inspector.final_state = FinalState(adapter, inspector)
    asked = probe.settings.get("asked") or {}
    if asked.get("onnx") and probe.requests is not None:
        with probe.guard("torch.onnx"):
            from .onnx_export import OnnxExport  # not at the top, because most runs do without it

            probe.requests.exporter = OnnxExport(adapter.module, asked["onnx"])
    with probe.guard("torch.health models"):
        adapter.registry.install()
        inspector.calls.install(adapter.module)
    with probe.guard("torch.health optimizers"):
        _watch_optimizers(adapter, inspector)
    with probe.guard("torch.health losses"):
        inspector.losses.install(compiling)
        keras = "keras.src.losses.losses"
        adapter.probe.watch(keras, lambda module: inspector.losses.install_in_keras(module, compiling))
    with probe.guard("torch.health loading"):
        inspector.loading.install(compiling)
    with probe.guard("torch.health initialisers"):
        inspector.writes.install(adapter.module, compiling)
    with probe.guard("torch.health copies"):
        inspector.copies.install(compiling)
    with probe.guard("torch.health evaluations"):
        inspector.evaluated.install(compiling)
    metrics = probe.guard("torch.health metrics")(MetricObjects(inspector).install)
    probe.watch("torchmetrics.metric", metrics)
    with probe.guard("torch.health collectives"):
        inspector.collectives.install(compiling)
    with probe.guard("torch.health gradients"):
        _watch_grad(adapter)
    loaders = inspector.loaders
    probe.watch("torch.utils.data.dataloader", probe.guard("torch.health loaders")(loaders.install))
    stateful = probe.guard("torch.health loaders")(loaders.install_stateful)
    probe.watch("torchdata.stateful_dataloader.stateful_dataloader", stateful)
    probe.watch("fastai.data.load", probe.guard("torch.health loaders")(loaders.install_fastai))


def _watch_optimizers(adapter, inspector):
    """Has the model behind a new optimizer found before its first forward."""
    made = inspector.without_modes.wrap(inspector.optimizer_made)

    def watch(module):
        base = module.Optimizer
        initialise = wrap_constructor(adapter, base.__init__, adapter.is_compiling, made)
        base.__init__ = transparent_wrapper(as_import_machinery(initialise), base.__init__)

    watch(sys.modules["torch.optim.optimizer"])
    adapter.probe.watch("fastai.optimizer", watch)


def _watch_grad(adapter):
    """Counts gradients that the program asks for without `backward`."""
    autograd = adapter.module.autograd
    grad = wrap_grad(adapter, autograd.grad, lambda tensor: tensor.is_leaf and tensor.requires_grad)
    autograd.grad = transparent_wrapper(as_import_machinery(grad), autograd.grad)
