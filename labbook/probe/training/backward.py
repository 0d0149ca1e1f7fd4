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
            if training.inside or not training.steps or state["in_step"] or training.by_hand is not None:
                try:
                    if state["in_step"] and state["closure"] and state["recorder"] is not None:
                        adapter.backward_ended_in_closure()
                    training.backward_ended()
                except Exception as error:
                    failed(name + ".backward ended", error)

    return transparent_wrapper(backward, original)


def wrap_grad(adapter, original, is_trained):
    """Wrap the function that returns gradients instead of writing them into the parameters.

    A call of it counts as one of `backward` where a program without an optimizer may train by it: the gradient of one
    scalar by tensors that require one and were not computed, without a graph of its own.

    Args:
        is_trained: `is_trained(tensor)`: whether it requires a gradient and was not computed.
    """
    watched, training, loop = wrap_backward(adapter, original), adapter.training, lambda: adapter.monitor.loop

    def may_train(outputs, inputs=(), grad_outputs=None, retain_graph=None, create_graph=False, *rest, **options):
        inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        alone = training.by_hand is not None or not (loop().backwards or training.steps or loop().optimizers_made)
        if not alone or create_graph or len(outputs) != 1 or adapter.elements(outputs[0]) != 1:
            return False
        return bool(inputs) and all(is_trained(one) for one in inputs)

    def grad(*args, **kwargs):
        counts = False
        try:
            if not adapter.is_compiling():
                counts = may_train(*args, **kwargs)
                if counts and not args:
                    args = (kwargs.pop("outputs"),)
                if not counts:
                    loop().backwards_asked += 1
                    adapter.monitor.evaluation.asked = True
        except Exception as error:
            adapter.probe.failed(adapter.name + ".grad", error)
        training.returns_gradients = counts or training.returns_gradients
        try:
            found = (watched if counts else original)(*args, **kwargs)
        except BaseException as error:
            leave_out_one_frame(error)
            raise
        finally:
            training.returns_gradients = training.returns_gradients and not counts
        if not counts:
            return found
        try:
            if training.by_hand is not None:
                given = found if isinstance(found, (tuple, list)) else (found,)
                training.by_hand.backward_ended([one for one in given if one is not None])
        except Exception as error:
            adapter.probe.failed(adapter.name + ".grad ended", error)
        return found

    return transparent_wrapper(grad, original)
