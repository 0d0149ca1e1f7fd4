"""Names the rank that is unlike the others, from the rows of a roll-call; none without evidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

_SLOW = 1.5
"""A rank is slow whose own work in a step takes this many times the median of the ranks. Source: chosen by us."""

_SHARE = 0.2
"""Its excess is at least this part of a whole step. Source: chosen by us."""

_FEWEST_ALIKE = 2
"""Steps in which all ranks made as many calls before one with another number counts. Source: chosen by us."""

_MOMENTS_S = 5.0
"""Failures within this time may have any order: clocks of nodes differ, and a signal travels. Source: chosen by us."""

_ABORTED = 134
"""Exit status of a shell for SIGABRT."""

_BROKEN_BY_PEER = (
    "Connection closed by peer", "Connection reset by peer", "Connection refused", "Broken pipe", "Socket closed",
    "remote process exited", "NCCL communicator was aborted", "Timed out waiting", "timed out", "Timeout",
    "Gloo connectFullMesh failed", "unhandled system error", "connection was closed", "wait timeout after",
    "Timed out after", "Connection was likely closed", "TIMEOUT self_rank", "timeout caused pair closure",
    "failed to pass monitoredBarrier", "successfully reached monitoredBarrier",
)  # fmt: skip
"""Parts of messages that say another rank has gone. Source: gloo/transport/tcp/pair.cc, ProcessGroupNCCL.cpp."""


_NOT_CONNECTED = ("client socket has timed out", "client socket has failed to connect")
"""Parts of messages of a rank that did not reach the rendezvous. Source: torch/csrc/distributed/c10d/socket.cpp."""

_JOINED = re.compile(r"\b(\d+)/(\d+) clients joined")
"""In the message of the rank that waited for all others. Source: torch/csrc/distributed/c10d/TCPStore.cpp."""


def name_odd(rows: Sequence[Mapping[str, Any]], missing: Sequence[int] = ()) -> dict[str, Any]:
    """Returns which ranks are unlike the others, in the order of what explains most.

    Args:
        rows: The rows of a roll-call; of a run that still goes on, `status` is "running".
        missing: Ranks that never reported.

    Returns:
        Empty, or `kind` and `ranks`: "failed" (raised first), "killed" (ended by a signal first), "lost" (its
        recorder died), "alike" (several failed with one error at one place, none of them first), "missing" (never
        reported), "ended" (finished while others wait in a collective, or before they `broke` in one), "elsewhere"
        (not in the collective in which the others wait), "apart" (all broke, these at another place than most),
        "unconnected" (these did not reach the rendezvous, at which others waited), "incomplete" (`joined` of the
        `wanted` ranks came to it), "broke" (all broke within
        `seconds` and none is unlike the others: `ranks` is empty, `all` are those; `places`: `call`, `where` and
        `ranks` of each place where some were; `unseen`: those that did not break, at places that are not known),
        "scattered" (they wait at three `places` or more), "aborted" (a library aborted it while the others waited: any
        of them may be the reason), "differs" (in another call than the others), "behind" (at an earlier step),
        "bad_loss" (the loss became `loss` first, those of others in step `later`), "slow" (`ratio` to the median;
        `by_data`: it waits for data most of that time); `where`, `call`, `waiting` of the first of them; `others`:
        `call`, `where` and `ranks` of those that wait.
    """
    waiting = [row for row in rows if row.get("waiting") == "collective"]
    first = _first_failed(rows)
    ended = [row for row in rows if row["status"] == "finished"]
    # Where ranks fail only because a peer has gone, one that has ended or never came is the reason.
    follows = first is not None and (_may_follow(first, rows) or _was_waited_for(first, rows))
    broken = [row for row in rows if _may_follow(row, rows)] if follows else []
    if first is not None and not broken and not _were_killed_in_hang(rows):
        return _name_failed(first, rows, waiting)
    if missing:
        return {"kind": "missing", "ranks": list(missing), **_other_rank_facts(waiting)}
    if ended and (waiting or broken):
        left_at = ended[0].get("left_at")
        same = {"where": left_at} if left_at and all(row.get("left_at") == left_at for row in ended) else {}
        return {**_odd_rank_facts("ended", ended, waiting or broken), **same, "broke": not waiting}
    apart = [row for row in rows if row.get("where") and row.get("waiting") != "collective" and row not in broken]
    if apart and (waiting or broken):
        return _odd_rank_facts("elsewhere", apart, waiting or broken)
    unconnected = [row for row in broken if any(part in str(row.get("error")) for part in _NOT_CONNECTED)]
    if unconnected and len(unconnected) < len(broken):
        return _odd_rank_facts("unconnected", unconnected, broken)
    counts = next((found for row in broken if (found := _JOINED.search(str(row.get("error"))))), None)
    if counts:
        return {"kind": "incomplete", "ranks": [], "joined": int(counts[1]), "wanted": int(counts[2]),
                **_other_rank_facts(broken)}  # fmt: skip
    if broken:
        facts = _describe_places([*broken, *(row for row in waiting if row not in broken)])
        unseen = [row["rank"] for row in rows if row not in broken and row not in waiting]
        return {**facts, "unseen": unseen} if unseen and facts["kind"] == "broke" else facts
    return _odd_among_waiting(waiting) or _first_bad(rows) or _slowest_rank_facts(rows)


def _name_failed(
    first: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], waiting: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Returns the rank that failed first, with those that failed alike and those that wait for it."""
    alike = _similar_endings(first, rows)
    kind = {"killed": "killed", "lost": "lost"}.get(str(first["status"]), "failed")
    left = [row for row in rows if row in waiting or (row.get("call") and _may_follow(row, rows))]
    kind = "alike" if kind == "failed" and len(alike) > 1 else kind
    return {**_odd_rank_facts(kind, alike, left), **_lost_node(alike, rows)}


def _odd_among_waiting(waiting: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns which ranks wait in another call than most, or at an earlier step; empty if all wait in one."""
    places = Counter(_place(row) for row in waiting)
    if len(places) < 2:
        return {}
    commonest, count = places.most_common(1)[0]
    low = min(int(row.get("steps", 0)) for row in waiting)
    others = [row for row in waiting if row.get("steps", 0) != low]
    if others and count == 1:
        return _odd_rank_facts("behind", [row for row in waiting if row not in others], others)
    if len(places) > 2:
        return {"kind": "scattered", "ranks": [], "all": [row["rank"] for row in waiting],
                "places": _ranks_by_place(waiting)}  # fmt: skip
    rest = [row for row in waiting if _place(row) != commonest]
    return _odd_rank_facts("differs", rest, [row for row in waiting if row not in rest])


def name_odd_worker(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the worker that failed first of those that do not wait for each other, or those that did not return.

    Args:
        rows: The rows of workers of Ray without a process group.

    Returns:
        Empty, or as `name_odd`: "worker_failed", "worker_alike", "worker_killed", or "worker_busy" (it was in the
        program's code while all others were idle).
    """
    odd = name_odd(rows)
    if odd.get("kind") in ("failed", "alike", "killed"):
        return {**odd, "kind": f"worker_{odd['kind']}"}
    busy = [row for row in rows if row.get("where")]
    idle = [row for row in rows if row.get("stack") and row not in busy]
    if not busy or not idle or len(busy) + len(idle) < len(rows):
        return {}
    return _odd_rank_facts("worker_busy", busy, idle)


def _place(row: Mapping[str, Any]) -> tuple[object, ...]:
    where = row.get("where") or {}
    return row.get("call"), where.get("file"), where.get("line")


def _comparable_places(rows: Sequence[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    """Returns the place of each row; without the calls where one has none: an error may be raised outside of it."""
    first = 0 if all(row.get("call") for row in rows) else 1
    return [_place(row)[first:] for row in rows]


def _first_failed(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Returns the row of the rank that failed first; what may have followed from another rank's end comes last."""
    failed = [row for row in rows if row["status"] in ("failed", "killed", "lost")]
    return min(
        failed, key=lambda row: (_may_follow(row, rows), float(row.get("failed_at") or float("inf"))), default=None
    )


def _may_follow(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the end of a rank may be the consequence of another one's: it says so, or a library aborted it.

    gloo aborts a rank whose message does not fit, which need not be its fault; the watchdog of NCCL aborts all ranks.
    """
    if row["status"] not in ("failed", "interrupted"):
        return False
    if row.get("error"):
        return any(part in str(row["error"]) for part in _BROKEN_BY_PEER)
    if row["status"] == "interrupted":
        return False
    if row.get("signal") != "SIGABRT" and row.get("code") != _ABORTED:
        return False
    others = [other for other in rows if other is not row]
    failed = [other for other in others if _has_broken(other)]
    aborted = any(other.get("signal") == "SIGABRT" or other.get("code") == _ABORTED for other in failed)
    if row.get("waiting") == "collective":
        # The others may still wait for it in theirs, which need not be the same one.
        return bool(failed) or any(other.get("waiting") == "collective" for other in others)
    return bool(failed) and (aborted or not row.get("where"))


def _was_waited_for(killed: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a rank was killed long after others had given up waiting for it: the job hung because of where it was."""
    at = float(killed.get("failed_at") or 0.0)
    before = [
        row for row in rows if _may_follow(row, rows) and 0.0 < float(row.get("failed_at") or 0.0) < at - _MOMENTS_S
    ]
    return killed["status"] in ("killed", "lost") and bool(killed.get("where")) and bool(before)


def _were_killed_in_hang(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all ranks were ended without a word while they made no progress, as by a launcher that gave up."""
    return all(
        row["status"] == "killed" and row.get("silent_s") and not (row.get("failed_at") or row.get("signal"))
        for row in rows
    )


def _lost_node(killed: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns `node` if all ranks of the node of the first killed one were killed without a known signal."""
    node = killed[0].get("host")
    of_node = [row for row in rows if row.get("host") == node]
    is_lost = all(row["status"] in ("killed", "lost") and not row.get("signal") for row in of_node)
    return {"node": node} if node and is_lost and 1 < len(of_node) < len(rows) else {}


def _has_broken(row: Mapping[str, Any]) -> bool:
    """Whether a rank failed; one with an error may have been stopped by a signal before it had ended."""
    return bool(row["status"] == "failed" or (row["status"] == "interrupted" and row.get("error")))


def _similar_endings(first: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the ranks that ended in the same way as the first one, so soon after it that the order says nothing."""
    names = ("status", "signal", "code", "where") if first.get("failed_at") else ("status", "failed_at")
    began = float(first.get("failed_at") or 0.0)
    return [
        row
        for row in rows
        if all(row.get(name) == first.get(name) for name in names)
        and _error_of_any_rank(row) == _error_of_any_rank(first)
        and float(row.get("failed_at") or 0.0) - began <= _MOMENTS_S
    ]


def _error_of_any_rank(row: Mapping[str, Any]) -> str:
    """Returns the error of a rank without its own number: DDP writes "[2]: params[0] in this process ..."."""
    return re.sub(rf"(?<!\d){row['rank']}(?!\d)", "#", str(row.get("error") or ""), count=1)


def _describe_places(broken: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns who was where when all ranks broke; those are odd that were at another place than most."""
    placed = [row for row in broken if row.get("where")]
    places = Counter(own_places := _comparable_places(placed)).most_common()
    if len(places) == 2 and places[0][1] > places[1][1]:
        rest = [row for row, place in zip(placed, own_places, strict=True) if place != places[0][0]]
        return _odd_rank_facts("apart", rest, placed)
    own = [row for row in broken if _has_broken(row)]
    # A library that aborts one rank breaks its connections: the errors of the others come after it.
    aborted = [row for row in own if row.get("where") and not row.get("error")] if len(places) == 1 else own
    if len(aborted) == 1:
        return _odd_rank_facts("aborted", aborted, broken)
    times = [float(row["failed_at"]) for row in own if row.get("failed_at")]
    facts = {"kind": "broke", "ranks": [], "all": [row["rank"] for row in own], **_other_rank_facts(placed)}
    if len(places) > 1 and len(placed) == len(broken):
        facts["places"] = _ranks_by_place(placed)
    return {**facts, "seconds": round(max(times) - min(times), 3) if times else 0.0}


def _ranks_by_place(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns `call`, `where` and `ranks` of each place, in the order of the lowest rank there."""
    groups: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
    for row, place in zip(rows, _comparable_places(rows), strict=True):
        groups.setdefault(place, []).append(row)
    return [_other_rank_facts(group)["others"] for group in groups.values()]


def _odd_rank_facts(kind: str, odd: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    one = odd[0]
    facts = {name: one[name] for name in ("where", "call", "waiting", "error", "signal", "code") if name in one}
    rest = [row for row in others if row not in odd]
    return {
        "kind": kind,
        "ranks": [row["rank"] for row in odd],
        "steps": one.get("steps", 0),
        **facts,
        **_other_rank_facts(rest),
    }


def _other_rank_facts(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not rows:
        return {}
    commonest = Counter(_place(row) for row in rows).most_common(1)[0][0]
    same = [row for row in rows if _place(row) == commonest]
    one = same[0]
    return {"others": {"call": one.get("call", ""), "where": one.get("where", {}), "ranks": [r["rank"] for r in same]}}


def _first_bad(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the ranks whose loss became NaN or infinite in an earlier step than that of all others."""
    first = min((int(row["bad_step"]) for row in rows if "bad_step" in row), default=None)
    odd = [row for row in rows if row.get("bad_step") == first]
    # A rank that did not get as far may have had one, too.
    if first is None or len(odd) == len(rows) or any(int(row.get("steps", 0)) < first for row in rows):
        return {}
    later = [int(row["bad_step"]) for row in rows if "bad_step" in row and row not in odd]
    return {"kind": "bad_loss", "ranks": [row["rank"] for row in odd], "steps": first, "loss": odd[0]["bad_loss"],
            **({"later": min(later)} if later else {})}  # fmt: skip


def _slowest_rank_facts(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    times = {row["rank"]: float(row["step_s"]) for row in rows if row.get("step_s")}
    if len(times) < 2 or len(times) < len(rows):
        return {}
    slowest = max(times, key=lambda rank: times[rank])
    usual = median(seconds for rank, seconds in times.items() if rank != slowest)
    excess = times[slowest] - usual
    whole = max((float(row.get("whole_step_s") or 0.0) for row in rows), default=0.0)
    if not usual or excess < (_SLOW - 1.0) * usual or excess < max(1e-3, _SHARE * whole):
        return {}
    data = {row["rank"]: float(row.get("data_s") or 0.0) for row in rows}
    usual_data = median(seconds for rank, seconds in data.items() if rank != slowest)
    return {"kind": "slow", "ranks": [slowest], "ratio": round(times[slowest] / usual, 2),
            "step_s": times[slowest], "usual_s": usual,
            "by_data": data[slowest] - usual_data > 0.5 * excess}  # fmt: skip


def name_crossed(
    odd: dict[str, Any], rows: Sequence[Mapping[str, Any]], orders: Mapping[int, Mapping[int, str]]
) -> dict[str, Any]:
    """Returns the ranks that made another collective call than most, where ranks wait or broke in different calls.

    All ranks have to make the same calls in the same order; where they then wait depends on how the calls are paired.

    Args:
        odd: Of `name_odd`; returned as it is where the order explains nothing.
        orders: Rank -> number of a call, counted from the start of the program -> its name.
    """
    if odd.get("kind") not in ("apart", "broke", "differs", "behind", "scattered") or len(orders) < max(3, len(rows)):
        return odd
    for number in sorted(set.intersection(*(set(order) for order in orders.values()))):
        names = Counter(order[number] for order in orders.values())
        usual, count = names.most_common(1)[0]
        if len(names) > 1:
            crossed = [row for row in rows if orders[row["rank"]][number] != usual]
            at_it = [row for row in crossed if row.get("call") == orders[row["rank"]][number] and row.get("where")]
            if 2 * count <= len(rows) or at_it != crossed or len({_place(row) for row in crossed}) > 1:
                return odd
            if [row["rank"] for row in crossed] == list(odd["ranks"]):
                return odd  # it has the place of the others, too
            rest = [row["rank"] for row in rows if row not in crossed]
            return {**_odd_rank_facts("crossed", crossed, ()), "number": number, "usual": usual, "all": rest}
    return odd


def note_separation(
    odd: dict[str, Any], rows: Sequence[Mapping[str, Any]], differences: Sequence[Mapping[str, Any]]
) -> None:
    """Adds to ranks that failed alone what only they have in common: a difference, or that they are all of one node.

    Args:
        odd: Of `name_odd`; gets `only`: `what` and `value`. `what` is "node" where no difference separates them.
        differences: Of `rank_differences`.
    """
    ranks = sorted(odd.get("ranks") or ())
    hosts: dict[str, list[int]] = {}
    for row in rows:
        hosts.setdefault(str(row.get("host") or ""), []).append(row["rank"])
    nodes = {host: having for host, having in hosts.items() if host and len(having) > 1}
    for what, values in [*((one["what"], one["values"]) for one in differences), ("node", nodes)]:
        for value, having in values.items():
            if odd.get("kind") in ("failed", "alike") and sorted(having) == ranks and len(rows) > len(ranks):
                odd["only"] = {"what": what, "value": value}
                return


def note_other_calls(odd: dict[str, Any], calls: Mapping[int, Mapping[int, int]]) -> None:
    """Adds to a hang the first step in which the odd ranks made another number of collective calls than all others.

    Args:
        odd: Of `name_odd`; gets `calls`: `step`, `own` and `usual`.
        calls: Rank -> step -> calls.
    """
    if odd.get("kind") not in ("differs", "behind", "ended", "elsewhere") or not set(odd["ranks"]) < set(calls):
        return
    known = sorted(set.intersection(*(set(one) for one in calls.values())))
    differing = [step for step in known if len({one[step] for one in calls.values()}) > 1]
    if not differing or known.index(differing[0]) < _FEWEST_ALIKE:
        return
    own, usual = ({one[differing[0]] for rank, one in calls.items() if (rank in odd["ranks"]) == is_odd}
                  for is_odd in (True, False))  # fmt: skip
    if len(own) == len(usual) == 1:
        odd["calls"] = {"step": differing[0], "own": own.pop(), "usual": usual.pop()}
