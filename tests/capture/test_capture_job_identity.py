"""Which job a process belongs to, from the variables of each launcher."""

from __future__ import annotations

import pytest
from order_of_tests import in_one_test

from labbook.capture.job_identity import batch_attempt, find_job

SLURM = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"}
MPI = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "3456430081"}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}
PADDLE = {"PADDLE_TRAINER_ENDPOINTS": "n1:80,n2:80", "PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2"}
MPI_LAUNCH = {"OMPI_MCA_orte_precondition_transports": "cbb1eeeeb4bd4b2e-cd07ad231b6d61dc"}
PYTORCHJOB = {
    "KUBERNETES_SERVICE_HOST": "10.0.0.1", "MASTER_ADDR": "bert-master-0", "MASTER_PORT": "23456", "RANK": "1",
    "WORLD_SIZE": "3",
}  # fmt: skip


@in_one_test(
    ("environ", "key", "rank", "world"),
    [
        (SLURM, "slurm-12-0", 1, 4),
        ({**SLURM, "SLURM_CLUSTER_NAME": "two"}, "slurm-12-0-two", 1, 4),
        ({**SLURM, "SLURM_RESTART_COUNT": "2"}, "slurm-12-0-r2", 1, 4),
        (MPI, "openmpi-3456430081", 0, 2),
        ({**MPI, **MPI_LAUNCH}, "openmpi-3456430081-cbb1eeeeb4bd4b2e-cd07ad231b6d61dc", 0, 2),
        ({**SLURM, **MPI}, "openmpi-3456430081-12-0", 0, 2),
        (TORCHRUN, "torchelastic-none-n1-29500", 3, 4),
        ({**SLURM, **TORCHRUN}, "torchelastic-none-12-n1-29500", 3, 4),
        ({**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "1"}, "torchelastic-none-n1-29500-r1", 3, 4),
        (PADDLE, "paddle-n1_80_n2_80", 1, 2),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_PORT": "n1:4711"}, "mpi-n1_4711", 1, 2),
        (PYTORCHJOB, "kubernetes-bert-master-0-23456", 1, 3),
        ({"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "RANK": "0", "WORLD_SIZE": "2"}, "env-h-1", 0, 2),
    ],
)
def test_all_tasks_of_a_launch_have_one_key(environ, key, rank, world):
    task = find_job(environ, "h")
    assert task is not None
    assert (task.key.replace("_", "-"), task.rank, task.world) == (key.replace("_", "-"), rank, world)


@pytest.mark.parametrize("address", ["bert-master-0", "localhost"])
def test_the_master_of_a_pytorchjob_has_the_key_of_its_workers(address):
    """The first operators gave the master pod `localhost`; later ones give all pods its name."""
    master = find_job({**PYTORCHJOB, "MASTER_ADDR": address, "RANK": "0"}, "bert-master-0")
    worker = find_job(PYTORCHJOB, "bert-worker-0")
    assert master is not None and worker is not None and master.key == worker.key


@in_one_test(
    "environ",
    [
        {},
        {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
        {**SLURM, "SLURM_STEP_ID": "4294967291"},
        {name: value for name, value in SLURM.items() if name != "SLURM_STEP_ID"},
        {**SLURM, "SLURM_PROCID": "9"},
        {**SLURM, "SLURM_PROCID": "x"},
        {"RANK": "0", "WORLD_SIZE": "4"},
    ],
)
def test_a_process_of_its_own_has_no_job(environ):
    assert find_job(environ, "h") is None


def test_a_requeued_job_has_the_key_of_its_first_attempt():
    first, second = (
        batch_attempt({"SLURM_JOB_ID": "5"}),
        batch_attempt({"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": "1"}),
    )
    assert first is not None and second is not None
    assert first[0] == second[0] and (first[1], second[1]) == (0, 1)
    assert batch_attempt({}) is None
