"""Wraps functions that run a backward pass; independent of the framework."""

from types import SimpleNamespace

from ..wrapping import leave_out_one_frame, transparent_wrapper
from .loop_follower import is_engine_thread

NEVER_COMPILING = SimpleNamespace(_is_compiling_flag=False)
"""Default flags, for a framework without a compiler; see `adapter.questions`."""


def wrap_backward(adapter, original):
    """Wrap a function or method that runs a backward pass; its outermost call in each thread is reported.

    Args:
        adapter: The adapter of the framework; its `loss_values(tensors)` returns the values of the first argument, and
            `read_scalar(tensor)` the value of one scalar in host memory that no gradient scaler has scaled, else
            `None`.
        original: The wrapped function.
    """
    probe, failed, training = adapter.probe, adapter.probe.failed, adapter.training
    local, clock, roots, name = training.local, training.clock, adapter.loss_values, adapter.name
    fast_path, alone = adapter.fast_path, adapter.read_scalar
    tracing, flags = adapter.questions

    def backward(*args, **kwargs):
        # The pending values of a thread, as a plain dictionary: attribute access takes five times as long.
        state = local.__dict__
        if tracing() or flags._is_compiling_flag or probe.suspended or state["in_backward"]:
            return original(*args, **kwargs)
        if training.running and is_engine_thread():
            return original(*args, **kwargs)
        monitor, rested = adapter.monitor, False
        try:
            rested = fast_path.steady is not None and fast_path.accept_backward(alone(args[0]) if args else None)
            if not rested:
                began = clock()
                given = args[0] if args else kwargs["tensors"]
                losses = roots(given)
                training.on_backward(losses)
                rested = monitor is not None and fast_path.accept_unfollowed_backward(losses)
                if monitor is not None and not rested:
                    monitor.backward_begins(given if isinstance(given, (tuple, list)) else (given,), losses)
                training.overhead_s += clock() - began
        except Exception as error:
            failed(name + ".backward", error)
        state["in_backward"] = 1
        training.running += 1
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            leave_out_one_frame(error)
            raise
        finally:
            training.running -= 1
            state["in_backward"] = 0
            if monitor is not None and not rested:
                try:
                    monitor.backward_ended()
                except Exception as error:
                    failed(name + ".backward ended", error)
            if training.inside or not training.steps or state["in_step"]:
                try:
                    if state["in_step"] and state["closure"] and state["recorder"] is not None:
                        adapter.backward_ended_in_closure()
                    training.backward_ended()
                except Exception as error:
                    failed(name + ".backward ended", error)

    return transparent_wrapper(backward, original)
