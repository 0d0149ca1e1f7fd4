"""Adds to the running totals of a PyTorch loop the facts of its models, optimizers and schedulers."""

from ..inspection.run_totals import (
    describe_lost_parameters,
    living_optimizers,
    note_idle_optimizers,
    note_parameters,
    note_schedulers,
)
from .compiler import recompiled
from .framework_state import parameters

WRAPPERS = ("DistributedDataParallel", "DataParallel")
"""Classes that keep the parameters of all ranks equal, even where it is not they that are called."""

JUDGED = 20
"""Backward calls after which a parameter without gradient is reported."""


def fill_in(inspector, loop):
    """Fills in what only the models and optimizers themselves show, as they are now."""
    inspector.note_gradients()
    if loop.facts and not any(root.called for root in inspector.roots.living_models()):
        # They are gone, as at the end of a program that trains inside a function: the last inspection counts.
        _optimizer_totals(inspector, loop, set())
        return
    models = [
        (root, table)
        for root in inspector.roots.living_models()
        if root.called and (table := inspector.table(root)) is not None
    ]
    owned, _ = note_parameters(
        inspector,
        loop,
        models,
        inspector.optimized_ids(),
        lambda root, at, parameter: id(parameter) in inspector.had_gradient,
        inspector.called,
        JUDGED,
    )
    wrappers = [name for root in inspector.roots.living_models() if (name := root.name.partition("(")[0]) in WRAPPERS]
    if wrappers:
        loop.facts["wrapper"] = wrappers[0]
    compiled_again = recompiled()
    if compiled_again:
        loop.facts["recompiles"] = compiled_again
    copies = inspector.copies.totals()
    if copies:
        loop.facts["copies"] = copies
    collectives = inspector.collectives.totals()
    if collectives is not None:
        loop.facts["collectives"] = collectives
    _optimizer_totals(inspector, loop, owned)


def _count_doubly_optimized(optimizers):
    """How many parameters a second optimizer holds."""
    held = [id(p) for one in optimizers for p in {id(p): p for p in parameters(one)}.values()]
    return len(held) - len(set(held))


def _optimizer_totals(inspector, loop, owned):
    owners = living_optimizers(inspector)
    loop.facts["held_twice"] = _count_doubly_optimized([optimizer for _, optimizer in owners])
    # A model that only acts, without gradients, runs too: its loss is what does not reach it.
    acting = {key for root in inspector.roots.living_models() if root.is_evaluated for key in inspector.roots.ids(root)}
    for recorder, optimizer in owners if owned else ():
        params = [p for p in parameters(optimizer) if p.requires_grad]
        lost = [p for p in params if id(p) not in owned | acting and id(p) not in inspector.had_gradient]
        if len(lost) < len(params) and recorder.index not in inspector.seen_with_gradients:
            lost = []  # its steps were not inspected: the others run in the model of another optimizer
        if lost:
            lost = inspector.roots.spares.ownerless(lost, owned | set(inspector.had_gradient))
        loop.optimizer(recorder.index).stale = describe_lost_parameters(params, lost, inspector.adapter.elements)
    if owned:
        note_idle_optimizers(inspector, loop, lambda p: id(p) in owned and id(p) in inspector.had_gradient)
    note_schedulers(inspector, loop, owners)
