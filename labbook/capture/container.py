"""The container and the batch job around a run, as far as they can be told from inside.

Facts: `kind` ("docker", "podman", "kubernetes", "apptainer", "lxc", "wsl", "container", or "none"), `image`,
`image_id`, `image_hints` (variables that images set to say what they are), `job` (batch system and its identifiers).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass
from labbook.store.remotes import credential_free

if TYPE_CHECKING:
    from labbook.capture.context import CaptureContext

_IMAGE_HINTS = (
    "NVIDIA_PRODUCT_NAME", "NVIDIA_PYTORCH_VERSION", "NVIDIA_BUILD_ID", "PYTORCH_VERSION", "PYTORCH_BUILD_VERSION",
    "CUDA_VERSION", "CUDNN_VERSION", "NV_CUDNN_VERSION", "PADDLE_VERSION", "CONTAINER_IMAGE", "DOCKER_IMAGE",
    "IMAGE_NAME", "SINGULARITY_NAME", "APPTAINER_NAME", "DEVCONTAINER", "CODESPACES",
)  # fmt: skip
_JOB_VARIABLES = {
    "slurm": (
        "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS",
        "SLURM_CPUS_PER_TASK", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE",
        "SLURM_RESTART_COUNT",
    ),
    "pbs": ("PBS_JOBID", "PBS_JOBNAME", "PBS_QUEUE", "PBS_ARRAY_INDEX"),
    "lsf": ("LSB_JOBID", "LSB_JOBNAME", "LSB_QUEUE", "LSB_JOBINDEX"),
    "kubernetes job": ("JOB_NAME", "JOB_COMPLETION_INDEX"),
    "github actions": ("GITHUB_RUN_ID", "GITHUB_WORKFLOW", "GITHUB_JOB"),
    "gitlab ci": ("CI_PIPELINE_ID", "CI_JOB_ID", "CI_JOB_NAME"),
}  # fmt: skip
_LONG_ID = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True)
class Traces:
    """Where a container leaves traces; the root of the file system, elsewhere in tests.

    Args:
        root: The folder that stands for "/".
    """

    root: Path = Path("/")

    def text(self, path: str) -> str:
        """Content of a file, "" when it is not there."""
        with contextlib.suppress(OSError):
            return (self.root / path).read_text("utf-8", "replace")[:65536]
        return ""


def capture(context: CaptureContext) -> dict[str, Any]:
    """The facts of container and job; see the head of this module."""
    return container_facts(context.environ, Traces()) | _job(context.environ)


def container_facts(environ: Mapping[str, str], traces: Traces) -> dict[str, Any]:
    """`kind`, and image where it can be told.

    Args:
        environ: The run's environment.
        traces: Files to look at.
    """
    kind = _kind(environ, traces)
    facts: dict[str, Any] = {"kind": kind}
    podman = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', traces.text("run/.containerenv"), re.MULTILINE))
    image = podman.get("image") or environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER") or ""
    if image:
        facts["image"] = credential_free(image) if "://" in image else image
    if podman.get("imageid"):
        facts["image_id"] = podman["imageid"]
    hints = {name: environ[name] for name in _IMAGE_HINTS if environ.get(name)}
    if hints and kind != "none":
        facts["image_hints"] = hints
    if kind in ("docker", "kubernetes", "container"):
        found = _LONG_ID.search(traces.text("proc/self/mountinfo"))
        if found is not None:
            facts["container_id"] = found[0][:12]
        if not image:
            facts["image_note"] = (
                "a container cannot see which image it was made from; set CONTAINER_IMAGE to record it"
            )
    return facts


def _kind(environ: Mapping[str, str], traces: Traces) -> str:
    groups = traces.text("proc/1/cgroup")
    if environ.get("KUBERNETES_SERVICE_HOST") or "kubepods" in groups:
        return "kubernetes"
    if environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER") or environ.get("APPTAINER_NAME"):
        return "apptainer"
    if (traces.root / "run/.containerenv").exists() or "libpod" in groups:
        return "podman"
    if (traces.root / ".dockerenv").exists() or "/docker/" in groups:
        return "docker"
    named = environ.get("container", "")
    if named or "/lxc/" in groups:
        return named if named in ("lxc", "podman", "docker") else "lxc" if "/lxc/" in groups else "container"
    return "wsl" if "microsoft" in traces.text("proc/sys/kernel/osrelease").lower() else "none"


def _job(environ: Mapping[str, str]) -> dict[str, Any]:
    for system, names in _JOB_VARIABLES.items():
        if environ.get(names[0]):
            return {"job": {"system": system} | {name: environ[name] for name in names if environ.get(name)}}
    return {}
