"""What the running totals of a PyTorch loop tell of its models, optimizers and schedulers."""

JUDGED = 20
"""Backward calls after which a parameter without gradient is told."""


def fill_in(eyes, loop):
    """Fills in what only the models and optimizers themselves tell, as they are now."""
    eyes.note_gradients()
    if loop.facts and not any(root.called for root in eyes.roots.all()):
        # They are gone, as at the end of a program that trains inside a function: the last look stands.
        _of_optimizers(eyes, loop, set())
        return
    held = eyes.held_by_optimizers()
    never, outside, uncalled = [], [], []
    trainable = frozen = elements = 0
    owned = set()
    for root in eyes.roots.all():
        table = eyes.table(root)
        if table is None or not root.called:
            continue
        for at, weak in enumerate(table.held):
            parameter = weak()
            if parameter is None:
                continue
            owned.add(id(parameter))
            elements += parameter.numel()
            if not parameter.requires_grad:
                frozen += parameter.numel()
                continue
            trainable += 1
            had = id(parameter) in eyes.had_gradient
            if had and id(parameter) not in held:
                outside.append(table.names[at])
            if not had and id(parameter) in held and loop.backwards >= JUDGED:
                never.append(table.names[at])
                if eyes.called and (root.index, table.owners[at]) not in eyes.called:
                    uncalled.append(table.names[at])
    loop.names.update(never_grad=never, outside=outside, toggled=eyes.toggled, never_called=uncalled)
    loop.facts.update(trainable_n=trainable, frozen=frozen, elements=elements)
    _of_optimizers(eyes, loop, owned)


def _of_optimizers(eyes, loop, owned):
    meters = list(eyes.adapter.training.meters.values())
    owners = [(meter, meter.owner()) for meter in meters if meter.owner is not None]
    indices = {id(optimizer): meter.index for meter, optimizer in owners if optimizer is not None}
    for meter, optimizer in owners:
        if optimizer is None or not owned:
            continue
        params = [p for group in optimizer.param_groups for p in group["params"]]
        lost = [p for p in params if id(p) not in owned and id(p) not in eyes.had_gradient]
        one = loop.optimizer(meter.index)
        one.stale = (
            {"tensors": len(lost), "elements": sum(p.numel() for p in lost), "held": len(params)} if lost else None
        )
    steps_of = {index: one.steps for index, one in loop.of.items()}
    known = eyes.loading.schedulers(lambda optimizer: indices.get(id(optimizer)), lambda index: steps_of.get(index, 0))
    for index, told in known.items():
        loop.optimizer(index).scheduler = told
