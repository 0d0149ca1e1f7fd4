"""Attaches to PaddlePaddle: optimizer steps, backward calls, gradient clipping, gradient scalers, mixed precision.

Every optimizer hands its pairs of parameter and gradient to `Optimizer._apply_optimize`, before it clips them; losses
pass through `Tensor.backward`. In a static graph neither runs at each step: `static_programs` follows the executor.
"""

import sys
from math import prod

from ..inspection.framework_adapter import FrameworkAdapter
from ..training.backward import NEVER_COMPILING, wrap_backward
from ..wrapping import leave_out_one_frame, transparent_wrapper
from . import framework_state, gradient_norm, monitor_hooks
from .scalars import Scalars
from .static_programs import NO_STEPS, StaticPrograms

NAME = "paddle"


def attach(module, probe):
    """Hooks PaddlePaddle up right after its import.

    Cost: under a millisecond; at each step 10 microseconds and the gradient norm.
    """
    adapter = Adapter(module, probe)
    adapter.write_facts(*adapter.install(SIGNALS))


class Adapter(FrameworkAdapter):
    """PaddlePaddle as `Training` wants to see it.

    Args:
        module: `paddle`.
    """

    name = NAME
    facts = framework_state
    children = "_sub_layers"
    is_scaled = staticmethod(gradient_norm.is_still_scaled)
    rates = staticmethod(framework_state.rates)

    def __init__(self, module, probe):
        super().__init__(module, probe, Scalars(module))
        self.is_compiling = lambda: probe.suspended > 0
        self.capturing = self.values.capturing
        self.questions = (bool, NEVER_COMPILING)
        self.read_scalar = _make_read_scalar(self)
        self.cast_ignored = self.wrapper = None
        self.ever_cast = False
        self.executions = 0
        self.static_programs = StaticPrograms(self)
        self.compiled = False

    def forget(self):
        """Begins anew, in a forked child."""
        super().forget()
        self.executions = 0
        self.static_programs.forget()

    def mode(self):
        """How the program computes: "dynamic", "static" or "compiled"."""
        if self.executions and not self.training.backwards:
            return "static"
        return "compiled" if self.compiled else "dynamic"

    def find_model(self, parameters, sweep=True):
        """The module that owns these parameters and no other trained one, and the outermost around it: `find_root`."""
        known = (
            [root.module() for root in self.monitor.inspector.roots.living_models()] if self.monitor is not None else ()
        )
        return framework_state.find_model(self.module, parameters, [m for m in known if m is not None], sweep)

    def read_state(self):
        """Fields of the `state` event as they are now: devices once something is trained."""
        state = super().read_state()
        if self.models:
            state["devices"] = framework_state.devices(self.module)
        for seed in self.static_programs.seeds():
            state["seeds"].setdefault("paddle", seed)
        return state

    def step_begins(self, optimizer, pairs, over=False):
        """Measures the gradients before they are clipped, all of them before the first parameter group is updated.

        Args:
            pairs: Parameters with gradients; where they are a dict, the gradients are read from the parameters.
            over: Whether the step is over already, because a closure computed the gradients in it.
        """
        training = self.training
        local = training.local
        ordinary = not over and not local.group and framework_state.group_count(optimizer) == 1
        if ordinary and self.fast_path.begin_unfollowed_step(optimizer, local, pairs):
            return
        if local.fast_step is not None:  # a step that raised has left its mark behind
            local.fast_step, local.in_step = None, 0
        update = (id(optimizer), local.backwards)
        if local.group and local.update == update:
            return
        # A step that raised between two groups leaves its mark behind; the backward call since then shows that.
        local.group, local.update = 0, update
        local.norm = None
        if local.in_backward and not local.closure:
            recorder = local.recorder = training.fused_recorder(optimizer)
            scratch = recorder.parts.setdefault(id(optimizer), {})
        else:
            recorder = local.recorder = training.recorder(optimizer)
            if recorder is None:
                return
            scratch = recorder.scratch
        local.norm = self.measure(recorder, optimizer, scratch, pairs)
        if self.monitor is not None and recorder is not training.fused and not over:
            self.monitor.step_begins(optimizer, recorder, local.norm, False)

    def gradient_norm(self, optimizer, scratch, pairs):
        """Total gradient norm of an optimizer now."""
        if isinstance(pairs, dict):
            gradients = gradient_norm.gradients(optimizer)
        else:
            gradients = [gradient for _, gradient in pairs if gradient is not None]
        return self.values.norm(scratch, gradients)

    def step_ended(self, optimizer, groups=1):
        """Numbers the step, after the last of its parameter groups, and hands its values on."""
        local = self.training.local
        if self.fast_path.finish_unfollowed_step(optimizer, local):
            return
        local.group += 1
        if local.group < groups:
            return
        local.group = 0
        recorder, local.recorder = local.recorder, None
        norm, local.norm = local.norm, None
        if recorder is None:
            return
        self.finish_slow_step(optimizer, recorder, norm)

    def scaler_results(self, optimizer):
        """`(divisor, found)`: the optimizer knows of the scaler only whether it found values that are not finite."""
        return None, optimizer._get_auxiliary_var("found_inf")

    def backward_ended_in_closure(self):
        """Nothing: no optimizer with a closure changes its gradients in place."""


def _make_read_scalar(adapter):
    """`Adapter.read_scalar` of this adapter: the value of one scalar in host memory, `None` for anything else."""
    local, kind, scalar = adapter.training.local, adapter.module.Tensor, adapter.values.scalar

    def read_scalar(tensor):
        if type(tensor) is not kind or local.scaled is not None or prod(tensor.shape) != 1:
            return None
        value = scalar(tensor)
        return value if type(value) is float else None

    return read_scalar


def hook_steps(adapter):
    """Watches the steps of all optimizers: those that go through `_apply_optimize`, and LBFGS, which does not."""
    base = adapter.module.optimizer.Optimizer
    if hasattr(base, "_apply_optimize"):
        base._apply_optimize = _wrap_update(adapter, base._apply_optimize)
    else:
        base.step = _wrap_step(adapter, base.step)
    closures = getattr(adapter.module.optimizer, "LBFGS", None)
    if closures is not None:
        closures.step = _wrap_step(adapter, closures.step)


def _wrap_update(adapter, original):
    """`original`, which updates one parameter group, watched; in a static graph it only builds the update."""
    failed, training, dynamic = adapter.probe.failed, adapter.training, adapter.module.in_dynamic_mode
    begins, ended, clock = adapter.step_begins, adapter.step_ended, training.clock
    probe, averaging = adapter.probe, framework_state.averaging_kinds(adapter.module)
    fast_path = adapter.fast_path

    def _apply_optimize(optimizer, *args, **kwargs):
        steady = fast_path.steady is optimizer
        if not steady and not probe.suspended and not dynamic():
            try:
                loss, startup = args[0] if args else kwargs.get("loss"), args[1:2] or [kwargs.get("startup_program")]
                adapter.static_programs.on_minimize(optimizer, loss, startup[0])
            except Exception as error:
                failed("paddle.static graph", error)
        if probe.suspended or (not steady and (not dynamic() or isinstance(optimizer, averaging))):
            return original(optimizer, *args, **kwargs)
        if not steady or not fast_path.begin_step(optimizer):
            began = clock()
            try:
                begins(optimizer, args[2] if len(args) > 2 else kwargs["params_grads"])
            except Exception as error:
                failed("paddle.step begins", error)
            training.overhead_s += clock() - began
        try:
            result = original(optimizer, *args, **kwargs)
        except BaseException as error:
            leave_out_one_frame(error)
            raise
        try:
            if fast_path.steady is optimizer and fast_path.finish_step(optimizer):
                return result
        except Exception as error:
            failed("paddle.step passed", error)
        began = clock()
        try:
            ended(optimizer, framework_state.group_count(optimizer))
        except Exception as error:
            failed("paddle.step ended", error)
        training.overhead_s += clock() - began
        return result

    return transparent_wrapper(_apply_optimize, original)


def _wrap_step(adapter, original):
    """`original`, a whole step, watched: with a closure, which computes the gradients in it, they are read after it."""
    failed, training = adapter.probe.failed, adapter.training
    local = training.local

    def step(optimizer, *args, **kwargs):
        if local.in_step or adapter.is_compiling() or not adapter.module.in_dynamic_mode():
            return original(optimizer, *args, **kwargs)
        closure = bool(args or kwargs)
        local.in_step, local.before_step, local.closure = 1, local.backwards, closure
        try:
            if not closure:
                adapter.step_begins(optimizer, {})
            elif adapter.monitor is not None and (recorder := training.recorder(optimizer, True)) is not None:
                adapter.monitor.step_begins(optimizer, recorder, None, True)
        except Exception as error:
            failed("paddle.step begins", error)
        try:
            result = original(optimizer, *args, **kwargs)
        except BaseException as error:
            leave_out_one_frame(error)
            raise
        finally:
            local.in_step, local.closure = 0, False
        try:
            if closure:
                local.recorder = training.recorder(optimizer, True)
                adapter.step_begins(optimizer, {}, over=True)
            adapter.step_ended(optimizer)
        except Exception as error:
            failed("paddle.step ended", error)
        return result

    return transparent_wrapper(step, original)


def hook_backward(adapter):
    """Watches `Tensor.backward` and `autograd.backward`: the outermost call in each thread."""
    paddle = adapter.module
    paddle.Tensor.backward = wrap_backward(adapter, paddle.Tensor.backward)
    home = sys.modules.get("paddle.autograd.backward_mode")
    watched = wrap_backward(adapter, paddle.autograd.backward)
    if home is not None:
        home.backward = watched
    paddle.autograd.backward = watched


def hook_autocast(adapter):
    """Notes which mixed precision is entered, the first time for each kind."""
    module = sys.modules["paddle.amp.auto_cast"]
    original, casts, failed = module.amp_guard, adapter.casts, adapter.probe.failed

    def amp_guard(*args, **kwargs):
        try:
            enabled = args[0] if args else kwargs.get("enable", True)
            level = args[3] if len(args) > 3 else kwargs.get("level", "O1")
            dtype = args[4] if len(args) > 4 else kwargs.get("dtype", "float16")
            adapter.ever_cast = True
            if enabled and (level, dtype) not in casts and adapter.cast_ignored is None:
                cast = {"level": str(level), "dtype": str(dtype)}
                if adapter.module.device.get_device() == "cpu":  # it has no effect there, and PaddlePaddle says so
                    adapter.cast_ignored = cast
                else:
                    casts[level, dtype] = cast
        except Exception as error:
            failed("paddle.autocast", error)
        return original(*args, **kwargs)

    amp_guard = transparent_wrapper(amp_guard, original)
    module.amp_guard = adapter.module.amp.amp_guard = amp_guard


def hook_graphs(adapter):
    """Follows runs of static graphs, and notes functions that were compiled."""
    executor = sys.modules["paddle.base.executor"].Executor
    original, failed, clock = executor.run, adapter.probe.failed, adapter.training.clock

    def observe(look, *args):
        began = clock()
        try:
            return look(*args)
        except Exception as error:
            failed("paddle.static run", error)
            return None
        finally:
            adapter.training.overhead_s += clock() - began

    def run(*args, **kwargs):
        adapter.executions += 1
        if adapter.executions == 1:
            adapter.training.steps_hidden = NO_STEPS
        followed = observe(adapter.static_programs.training_of, args, kwargs)
        if followed is not None:
            observe(followed.begins, args, kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            leave_out_one_frame(error)
            raise
        if followed is not None:
            observe(followed.on_step_end, args, kwargs, result)
        return result

    executor.run = transparent_wrapper(run, original)
    static = sys.modules["paddle.jit.dy2static.program_translator"].StaticFunction
    call = static.__call__

    def call_traced(function, *args, **kwargs):
        adapter.compiled = True
        try:
            return call(function, *args, **kwargs)
        except BaseException as error:
            leave_out_one_frame(error)
            raise

    static.__call__ = transparent_wrapper(call_traced, call)


SIGNALS = {
    "optimizer steps": hook_steps,
    "backward": hook_backward,
    "gradient clipping": gradient_norm.hook_clipping,
    "gradient scaler": gradient_norm.hook_scaler,
    "mixed precision": hook_autocast,
    "compiled and static graphs": hook_graphs,
    "health": monitor_hooks.hook_monitor,
}
"""What is hooked, by the name that the `framework` event lists."""
