"""Names and facts of the running totals of a PaddlePaddle training: parameters without gradient or optimizer."""

from ..inspection.model_lookup import parameters_of
from ..inspection.run_totals import (
    describe_lost_parameters,
    living_optimizers,
    note_idle_optimizers,
    note_parameters,
    note_schedulers,
)
from . import framework_state

SOME = 3
"""Backward calls after which a parameter without gradient is reported; the checks judge the longer runs."""


def fill_in(inspector, loop, now=False):
    """Fills in the names and facts of the running totals.

    Args:
        inspector: The `TensorInspector` of the process.
        loop: The `LoopCounts`.
        now: Whether a step has just ended, so that what is trained exists.
    """
    models = [(root, table) for root, table in inspector.tables() if root.called]
    alive = {
        m.index for m in inspector.adapter.training.recorders.values() if m.owner is not None and m.owner() is not None
    }
    alive.update(("model", root.index) for root, _ in models)
    if not now and loop.facts and not inspector.counted <= alive:
        return  # some is gone, as at the end of a program that trains inside a function: the last inspection counts
    inspector.counted = alive
    living = [(root, table) for root, table in models if root.module() is not None]
    _, reached = note_parameters(
        inspector,
        loop,
        living,
        inspector.optimized_ids(),
        lambda root, at, p: (root.index, at) in inspector.gradients or p._grad_ivar() is not None,
        inspector.modules.ever,
        SOME,
    )
    owned = {id(p) for root, _ in living for p in parameters_of(root.module(), "_sub_layers")}
    held = [id(p) for p in inspector.trained_parameters()]
    loop.facts["held_twice"] = len(held) - len(set(held))
    if inspector.adapter.cast_ignored is not None:
        loop.facts["cast_ignored"] = inspector.adapter.cast_ignored
    if inspector.adapter.wrapper is not None:
        loop.facts["wrapper"] = inspector.adapter.wrapper
    reads = list(inspector.functions.reads.values())
    if reads:
        loop.facts["out_of_bounds"] = reads
    note_idle_optimizers(inspector, loop, lambda p: id(p) in reached)
    _optimizer_totals(inspector, loop, owned)


def _optimizer_totals(inspector, loop, owned):
    owners = living_optimizers(inspector)
    for recorder, optimizer in owners:
        if recorder.index not in loop.of:  # it never stepped, or in another thread, whose gradients are not read
            continue
        # Batch norms of PaddlePaddle have their running statistics among the parameters, without a gradient.
        params = [p for p in framework_state.parameters(optimizer) if not p.stop_gradient]
        lost = [p for p in params if id(p) not in owned and p._grad_ivar() is None and owned]
        if lost:
            lost = inspector.roots.spares.ownerless(lost, owned | {id(p) for p in params if p._grad_ivar() is not None})
        loop.optimizer(recorder.index).stale = describe_lost_parameters(params, lost, inspector.adapter.elements)
    note_schedulers(inspector, loop, owners)
