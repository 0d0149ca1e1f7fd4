"""Checks of memory: graphs that stay alive, slow growth, little headroom."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from labbook.health.evidence.measurements import too_few_data
from labbook.health.evidence.trend_tests import mann_kendall, theil_sen
from labbook.model.check import Outcome, check
from labbook.model.events.data_kinds import Memory
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_KEPT = 30
_MIB = 1024.0 * 1024.0
Growth = tuple[float, float, "float | None"]
"""Share of the peak that is added in 100 steps, bytes added, and the probability of such a trend by chance."""


@check("memory_graph_retained", family="memory", tier=2, needs=("memory",))
def memory_flat(run: Run, signals: Signals) -> Outcome:
    """Whether graphs of past steps stay alive, or memory grows steadily over the second half of the run.

    Source: torch's FAQ (`total_loss += loss`); slope over 1 % of the peak in 100 steps with p < 0.001 (tier 2), after
    the first 20 steps, in which caches fill. Graphs are counted, and certain.
    """
    graphs = [
        (e.get("step", 0), n, e.get("graphs_of", 0)) for e in signals.memory if (n := e.get("graphs")) is not None
    ]
    if graphs:
        # Sums of an epoch are released at its end.
        kept = [(step, alive, of) for step, alive, of in graphs if alive >= 8 and alive > 0.8 * of and step >= _KEPT]
        if kept:
            _, alive, of = kept[-1]
            more = _growth(_host(signals.memory, "rss")) or _growth(_device(signals.memory))
            observed = message("health.memory_graph_retained.graphs", alive=int(alive), backwards=of)
            return Outcome("fail" if more is not None and more[1] > 4 * _MIB else "warn", observed)
    growing = _growing_memory(signals)
    if growing is not None:
        return growing
    looked = [e for e in signals.memory if e.get("rss") is not None]
    if not graphs and len(looked) < 5:
        return too_few_data(len(looked), 5, "health.too_few.samples")
    peak = max((e.get("rss") or 0.0 for e in looked), default=0.0)
    if not graphs:
        return Outcome("ok", message("health.memory_graph_retained.peak", peak=peak))
    observed = message("health.memory_graph_retained.peak_and_graphs", peak=peak, graphs=int(graphs[-1][1]))
    return Outcome("ok", observed)


def _growing_memory(signals: Signals) -> Outcome | None:
    for key, points in (
        ("health.memory_graph_retained.device", _device(signals.memory)),
        ("health.memory_graph_retained.host", _host(signals.memory, "rss")),
    ):
        growth = _growth(points)
        if growth is None:
            continue
        share, total, p = growth
        # The host's memory also grows by caches, replay buffers and loggers.
        least = 16 * _MIB if key.endswith("device") else (64 if share > 0.1 else 256) * _MIB
        if share > 0.01 and (p is None or p < 0.001) and total > least:
            return Outcome("warn", message(key, bytes=total, share=share), p=p)
    return None


def _device(events: Sequence[Memory]) -> list[tuple[int, float]]:
    return [(e.get("step", 0), v) for e in events if (v := e.get("device", {}).get("allocated")) is not None]


def _host(events: Sequence[Memory], key: Literal["rss", "workers_rss"]) -> list[tuple[int, float]]:
    return [(e.get("step", 0), v) for e in events if (v := e.get(key)) is not None]


def _growth(points: Sequence[tuple[int, float]]) -> Growth | None:
    """Growth over the second half; `None` where there is no trend."""
    last = points[-1][0] if points else 0
    late = [(s, v) for s, v in points if s >= max(20, last // 2)]
    if len(late) < 10:
        return _steady(points)
    if late[-1][0] - late[0][0] < 100:
        return None
    slope = theil_sen([float(s) for s, _ in late], [v for _, v in late])
    peak = max(v for _, v in points)
    trend = mann_kendall([v for _, v in late])
    if peak <= 0 or trend.tau < 0.8:
        return None
    return slope * 100 / peak, late[-1][1] - late[0][1], trend.rising


def _steady(points: Sequence[tuple[int, float]]) -> Growth | None:
    """For a run with few looks: after the first steps, at one rate in each quarter, over a tenth of the peak in 100."""
    late = [(s, v) for s, v in points if s >= 20]
    if len(late) < 3 or late[-1][0] - late[0][0] < 100:
        return None
    apart = (late[-1][0] - late[0][0]) / 4
    spread_out = [late[0]]
    for one in late[1:]:
        if one[0] - spread_out[-1][0] >= apart:
            spread_out.append(one)
    rates = [(b[1] - a[1]) / max(1, b[0] - a[0]) for a, b in pairwise(spread_out)]
    peak = max(v for _, v in points)
    if len(rates) < 2 or peak <= 0 or min(rates) <= 0 or max(rates) > 2 * min(rates) or min(rates) * 100 < 0.1 * peak:
        return None
    return min(rates) * 100 / peak, late[-1][1] - late[0][1], None


@check("host_memory_growth_workers", family="memory", tier=2, needs=("memory",))
def workers_flat(run: Run, signals: Signals) -> Outcome | None:
    """Whether only the loader's workers grow. Source: PyTorch issue 13246 (tier 2)."""
    grown = _growth(_host(signals.memory, "workers_rss"))
    if grown is None or grown[0] <= 0.01 or grown[1] < 64 * _MIB:
        return None
    share, total, p = grown
    observed = message("health.host_memory_growth_workers.grown", bytes=total, share=share)
    return Outcome("warn", observed, p=p)


@check("near_out_of_memory", family="memory", tier=3, needs=("memory",))
def room_left(run: Run, signals: Signals) -> Outcome | None:
    """Whether the peak came near the device's memory. Source: a hint (tier 3)."""
    for event in reversed(signals.memory):
        peak, total = event.get("device", {}).get("peak"), event.get("device", {}).get("total")
        if peak is not None and total:
            if peak <= 0.9 * total:
                return None
            return Outcome("note", message("health.near_out_of_memory.peak", share=peak / total, bytes=total))
    return None


@check("fragmentation", family="memory", tier=3, needs=("memory",))
def not_fragmented(run: Run, signals: Signals) -> Outcome | None:
    """Whether over 30 % of much reserved memory was not in use even at the peak. Source: a hint (tier 3)."""
    for event in reversed(signals.memory):
        reserved, peak = event.get("device", {}).get("reserved"), event.get("device", {}).get("peak")
        total = event.get("device", {}).get("total")
        if reserved and peak is not None and total:
            wasted = (reserved - peak) / reserved
            if reserved <= 0.5 * total or wasted <= 0.3:
                return None
            return Outcome("note", message("health.fragmentation.unused", share=wasted, bytes=reserved))
    return None
