"""The rank of a process in distributed training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labbook.probe.events import protocol
from labbook.store.journal import ProcessEvents


def launcher_rank(hello: Mapping[str, Any]) -> int | None:
    """Returns the rank from the launcher's environment variables; `None` without a launcher."""
    environment = hello.get("env")
    if not isinstance(environment, Mapping):
        return None
    for rank, world in (
        ("RANK", "WORLD_SIZE"),
        ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
    ):
        if str(environment.get(rank, "")).isdigit() and str(environment.get(world, "1")) not in ("", "0", "1"):
            return int(environment[rank])
    return None


def rank_of_process(process: ProcessEvents) -> int | None:
    """Returns the rank from the launcher, or from the process group of a program that forked."""
    launched = launcher_rank(process.hello)
    if launched is not None:
        return launched
    for event in process.of_kind(protocol.STATE):
        group = event.get("distributed")
        if isinstance(group, Mapping) and isinstance(group.get("rank"), int) and _is_above_one(group.get("world_size")):
            return int(group["rank"])
    return None


def _is_above_one(size: object) -> bool:
    return isinstance(size, int) and size > 1
