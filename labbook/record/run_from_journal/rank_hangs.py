"""Finds a hang of several ranks: while it lasts, and in the entry of a run that was stopped during one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from labbook.model.events import KIND_NAMES
from labbook.model.events.process_kinds import Event, Stacks
from labbook.record.run_from_journal.ending_events import stacks_path
from labbook.record.run_from_journal.roll_call import roll_call
from labbook.store.journal import ProcessEvents

SILENT_S = 8.0
"""Shortest time without an event of any process. Source: that of the probe's watchdog, which writes the stacks."""

_KINDS = ("elsewhere", "differs", "behind", "ended", "failed", "killed", "scattered", "crossed")
_STACKS = KIND_NAMES[Stacks]


def find_hang(processes: Sequence[ProcessEvents]) -> dict[str, Any]:
    """Returns the roll-call of ranks that wait for one that is elsewhere, with `silent_s`; empty without a hang.

    Args:
        processes: Their events, none of which is of the last `SILENT_S`.
    """
    facts = roll_call(processes, (), 0, "", running=True)
    odd = facts.get("odd") or {}
    silent = max((float(row.get("silent_s") or 0.0) for row in facts.get("rows", ())), default=0.0)
    if odd.get("kind") not in _KINDS or not any(map(odd.get, ("others", "places", "number"))) or not silent:
        return {}
    return {**facts, "silent_s": silent}


def add_hang_at_stop(ranks: dict[str, Any], processes: Sequence[ProcessEvents], stopped: float) -> dict[str, Any]:
    """Returns the roll-call of a run with the hang in which it was stopped; as it is without one.

    Ranks go on after the signal: Ray lets its workers end well, and of others one fails because its peer has gone.

    Args:
        ranks: The roll-call at the end of the run.
        stopped: Unix time (s) of the first signal that stopped it, 0 if there was none.

    Returns:
        `ranks` with `hung_s`, and with the odd rank and the places of the ranks at the signal.
    """
    moved = max((e.get("t", 0.0) for p in processes for e in p.events if _is_move(e, stopped)), default=stopped)
    if not ranks or stopped - moved < SILENT_S:
        return ranks
    odd = (ranks.get("odd") or {}).get("ranks", ())
    failed = [row.get("failed_at") or stopped for row in ranks["rows"] if row["rank"] in odd]
    hang = find_hang([_events_until(stopped, process) for process in processes])
    if not hang or min(failed, default=stopped) < stopped:
        return ranks
    at_signal = {row["rank"]: row for row in hang["rows"]}
    rows = [_place_at_signal(row, at_signal.get(row["rank"], {})) for row in ranks["rows"]]
    return {**ranks, "rows": rows, "odd": hang["odd"], "hung_s": round(stopped - moved, 1)}


def _is_move(event: Event, stopped: float) -> bool:
    """Whether an event before the signal shows that its process went on."""
    is_silence = event.get("k") == _STACKS and event.get("reason") == "silence"
    return event.get("t", 0.0) <= stopped and not is_silence


def _events_until(stopped: float, process: ProcessEvents) -> ProcessEvents:
    """Returns a process as it was at the signal: without the stacks, too, that the interpreter wrote at it."""
    events = tuple(event for event in process.events if event.get("t", 0.0) <= stopped)
    with suppress(OSError):
        if stacks_path(process).stat().st_mtime > stopped:
            return replace(process, events=events, folder=Path())
    return replace(process, events=events)


def _place_at_signal(row: dict[str, Any], at_signal: dict[str, Any]) -> dict[str, Any]:
    places: dict[str, Any] = {
        name: at_signal[name] for name in ("where", "call", "waiting", "stack", "silent_s") if name in at_signal
    }
    unseen = row["status"] in ("finished", "killed") and not row.get("signal")
    has_stopped = unseen and at_signal.get("status") == "running"
    return {**row, **places, "status": "interrupted" if has_stopped else row["status"]}
