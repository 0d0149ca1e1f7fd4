"""Which rank of distributed training a process was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labbook.probe.events import protocol
from labbook.store.journal import ProcessEvents


def process_rank(hello: Mapping[str, Any]) -> int | None:
    """Rank of a process in distributed training, from the variables that its launcher set; `None` outside one."""
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
    """Rank of a process: from its launcher, else as it told its process group, which programs that fork make later."""
    launched = process_rank(process.hello)
    if launched is not None:
        return launched
    for event in process.of_kind(protocol.STATE):
        told = event.get("distributed")
        if isinstance(told, Mapping) and isinstance(told.get("rank"), int) and _several(told.get("world_size")):
            return int(told["rank"])
    return None


def _several(size: object) -> bool:
    return isinstance(size, int) and size > 1
