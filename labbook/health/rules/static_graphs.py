"""Checks of static graphs: programs that are run where they undo or disturb the training."""

from __future__ import annotations

from labbook.health.evidence.measurements import called_in_sentence, place_of
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_RISING = 3
_RUNS = 3


@check("parameters_initialised_again", family="loop-bug", tier=1, needs=("loop",))
def parameters_are_initialised_once(run: Run, signals: Signals) -> Outcome | None:
    """Whether the program that initializes the parameters ran again in each epoch. Folds and seeds may begin anew.

    Source: a logical invariant (tier 1): what was trained before is lost; in three epochs or more.
    """
    again = signals.loop.get("restarts", {})
    rising, line = again.get("rising", 0), again.get("line", "")
    if rising < _RISING:
        return None
    observed = message("health.parameters_initialised_again.epochs", runs=rising)
    return Outcome("fail", observed, called_in_sentence(line), place_of(line))


@check("evaluation_updates_parameters", family="loop-bug", tier=2, needs=("loop",))
def evaluation_leaves_parameters(run: Run, signals: Signals) -> Outcome | None:
    """Whether an evaluation runs a program with an optimizer: a copy of one, or known by its function or its data.

    Source: a logical invariant; tier 2, because a function may have a name that misleads.
    """
    wrong = signals.loop.get("evaluation_updates", {})
    runs, line, function = wrong.get("count", 0), wrong.get("line", ""), wrong.get("function", "")
    if runs < _RUNS:
        return None
    if wrong.get("held_out"):
        observed = message("health.evaluation_updates_parameters.held_out", runs=runs)
    elif function:
        observed = message("health.evaluation_updates_parameters.function", runs=runs, function=function)
    else:
        observed = message("health.evaluation_updates_parameters.copy", runs=runs)
    return Outcome("warn", observed, called_in_sentence(line), place_of(line))
