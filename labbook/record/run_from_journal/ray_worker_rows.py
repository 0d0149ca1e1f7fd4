"""Workers of Ray in the roll-call: Ray ends them without a word, and names them by process id and node."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.events.process_kinds import Bye, UncaughtException
from labbook.model.run_fields import ray_node
from labbook.store.journal import ProcessEvents


def is_ray_worker(process: ProcessEvents) -> bool:
    """Whether a process is a worker that Ray started."""
    return bool(ray_node(process.hello.get("argv", [])))


def end_idle_workers(rows: Sequence[dict[str, Any]], by_rank: Mapping[int, ProcessEvents]) -> None:
    """Corrects the status of workers of Ray Train in which no thread runs the program any more: their loop is over."""
    for row in rows:
        idle = row.get("stack") and not (row.get("where") or row.get("waiting"))
        if idle and row["steps"] and is_ray_worker(by_rank[row["rank"]]):
            row["status"] = "finished"


def end_workers(
    rows: Sequence[dict[str, Any]],
    by_rank: Mapping[int, ProcessEvents],
    processes: Sequence[ProcessEvents],
    console: str,
) -> None:
    """Corrects the status of workers of Ray, which it ends without a word when the program does.

    One that died before that is known from the error that the program got for it, or from what Ray printed.
    """
    errors = [
        e for p in processes if not is_ray_worker(p) for e in p.events_of_kind(UncaughtException) if e.get("exit")
    ]
    for row in rows:
        died = any(_names_pid(error.get("message", ""), row.get("pid", 0)) for error in errors)
        died = died or f"Worker PID: {row.get('pid')} Worker exit type: SYSTEM_ERROR" in console
        if row["status"] == "killed" and not died and is_ray_worker(by_rank[row["rank"]]):
            row["status"] = "interrupted" if errors or row.get("stack") else "finished"


def _names_pid(message: str, pid: int) -> bool:
    return re.search(rf"\bpid: {pid}\b", message) is not None


def describe_workers(rows: Sequence[dict[str, Any]], processes: Sequence[ProcessEvents], *, stopped: bool) -> None:
    """Adds process ids, which Ray prints; a worker of a program that ended well did not fail to return."""
    own = [p for p in processes if not is_ray_worker(p)]
    errors = any(event.get("exit") for p in own for event in p.events_of_kind(UncaughtException))
    ended_well = not (stopped or errors) and all(p.events_of_kind(Bye) for p in own)
    for row in rows:
        row["host"] = f"{row.get('host', '')} pid {row.get('pid')}".strip()
        if ended_well and row["status"] == "interrupted":
            row["status"] = "finished"
            row.pop("where", None), row.pop("stack", None), row.pop("waiting", None)


def name_nodes(rows: Sequence[dict[str, Any]], by_rank: Mapping[int, ProcessEvents]) -> None:
    """Adds the id of the node to the host of Ray's workers where several nodes are on one host."""
    nodes = {rank: ray_node(process.hello.get("argv", [])) for rank, process in by_rank.items()}
    for host in {row["host"] for row in rows if "host" in row}:
        here = [row for row in rows if row.get("host") == host and nodes.get(row["rank"])]
        if len({nodes[row["rank"]] for row in here}) > 1:
            for row in here:
                row["host"] = f"{host}/{nodes[row['rank']][:8]}"
