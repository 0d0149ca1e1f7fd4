"""Rows about the record itself: steps and losses that were seen, seeds, determinism, and the probe's own cost."""

from __future__ import annotations

import math
from collections.abc import Mapping

from labbook.health.evidence.measurements import explain_missing, measured_series, script_of, unobserved
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.metric_kinds import metric_kind
from labbook.model.run import Run
from labbook.model.seed_names import LATER, describe_seeds, generator_name
from labbook.model.series import unequal_steps
from labbook.model.signals import Signals

_OVERHEAD_OK = 0.02
_OVERHEAD_HIGH = 0.04
"""Twice the promise: a share near the promise depends on what else the machine does, and is no news."""
_OVERHEAD_SHORT_S = 3.0


@check("steps_counted", family="record", tier=1, whole=True)
def steps_counted(run: Run, signals: Signals) -> Outcome:
    """Whether optimizer steps happened, equally many on every rank.

    Source: a logical invariant (tier 1): training without a step changes no parameter; ranks step together.
    """
    by_rank: dict[int | None, int] = {}
    training = [p for p in run.processes if p.steps]
    for process in run.processes:
        by_rank[process.rank] = max(by_rank.get(process.rank, 0), process.steps)
    most = max(by_rank.values(), default=0)
    if not most:
        return unobserved(explain_missing(run, "steps", "training"))
    ranks = {rank: steps for rank, steps in by_rank.items() if rank is not None}
    if len(set(ranks.values())) > 1:
        each = [message("health.at_rank", rank=rank, value=steps) for rank, steps in sorted(ranks.items())]
        verdict = "warn" if run.status == "finished" else "note"
        expected = message("health.steps_counted.equal")
        return Outcome(verdict, message("health.steps_counted.by_rank", ranks=each), expected=expected)
    if len(ranks) > 1:
        return Outcome("ok", message("health.steps_counted.each_rank", steps=most, ranks=len(ranks)))
    if len(training) > 1:
        parts = [message("health.steps_counted.in_script", steps=p.steps, script=script_of(p.argv)) for p in training]
        return Outcome("ok", message("health.clauses", parts=parts))
    if counts := unequal_steps(run.series, run.steps):
        return Outcome("ok", message("health.steps_counted.by_optimizer", counts=list(counts)))
    return Outcome("ok", message("health.steps_counted.steps", steps=most))


@check("loss_seen", family="record", tier=3, whole=True)
def loss_seen(run: Run, signals: Signals) -> Outcome:
    """Whether a training loss was seen. Source: chosen by us; where it begins and ends is in the table of metrics."""
    found = [s for s in measured_series(run, "loss") if s.source == "probe" or metric_kind(s.name).is_training]
    series = [s for s in found if s.rank in (None, 0)] or found
    if not series:
        return unobserved(explain_missing(run, "loss"))
    return Outcome("ok", message("health.loss_seen.values", values=sum(max(s.count, len(s.values)) for s in series)))


@check("seeds_set", family="environment", tier=3, whole=True)
def seeds_set(run: Run, signals: Signals) -> Outcome:
    """Whether random generators were seeded; a note when none was, or when numbers were drawn from another one.

    Source: a hint (tier 3); without a seed a run cannot be repeated bit for bit, and need not be.
    """
    if not any("seeds" in framework.state for framework in run.frameworks):
        return unobserved(explain_missing(run, "seed"))
    seeds: dict[str, object] = {}
    for framework in run.frameworks:
        found = framework.state.get("seeds")
        seeds.update(found if isinstance(found, Mapping) else {})
    known = {name: value for name, value in seeds.items() if value is not None}
    if not known:
        return Outcome("note", message("health.seeds_set.none"))
    seeded = message("health.names", names=describe_seeds(seeds))
    drawn = {name.removesuffix(LATER) for name, value in seeds.items() if value is None}
    unseeded = sorted(map(generator_name, drawn - {name.removesuffix(LATER) for name in known}))
    if unseeded:
        return Outcome("note", message("health.seeds_set.unseeded", seeded=seeded, generators=unseeded))
    return Outcome("ok", seeded)


@check("determinism", family="environment", tier=3, whole=True)
def determinism(run: Run, signals: Signals) -> Outcome | None:
    """Whether deterministic algorithms were enabled; a note when not, on a GPU. `None` where no flag is known.

    Source: a hint (tier 3); the flags are those that the frameworks document, nearly all for operations of GPUs.
    """
    flags: dict[str, object] = {}
    for framework in run.frameworks:
        found = framework.state.get("deterministic")
        flags.update(found if isinstance(found, Mapping) else {})
    known = {name: value for name, value in flags.items() if value is not None}
    if not known:
        return None
    enabled = [name for name, value in known.items() if is_on(value) and "determinis" in name.lower()]
    if not enabled:
        if all(framework.is_on_cpu for framework in run.frameworks):
            return Outcome("ok", message("health.determinism.cpu"))
        return Outcome("note", message("health.determinism.off"))
    return Outcome("ok", message("health.names", names=enabled))


def is_on(value: object) -> bool:
    """Whether a flag's value means yes."""
    return value is True or str(value).lower() in ("1", "true", "on")


@check("probe_overhead", family="record", tier=3, whole=True)
def probe_overhead(run: Run, signals: Signals) -> Outcome:
    """Which share of the time the probe took, by its own measurement; set-up, which is paid once, is listed apart.

    Source: chosen by us; 2 % is the cost that labbook promises for steps of 30 ms, and less than 3 s in all is no
    cost. Never more than a note: it is no fault of the program.
    """
    probe = run.probe
    share = probe.overhead_fraction if probe.sustained_fraction is None else probe.sustained_fraction
    if share is None or not math.isfinite(share):
        if run.imported_from:
            return unobserved(explain_missing(run, "overhead"))
        absent = run.probe.status == "absent"
        return unobserved(message("health.not_observed.no_probe" if absent else "health.not_observed.killed"))
    # A program that ends before the warm-up does has the share of its whole time only.
    whole = share * (run.ended - run.started) if run.ended is not None else math.inf
    seconds = whole if probe.sustained_s is None else probe.sustained_s
    small = seconds <= _OVERHEAD_SHORT_S
    if small and share > _OVERHEAD_OK:
        cost = message("health.probe_overhead.seconds", seconds=seconds)
    elif share >= 0.001:
        is_whole = probe.sustained_fraction is None
        key = "health.probe_overhead.share" if is_whole else "health.probe_overhead.settled"
        cost = message(key, percent=share * 100)
    else:
        cost = message("health.probe_overhead.small")
    if probe.setup_s is not None:
        cost = message("health.probe_overhead.with_setup", cost=cost, setup=probe.setup_s)
    return Outcome("ok" if share <= _OVERHEAD_HIGH or small else "note", cost)
