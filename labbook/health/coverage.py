"""Rows about the record itself: steps and losses that were seen, seeds, determinism, and the probe's own cost."""

from __future__ import annotations

import math
from collections.abc import Mapping

from labbook.health.measurements import measured, said, script_of, unobserved, why_missing
from labbook.model.check import Outcome, check
from labbook.model.run import Run
from labbook.model.signals import Signals

_OVERHEAD_OK = 0.02
_OVERHEAD_SHORT_S = 1.0


@check(
    "steps_counted",
    "optimizer steps",
    "at least 1",
    family="record",
    tier=1,
    whole=True,
    advice="Give every rank as many batches, or use the join context.",
)
def steps_counted(run: Run, signals: Signals) -> Outcome:
    """Whether optimizer steps happened, as many on every rank.

    Source: a logical invariant (tier 1): training without a step changes no parameter; ranks step together.
    """
    by_rank: dict[int | None, int] = {}
    training = [p for p in run.processes if p.steps]
    for process in run.processes:
        by_rank[process.rank] = max(by_rank.get(process.rank, 0), process.steps)
    most = max(by_rank.values(), default=0)
    if not most:
        return unobserved(why_missing(run, "steps", "training"))
    ranks = {rank: steps for rank, steps in by_rank.items() if rank is not None}
    if len(set(ranks.values())) > 1:
        each = ", ".join(f"rank {rank}: {steps}" for rank, steps in sorted(ranks.items()))
        verdict = "warn" if run.status == "finished" else "note"
        return Outcome(verdict, each, expected="as many on every rank")
    if len(ranks) > 1:
        return Outcome("ok", f"{most} steps on each of {len(ranks)} ranks")
    told = (
        "; ".join(f"{p.steps} steps in {script_of(p.argv)}" for p in training) if len(training) > 1 else f"{most} steps"
    )
    return Outcome("ok", told)


@check("loss_seen", "training loss", "seen", family="record", tier=3, whole=True)
def loss_seen(run: Run, signals: Signals) -> Outcome:
    """Whether a training loss was seen, and where it began and ended.

    Source: chosen by us; first against last value says nothing certain, the tests with a stated null are separate.
    """
    series = [s for s in measured(run, "loss") if s.rank in (None, 0)] or measured(run, "loss")
    if not series:
        return unobserved(why_missing(run, "loss"))
    told = [f"from {said(s.values[0])} to {said(s.values[-1])}" for s in series]
    scripts = [s.name.rpartition("/")[0] for s in series]
    parts = [f"{script}: {text}" if script else text for script, text in zip(scripts, told, strict=True)]
    return Outcome("ok", "; ".join(parts[:3]))


@check(
    "seeds_set",
    "seeds",
    "set, to repeat the run",
    family="environment",
    tier=3,
    whole=True,
    advice="Seed Python, NumPy and the framework at the beginning.",
)
def seeds_set(run: Run, signals: Signals) -> Outcome:
    """Whether random generators were seeded; a note when not.

    Source: a hint (tier 3); without a seed a run cannot be repeated bit for bit, and need not be.
    """
    if not any("seeds" in framework.state for framework in run.frameworks):
        return unobserved(why_missing(run, "seed"))
    seeds: dict[str, object] = {}
    for framework in run.frameworks:
        told = framework.state.get("seeds")
        seeds.update(told if isinstance(told, Mapping) else {})
    known = {name: value for name, value in seeds.items() if value is not None}
    if not known:
        return Outcome("note", "no seed was set")
    return Outcome("ok", ", ".join(f"{n} {v}" for n, v in known.items()))


@check(
    "determinism",
    "deterministic algorithms",
    "asked for, to repeat the run",
    family="environment",
    tier=3,
    whole=True,
    advice="Ask for deterministic algorithms where a run has to be repeated bit for bit.",
)
def determinism(run: Run, signals: Signals) -> Outcome | None:
    """Whether the framework was asked for deterministic algorithms; a note when not. `None` where nobody knows a flag.

    Source: a hint (tier 3); the flags are those that the frameworks document.
    """
    flags: dict[str, object] = {}
    for framework in run.frameworks:
        told = framework.state.get("deterministic")
        flags.update(told if isinstance(told, Mapping) else {})
    known = {name: value for name, value in flags.items() if value is not None}
    if not known:
        return None
    asked = [name for name, value in known.items() if is_on(value) and "determinis" in name.lower()]
    return Outcome("ok" if asked else "note", ", ".join(asked) or "not asked for")


def is_on(value: object) -> bool:
    """Whether a flag's value means yes."""
    return value is True or str(value).lower() in ("1", "true", "on")


@check(
    "probe_overhead",
    "cost of the probe",
    "at most 2 %, or 1 s",
    family="record",
    tier=3,
    whole=True,
    advice="Record with --debug light, or a smaller probe_budget.",
)
def probe_overhead(run: Run, signals: Signals) -> Outcome:
    """Which share of the time the probe took, by its own measurement; set-up, which is paid once, is told apart.

    Source: chosen by us; 2 % is the cost that labbook promises for steps of 30 ms, and less than a second in all is no
    cost. Never more than a note: it is no fault of the program.
    """
    probe = run.probe
    share = probe.overhead_fraction if probe.sustained_fraction is None else probe.sustained_fraction
    if share is None or not math.isfinite(share):
        absent = run.probe.status == "absent"
        return unobserved("the probe did not start" if absent else "the process did not end in an orderly way")
    small = probe.sustained_s is not None and probe.sustained_s <= _OVERHEAD_SHORT_S
    told = f"{share * 100:.1f} % of the time" if share >= 0.001 else "under 0.1 % of the time"
    if small and share > _OVERHEAD_OK:
        told = f"{probe.sustained_s:.2f} s in all"
    if probe.setup_s is not None:
        told += f", and {probe.setup_s:.2f} s once"
    return Outcome("ok" if share <= _OVERHEAD_OK or small else "note", told)


CHECKS = (steps_counted, loss_seen, seeds_set, determinism, probe_overhead)
