"""Checks of states that a program loads: weights of checkpoints, and of the best epoch."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import PurePosixPath

from labbook.health.evidence.measurements import join_names, place_of
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_OPENED_IN_PYTHON = (".pdparams", ".pdopt", ".pth", ".pt", ".ckpt")
"""Endings of weights that their frameworks open in Python, where the probe sees it."""

_READ = re.compile(
    r"pretrain|resume|restore|checkpoint|ckpt|weight|init|load|finetune|fine_tune|params_path", re.IGNORECASE
)
_WRITTEN = re.compile(r"save|out|export|dest|write|best|last|store|dir$|name$", re.IGNORECASE)


@check("partial_state_load", family="loop-bug", tier=1, needs=())
def state_fits(run: Run, signals: Signals) -> Outcome | None:
    """Whether a model was loaded from weights that mostly do not belong to it.

    Source: a logical invariant (tier 1): unmatched keys; silent in paddle. A new head on old weights is usual, so a few
    unmatched keys on both sides are only noted, and a file whose keys all match, as that of an adapter; in a program
    that trains nothing the head stays random. A tied weight is loaded by any of its names. A file of weights that an
    option of the command line names, and that the run never opened, was not loaded.
    """
    shared = [set(names) for model in signals.models for names in model.get("shared", [])]
    worst = _unopened_weights(run, signals)
    for event in signals.loaded:
        if event.get("what") != "model" or not event.get("keys"):
            continue
        missing = event.get("missing", [])
        tied = [name for name in missing if any(name in names and not names <= {*missing} for names in shared)]
        keys, matched = event.get("keys", 0), event.get("matched", 0) + len(tied)
        lost = event.get("missing_n", 0) - len(tied) + event.get("mismatched_n", 0)
        observed = message("health.partial_state_load.matched", matched=matched, keys=keys)
        if not lost:
            worst = worst or Outcome("ok", observed)
            continue
        lists = [name for name in missing if name not in tied] + event.get("mismatched", [])
        evidence = (message("health.partial_state_load.not_loaded", names=join_names(lists, lost)),)
        foreign = event.get("unexpected_n", 0) + event.get("mismatched_n", 0)
        verdict = "fail" if matched < 0.5 * keys and (foreign or not matched) else "note"
        if verdict == "note" and foreign and not signals.loop.get("backwards", 0):
            verdict = "warn"
        if worst is None or worst.verdict in ("ok", "note"):
            worst = Outcome(verdict, observed, evidence, place_of(event.get("line", "")))
    return worst


@check("best_checkpoint_alias", family="loop-bug", tier=1, needs=())
def kept_state_is_a_copy(run: Run, signals: Signals) -> Outcome | None:
    """Whether weights were loaded back from a state that is the model's own memory, so that nothing was restored.

    Source: a logical invariant (tier 1). Loads at a steady interval are those of a target network.
    """
    own = {e.get("step", 0): e.get("line", "") for e in signals.loaded if e.get("alias") and e.get("what") == "model"}
    gaps = [later - one for one, later in pairwise(own)]
    step, line = next(((step, line) for step, line in own.items() if step > 0), (0, ""))
    if not step or (len(gaps) >= 2 and max(gaps) <= 2 * min(gaps)):
        return None
    observed = message("health.best_checkpoint_alias.shared", step=step)
    return Outcome("fail", observed, (message("health.best_checkpoint_alias.loaded_in", line=line),), place_of(line))


def _unopened_weights(run: Run, signals: Signals) -> Outcome | None:
    """A warning for an option that names weights to be read, where no process of the run opened a file of that name."""
    whole = all(one.probed for one in run.processes) and run.exit_code == 0 and signals.loop.get("steps", 0) > 0
    if not whole or any(file.members > 1 for file in run.files):
        return None
    opened = {PurePosixPath(file.path).name for file in run.files}
    for number, word in enumerate(run.argv):
        name, equals, value = word.rpartition("=")
        if not equals:
            name, value = (run.argv[number - 1] if number else ""), word
        option, path = name.lstrip("-+"), PurePosixPath(value)
        is_read = name.startswith("-") or bool(equals)
        is_read = is_read and bool(_READ.search(option)) and not _WRITTEN.search(option.rpartition(".")[2])
        if is_read and path.suffix in _OPENED_IN_PYTHON and path.name not in opened:
            observed = message("health.partial_state_load.never_opened", option=option, file=value)
            return Outcome("warn", observed, advice=message("health.partial_state_load.never_opened_advice"))
    return None
