"""Checks across ranks: equal parameters, data of their own, none that is always late."""

from __future__ import annotations

from collections import Counter

from labbook.health.event_fields import count, table, words
from labbook.health.input_data import samples_tell_apart
from labbook.health.layer_history import modules_of
from labbook.health.measurements import percent, said
from labbook.health.trend_tests import median
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_PADDED = 0.05
"""Share of equal samples that is usual: samplers fill up the last batch, and data sets have some twice."""


def _ranks(run: Run) -> dict[int, Signals]:
    return {s.rank: s for s in run.signals if s.rank is not None}


def _replicated(run: Run) -> bool:
    """Whether a wrapper for data parallelism keeps replicas equal, or the program reduces gradients itself."""
    wrappers = ("DistributedDataParallel", "DataParallel")
    if any(words(s.loop, "wrapper") or count(s.loop, "collectives", "of_gradients") for s in run.signals):
        return True
    return any(module.type in wrappers for signals in run.signals for module in modules_of(signals))


@check("replica_divergence", family="distributed", tier=1, whole=True)
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


@check("rank_data_overlap", family="distributed", tier=1, whole=True)
def ranks_share_nothing(run: Run, signals: Signals) -> Outcome | None:
    """Whether replicas were trained on the same samples in the same epoch.

    Source: a logical invariant (tier 1). Of each batch only the first samples are known: who reads everything in an
    order of his own shares by chance as many of them as are known of all; half of that is told, and at least 8.
    """
    if not _replicated(run) or not samples_tell_apart(run.signals[0]):
        return None
    seen = {rank: _rows(each) for rank, each in _ranks(run).items()}
    known = {rank: found for rank, found in seen.items() if len(found) >= 8}
    ranks = sorted(known)
    for one in ranks:
        for other in ranks:
            both, fewer = known[one] & known[other], min(len(known[one]), len(known[other]))
            share = min(1.0, fewer / max(1, _samples(_ranks(run)[one])))
            if one < other and len(both) >= 8 and len(both) > max(0.5 * share, _PADDED) * fewer:
                return Outcome(
                    "fail", f"ranks {one} and {other} share {len(both)} of {len(known[one])} samples looked at"
                )
    return Outcome("ok", f"{len(ranks)} ranks") if len(ranks) >= 2 else None


def _samples(signals: Signals) -> int:
    """Samples that a rank read in its first epoch."""
    seen = [count(e, "samples") for e in signals.prints if words(e, "phase") == "train" and count(e, "epoch") == 0]
    return max(seen, default=0)


def _rows(signals: Signals) -> set[str]:
    found: set[str] = set()
    for event in signals.prints:
        if words(event, "phase") == "train" and count(event, "epoch") == 0:
            told: object = event.get("rows")
            found.update(str(row[0]) for row in told if isinstance(row, list) and row) if isinstance(
                told, list
            ) else None
    return found


@check("straggler", family="distributed", tier=2, whole=True)
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


@check("rank_step_count_mismatch", family="distributed", tier=1, whole=True)
def ranks_do_as_much(run: Run, signals: Signals) -> Outcome | None:
    """Whether an epoch has more batches on one rank than on another, so that one waits for a partner that is gone.

    Source: a logical invariant (tier 1) where replicas are kept equal: ranks that may end apart (a join context) also
    take steps in that proportion, and are left out. Else ranks whose steps differ in a run that finished.
    """
    batches: dict[int, int] = {}
    steps: dict[int, int] = {}
    for rank, each in _ranks(run).items():
        trained = {e.get("loader") for e in each.prints if words(e, "phase") == "train"}
        longest = max((count(f, "batches") for f in each.loaders if f.get("index") in trained), default=0)
        if longest:
            batches[rank] = longest
        steps[rank] = count(each.loop, "steps")
    if not _replicated(run) or len(batches) < 2 or len(batches) != len(steps):
        return None
    if len(set(batches.values())) == 1:
        return Outcome("ok", f"{next(iter(batches.values()))} batches an epoch on each of {len(batches)} ranks")
    if max(steps.values()) > min(steps.values()) + 1:
        return Outcome("note", f"{_said_by_rank(batches)} batches an epoch; {_said_by_rank(steps)} steps")
    first = min(batches, key=lambda rank: batches[rank])
    return Outcome("fail", f"{_said_by_rank(batches)} batches an epoch", where={"rank": first})


def _said_by_rank(numbers: dict[int, int]) -> str:
    return ", ".join(f"rank {rank}: {numbers[rank]}" for rank in sorted(numbers)[:8])


@check("collective_order_mismatch", family="distributed", tier=1, whole=True)
def collectives_agree(run: Run, signals: Signals) -> Outcome | None:
    """Whether ranks gave the same gradients to their collective calls, in another order.

    Source: a logical invariant (tier 1) over the first step. Ranks that give others, as in a pipeline, are left out.
    """
    orders = {rank: _calls(each) for rank, each in _ranks(run).items()}
    orders = {rank: calls for rank, calls in orders.items() if calls}
    ranks = sorted(orders)
    for other in ranks[1:]:
        one, two = orders[ranks[0]], orders[other]
        if one == two or sorted(one) != sorted(two):
            continue
        at = next(i for i, (a, b) in enumerate(zip(one, two, strict=True)) if a != b)
        observed = f"call {at + 1} of a step is {_call(one[at])} on rank {ranks[0]}, {_call(two[at])} on rank {other}"
        return Outcome("fail", observed, where={"rank": other})
    return Outcome("ok", f"the same {len(orders[ranks[0]])} calls") if len(ranks) >= 2 else None


def _calls(signals: Signals) -> list[tuple[str, str]]:
    told: object = table(signals.loop, "collectives").get("first")
    pairs = [pair for pair in told if isinstance(pair, list) and len(pair) == 2] if isinstance(told, list) else []
    return [(str(name), str(what)) for name, what in pairs]


def _call(pair: tuple[str, str]) -> str:
    return f"{pair[0]} of {pair[1]}" + (" elements" if pair[1].isdigit() else "")


CHECKS = (replicas_equal, ranks_share_nothing, no_straggler, ranks_do_as_much, collectives_agree)
