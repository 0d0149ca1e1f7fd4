"""The running totals of a loop that are filled in the same way for every framework: optimizers and schedulers."""


def living_optimizers(inspector):
    """`(recorder, optimizer)` of each optimizer that has stepped and still exists."""
    owners = []
    for recorder in list(inspector.adapter.training.recorders.values()):
        optimizer = recorder.owner() if recorder.owner is not None else None
        if optimizer is not None:
            owners.append((recorder, optimizer))
    return owners


def note_idle_optimizers(inspector, loop, had_gradient):
    """Fills in which optimizers never stepped though their parameters got gradients that no other one uses.

    Args:
        inspector: The inspector; nothing is reported once an optimizer that stepped is gone.
        loop: The `LoopCounts`.
        had_gradient: `had_gradient(parameter)`: whether it ever had a gradient.
    """
    recorders = inspector.adapter.training.recorders
    stepped, idle, alive = set(), [], 0
    for optimizer in list(inspector.optimizers):
        parameters, recorder = inspector.adapter.facts.parameters(optimizer), recorders.get(id(optimizer))
        if recorder is not None and recorder.owner is not None and recorder.owner() is optimizer and recorder.step:
            stepped.update(map(id, parameters))
            alive += 1
        else:
            idle.append(parameters)
    waiting = [[p for p in held if id(p) not in stepped and had_gradient(p)] for held in idle]
    waiting = [held for held in waiting if held]
    whole = alive and alive == sum(1 for one in recorders.values() if one.step)
    loop.facts["idle"] = (
        {"optimizers": len(waiting), "parameters": sum(map(len, waiting))} if waiting and whole else None
    )


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
    idle = inspector.loading.idle_schedulers([optimizer for _, optimizer in owners])
    if idle and owners:
        loop.facts["idle_schedulers"] = idle
