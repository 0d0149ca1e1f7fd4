"""Collects the results of `--watch`, `--profile`, `--stop-on` and `labbook.checks`.

`Run.asked` has, if there are any: `moments` and `watched` (events of these kinds, with `rank`), `stopped` (the event
of the process that ended first, with `rank`), `profiles`, `checked`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labbook.model.events.process_kinds import Event
from labbook.model.events.request_kinds import CheckReport, Moment, Profile, StopResult, WatchResult
from labbook.record.run_from_journal.ranks import rank_of_process
from labbook.store.journal import ProcessEvents, events_of_kind

_MOST = {"moments": 60, "watched": 60, "profiles": 8, "checked": 40}
"""Source: chosen by us; an entry shows fewer, `run.json` all of these."""

_KINDS: dict[str, type[Event]] = {
    "moments": Moment,
    "watched": WatchResult,
    "profiles": Profile,
    "checked": CheckReport,
}


def fold_requests(processes: Sequence[ProcessEvents]) -> dict[str, Any]:
    """Returns the results of requests in all processes, ordered by time; empty without any."""
    results: dict[str, Any] = {}
    for name, kind in _KINDS.items():
        events = [_event_facts(event, process) for process in processes for event in process.events_of_kind(kind)]
        if events:
            results[name] = sorted(events, key=lambda event: event.get("t", 0.0))[: _MOST[name]]
    stops = [_event_facts(event, process) for process in processes for event in process.events_of_kind(StopResult)]
    if stops:
        results["stopped"] = min(stops, key=lambda event: event.get("t", 0.0))
    return results


def was_stopped(processes: Sequence[ProcessEvents]) -> bool:
    """Whether `--stop-on` ended a process, or `--max-steps` had to raise inside the program."""
    stops = events_of_kind(processes, StopResult)
    return any(event.get("option") == "stop-on" or event.get("how") != "exit" for event in stops)


def _event_facts(event: Event, process: ProcessEvents) -> dict[str, Any]:
    facts = {key: value for key, value in event.items() if key not in ("v", "n", "k")}
    return {**facts, "rank": rank_of_process(process)}
