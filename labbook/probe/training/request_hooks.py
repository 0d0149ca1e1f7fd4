"""Runs the user's requests after each optimizer step and after each outermost backward.

Installed only in runs with requests, after the adapters, so that a step is counted before requests are evaluated.
"""

import sys
import threading
from functools import partial

from ..wrapping import leave_out_one_frame, transparent_wrapper
from .batch_stats import batch_facts
from .loop_follower import is_engine_thread
from .profiling import Profiling


def install(probe, settings):
    """Prepare both frameworks; see `protocol.ENV_PROBE` for the settings under `requests`."""
    probe.watch("torch", lambda torch: attach_torch(torch, RequestHooks(torch, probe, settings)))
    probe.watch("paddle", lambda paddle: attach_paddle(paddle, RequestHooks(paddle, probe, settings)))


class RequestHooks:
    """Runs requests after a step.

    Args:
        module: The framework.
        probe: The probe of this process; it has `requests`.
    """

    def __init__(self, module, probe, settings):
        self.requests = probe.requests
        self._probe = probe
        self.requests.describe = partial(batch_facts, module)
        self._local = threading.local()
        wanted = settings.get("profile")
        self._profiling = Profiling(module, probe, wanted, settings.get("max_steps")) if wanted else None

    def on_step(self):
        """Run requests after an optimizer step.

        Raises:
            SystemExit: A request ends the run.
        """
        if self._probe.suspended:
            return
        step = self._probe.step
        if self._profiling is not None and step is not None:
            self._profiling.on_step(step)
        self.requests.on_pending_step(step)
        self.requests.act()

    def unable(self, reason):
        """Record that requests cannot run after steps."""
        self._probe.unobserved("--break, --stop-on, --max-steps and --profile", reason)

    def wrap_backward(self, original):
        """Wrap a backward function; requests run after its outermost call in a Python thread."""
        local, requests = self._local, self.requests

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
            requests.act()
            return result

        return transparent_wrapper(backward, original)

    def wrap_step(self, original):
        """Wrap a step, or the last part of one; requests run after it."""

        def step(*args, **kwargs):
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise
            self.on_step()
            return result

        return transparent_wrapper(step, original)


def attach_torch(torch, request_hooks):
    """Run requests after the steps of all optimizers of PyTorch and after `autograd.backward`."""
    optimizers = sys.modules["torch.optim.optimizer"]
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)

    def after(optimizer, args, kwargs):
        if not is_compiling():
            request_hooks.on_step()

    if hasattr(optimizers, "register_optimizer_step_post_hook"):
        optimizers.register_optimizer_step_post_hook(after)
    else:
        request_hooks.unable("this PyTorch has no hooks for the steps of all optimizers; they came with version 2.0")
    torch.autograd.backward = request_hooks.wrap_backward(torch.autograd.backward)


def attach_paddle(paddle, request_hooks):
    """Run requests after optimizer steps of PaddlePaddle and after `Tensor.backward` and `autograd.backward`."""
    base = paddle.optimizer.Optimizer
    if hasattr(base, "_apply_optimize"):
        base._apply_optimize = request_hooks.wrap_step(base._apply_optimize)
    else:
        base.step = request_hooks.wrap_step(base.step)
    closures = getattr(paddle.optimizer, "LBFGS", None)
    if closures is not None:
        closures.step = request_hooks.wrap_step(closures.step)
    paddle.Tensor.backward = request_hooks.wrap_backward(paddle.Tensor.backward)
    watched = request_hooks.wrap_backward(paddle.autograd.backward)
    home = sys.modules.get("paddle.autograd.backward_mode")
    if home is not None:
        home.backward = watched
    paddle.autograd.backward = watched
