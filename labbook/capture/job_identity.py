"""Finds the job of several tasks that this process belongs to, from the variables of its launcher.

A job is what one launcher started together: `srun`, `torchrun`, `mpirun`, `paddle.distributed.launch`, a PyTorchJob.
Its tasks have the same id on all nodes, and a number each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labbook.frozen import dataclass

_LONGEST_KEY = 100
_BATCH_STEP = 4_000_000_000
"""Step numbers above belong to the batch script itself, which is one process. Source: slurm.h, SLURM_BATCH_SCRIPT."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "")


@dataclass(frozen=True)
class JobSystem:
    """The variables of one launcher.

    Args:
        name: First part of the key.
        ids: Variables that together name the job; the first must be set.
        rank: Variable with the number of the task.
        world: Variable with the number of tasks.
        attempt: Variable with the number of restarts, or "".
        place: Variables that name the job further where they are set: a launcher may give the same id twice.
        needs: A variable that must be set as well, or "".
        named_master: Whether a loopback address in `MASTER_ADDR` means this host: operators before Kubeflow's training
            operator give it to the master alone, and its name to the workers.
        one_launch: Matches keys that no later launch has again: those with a number of the launch, or with an id and a
            port that the launcher took from the free ones. "" if there are none.
    """

    name: str
    ids: tuple[str, ...]
    rank: str
    world: str
    attempt: str = ""
    place: tuple[str, ...] = ()
    needs: str = ""
    named_master: bool = False
    one_launch: str = ""


def _read_systems() -> list[JobSystem]:
    rows: list[dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    return [JobSystem(**{**row, "ids": tuple(row["ids"]), "place": tuple(row.get("place", ()))}) for row in rows]


SYSTEMS = _read_systems()
"""The launcher that started this process itself comes first: `torchrun` may run inside `srun`, `mpirun` inside Slurm.

Source: documentation of each launcher; `printenv` under Slurm 22.05 and Open MPI 4.1."""


@dataclass(frozen=True)
class JobTask:
    """One task of a job.

    Args:
        key: Names the job on all its nodes; fit for a file name.
        system: Name of the `JobSystem`.
        rank: Number of this task.
        world: Number of tasks, at least 2.
        node: Name of the node, as the launcher calls it.
    """

    key: str
    system: str
    rank: int
    world: int
    node: str


def find_job(environ: Mapping[str, str], host: str) -> JobTask | None:
    """Returns the task that this process is, or `None` for a process of its own."""
    for system in SYSTEMS:
        rank, world = _number(environ.get(system.rank)), _number(environ.get(system.world))
        if rank is None or world is None or world < 2 or rank >= world or not all(map(environ.get, system.ids)):
            continue
        if system.needs and not environ.get(system.needs):
            continue
        if system.name == "slurm" and (_number(environ.get("SLURM_STEP_ID")) or 0) > _BATCH_STEP:
            continue
        is_here = system.named_master and environ.get("MASTER_ADDR", "") in _LOOPBACK
        own = {**environ, "MASTER_ADDR": host} if is_here else environ
        parts = [own[name] for name in (*system.ids, *system.place) if own.get(name)]
        restarts = _number(environ.get(system.attempt)) or 0 if system.attempt else 0
        key = _key([system.name, *parts, *([f"r{restarts}"] if restarts else [])])
        return JobTask(key, system.name, rank, world, environ.get("SLURMD_NODENAME") or host)
    return None


def is_single_launch(key: str) -> bool:
    """Whether all tasks with this key are of one launch, at whatever time their clocks say that they ran."""
    return any(system.one_launch and re.match(system.one_launch, key) for system in SYSTEMS)


def batch_attempt(environ: Mapping[str, str]) -> tuple[str, int] | None:
    """Returns the key of a Slurm job and the number of its restarts; `None` outside Slurm.

    The key names one step of one job, or of one task of an array: a requeued job has the same one.
    """
    job = environ.get("SLURM_JOB_ID", "")
    if not job:
        return None
    step = environ.get("SLURM_STEP_ID", "batch") if _number(environ.get("SLURM_STEP_ID")) is not None else "batch"
    parts = ["slurm", *filter(None, (environ.get("SLURM_CLUSTER_NAME"),)), job, step]
    return _key(parts), _number(environ.get("SLURM_RESTART_COUNT")) or 0


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 12 else None


def _key(parts: list[str]) -> str:
    key = re.sub(r"[^A-Za-z0-9._]+", "_", "-".join(parts)).strip("._")
    if len(key) > _LONGEST_KEY:
        import hashlib

        key = f"{key[:_LONGEST_KEY]}_{hashlib.sha256('-'.join(parts).encode()).hexdigest()[:12]}"
    return key
