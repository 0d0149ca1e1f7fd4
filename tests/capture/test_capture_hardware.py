"""The machine that the tests run on, and files as other machines have them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from labbook.capture import hardware
from labbook.capture.container import SystemFiles, capture, container_facts
from labbook.capture.gpus import GpuReader, gpus_without_nvml, has_nvidia, open_gpus
from labbook.capture.hardware import cpu_name, memory_limit, memory_total, usable_cores
from labbook.errors import Unavailable


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_this_machine(tmp_path, make_context):
    facts = hardware.capture(make_context(tmp_path, "python", "train.py"))
    assert 0 < facts["cores"] <= len(os.sched_getaffinity(0))
    assert facts["memory_bytes"] > 2**28
    assert facts["cpu"]
    assert facts["kernel"] == os.uname().release
    assert facts["disk_free_bytes"] > 0
    assert isinstance(facts["gpus"], list)


def test_names_of_processors(tmp_path):
    assert cpu_name(tree(tmp_path, {"a": "processor : 0\nmodel name\t: AMD EPYC  7763\n"}) / "a") == "AMD EPYC 7763"
    marked = "model name : Intel(R) Xeon(R) Processor @ 2.80GHz\n"
    assert cpu_name(tree(tmp_path, {"c": marked}) / "c") == "Intel Xeon Processor @ 2.80GHz"
    assert cpu_name(tree(tmp_path, {"b": "processor : 0\nBogoMIPS : 50\n"}) / "b") == os.uname().machine
    assert memory_total(tree(tmp_path, {"m": "MemTotal:       32 kB\n"}) / "m") == 32768


def test_limits_of_the_second_kind_of_control_groups(tmp_path):
    own = tree(tmp_path, {"own": "0::/user/job\n"}) / "own"
    groups = tree(
        tmp_path / "g",
        {
            "user/cpu.max": "50000 100000\n",
            "user/job/cpu.max": "max 100000\n",
            "user/job/memory.max": "1048576\n",
            "user/memory.max": "max\n",
        },
    )
    assert usable_cores(groups, own) == 0.5
    assert memory_limit(groups, own) == 1048576


def test_limits_of_the_first_kind_of_control_groups(tmp_path):
    own = tree(tmp_path, {"own": "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n"}) / "own"
    # Inside the container the path of the host does not exist; the limits stand at the top of each controller.
    groups = tree(
        tmp_path / "g",
        {
            "cpu/cpu.cfs_quota_us": "25000\n",
            "cpu/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": "4096\n",
        },
    )
    assert usable_cores(groups, own) == 0.25
    assert memory_limit(groups, own) == 4096


def test_no_limits(tmp_path):
    own = tree(tmp_path, {"own": "0::/\n"}) / "own"
    groups = tree(tmp_path / "g", {"cpu/cpu.cfs_quota_us": "-1\n", "memory/memory.limit_in_bytes": f"{2**63 - 4096}\n"})
    assert usable_cores(groups, own) == len(os.sched_getaffinity(0))
    assert memory_limit(groups, own) is None


def test_gpus_as_the_kernel_shows_them(tmp_path):
    driver = tree(
        tmp_path / "nvidia",
        {
            "gpus/0000:17:00.0/information": "Model: \t\t NVIDIA H200\nIRQ: 1\nGPU UUID: \t GPU-1234\n",
            "version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\nGCC version: x\n",
        },
    )
    drm = tree(
        tmp_path / "drm", {"card1/device/mem_info_vram_total": "17163091968\n", "card1/device/product_name": "MI100\n"}
    )
    facts = gpus_without_nvml(driver, drm)
    assert facts["gpus"] == [
        {"index": 0, "name": "NVIDIA H200"},
        {"index": 1, "name": "AMD MI100", "memory_bytes": 17163091968},
    ]
    assert facts["driver"] == "550.54.15"
    assert "1234" not in str(facts)


@pytest.mark.skipif(has_nvidia(), reason="has an NVIDIA driver")
def test_without_a_driver_nvml_is_not_even_loaded():
    with pytest.raises(Unavailable, match="no NVIDIA driver"):
        open_gpus()


class FakeNvmlError(Exception):
    pass


def fake_nvml(**changes):
    """Stands for NVML, which needs a device: not the real thing, only its names and types."""
    memory = SimpleNamespace(total=100, used=60)
    functions = {
        "NVMLError": FakeNvmlError,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda i: i,
        "nvmlDeviceGetName": lambda d: b"NVIDIA H200",
        "nvmlDeviceGetMemoryInfo": lambda d: memory,
        "nvmlDeviceGetCudaComputeCapability": lambda d: (9, 0),
        "nvmlSystemGetDriverVersion": lambda: "550.54",
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 12040,
        "nvmlDeviceGetUtilizationRates": lambda d: SimpleNamespace(gpu=75),
        "nvmlDeviceGetComputeRunningProcesses": lambda d: [
            SimpleNamespace(pid=7, usedGpuMemory=20),
            SimpleNamespace(pid=8, usedGpuMemory=None),
        ],
    }
    return SimpleNamespace(**{**functions, **changes})


def test_gpu_reader_over_a_fake_nvml():
    reader = GpuReader(fake_nvml())
    device = {"index": 1, "name": "NVIDIA H200", "memory_bytes": 100, "capability": "9.0"}
    assert reader.facts()[1] == device
    assert reader.driver() == {"driver": "550.54", "cuda_driver": "12.4"}
    assert reader.sample({7})[0] == {"used": 60, "util": 75, "own": 20}
    assert "own" not in reader.sample({9})[0]
    assert "own" not in reader.sample({8})[0]


def test_gpu_reader_where_the_driver_answers_little():
    def refuse(*_):
        raise FakeNvmlError("not supported")

    reader = GpuReader(
        fake_nvml(
            nvmlDeviceGetUtilizationRates=refuse,
            nvmlDeviceGetComputeRunningProcesses=refuse,
            nvmlDeviceGetCudaComputeCapability=refuse,
        )
    )
    assert reader.sample({7}) == [{"used": 60}, {"used": 60}]
    assert "capability" not in reader.facts()[0]
    with pytest.raises(Unavailable):
        GpuReader(fake_nvml(nvmlInit=refuse))


@pytest.mark.parametrize(
    ("environ", "files", "expected"),
    [
        ({}, {}, {"kind": "none"}),
        (
            {},
            {".dockerenv": "", "proc/self/mountinfo": f"1 2 /docker/containers/{'ab' * 32}/hostname"},
            {"kind": "docker", "container_id": "abababababab"},
        ),
        (
            {},
            {"run/.containerenv": 'engine="podman-4.9"\nimage="quay.io/team/train:1"\nimageid="9f2c"\nname="x"\n'},
            {"kind": "podman", "image": "quay.io/team/train:1", "image_id": "9f2c"},
        ),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, {".dockerenv": ""}, {"kind": "kubernetes"}),
        ({"APPTAINER_CONTAINER": "/images/torch.sif"}, {}, {"kind": "apptainer", "image": "/images/torch.sif"}),
        (
            {"SINGULARITY_CONTAINER": "docker://wei:token@quay.io/x"},
            {},
            {"kind": "apptainer", "image": "docker://quay.io/x"},
        ),
        ({}, {"proc/sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2\n"}, {"kind": "wsl"}),
        ({"container": "lxc"}, {}, {"kind": "lxc"}),
        ({"NVIDIA_PYTORCH_VERSION": "24.05"}, {".dockerenv": ""}, {"image_hints": {"NVIDIA_PYTORCH_VERSION": "24.05"}}),
        ({"CUDA_VERSION": "12.4"}, {}, {"kind": "none"}),
    ],
)
def test_containers(tmp_path, environ, files, expected):
    facts = container_facts(environ, SystemFiles(tree(tmp_path, files)))
    assert {key: facts.get(key) for key in expected} == expected
    assert ("image_note" in facts) == (facts["kind"] in ("docker", "kubernetes", "container"))


def test_batch_job(tmp_path, make_context):
    environ = {"SLURM_JOB_ID": "42", "SLURM_JOB_PARTITION": "gpu", "SLURM_JOB_ACCOUNT": "secret-project"}
    facts = capture(make_context(tmp_path, "python", environ=environ))
    assert facts["job"] == {"system": "slurm", "SLURM_JOB_ID": "42", "SLURM_JOB_PARTITION": "gpu"}
    assert "job" not in capture(make_context(tmp_path, "python", environ={}))
