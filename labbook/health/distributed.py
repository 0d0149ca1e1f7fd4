"""Checks across ranks: equal parameters, data of their own, none that is always late."""

from __future__ import annotations

from collections import Counter

from labbook.health.data import samples_tell_apart
from labbook.health.evidence import percent, said
from labbook.health.layers import modules_of
from labbook.health.reading import count, words
from labbook.health.statistics import median
from labbook.model.check import Outcome, check
from labbook.model.run import Run
from labbook.model.signals import Signals


def _ranks(run: Run) -> dict[int, Signals]:
    return {s.rank: s for s in run.signals if s.rank is not None}


def _replicated(run: Run) -> bool:
    """Whether a wrapper for data parallelism is in use, that keeps replicas equal."""
    wrappers = ("DistributedDataParallel", "DataParallel")
    return any(module.type in wrappers for signals in run.signals for module in modules_of(signals))


@check(
    "replica_divergence",
    "replicas are equal",
    "the same parameters on every rank",
    family="distributed",
    tier=1,
    whole=True,
    advice="Call the wrapped model, not the one inside; build it alike on every rank, clip on all of them.",
)
def replicas_equal(run: Run, signals: Signals) -> Outcome | None:
    """Whether parameters of replicas that began equal, or are kept equal by a wrapper, differ.

    Source: a logical invariant (tier 1); TrainCheck Consistency: correct training differs by exactly 0. Sharded models
    differ from the beginning and are left out.
    """
    prints: dict[int, dict[int, str]] = {}
    for rank, each in _ranks(run).items():
        for event in each.tensors:
            if words(event, "param_print"):
                prints.setdefault(count(event, "step"), {})[rank] = words(event, "param_print")
    common = {step: found for step, found in sorted(prints.items()) if len(found) >= 2}
    if not common:
        return None
    apart = [step for step, found in common.items() if len(set(found.values())) > 1]
    first = min(common)
    if not apart:
        return Outcome("ok", f"equal in {len(common)} looks")
    if first in apart and not _replicated(run):
        return None
    observed = f"different from step {apart[0]} on, in {len(apart)} of {len(common)} looks"
    return Outcome("fail" if _replicated(run) else "warn", observed, _majority(common[apart[0]]), {"step": apart[0]})


def _majority(found: dict[int, str]) -> tuple[str, ...]:
    commonest, times = Counter(found.values()).most_common(1)[0]
    others = [str(rank) for rank, value in sorted(found.items()) if value != commonest]
    return (f"ranks that differ from the others: {', '.join(others)}",) if times > 1 else ()


@check(
    "rank_data_overlap",
    "ranks have data of their own",
    "no sample on two ranks",
    family="distributed",
    tier=1,
    whole=True,
    advice="Give the loader a DistributedSampler.",
)
def ranks_share_nothing(run: Run, signals: Signals) -> Outcome | None:
    """Whether replicas were trained on the same samples in the same epoch. Source: a logical invariant (tier 1)."""
    if not _replicated(run) or not samples_tell_apart(run.signals[0]):
        return None
    seen = {rank: _rows(each) for rank, each in _ranks(run).items()}
    known = {rank: found for rank, found in seen.items() if len(found) >= 8}
    ranks = sorted(known)
    for one in ranks:
        for other in ranks:
            both = known[one] & known[other]
            if one < other and len(both) > 0.5 * min(len(known[one]), len(known[other])):
                return Outcome(
                    "fail", f"ranks {one} and {other} share {len(both)} of {len(known[one])} samples looked at"
                )
    return Outcome("ok", f"{len(ranks)} ranks") if len(ranks) >= 2 else None


def _rows(signals: Signals) -> set[str]:
    found: set[str] = set()
    for event in signals.prints:
        if words(event, "phase") == "train" and count(event, "epoch") == 0:
            told: object = event.get("rows")
            found.update(str(row[0]) for row in told if isinstance(row, list) and row) if isinstance(
                told, list
            ) else None
    return found


@check(
    "straggler",
    "ranks are equally fast",
    "none always last",
    family="distributed",
    tier=2,
    whole=True,
    advice="Look at that rank's machine and share of the data.",
)
def no_straggler(run: Run, signals: Signals) -> Outcome | None:
    """Whether one rank is slowest in over 80 % of at least 100 steps, by a fifth of the time of the others.

    Source: diagnosis catalogue (tier 2). Waiting happens in backward, so the time of data, forward and the rest counts.
    """
    own = {rank: _own_times(each) for rank, each in _ranks(run).items()}
    own = {rank: times for rank, times in own.items() if times}
    steps = set.intersection(*(set(times) for times in own.values())) if len(own) >= 2 else set()
    if len(steps) < 100:
        return None
    last = Counter(max(own, key=lambda rank: own[rank][step]) for step in steps)
    rank, times = last.most_common(1)[0]
    slow = median([own[rank][step] for step in steps])
    others = median([t[step] for r, t in own.items() if r != rank for step in steps])
    if times <= 0.8 * len(steps) or slow < 1.2 * others:
        return Outcome("ok", "none")
    observed = f"rank {rank} is slowest in {percent(times / len(steps))} of {len(steps)} steps"
    told = (f"its own work takes {said(slow)} s a step, {said(others)} s on the others",)
    return Outcome("warn", observed, told, {"rank": rank})


def _own_times(signals: Signals) -> dict[int, float]:
    found: dict[int, float] = {}
    for name in ("data", "forward", "other"):
        series = signals.phases.get(name)
        for step, value in zip(series.steps, series.values, strict=True) if series is not None else ():
            found[step] = found.get(step, 0.0) + value
    return found


CHECKS = (replicas_equal, ranks_share_nothing, no_straggler)
