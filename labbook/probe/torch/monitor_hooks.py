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
    for what, install, *args in (
        ("models", adapter.registry.install),
        ("models", inspector.calls.install, adapter.module),
        ("optimizers", _watch_optimizers, adapter, inspector),
        ("losses", inspector.losses.install, compiling),
        ("loading", inspector.loading.install, compiling),
        ("initialisers", inspector.writes.install, adapter.module, compiling),
        ("copies", inspector.copies.install, compiling),
        ("evaluations", inspector.evaluated.install, compiling),
        ("collectives", inspector.collectives.install, compiling),
        ("gradients", _watch_grad, adapter),
    ):
        probe.guard("torch.health " + what)(install)(*args)
    for module, what, install in (
        ("keras.src.losses.losses", "losses", lambda losses: inspector.losses.install_in_keras(losses, compiling)),
        ("torchmetrics.metric", "metrics", MetricObjects(inspector).install),
        ("torch.utils.data.dataloader", "loaders", inspector.loaders.install),
        ("torchdata.stateful_dataloader.stateful_dataloader", "loaders", inspector.loaders.install_stateful),
        ("fastai.data.load", "loaders", inspector.loaders.install_fastai),
    ):
        probe.watch(module, probe.guard("torch.health " + what)(install))


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
