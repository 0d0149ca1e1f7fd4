"""Asks Slurm about the job of this process, and about a node; answers are empty where there is none."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

_TIMEOUT_S = 3.0
_RUNS_ON = ("PENDING", "RUNNING", "SUSPENDED", "CONFIGURING")
"""States of a job that Slurm does not end. Source: man squeue, JOB STATE CODES."""

_TROUBLE = ("DOWN", "FAIL", "NOT_RESPONDING", "REBOOT", "POWER", "*")
"""Parts of the states of a node that does not work. Source: man sinfo, NODE STATE CODES."""


def read_end_time(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns `SLURM_JOB_END_TIME` of a running job, which versions of Slurm before 23.02 do not set.

    A step may have a limit of its own (`srun --time`), which Slurm does not show once the step has ended.
    """
    facts = {} if environ.get("SLURM_JOB_END_TIME") else _show("job", environ.get("SLURM_JOB_ID", ""))
    if facts.get("TimeLimit") == "UNLIMITED":
        return {}
    try:
        return {"SLURM_JOB_END_TIME": str(time.mktime(time.strptime(facts["EndTime"], "%Y-%m-%dT%H:%M:%S")))}
    except (ValueError, KeyError):
        return {}


def read_job_end(environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns why Slurm is ending this job; empty while it does not, and outside of Slurm.

    Returns:
        `job`, `why`: "requeued" (also after a preemption), "preempted", "time_limit" or "cancelled".
    """
    job = environ.get("SLURM_JOB_ID", "")
    facts = _show("job", job)
    restarts, own = facts.get("Restarts", ""), environ.get("SLURM_RESTART_COUNT") or "0"
    if restarts.isdigit() and own.isdigit() and int(restarts) > int(own):
        return {"job": job, "why": "requeued"}
    if not facts.get("JobState") or facts["JobState"] in _RUNS_ON or facts.get("Reason") == "NonZeroExitCode":
        return {}
    if facts.get("PreemptTime", "None") != "None":
        return {"job": job, "why": "preempted"}
    return {"job": job, "why": "time_limit" if facts.get("Reason") == "TimeLimit" else "cancelled"}


def read_node_state(environ: Mapping[str, str], node: str) -> str:
    """Returns the state of a node that is in trouble, such as "DOWN*" or "IDLE+NOT_RESPONDING"; "" for any other."""
    state = _show("node", node).get("State", "") if environ.get("SLURM_JOB_ID") else ""
    return state if any(word in state for word in _TROUBLE) else ""


def _show(what: str, name: str) -> dict[str, str]:
    if not name or name.startswith("-"):
        return {}
    import subprocess

    try:
        answer = subprocess.run(
            ["scontrol", "-o", "show", what, name], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return dict(word.split("=", 1) for word in answer.stdout.split() if "=" in word)
