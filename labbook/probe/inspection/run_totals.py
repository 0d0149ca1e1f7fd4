"""The running totals of a loop, filled in the same way for every framework: parameters, optimizers and schedulers."""


def note_parameters(inspector, loop, models, held, had_gradient, were_called, judged):
    """Fills in which parameters get no gradient, which no optimizer has, and how many are frozen.

    Args:
        loop: The `LoopCounts`.
        models: `(root, table)` of the models that were called.
        held: Ids of the parameters of optimizers.
        had_gradient: `had_gradient(root, at, parameter)`: whether it ever had a gradient.
        were_called: `(index of the root, number of the module)` of each module that was called; empty where unknown.
        judged: Number of backward calls after which a parameter without gradient is reported.

    Returns:
        `(known, reached)`: ids of the parameters that were counted, and of those of them that had a gradient.
    """
    never, outside, uncalled = [], [], []
    trainable = frozen = elements = 0
    known, reached, judges, trained = set(), set(), set(), set()
    for root, table in models:
        for at, weak in enumerate(table.held):
            parameter = weak()
            if parameter is None or id(parameter) in known:  # a part of a model may be known beside it
                continue
            known.add(id(parameter))
            size = inspector.adapter.elements(parameter)
            elements += size
            if not size:  # it only knows the device of the model: `nn.Parameter(torch.empty(0))`
                continue
            if not inspector.describer.is_trainable(parameter):
                frozen += size
                continue
            trainable += 1
            is_held = id(parameter) in held
            if is_held:
                trained.add(root)
            if had_gradient(root, at, parameter):
                reached.add(id(parameter))
                if not is_held:
                    outside.append(table.names[at])
                    judges.add(root)
            elif is_held and loop.backwards >= judged:
                never.append(table.names[at])
                if were_called and (root.index, table.owners[at]) not in were_called:
                    uncalled.append(table.names[at])
    loop.names.update(never_grad=never, outside=outside, toggled=inspector.toggled, never_called=uncalled)
    loop.names["idle_flags"] = [flag for _, table in models for flag in _idle_flags(table, inspector.describer)]
    loop.names["models_left_out"] = [
        root.name for root, table in models if root in judges and not any(id(weak()) in held for weak in table.held)
    ]
    loop.facts.update(trainable_n=trainable, frozen=frozen, elements=elements, judged=loop.backwards)
    loop.facts["outside_models"] = bool(judges) and not any(root in trained or root.training() for root in judges)
    return known, reached


def _idle_flags(table, describer):
    """The flags of parameters that the program set on a module, of which no parameter below has that value."""
    name, found = describer.FLAG, []
    for path, owner in table.listed:
        value = getattr(owner(), "__dict__", {}).get(name)
        if type(value) is not bool:
            continue
        below = [held() for own, held in zip(table.names, table.held) if not path or own.startswith(path + ".")]
        if below and all(p is not None and getattr(p, name) is not value for p in below):
            found.append("%s.%s = %s" % (path or type(owner()).__name__, name, value))
    return found


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


def describe_lost_parameters(parameters, lost, count_elements):
    """What the totals say of parameters that an optimizer has and no model does; `None` where there are none.

    Args:
        lost: Those that are in no model.
        count_elements: `count_elements(parameter)` gives its size.
    """
    if not lost:
        return None
    return {"tensors": len(lost), "elements": sum(map(count_elements, lost)), "held": len(parameters)}


def note_schedulers(inspector, loop, owners):
    """Fills in what is known of the learning rate schedulers of these optimizers."""
    indices = {id(optimizer): recorder.index for recorder, optimizer in owners}
    # The totals of the loop leave out the steps of an optimizer that were processed together.
    steps = {recorder.index: recorder.step for recorder, _ in owners}
    known = inspector.loading.schedulers(
        lambda optimizer: indices.get(id(optimizer)), lambda index: steps.get(index, 0)
    )
    for index, facts in known.items():
        loop.optimizer(index).scheduler = facts
    idle = inspector.loading.idle_schedulers([optimizer for _, optimizer in owners])
    if idle and owners:
        loop.facts["idle_schedulers"] = idle
