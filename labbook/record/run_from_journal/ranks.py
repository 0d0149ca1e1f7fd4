"""The rank of a process in distributed training."""

from __future__ import annotations

from collections.abc import Sequence

from labbook.capture.job_identity import find_job
from labbook.model.events.process_kinds import Bye, ExitCall, Hello, UncaughtException
from labbook.model.events.training_kinds import State, Step
from labbook.model.run_fields import ray_node
from labbook.store.journal import ProcessEvents


def launcher_rank(hello: Hello) -> int | None:
    """Returns the rank from the launcher's environment variables; `None` without a launcher."""
    environment = hello.get("env", {})
    for rank, world in (
        ("RANK", "WORLD_SIZE"),
        ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
    ):
        if environment.get(rank, "").isdigit() and environment.get(world, "1") not in ("", "0", "1"):
            return int(environment[rank])
    return None


def rank_of_process(process: ProcessEvents) -> int | None:
    """Returns the rank from the launcher, or from the process group of a program that forked."""
    launched = launcher_rank(process.hello)
    if launched is not None:
        return launched
    groups = (event.get("distributed", {}) for event in process.events_of_kind(State))
    return next((group["rank"] for group in groups if "rank" in group and group.get("world_size", 0) > 1), None)


def exit_call(process: ProcessEvents) -> ExitCall:
    """Returns the call of `sys.exit` that ended a process; empty if it did not end so."""
    call = next(reversed(process.events_of_kind(Bye)), Bye()).get("exit", ExitCall())
    went_on = any(event.get("step", 0) > call.get("step", 0) for event in process.events_of_kind(Step))
    return ExitCall() if went_on else call


def exceptions_of(process: ProcessEvents) -> list[UncaughtException]:
    """Returns the uncaught exceptions of a process; `sys.exit` with an error is one where other processes then fail.

    That is: in a rank, and in a task of Ray.
    """
    raised, call = process.events_of_kind(UncaughtException), exit_call(process)
    in_task = ray_node(process.hello.get("argv", [])) and any(f.get("user") for f in call.get("frames", []))
    is_part = in_task or rank_of_process(process) is not None
    if not call.get("code") or not is_part or any(e.get("exit") for e in raised):
        return raised
    message = call.get("message") or str(call["code"])
    left = UncaughtException(where="main", type="SystemExit", message=message, frames=call.get("frames", []), exit=True)
    return [*raised, UncaughtException(**left, t=call.get("t", 0.0), step=call.get("step", 0))]


def launched_job(processes: Sequence[ProcessEvents]) -> tuple[int, str]:
    """Returns world and key of the job whose ranks a launcher under this recorder started, as `torchrun` on one node.

    After a restart by the launcher it is the last one. 0 and "" without a launcher that gives its job a name.
    """
    hellos = sorted((process.hello for process in processes), key=lambda hello: hello.get("t", 0.0), reverse=True)
    tasks = (find_job(hello.get("env", {}), hello.get("host", "")) for hello in hellos)
    return next(((task.world, task.key) for task in tasks if task is not None), (0, ""))
