"""Which rank of distributed training a process was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def rank_of(hello: Mapping[str, Any]) -> int | None:
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
