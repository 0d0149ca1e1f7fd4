"""Names and facts of the running totals of a PaddlePaddle training: parameters without gradient or optimizer."""

from math import prod

from ..model import parameters_of
from . import paddle_state

JUDGED = 20
"""Backward calls after which a parameter without gradient is told."""


def fill_in(eyes, loop):
    """Fills in the names and facts of the running totals.

    Args:
        eyes: The eyes of PaddlePaddle.
        loop: The `Loop`.
    """
    models = [(root, table) for root, table in eyes.followed() if root.called]
    if not models and loop.facts:
        return  # they are gone, as at the end of a program that trains inside a function: the last look stands
    held = {id(p) for p in eyes.held_by_optimizers()}
    never, outside, uncalled = [], [], []
    trainable = frozen = elements = 0
    owned = set()
    for root, table in models:
        layer = root.module()
        if layer is None:
            continue
        owned.update(map(id, parameters_of(layer, "_sub_layers")))
        for at, weak in enumerate(table.held):
            parameter = weak()
            if parameter is None:
                continue
            size = prod(parameter.shape)
            elements += size
            if parameter.stop_gradient:
                frozen += size
                continue
            trainable += 1
            had = (root.index, at) in eyes.gradients or parameter._grad_ivar() is not None
            if had and id(parameter) not in held:
                outside.append(table.names[at])
            if not had and id(parameter) in held and loop.backwards >= JUDGED:
                never.append(table.names[at])
                if eyes.modules.ever and (root.index, table.owners[at]) not in eyes.modules.ever:
                    uncalled.append(table.names[at])
    loop.names.update(never_grad=never, outside=outside, toggled=eyes.toggled, never_called=uncalled)
    loop.facts.update(trainable_n=trainable, frozen=frozen, elements=elements)
    reads = eyes.functions.out_of_bounds()
    if reads:
        loop.facts["out_of_bounds"] = reads
    _of_optimizers(eyes, loop, owned)


def _of_optimizers(eyes, loop, owned):
    meters = list(eyes.adapter.training.meters.values())
    owners = [(meter, meter.owner()) for meter in meters if meter.owner is not None and meter.owner() is not None]
    for meter, optimizer in owners:
        if meter.index not in loop.of:  # it never stepped, or in another thread, whose gradients are not read
            continue
        params = paddle_state.parameters(optimizer)
        lost = [p for p in params if id(p) not in owned and p._grad_ivar() is None and owned]
        found = {"tensors": len(lost), "elements": sum(prod(p.shape) for p in lost), "held": len(params)}
        loop.optimizer(meter.index).stale = found if lost else None
    indices = {id(optimizer): meter.index for meter, optimizer in owners}
    steps = {index: one.steps for index, one in loop.of.items()}
    known = eyes.loading.schedulers(lambda optimizer: indices.get(id(optimizer)), lambda index: steps.get(index, 0))
    for index, told in known.items():
        loop.optimizer(index).scheduler = told
