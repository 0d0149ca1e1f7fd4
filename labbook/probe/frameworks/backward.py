"""Calls of `backward`, whatever they are called on; knows no framework."""

from ..training import is_engine_thread
from ..wrapping import disguised, leave_out_one_frame


def watched_backward(adapter, original):
    """`original`, a function or method that runs a backward pass, with its outermost call in each thread watched.

    Args:
        adapter: The adapter of the framework; its `roots(tensors)` gives the values of the first argument.
        original: Called as the program calls it.
    """
    is_compiling, failed, training = adapter.is_compiling, adapter.probe.failed, adapter.training
    local, clock, roots, name = training.local, training.clock, adapter.roots, adapter.name
    lane = adapter.lane

    def backward(*args, **kwargs):
        # What one thread has pending, as a plain dictionary: its attributes take five times as long.
        state = local.__dict__
        if is_compiling() or state["in_backward"] or (training.running and is_engine_thread()):
            return original(*args, **kwargs)
        began = clock()
        health, rested = adapter.health, False
        try:
            given = args[0] if args else kwargs["tensors"]
            losses = roots(given)
            training.root(losses)
            rested = health is not None and lane.backward(losses)
            if health is not None and not rested:
                health.backward_begins(given if isinstance(given, (tuple, list)) else (given,), losses)
        except Exception as error:
            failed(name + ".backward", error)
        state["in_backward"] = 1
        training.running += 1
        training.spent += clock() - began
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            leave_out_one_frame(error)
            raise
        finally:
            training.running -= 1
            state["in_backward"] = 0
            if health is not None and not rested:
                try:
                    health.backward_ended()
                except Exception as error:
                    failed(name + ".backward ended", error)
            if training.inside or not training.steps or state["in_step"]:
                try:
                    if state["in_step"] and state["closure"] and state["meter"] is not None:
                        adapter.backward_ended_in_closure()
                    training.backward_ended()
                except Exception as error:
                    failed(name + ".backward ended", error)

    return disguised(backward, original)
