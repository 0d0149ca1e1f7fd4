"""Checks across ranks: equal parameters, separate data, even speed, equal collective calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from labbook.health.evidence.layer_history import modules_of
from labbook.health.evidence.training_batches import has_distinct_fingerprints
from labbook.health.evidence.trend_tests import median
from labbook.model.check import Outcome, check
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_PADDED = 0.05
"""Share of equal samples that is usual: samplers fill up the last batch, and data sets have some twice."""

_OWN_PHASES = ("data", "forward", "other")
"""Parts of a step in which a rank waits for no other."""


def _ranks(run: Run) -> dict[int, Signals]:
    return {s.rank: s for s in run.signals if s.rank is not None}


def _is_replicated(run: Run) -> bool:
    """Whether a data-parallel wrapper keeps replicas equal, or the program reduces gradients itself."""
    return _has_wrapper(run) or any(s.loop.get("collectives", {}).get("of_gradients", 0) for s in run.signals)


def _has_wrapper(run: Run) -> bool:
    modules = (module.type.partition("(")[0] for signals in run.signals for module in modules_of(signals))
    wrapped = any(signals.loop.get("wrapper", "") for signals in run.signals)
    return wrapped or any(name in ("DistributedDataParallel", "DataParallel") for name in modules)


@check("replica_divergence", family="distributed", tier=1, whole=True)
def replicas_equal(run: Run, signals: Signals) -> Outcome | None:
    """Whether parameters of replicas that began equal, or that a wrapper synchronises, differ.

    Source: a logical invariant (tier 1); TrainCheck Consistency: correct training differs by exactly 0. Sharded models
    differ from the beginning and are left out.
    """
    prints: dict[int, dict[int, str]] = {}
    for rank, each in _ranks(run).items():
        for event in each.tensors:
            if event.get("param_print", ""):
                prints.setdefault(event.get("step", 0), {})[rank] = event.get("param_print", "")
    common = {step: found for step, found in sorted(prints.items()) if len(found) >= 2}
    if not common:
        return None
    apart = [step for step, found in common.items() if len(set(found.values())) > 1]
    first = min(common)
    if not apart:
        return Outcome("ok", message("health.replica_divergence.ok", steps=len(common)))
    if first in apart and not _is_replicated(run):
        return None
    observed = message("health.replica_divergence.apart", step=apart[0], bad=len(apart), steps=len(common))
    verdict, ranks = "fail" if _is_replicated(run) else "warn", _majority(common[apart[0]])
    # A wrapper broadcasts the parameters of rank 0; a program that reduces gradients itself may forget to.
    advice = None if first not in apart or _has_wrapper(run) else message("health.replica_divergence.began_apart")
    return Outcome(verdict, observed, ranks, {"step": apart[0]}, advice=advice)


def _majority(found: dict[int, str]) -> tuple[Message, ...]:
    commonest, times = Counter(found.values()).most_common(1)[0]
    others = [rank for rank, value in sorted(found.items()) if value != commonest]
    return (message("health.replica_divergence.ranks", ranks=others),) if times > 1 else ()


@check("rank_data_overlap", family="distributed", tier=1, whole=True)
def ranks_share_nothing(run: Run, signals: Signals) -> Outcome | None:
    """Whether replicas were trained on the same samples in the same epoch.

    Source: a logical invariant (tier 1). Of each batch only the first samples are known: a rank that reads everything
    in its own order shares by chance as many of them as are known of all; from half of that on, and at least 8, it
    counts.
    """
    if not _is_replicated(run) or not has_distinct_fingerprints(run.signals[0]):
        return None
    seen = {rank: _rows(each) for rank, each in _ranks(run).items()}
    known = {rank: found for rank, found in seen.items() if len(found) >= 8}
    ranks = sorted(known)
    for one in ranks:
        for other in ranks:
            both, fewer = known[one] & known[other], min(len(known[one]), len(known[other]))
            share = min(1.0, fewer / max(1, _samples(_ranks(run)[one])))
            if one < other and len(both) >= 8 and len(both) > max(0.5 * share, _PADDED) * fewer:
                observed = message(
                    "health.rank_data_overlap.shared", one=one, other=other, bad=len(both), samples=len(known[one])
                )
                return Outcome("fail", observed)
    return Outcome("ok", message("health.rank_data_overlap.ok", ranks=len(ranks))) if len(ranks) >= 2 else None


def _samples(signals: Signals) -> int:
    """Samples that a rank read in its first epoch."""
    seen = [e.get("samples", 0) for e in signals.prints if e.get("phase") == "train" and e.get("epoch", 0) == 0]
    return max(seen, default=0)


def _rows(signals: Signals) -> set[str]:
    found: set[str] = set()
    for event in signals.prints:
        if event.get("phase") == "train" and event.get("epoch", 0) == 0:
            found.update(row[0] for row in event.get("rows", []))
    return found


@check("straggler", family="distributed", tier=2, whole=True)
def no_straggler(run: Run, signals: Signals) -> Outcome | None:
    """Whether one rank is slowest in over 80 % of at least 100 steps, by a fifth of the others' time and of a step.

    Source: diagnosis catalogue (tier 2). Waiting happens in backward, so the time of data, forward and the rest counts.
    """
    own = {rank: _times(each, _OWN_PHASES) for rank, each in _ranks(run).items()}
    own = {rank: times for rank, times in own.items() if times}
    steps = set.intersection(*(set(times) for times in own.values())) if len(own) >= 2 else set()
    if len(steps) < 100:
        return None
    last = Counter(max(own, key=lambda rank: own[rank][step]) for step in steps)
    rank, times = last.most_common(1)[0]
    slow = median([own[rank][step] for step in steps])
    others = median([t[step] for r, t in own.items() if r != rank for step in steps])
    whole = _times(_ranks(run)[rank], (*_OWN_PHASES, "backward", "optimizer"))
    # Rank 0 logs and saves: of a long step that is no loss.
    is_slow = slow >= 1.2 * others and slow - others >= 0.2 * median([whole[step] for step in steps])
    if times <= 0.8 * len(steps) or not is_slow:
        return Outcome("ok", message("health.straggler.ok"))
    observed = message("health.straggler.slowest", rank=rank, share=times / len(steps), steps=len(steps))
    evidence = message("health.straggler.times", own=slow, others=others)
    return Outcome("warn", observed, (evidence,), {"rank": rank})


def _times(signals: Signals, phases: Sequence[str]) -> dict[int, float]:
    """Returns step -> seconds in these phases."""
    found: dict[int, float] = {}
    for name in phases:
        series = signals.phases.get(name)
        for step, value in zip(series.steps, series.values, strict=True) if series is not None else ():
            found[step] = found.get(step, 0.0) + value
    return found


@check("rank_step_count_mismatch", family="distributed", tier=1, whole=True)
def ranks_do_as_much(run: Run, signals: Signals) -> Outcome | None:
    """Whether an epoch has more batches on one rank than on another, so that one waits for a rank that has ended.

    Source: a logical invariant (tier 1) where replicas have to stay equal: ranks that may end separately (a join
    context) also take steps in that proportion, and are left out. Else ranks whose steps differ in a finished run.
    """
    batches: dict[int, int] = {}
    steps: dict[int, int] = {}
    for rank, each in _ranks(run).items():
        trained = {e.get("loader") for e in each.prints if e.get("phase") == "train"}
        longest = max((f.get("batches", 0) for f in each.loaders if f.get("index") in trained), default=0)
        if longest:
            batches[rank] = longest
        steps[rank] = each.loop.get("steps", 0)
    if not _is_replicated(run) or len(batches) < 2 or len(batches) != len(steps):
        return None
    if len(set(batches.values())) == 1:
        number = next(iter(batches.values()))
        return Outcome("ok", message("health.rank_step_count_mismatch.ok", batches=number, ranks=len(batches)))
    if max(steps.values()) > min(steps.values()) + 1:
        observed = message(
            "health.rank_step_count_mismatch.steps", batches=_rank_messages(batches), steps=_rank_messages(steps)
        )
        return Outcome("note", observed)
    first = min(batches, key=lambda rank: batches[rank])
    observed = message("health.rank_step_count_mismatch.batches", batches=_rank_messages(batches))
    return Outcome("fail", observed, where={"rank": first})


def _rank_messages(numbers: dict[int, int]) -> list[Message]:
    return [message("health.at_rank", rank=rank, value=numbers[rank]) for rank in sorted(numbers)[:8]]


@check("collective_order_mismatch", family="distributed", tier=1, whole=True)
def collectives_agree(run: Run, signals: Signals) -> Outcome | None:
    """Whether ranks passed the same gradients to their collective calls in a different order.

    Source: a logical invariant (tier 1) over the first step. Ranks that pass others, as in a pipeline, are left out.
    """
    orders = {rank: _calls(each) for rank, each in _ranks(run).items()}
    orders = {rank: calls for rank, calls in orders.items() if calls}
    ranks = sorted(orders)
    for other in ranks[1:]:
        one, two = orders[ranks[0]], orders[other]
        if one == two or sorted(one) != sorted(two):
            continue
        at = next(i for i, (a, b) in enumerate(zip(one, two, strict=True)) if a != b)
        observed = message(
            "health.collective_order_mismatch.differs",
            number=at + 1,
            one=_call(one[at]),
            first=ranks[0],
            two=_call(two[at]),
            second=other,
        )
        return Outcome("fail", observed, where={"rank": other})
    if len(ranks) < 2:
        return None
    return Outcome("ok", message("health.collective_order_mismatch.ok", calls=len(orders[ranks[0]])))


def _calls(signals: Signals) -> list[tuple[str, str]]:
    return [(name, str(what)) for name, what in signals.loop.get("collectives", {}).get("first", [])]


def _call(pair: tuple[str, str]) -> Message:
    if pair[1].isdigit():
        return message("health.collective_order_mismatch.elements", call=pair[0], elements=pair[1])
    return message("health.collective_order_mismatch.tensor", call=pair[0], name=pair[1])
