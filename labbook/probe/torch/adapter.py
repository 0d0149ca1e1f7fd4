"""Attaches to PyTorch: optimizer steps, backward calls, gradient clipping, gradient scalers, mixed precision.

Everything hangs on hooks that hold for the whole process, so no line of the program changes. Inside a compiled region
every hook steps aside before it does anything, and a hook never returns a value.
"""

import sys

from ..inspection.framework_adapter import FrameworkAdapter
from ..training import seeds
from ..training.backward import wrap_backward
from ..training.loop_follower import is_engine_thread
from ..wrapping import transparent_wrapper
from . import framework_state, gradient_norm, monitor_hooks
from .compiler import has_compiled, hide_from_compiler, questions
from .module_registry import ModuleRegistry
from .scalars import Scalars
from .tensor_stats import capturing_of

NAME = "torch"


def attach(module, probe):
    """Hooks PyTorch up right after its import.

    Cost: under a millisecond; at each step 8 microseconds and the gradient norm.
    """
    adapter = Adapter(module, probe)
    attached, declined = adapter.install(SIGNALS)
    with probe.guard("torch.compiler"):
        hide_from_compiler(module)
    adapter.write_facts(attached, declined)


class Adapter(FrameworkAdapter):
    """PyTorch as `Training` wants to see it.

    Args:
        module: `torch`.
    """

    name = NAME
    facts = framework_state
    children = "_modules"
    is_scaled = staticmethod(gradient_norm.is_still_scaled)
    elements = staticmethod(lambda tensor: tensor.numel())

    def __init__(self, module, probe):
        super().__init__(module, probe, Scalars(module))
        with probe.guard("torch.generator"):
            seeds.follow(self.name, lambda: framework_state.generator_state(module))
        self._tensor = module.Tensor
        tracing, flags = self.questions = questions(module)
        # The compiler, which may look into hooks, folds its own question first and never meets the probe.
        recording = module._C._get_tracing_state  # of `torch.jit.trace`
        self.is_compiling = lambda: (
            tracing() or flags._is_compiling_flag or probe.suspended > 0 or recording() is not None
        )
        self.capturing = capturing_of(module)
        self.registry = ModuleRegistry(self.is_compiling, probe.failed, whole=not probe.late)

    def describe(self, optimizer, closure):
        """Fields of the `optimizer` event; no mode of the program sees how they are read."""
        if self.values.is_observed():
            with self.values.without_modes():
                return self._describe(optimizer, closure)
        return self._describe(optimizer, closure)

    def _describe(self, optimizer, closure):
        with self.probe.guard("torch.compiler"):
            hide_from_compiler(self.module)
        return super().describe(optimizer, closure)

    def mode(self):
        """How the program computes: "dynamic" or "compiled"."""
        return "compiled" if has_compiled() else "dynamic"

    def find_model(self, parameters, sweep=True):
        """The module that owns these parameters and no other trained one, and the outermost around it: `find_root`."""
        return framework_state.find_model(self.module, parameters, self.registry.modules(), sweep)

    def changed_state(self, state):
        """The fields that differ from what was last written; of the seeds, only those that were set since."""
        changed = super().changed_state(state)
        if "seeds" in changed and "seeds" in self.written_state:
            before = self.written_state["seeds"]
            changed["seeds"] = {
                "%s, later" % name: value
                for name, value in state["seeds"].items()
                if name not in before or value != before[name]
            }
        return changed

    def step_begins(self, optimizer, args, kwargs):
        """Measures the gradients before the step changes them, or notes that a closure will compute them in it."""
        local = self.training.local
        if len(args) == 1 and not kwargs and self.fast_path.begin_unfollowed_step(optimizer, local):
            return
        if local.in_step and self._is_nested():
            local.in_step += 1
            return
        local.in_step, local.before_step = 1, local.backwards
        local.fast_step = None
        closure = args[1] if len(args) > 1 else kwargs.get("closure") if kwargs else None
        local.closure = closure is not None
        local.norm = None
        training = self.training
        if training.running and (local.in_backward or is_engine_thread()):
            recorder = local.recorder = training.fused_recorder(optimizer)
            scratch = recorder.parts.setdefault(id(optimizer), {})
        else:
            recorder = local.recorder = training.recorder(optimizer, local.closure)
            if recorder is None:
                return
            scratch = recorder.scratch
        if not local.closure:
            local.norm = self.measure(recorder, optimizer, scratch)
        if self.monitor is not None and recorder is not training.fused:
            self.monitor.step_begins(optimizer, recorder, local.norm, local.closure)

    def gradient_norm(self, optimizer, scratch, pairs):
        """Total gradient norm of an optimizer now, unseen by modes of the program."""
        values = self.values
        if values.is_observed():
            with values.without_modes():
                return values.norm(scratch, gradient_norm.gradients(optimizer))
        return values.norm(scratch, gradient_norm.gradients(optimizer))

    def _is_nested(self):
        """Whether a step is really under way: one that raised has left its mark behind without an end."""
        frame = sys._getframe(3)
        code, count = frame.f_code, 0
        while frame is not None:
            count += frame.f_code is code
            frame = frame.f_back
        return count > 1

    def step_ended(self, optimizer):
        """Numbers the step and hands its values on."""
        local = self.training.local
        if self.fast_path.finish_unfollowed_step(optimizer, local):
            return
        local.in_step -= 1
        if local.in_step > 0:
            return
        local.in_step = 0
        recorder, local.recorder = local.recorder, None
        norm, local.norm = local.norm, None
        if recorder is None:
            return
        if local.closure and norm is None:
            norm = self.measure(recorder, optimizer, recorder.scratch)
        self.finish_slow_step(optimizer, recorder, norm)

    def scaler_results(self, optimizer):
        """`(divisor, found)` as the scaler has set them on an optimizer that is fused with it."""
        return getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None)

    def backward_ended_in_closure(self):
        """Measures the gradients at once where the step will change them in place."""
        local = self.training.local
        optimizer = local.recorder.owner()
        if any(group.get("nesterov") for group in optimizer.param_groups):
            local.norm = self.measure(local.recorder, optimizer, local.recorder.scratch)

    def rates(self, optimizer):
        """Learning rates, one a parameter group; one alone when all groups share it."""
        groups = optimizer.param_groups
        if len(groups) == 1:
            rate = groups[0].get("lr")
            if type(rate) is not float:
                rate = framework_state.number(rate)
            return () if rate is None else [rate]
        rates = [framework_state.number(group.get("lr")) for group in groups]
        if None in rates:
            return ()
        return rates[:1] if rates.count(rates[0]) == len(rates) else rates

    def loss_values(self, tensors):
        """The scalars that were passed to `backward`, without the factor of a gradient scaler where that is known."""
        if self.values.is_observed():
            with self.values.without_modes():
                return super().loss_values(tensors)
        value = self.read_scalar(tensors)
        return [value] if value is not None else super().loss_values(tensors)

    def read_scalar(self, tensor):
        """The value of one scalar in host memory, the usual case; `None` for anything else."""
        values = self.values
        if type(tensor) is not self._tensor or not tensor.is_cpu or self.training.local.scaled is not None:
            return None
        if tensor.numel() != 1 or values.dispatch_modes() or values.function_modes():
            return None
        value = tensor.item()
        return value if type(value) is float else None


def hook_steps(adapter):
    """Watches the steps of all optimizers, also of classes that are defined later."""
    probe, failed, training = adapter.probe, adapter.probe.failed, adapter.training
    begins, ended, clock, fast_path = adapter.step_begins, adapter.step_ended, training.clock, adapter.fast_path
    tracing, flags = adapter.questions

    def before(optimizer, args, kwargs):
        if tracing() or flags._is_compiling_flag or probe.suspended:
            return
        if fast_path.steady is optimizer:
            if len(args) == 1 and not kwargs and fast_path.begin_step(optimizer):
                return
            fast_path.stop()
        began = clock()
        try:
            begins(optimizer, args, kwargs)
        except Exception as error:
            failed("torch.step begins", error)
        training.overhead_s += clock() - began

    def after(optimizer, args, kwargs):
        if tracing() or flags._is_compiling_flag or probe.suspended:
            return
        try:
            if fast_path.steady is optimizer and fast_path.finish_step(optimizer):
                return
        except Exception as error:
            failed("torch.step passed", error)
        began = clock()
        try:
            ended(optimizer)
        except Exception as error:
            failed("torch.step ended", error)
        training.overhead_s += clock() - began

    module = sys.modules["torch.optim.optimizer"]
    if hasattr(module, "register_optimizer_step_pre_hook"):
        module.register_optimizer_step_pre_hook(before)
        module.register_optimizer_step_post_hook(after)
    else:
        wrap_steps(module.Optimizer, before, after, probe)
    probe.watch("fastai.optimizer", lambda module: wrap_steps(module.Optimizer, before, after, probe))


def wrap_steps(base, before, after, probe):
    """Wraps `step` of each class when an object of it is made: PyTorch before 2.0 and fastai have no such hooks."""
    original = base.__init__

    def initialise(optimizer, *args, **kwargs):
        original(optimizer, *args, **kwargs)
        with probe.guard("torch.wrap step"):
            kind = type(optimizer)
            if not hasattr(kind.step, "_labbook"):
                kind.step = _add_hooks(kind.step, before, after)

    base.__init__ = transparent_wrapper(initialise, original)


def _add_hooks(original, before, after):
    def step(optimizer, *args, **kwargs):
        before(optimizer, (optimizer, *args), kwargs)
        result = original(optimizer, *args, **kwargs)
        after(optimizer, args, kwargs)
        return result

    step = transparent_wrapper(step, original)
    step._labbook = True
    return step


def hook_backward(adapter):
    """Watches `autograd.backward`, which `Tensor.backward` calls: the outermost call in each thread."""
    autograd = adapter.module.autograd
    autograd.backward = wrap_backward(adapter, autograd.backward)


def hook_autocast(adapter):
    """Notes which mixed precision is entered, the first time for each kind."""
    kind = adapter.module.autocast
    original = kind.__enter__
    is_compiling, casts, failed = adapter.is_compiling, adapter.casts, adapter.probe.failed

    def enter(context):
        if not is_compiling():
            try:
                key = (context.device, context.fast_dtype)
                if key not in casts and context._enabled:
                    casts[key] = {"device": str(context.device), "dtype": str(context.fast_dtype).replace("torch.", "")}
            except Exception as error:
                failed("torch.autocast", error)
        return original(context)

    kind.__enter__ = transparent_wrapper(enter, original)


SIGNALS = {
    "optimizer steps": hook_steps,
    "backward": hook_backward,
    "gradient clipping": gradient_norm.hook_clipping,
    "gradient scaler": gradient_norm.hook_scaler,
    "mixed precision": hook_autocast,
    "health": monitor_hooks.hook_monitor,
}
"""What is hooked, by the name that the `framework` event lists."""
