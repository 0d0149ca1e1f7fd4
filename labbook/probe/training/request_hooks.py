"""The moments at which what the user asked for is done: after each optimizer step, and after each outermost backward.

Attached only to runs that ask for something, behind the adapters, so that a step is counted before it is acted on.
"""

import sys
import threading

from ..wrapping import disguised, leave_out_one_frame
from .batch_stats import batch_facts
from .profiling import Profiling
from .training_loop import is_engine_thread


def install(probe, settings):
    """Prepares both frameworks; see `protocol.ENV_PROBE` for the settings under `asked`."""
    for name, attach in (("torch", attach_torch), ("paddle", attach_paddle)):
        probe.watch(name, _attaching(attach, probe, settings))


def _attaching(attach, probe, settings):
    def attached(module):
        attach(module, Steering(module, probe, settings))

    return attached


class Steering:
    """What is done after a step.

    Args:
        module: The framework.
        probe: The probe of this process; it has `asked`.
        settings: The settings under `asked`.
    """

    def __init__(self, module, probe, settings):
        self.asked = probe.asked
        self._probe = probe
        self._module = module
        self.asked.describe = self._describe
        self._local = threading.local()
        wanted = settings.get("profile")
        self._profiling = Profiling(module, probe, wanted, settings.get("max_steps")) if wanted else None

    def _describe(self, args, kwargs, batch):
        return batch_facts(self._module, args, kwargs, batch)

    def stepped(self):
        """After an optimizer step.

        Raises:
            SystemExit: The run ends as asked.
        """
        if self._probe.resting:
            return
        step = self._probe.step
        if self._profiling is not None and step is not None:
            self._profiling.stepped(step)
        self.asked.due(step)
        self.asked.act()

    def unable(self, reason):
        """Tells that nothing can be done after a step."""
        self._probe.unobserved("--break, --stop-on, --max-steps and --profile", reason)

    def around_backward(self, original):
        """`original`, a backward function, with what is due done after its outermost call in a thread of Python's."""
        local, asked = self._local, self.asked

        def backward(*args, **kwargs):
            if getattr(local, "depth", 0) or is_engine_thread():
                return original(*args, **kwargs)
            local.depth = 1
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise
            finally:
                local.depth = 0
            asked.act()
            return result

        return disguised(backward, original)

    def around_step(self, original):
        """`original`, a step or the last part of it, with what is due done after it."""

        def step(*args, **kwargs):
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise
            self.stepped()
            return result

        return disguised(step, original)


def attach_torch(torch, steering):
    """Acts after the steps of all optimizers of PyTorch and after `autograd.backward`."""
    optimizers = sys.modules["torch.optim.optimizer"]
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)

    def after(optimizer, args, kwargs):
        if not is_compiling():
            steering.stepped()

    if hasattr(optimizers, "register_optimizer_step_post_hook"):
        optimizers.register_optimizer_step_post_hook(after)
    else:
        steering.unable("this PyTorch has no hooks for the steps of all optimizers; they came with version 2.0")
    torch.autograd.backward = steering.around_backward(torch.autograd.backward)


def attach_paddle(paddle, steering):
    """Acts after the steps of all optimizers of PaddlePaddle and after `Tensor.backward` and `autograd.backward`."""
    base = paddle.optimizer.Optimizer
    if hasattr(base, "_apply_optimize"):
        base._apply_optimize = steering.around_step(base._apply_optimize)
    else:
        base.step = steering.around_step(base.step)
    closures = getattr(paddle.optimizer, "LBFGS", None)
    if closures is not None:
        closures.step = steering.around_step(closures.step)
    paddle.Tensor.backward = steering.around_backward(paddle.Tensor.backward)
    watched = steering.around_backward(paddle.autograd.backward)
    home = sys.modules.get("paddle.autograd.backward_mode")
    if home is not None:
        home.backward = watched
    paddle.autograd.backward = watched
