"""Reads the container and the batch job of a run, as far as they are visible from inside.

Facts: `kind` ("docker", "podman", "kubernetes", "apptainer", "lxc", "wsl", "container", or "none"), `image`,
`image_id`, `image_hints` (variables by which images describe themselves), `job` (batch system and its identifiers).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass
from labbook.store.git.remotes import credential_free

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
class SystemFiles:
    """Reads files of the system; tests use another root folder.

    Args:
        root: The folder used as "/".
    """

    root: Path = Path("/")

    def text(self, path: str) -> str:
        """Returns the content of a file, "" if there is none."""
        with contextlib.suppress(OSError):
            return (self.root / path).read_text("utf-8", "replace")[:65536]
        return ""


def capture(context: CaptureContext) -> dict[str, Any]:
    """Returns the facts of container and job; the module's docstring lists them."""
    return container_facts(context.environ, SystemFiles()) | _job(context.environ)


def container_facts(environ: Mapping[str, str], files: SystemFiles) -> dict[str, Any]:
    """Returns the kind of the container, and its image if it is known."""
    kind = _kind(environ, files)
    facts: dict[str, Any] = {"kind": kind}
    podman = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', files.text("run/.containerenv"), re.MULTILINE))
    image = podman.get("image") or environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER") or ""
    if image:
        facts["image"] = credential_free(image) if "://" in image else image
    if podman.get("imageid"):
        facts["image_id"] = podman["imageid"]
    hints = {name: environ[name] for name in _IMAGE_HINTS if environ.get(name)}
    if hints and kind != "none":
        facts["image_hints"] = hints
    if kind in ("docker", "kubernetes", "container"):
        match = _LONG_ID.search(files.text("proc/self/mountinfo"))
        if match is not None:
            facts["container_id"] = match[0][:12]
        if not image:
            facts["image_note"] = "the image is not visible from inside a container; set CONTAINER_IMAGE to record it"
    return facts


def _kind(environ: Mapping[str, str], files: SystemFiles) -> str:
    groups = files.text("proc/1/cgroup")
    if environ.get("KUBERNETES_SERVICE_HOST") or "kubepods" in groups:
        return "kubernetes"
    if environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER") or environ.get("APPTAINER_NAME"):
        return "apptainer"
    if (files.root / "run/.containerenv").exists() or "libpod" in groups:
        return "podman"
    if (files.root / ".dockerenv").exists() or "/docker/" in groups:
        return "docker"
    named = environ.get("container", "")
    if named or "/lxc/" in groups:
        return named if named in ("lxc", "podman", "docker") else "lxc" if "/lxc/" in groups else "container"
    return "wsl" if "microsoft" in files.text("proc/sys/kernel/osrelease").lower() else "none"


def _job(environ: Mapping[str, str]) -> dict[str, Any]:
    for system, names in _JOB_VARIABLES.items():
        if environ.get(names[0]):
            return {"job": {"system": system} | {name: environ[name] for name in names if environ.get(name)}}
    return {}
