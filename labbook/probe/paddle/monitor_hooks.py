"""Attaches the health signals of PaddlePaddle: optimizers as they are made, models, losses, loaders, schedulers."""

from ..inspection.health_hooks import start_monitor, wrap_constructor
from ..training.backward import wrap_grad
from ..wrapping import transparent_wrapper
from .framework_state import averaging_kinds
from .inspector import TensorInspector


def hook_monitor(adapter):
    """Watches everything that health needs beside steps and backward calls, which the adapter passes on."""
    inspector = start_monitor(adapter, TensorInspector)
    if inspector is None:
        return
    _watch_optimizers(adapter, inspector)
    _watch_grad(adapter, inspector)
    _watch_replicas(adapter, inspector)
    inspector.install()


def _watch_optimizers(adapter, inspector):
    """Has the parameters of a new optimizer known before the first forward of their model."""
    optimizers = adapter.module.optimizer
    # AdamW sets itself up without the constructor of its base class, and so does LBFGS.
    kinds = [optimizers.Optimizer] + [kind for name in ("AdamW", "LBFGS") if (kind := getattr(optimizers, name, None))]
    averaging = averaging_kinds(adapter.module)

    def is_static():
        return adapter.is_compiling() or not adapter.module.in_dynamic_mode()

    def on_optimizer_created(optimizer):
        if optimizer not in inspector.optimizers and not isinstance(optimizer, averaging):
            inspector.optimizer_made(optimizer)

    for kind in kinds:
        if "__init__" in kind.__dict__:
            initialise = wrap_constructor(adapter, kind.__init__, is_static, on_optimizer_created)
            inspector.patches.replace(kind, "__init__", transparent_wrapper(initialise, kind.__init__))


def _watch_grad(adapter, inspector):
    """Counts gradients that the program asks for without `backward`."""
    paddle = adapter.module
    grad = wrap_grad(adapter, paddle.grad, lambda tensor: tensor.is_leaf and not tensor.stop_gradient)
    inspector.patches.replace(paddle, "grad", grad)


def _watch_replicas(adapter, inspector):
    """Notes that a model was wrapped to keep replicas equal, also where it is not the wrapper that is called."""
    kind = adapter.module.DataParallel
    original = kind.__init__

    def initialise(layer, *args, **kwargs):
        original(layer, *args, **kwargs)
        adapter.wrapper = type(layer).__name__

    inspector.patches.replace(kind, "__init__", transparent_wrapper(initialise, original))
