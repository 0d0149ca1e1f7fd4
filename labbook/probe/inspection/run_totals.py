"""The running totals of a loop that are filled in the same way for every framework: optimizers and schedulers."""


def living_optimizers(inspector):
    """`(recorder, optimizer)` of each optimizer that has stepped and still exists."""
    owners = []
    for recorder in list(inspector.adapter.training.recorders.values()):
        optimizer = recorder.owner() if recorder.owner is not None else None
        if optimizer is not None:
            owners.append((recorder, optimizer))
    return owners


def lost_parameters(parameters, lost, count_elements):
    """What the totals say of parameters that an optimizer has and no model does; `None` where there are none.

    Args:
        parameters: All parameters of the optimizer.
        lost: Those of them that are in no model.
        count_elements: `count_elements(parameter)` gives its size.
    """
    if not lost:
        return None
    return {"tensors": len(lost), "elements": sum(map(count_elements, lost)), "held": len(parameters)}


def note_schedulers(inspector, loop, owners):
    """Fills in what is known of the learning rate schedulers of these optimizers."""
    indices = {id(optimizer): recorder.index for recorder, optimizer in owners}
    steps = {index: one.steps for index, one in loop.of.items()}
    known = inspector.loading.schedulers(
        lambda optimizer: indices.get(id(optimizer)), lambda index: steps.get(index, 0)
    )
    for index, facts in known.items():
        loop.optimizer(index).scheduler = facts
