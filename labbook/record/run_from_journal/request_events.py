"""Collects the results of `--watch`, `--profile`, `--stop-on` and `labbook.checks`.

`Run.asked` has, if there are any: `moments` and `watched` (events of these kinds, with `rank`), `stopped` (the event
of the process that ended first, with `rank`), `profiles`, `checked`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.probe.events import protocol
from labbook.record.run_from_journal.ranks import rank_of_process
from labbook.store.journal import ProcessEvents

_MOST = {"moments": 60, "watched": 60, "profiles": 8, "checked": 40}
"""Source: chosen by us; an entry shows fewer, `run.json` all of these."""

_KINDS = {
    "moments": protocol.MOMENT,
    "watched": protocol.WATCHED,
    "profiles": protocol.PROFILE,
    "checked": protocol.CHECKED,
}


def fold_requests(processes: Sequence[ProcessEvents]) -> dict[str, Any]:
    """Returns the results of requests in all processes, ordered by time; empty without any."""
    results: dict[str, Any] = {}
    for name, kind in _KINDS.items():
        events = [_event_facts(event, process) for process in processes for event in process.of_kind(kind)]
        if events:
            results[name] = sorted(events, key=lambda event: float(event.get("t") or 0.0))[: _MOST[name]]
    stops = [_event_facts(event, process) for process in processes for event in process.of_kind(protocol.STOPPED)]
    if stops:
        results["stopped"] = min(stops, key=lambda event: float(event.get("t") or 0.0))
    return results


def was_stopped(processes: Sequence[ProcessEvents]) -> bool:
    """Whether `--stop-on` ended a process, or `--max-steps` had to raise inside the program."""
    stops = [event for process in processes for event in process.of_kind(protocol.STOPPED)]
    return any(event.get("option") == "stop-on" or event.get("how") != "exit" for event in stops)


def _event_facts(event: Mapping[str, Any], process: ProcessEvents) -> dict[str, Any]:
    facts = {key: value for key, value in event.items() if key not in ("v", "n", "k")}
    return {**facts, "rank": rank_of_process(process)}
