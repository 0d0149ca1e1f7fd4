"""Names and facts of the running totals of a PaddlePaddle training: parameters without gradient or optimizer."""

from math import prod

from ..inspection.model_lookup import parameters_of
from ..inspection.run_totals import living_optimizers, lost_parameters, note_idle_optimizers, note_schedulers
from . import framework_state

SOME = 3
"""Backward calls after which a parameter without gradient is told; the checks judge the longer runs."""


def fill_in(inspector, loop, now=False):
    """Fills in the names and facts of the running totals.

    Args:
        inspector: The eyes of PaddlePaddle.
        loop: The `LoopCounts`.
        now: Whether a step has just ended, so that what is trained exists.
    """
    models = [(root, table) for root, table in inspector.tables() if root.called]
    alive = {
        m.index for m in inspector.adapter.training.recorders.values() if m.owner is not None and m.owner() is not None
    }
    alive.update(("model", root.index) for root, _ in models)
    if not now and loop.facts and not inspector.counted <= alive:
        return  # some is gone, as at the end of a program that trains inside a function: the last look stands
    inspector.counted = alive
    loop.facts["judged"] = loop.backwards
    everything = [id(p) for p in inspector.trained_parameters()]
    held = set(everything)
    never, outside, uncalled = [], [], []
    trainable = frozen = elements = 0
    owned, counted, trained, judges, reached = set(), set(), set(), set(), set()
    for root, table in models:
        layer = root.module()
        if layer is None:
            continue
        if root.training() or not held.isdisjoint(table.parameters):
            trained.add(root.index)
        owned.update(map(id, parameters_of(layer, "_sub_layers")))
        for at, weak in enumerate(table.held):
            parameter = weak()
            if parameter is None or id(parameter) in counted:  # a part of a model may be known beside it
                continue
            counted.add(id(parameter))
            size = prod(parameter.shape)
            elements += size
            if parameter.stop_gradient:
                frozen += size
                continue
            trainable += 1
            had = (root.index, at) in inspector.gradients or parameter._grad_ivar() is not None
            if had:
                reached.add(id(parameter))
            if had and id(parameter) not in held:
                outside.append(table.names[at])
                judges.add(root.index)
            if not had and id(parameter) in held and loop.backwards >= SOME:
                never.append(table.names[at])
                if inspector.modules.ever and (root.index, table.owners[at]) not in inspector.modules.ever:
                    uncalled.append(table.names[at])
    loop.names.update(never_grad=never, outside=outside, toggled=inspector.toggled, never_called=uncalled)
    loop.facts.update(trainable_n=trainable, frozen=frozen, elements=elements)
    loop.facts["outside_models"] = bool(judges) and judges.isdisjoint(trained)
    loop.facts["held_twice"] = len(everything) - len(held)
    if inspector.adapter.cast_ignored is not None:
        loop.facts["cast_ignored"] = inspector.adapter.cast_ignored
    if inspector.adapter.wrapper is not None:
        loop.facts["wrapper"] = inspector.adapter.wrapper
    reads = inspector.functions.out_of_bounds()
    if reads:
        loop.facts["out_of_bounds"] = reads
    note_idle_optimizers(inspector, loop, lambda p: id(p) in reached)
    _of_optimizers(inspector, loop, owned)


def _of_optimizers(inspector, loop, owned):
    owners = living_optimizers(inspector)
    for recorder, optimizer in owners:
        if recorder.index not in loop.of:  # it never stepped, or in another thread, whose gradients are not read
            continue
        params = framework_state.parameters(optimizer)
        lost = [p for p in params if id(p) not in owned and p._grad_ivar() is None and owned]
        if lost:
            lost = inspector.roots.spares.ownerless(lost, owned | {id(p) for p in params if p._grad_ivar() is not None})
        loop.optimizer(recorder.index).stale = lost_parameters(params, lost, lambda p: prod(p.shape))
    note_schedulers(inspector, loop, owners)
